"""Names of columns on their way from and to Kafka; what needs no broker and no Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sash.core.errors import SashError, SourceError
from sash.core.time import SECOND, to_datetime
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import Query
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.spark import sinks
from sash.spark.kafka import Messages
from sash.spark.sinks import Sink
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import START, stream

KAFKA = {"topic": "t", "kafka.bootstrap.servers": "127.0.0.1:1"}

# -- messages as tuples ---------------------------------------------------------------------------------


def test_the_columns_of_a_message_are_known_in_any_letters() -> None:
    declared = pa.schema({"Key": pa.int32(), "KAFKA_KEY": pa.string(), "Kafka_Offset": pa.int64(), "v": pa.int32()})
    assert Messages({}, declared).of_value.names == ["Key", "v"]


@pytest.mark.parametrize("name", ["kafka_offset", "Kafka_Offset", "KAFKA_OFFSET"])
def test_their_types_are_given(name: str) -> None:
    with pytest.raises(SourceError, match=f"column '{name}' is the message's own, and int64, not int32"):
        Messages({}, pa.schema({name: pa.int32()}))


# -- answers as messages --------------------------------------------------------------------------------


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[SparklessSession]:
    monkeypatch.setattr(sinks, "check_format", lambda session, format: None)
    with SparklessSession() as made:
        made.declare(stream(keep=60 * SECOND))
        yield made


def registered(session: SparklessSession, outputs: str, window: str = "WINDOW 5 sec SLIDE 5 sec") -> Query:
    return session.register(f"SELECT {outputs} FROM s [{window}] GROUP BY k", name="q")


@pytest.mark.parametrize("name", ["query", "as_of", "_row", "Query", "AS_OF", "_Row"])
def test_a_name_that_the_messages_need_is_refused_at_once(session: SparklessSession, name: str) -> None:
    query = registered(session, f"k, SUM(v) AS {name}")
    reason = rf"a use of its own for the name {name.lower()}, .* column '{name}': give it another name \(AS \.\.\)"
    with pytest.raises(SashError, match=reason):
        query.write_to("kafka", **KAFKA)
    assert query.sinks() == []


def test_rows_is_a_name_that_only_row_based_windows_need(session: SparklessSession) -> None:
    registered(session, "k, COUNT(*) AS rows, SUM(v) AS row").write_to("kafka", **KAFKA)
    over_rows = session.register("SELECT COUNT(*) AS Rows FROM s [ROWS 5 SLIDE 5]", name="over_rows")
    with pytest.raises(SashError, match="the name rows, and the answer has a column 'Rows'"):
        over_rows.write_to("kafka", **KAFKA)


@pytest.mark.parametrize("name", ["as_of", "As_Of"])
def test_other_sinks_need_only_as_of(session: SparklessSession, name: str) -> None:
    registered(session, "k AS query, SUM(v) AS _row").write_to("parquet", path="out")
    stamped = session.register(f"SELECT SUM(v) AS {name} FROM s [WINDOW 5 sec SLIDE 5 sec]", name="stamped")
    with pytest.raises(SashError, match="the sink adds a column as_of"):
        stamped.write_to("parquet", path="out")


def test_files_of_row_based_windows_have_a_directory_that_is_called_rows(session: SparklessSession) -> None:
    registered(session, "k, COUNT(*) AS rows").write_to("parquet", path="out")
    over_rows = session.register("SELECT COUNT(*) AS Rows FROM s [ROWS 5 SLIDE 5]", name="over_rows")
    with pytest.raises(SashError, match="the sink adds a column rows"):
        over_rows.write_to("parquet", path="out")


def test_two_queries_do_not_write_into_one_directory(session: SparklessSession) -> None:
    one, two = (
        session.register(f"SELECT {asked}(v) AS x FROM s [WINDOW 5 sec SLIDE 5 sec]", name=asked)
        for asked in ("SUM", "MAX")
    )
    one.write_to("parquet", path="out/answers")
    with pytest.raises(SashError, match=r"query 'SUM' writes to 'out/answers' already.*path='out/answers/MAX'"):
        two.write_to("orc", path="out//answers/")
    two.write_to("parquet", path="out/answers/two")
    # The same one may say it again, after its sink was given up, say.
    one.write_to("parquet", path="out/answers")
    one.drop()
    two.write_to("parquet", path="out/answers")


def test_options_are_known_in_any_letters(session: SparklessSession) -> None:
    shouted = {name.upper(): value for name, value in KAFKA.items()}
    query = registered(session, "k, SUM(v) AS total")
    query.write_to("kafka", KEY="k", **shouted)
    with pytest.raises(SashError, match="the answer has no column 'v' for the key"):
        query.write_to("kafka", KEY="v", **shouted)
    query.write_to("parquet", PATH="out")


def test_changes_are_looked_at_as_well(session: SparklessSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContinuousQueries, "attach", lambda self, query: None)
    changes = session.register("SELECT DISTINCT k AS query FROM s [RANGE 5 sec]", name="changes")
    sampled = session.register("SELECT DISTINCT k AS query FROM s [RANGE 5 sec SLIDE 5 sec]", name="sampled")
    assert session.columns_of(changes) == (["query", "_ts", "_exp", "_sign"], False)
    assert session.columns_of(sampled) == (["query"], False)
    for query in (changes, sampled):
        with pytest.raises(SashError, match="column 'query'"):
            query.write_to("kafka", **KAFKA)


def test_the_key_is_a_column_in_any_letters(session: SparklessSession) -> None:
    query = registered(session, "k, SUM(v) AS total")
    query.write_to("kafka", key="K", **KAFKA)
    with pytest.raises(SashError, match="the answer has no column 'totals' for the key; did you mean 'total'"):
        query.write_to("kafka", key="totals", **KAFKA)


def test_what_was_not_known_before_is_refused_with_the_first_answer(session: SparklessSession) -> None:
    """After a restart a query may be written before its streams are declared again."""
    sink = Sink(session.spark, "kafka", KAFKA)
    for rows, name in ((None, "Query"), (3, "rows")):
        with pytest.raises(SashError, match=f"column '{name}': give it another name"):
            sink.write([Answer("q", to_datetime(START), True, True, pa.table({name: [1]}), rows)])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, SUM(v), COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY k",
        "SELECT TOP(2, k) FROM s [WINDOW 5 sec SLIDE 5 sec]",
        "SELECT MAX(v) FROM s [ROWS 4 SLIDE 2]",
        """SELECT a.n AS x, b.k FROM (SELECT COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec]) a
        CROSS JOIN (SELECT k, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY k) b""",
    ],
)
def test_the_columns_that_are_known_beforehand_are_those_of_the_answers(session: SparklessSession, text: str) -> None:
    query = session.register(text, name="q")
    before = session.columns_of(query)
    session.push("s", tuples(*((second, second % 2, second) for second in range(1, 13))))
    answer = query.latest()
    assert answer is not None and before == (answer.table.schema.names, answer.rows is not None)
