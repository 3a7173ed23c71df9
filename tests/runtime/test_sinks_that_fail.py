"""`write_to`: a format that is no word of Spark's, and a place that cannot be written for a while."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource

import sash
from sash.spark.sinks import Sink
from tests.runtime.test_continuous import declare, tuples, write

pytestmark = pytest.mark.spark
TEXT = "SELECT DISTINCT k FROM s [RANGE 1 sec]"


class Named(DataSource):
    """A format that a user's program brings along."""

    @classmethod
    def name(cls) -> str:
        return "of_my_own"


def test_the_format_is_looked_up_at_once(spark: Any, tmp_path: Path) -> None:
    write(tuples(9, parts=1), tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        query = session.register(TEXT, name="q")
        with pytest.raises(sash.SashError, match="Spark knows no format 'parqet' to write to; did you mean 'parquet'"):
            query.write_to("parqet", path=str(tmp_path / "out"))
        with pytest.raises(sash.SashError, match=r"no Kafka connector: connect\(packages=\['kafka'\]\)"):
            query.write_to("kafka", topic="t")
        assert query.sinks() == []
        spark.dataSource.register(Named)
        for known in ("of_my_own", "noop", "NoOp"):
            query.write_to(known)
        assert len(query.sinks()) == 3


def test_queries_share_a_path_however_it_is_written(spark: Any, tmp_path: Path) -> None:
    write(tuples(9, parts=2), tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        text = "SELECT k, COUNT(*) AS n FROM s [WINDOW {} sec SLIDE 1 sec] GROUP BY k"
        one, two, three = (session.register(text.format(size), name=f"q{size}") for size in (1, 2, 3))
        one.write_to("parquet", path=str(tmp_path / "out"), shared="true")
        two.write_to("parquet", path=f"{(tmp_path / 'out').as_uri()}/", shared="True")
        with pytest.raises(sash.SashError, match=r"query 'q1' writes to .* or shared='true' for all of them"):
            three.write_to("parquet", path=str(tmp_path / "out"))
        session.run()
        told = {query.name: sum(answer.table.num_rows for answer in query.answers()) for query in (one, two)}
        found = spark.read.parquet(str(tmp_path / "out")).groupBy("query").count().collect()
        assert {row["query"]: row["count"] for row in found} == told and one.error is None and two.error is None
        times = {answer.as_of for query in (one, two) for answer in query.answers() if answer.table.num_rows}
        assert len(list((tmp_path / "out").rglob("*.parquet"))) == len(times)


@pytest.mark.parametrize("durable", [True, False])
def test_periodic_and_continuous_queries_are_one_write_per_micro_batch(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """Plans of three kinds and panes; every answer is in the sink in the end."""
    texts = {
        "panes": "SELECT k, COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec] GROUP BY k",
        "plan": "SELECT DISTINCT k FROM s [RANGE 2 sec SLIDE 1 sec]",
        "join": "SELECT a.k, COUNT(*) AS n FROM s [RANGE 2 sec SLIDE 1 sec] a, s [RANGE 2 sec SLIDE 1 sec] b "
        "WHERE a.k = b.v GROUP BY a.k",
        "sets": "SELECT k FROM s [RANGE 2 sec SLIDE 1 sec] INTERSECT SELECT v AS k FROM s [RANGE 2 sec SLIDE 1 sec]",
    }
    written: list[set[str]] = []
    write_whole = Sink.write

    def counted(sink: Sink, answers: Any) -> None:
        written.append({answer.query for answer in answers})
        write_whole(sink, answers)

    monkeypatch.setattr(Sink, "write", counted)
    write(tuples(9, parts=4), tmp_path / "s")
    options: dict[str, Any] = {"checkpoint": tmp_path / "state"} if durable else {}
    with sash.connect(spark=spark, **options) as session:
        declare(session, tmp_path, "s")
        queries = [session.register(text, name=name) for name, text in texts.items()]
        for query in queries:
            query.write_to("parquet", path=str(tmp_path / "out"), shared="true")
        session.run()
        # The end of the input is an epoch, too.
        assert len(written) <= session.stats()["streams"]["s"]["micro_batches"] + 1
        assert set(texts) in written
        told = {query.name: sum(answer.table.num_rows for answer in query.answers()) for query in queries}
        found = spark.read.parquet(str(tmp_path / "out")).groupBy("query").count().collect()
        assert {row["query"]: row["count"] for row in found} == told and all(told.values())
    assert not list((tmp_path / "state").rglob("unwritten/**/*.arrow"))


def test_what_could_not_be_written_is_written_when_it_can(spark: Any, tmp_path: Path) -> None:
    write(tuples(9, parts=4), tmp_path / "s")
    out = tmp_path / "out"
    out.write_text("in the way")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        query = session.register(TEXT, name="q")
        query.write_to("parquet", path=str(out))
        seen: list[str] = []

        def told(answer: sash.Answer) -> None:
            """Called after the sink was."""
            (state,) = session.sql("SHOW QUERIES")["state"].to_pylist()
            seen.append(state)
            if len(seen) == 2:
                assert session.stats()["queries"]["q"]["sinks"][0]["waiting"] == 2
                assert "cannot write to parquet" in str(query.error) and query.failure is None
                out.unlink()

        query.subscribe(told)
        session.run()
        assert seen == ["cannot write", "cannot write", *["registered"] * (query.answered - 2)]
        assert query.error is None and query.subscriber_errors == 0
        (sink,) = session.stats()["queries"]["q"]["sinks"]
        assert (sink["written"], sink["waiting"], sink["error"]) == (query.answered, 0, None)
        assert spark.read.parquet(str(out)).count() == query.changes().num_rows


def test_what_waits_survives_a_restart(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    parts = tuples(9, parts=4)
    write(parts[:2], tmp_path / "s")
    out = tmp_path / "out"
    out.write_text("in the way")
    told: Counter[Any] = Counter()
    for first in (True, False):
        with sash.connect(spark=spark, checkpoint=tmp_path / "state") as session:
            declare(session, tmp_path, "s")
            query = session.register(TEXT, name="q")
            query.subscribe(lambda answer: told.update(map(str, answer.table["k"].to_pylist())))
            query.write_to("parquet", path=str(out))
            session.run()
            assert (query.error is not None) == first
        waiting = list((tmp_path / "state" / "unwritten").rglob("*.arrow"))
        if first:
            assert waiting and "the session closes: query 'q' cannot write" in caplog.text
            out.unlink()
            write(parts[2:], tmp_path / "s", 2)
        else:
            assert not waiting
    written = Counter(str(row.k) for row in spark.read.parquet(str(out)).collect())
    assert written == told
