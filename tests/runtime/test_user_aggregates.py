"""Aggregates of a program's own functions, against recomputation from the tuples; most tests need no Spark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.core.errors import CatalogError, CheckpointError, CqlError, QueryFailedError, SashError
from sash.core.time import SECOND, to_micros
from sash.core.user_aggregate import UserAggregate
from sash.panes.accelerator import Accelerator
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.sparkless_session import SparklessSession, at, tuples
from tests.support.streams import batches, stream

Tuple = dict[str, Any]
BOUNDS = [-20, -10, 0, 10, 20, 30, 40, 50, 61]


def buckets(*, invert: bool) -> UserAggregate:
    """A histogram of eight buckets: whole numbers, so taking back is exact."""
    return UserAggregate(
        "buckets",
        np.zeros(8, dtype=np.int64),
        lambda x: np.histogram(np.asarray(x), BOUNDS)[0],
        np.add,
        lambda p: p.T,
        pa.list_(pa.int64()),
        np.subtract if invert else None,
    )


def spread() -> UserAggregate:
    """The zeros of its numbers differ, and no part can be taken back."""

    def combine(a: Any, b: Any) -> Any:
        return np.stack([np.minimum(a[0], b[0]), np.maximum(a[1], b[1])])

    zero = np.array([np.inf, -np.inf])
    return UserAggregate("spread", zero, lambda x: [pc.min(x), pc.max(x)], combine, lambda p: p[1] - p[0], pa.float64())


def of_tuples(rows: Iterable[Tuple]) -> dict[Any, Tuple]:
    """The answer to `QUERY`, from scratch."""
    groups: dict[Any, list[Tuple]] = {}
    for row in rows:
        groups.setdefault(row["k"], []).append(row)
    answer = {}
    for k, mine in groups.items():
        values = [row["v"] for row in mine if row["v"] is not None]
        odd = [v for v in values if v % 2]
        answer[k] = {
            "k": k,
            "n": len(mine),
            "b": np.histogram(values, BOUNDS)[0].tolist() if values else None,
            "s": float(max(values) - min(values)) if values else None,
            "o": float(max(odd) - min(odd)) if odd else None,
        }
    return answer


QUERY = """SELECT k, COUNT(*) AS n, BUCKETS(v) AS b, SPREAD(v) AS s, SPREAD(CASE WHEN v % 2 <> 0 THEN v END) AS o
           FROM s {} GROUP BY k"""
Selection = Callable[[list[Tuple], Any], list[Tuple]]


def within(length: int, lag: int = 0) -> Selection:
    def select(rows: list[Tuple], answer: Any) -> list[Tuple]:
        newest = to_micros(answer.as_of) - lag * SECOND
        return [row for row in rows if newest - length * SECOND < row["_us"] <= newest]

    return select


def last_of_partitions(rows: list[Tuple], answer: Any) -> list[Tuple]:
    seen = sorted((row for row in rows), key=lambda row: row["_us"])[: answer.rows]
    kept = []
    for k in {row["k"] for row in seen}:
        kept += [row for row in seen if row["k"] == k][-3:]
    return kept


WINDOWS: dict[str, Selection] = {
    "[WINDOW 4 sec SLIDE 2 sec]": within(4),
    "[WINDOW 9 sec SLIDE 3 sec]": within(9),
    "[WINDOW 60 sec SLIDE 5 sec LAG 2 sec]": within(60, 2),
    "[UNBOUNDED SLIDE 4 sec]": within(10_000_000),
    "[ROWS 7 SLIDE 3]": lambda rows, answer: sorted(rows, key=lambda row: row["_us"])[: answer.rows][-7:],
    "[PARTITION BY k ROWS 3 SLIDE 2]": last_of_partitions,
}


@given(parts=batches(most=40), invert=st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_every_window_equals_recomputation(parts: list[pa.Table], invert: bool) -> None:
    feed, texts = Feed(stream()), {f"q{i}": QUERY.format(window) for i, window in enumerate(WINDOWS)}
    feed.runtime.synchronise(compiled(texts, feed.declared, aggregates=[buckets(invert=invert), spread()]))
    answers = [answer for part in parts for answer in feed.push(part)] + feed.finish()
    rows = pa.concat_tables(parts).to_pylist()
    selections = dict(zip(texts, WINDOWS.values(), strict=True))
    assert {answer.query for answer in answers} <= texts.keys() and answers
    for answer in answers:
        expected = of_tuples(selections[answer.query](rows, answer))
        assert {row["k"]: row for row in answer.table.to_pylist()} == expected, answer.query


@given(parts=batches(most=40), lengths=st.lists(st.integers(1, 20), min_size=1, max_size=3, unique=True))
@settings(max_examples=examples(40), deadline=None)
def test_an_invert_answers_by_differences(parts: list[pa.Table], lengths: list[int]) -> None:
    text = "SELECT k, BUCKETS(v) AS b FROM s [WINDOW {} sec SLIDE 1 sec] GROUP BY k"
    feed, texts = Feed(stream()), {f"q{n}": text.format(n) for n in lengths}
    feed.runtime.synchronise(compiled(texts, feed.declared, "running", [buckets(invert=True)]))
    answers = [answer for part in parts for answer in feed.push(part)] + feed.finish()
    rows = pa.concat_tables(parts).to_pylist()
    for answer in answers:
        expected = of_tuples(within(int(answer.query[1:]))(rows, answer))
        assert {row["k"]: row["b"] for row in answer.table.to_pylist()} == {k: row["b"] for k, row in expected.items()}


def test_differences_are_chosen_by_cost_and_only_with_an_invert(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    lookup = Accelerator.lookup

    def counting(self: Accelerator, *arguments: Any) -> Any:
        looked_up.append(self.kind)
        return lookup(self, *arguments)

    monkeypatch.setattr(Accelerator, "lookup", counting)
    for invert in (True, False):
        feed = Feed(stream())
        texts = {"q": "SELECT BUCKETS(v) AS b FROM s [WINDOW 600 sec SLIDE 1 sec]"}
        feed.runtime.synchronise(compiled(texts, feed.declared, aggregates=[buckets(invert=invert)]))
        for second in range(5):
            feed.push(tuples((second, 0, second), (second + 0.5, 1, 7)))
        assert set(looked_up) == ({"running"} if invert else set())
        looked_up.clear()


# -- sessions ------------------------------------------------------------------------------------------


GEOMEAN = "SELECT k, GEOMEAN(v) AS g FROM s [WINDOW {} sec SLIDE 5 sec] GROUP BY k"


def create_geomean(session: sash.Session) -> None:
    def lift(x: pa.Array) -> Any:
        return [np.log(np.asarray(x)).sum(), len(x)]

    session.create_aggregate("GeoMean", [0.0, 0.0], lift, np.add, lambda p: np.exp(p[0] / p[1]))


@pytest.fixture
def session() -> Any:
    with SparklessSession() as session:
        session.declare(stream())
        yield session


def test_windows_share_one_column(session: SparklessSession) -> None:
    create_geomean(session)
    short, long = session.register(GEOMEAN.format(5), "short"), session.register(GEOMEAN.format(10), "long")
    told = session.explain(GEOMEAN.format(20))
    assert "geomean(v), lifted by Python on the executors: shared with short, long" in told
    session.push("s", tuples((1, 0, 2), (2, 0, 8), (6, 0, 4), (7, 1, 9), (12, 0, 1)))
    assert [row["g"] for row in short.latest().table.to_pylist()] == pytest.approx([4.0, 9.0])
    assert [row["g"] for row in long.latest().table.to_pylist()] == pytest.approx([64 ** (1 / 3), 9.0])
    (group,) = session.streams["s"].runtime.groups.values()
    assert sum(partial.kind == "geomean" for partial in group.panes.since) == 1


def test_a_question_reads_the_panes(session: SparklessSession) -> None:
    create_geomean(session)
    session.register(GEOMEAN.format(10), "long")
    session.push("s", tuples((1, 0, 2), (2, 0, 8), (6, 0, 4)))
    found = session.query("SELECT k, GEOMEAN(v) AS g FROM s [WINDOW 5 sec] GROUP BY k")
    assert found.to_pylist() == [{"k": 0, "g": pytest.approx(4.0)}]


def raising(*values: Any) -> Any:
    raise ValueError("no such thing")


PLAIN: dict[str, Any] = {"lift": lambda x: len(x), "combine": np.add, "lower": lambda p: p[0], "invert": np.subtract}


@pytest.mark.parametrize(
    ("word", "wrong", "why"),
    [
        ("combine", raising, "combine of the aggregate 'mine' raised ValueError: no such thing"),
        ("combine", lambda a, b: a[0], r"combine of the aggregate 'mine' raised ValueError: numbers of shape \(\d,\)"),
        ("combine", lambda a, b: a + 0.5, "combine of the aggregate 'mine' raised UFuncTypeError|TypeError"),
        ("lower", raising, "lower of the aggregate 'mine' raised ValueError: no such thing"),
        ("lower", lambda p: p[0][:0], "lower of the aggregate 'mine' raised ValueError: 0 values for 2 groups"),
        ("invert", raising, "invert of the aggregate 'mine' raised ValueError: no such thing"),
    ],
)
def test_a_function_that_raises_fails_its_query_alone(
    session: SparklessSession, word: str, wrong: Any, why: str
) -> None:
    session.create_aggregate("mine", 0, **{**PLAIN, word: wrong})
    session.create_aggregate("yours", 0, **PLAIN)
    text = "SELECT k, {}(v) AS n FROM s [WINDOW {} sec SLIDE 5 sec] GROUP BY k"
    synopsis = "running" if word == "invert" else None
    mine = session.register(text.format("MINE", 10), "mine_too", synopsis=synopsis)
    yours = session.register(text.format("YOURS", 15), "yours_too")
    session.push("s", tuples((1, 0, 2), (3, 1, 2), (6, 0, 8)))
    session.push("s", tuples((7, 0, 2), (12, 1, 2), (21, 1, 2)))
    assert [row["n"] for row in yours.latest().table.to_pylist()] == [2, 1]
    assert yours.error is None and isinstance(mine.error, QueryFailedError)
    with pytest.raises(QueryFailedError, match=why):
        raise mine.error


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT GEOMEAN(*) AS g FROM s [WINDOW 5 sec SLIDE 5 sec]", "GEOMEAN needs columns"),
        ("SELECT GEOMEAN(DISTINCT v) AS g FROM s [WINDOW 5 sec SLIDE 5 sec]", "GEOMEAN needs columns"),
        ("SELECT GEOMEAN(v, w) AS g FROM s [WINDOW 5 sec SLIDE 5 sec]", "GEOMEAN cannot be called with 2 arguments"),
        ("SELECT GEOMEAN(SUM(v)) AS g FROM s [WINDOW 5 sec SLIDE 5 sec]", "SUM cannot stand inside GEOMEAN"),
        ("SELECT k FROM s [WINDOW 5 sec SLIDE 5 sec] WHERE GEOMEAN(v) > 1 GROUP BY k", "the aggregate GEOMEAN"),
        ("SELECT GEOMEAN(v) AS g FROM s [WINDOW 5 sec]", "GEOMEAN"),
        ("SELECT GEOMEEN(v) AS g FROM s [WINDOW 5 sec SLIDE 5 sec]", "did you mean 'GEOMEAN'"),
    ],
)
def test_wrong_calls_are_refused(session: SparklessSession, text: str, why: str) -> None:
    create_geomean(session)
    with pytest.raises(CqlError, match=why):
        session.register(text, "q")


def test_wrong_definitions_are_refused(session: SparklessSession) -> None:
    create_geomean(session)
    for name in ("sum", "Upper", "hll", "istream", "corr", "geomean", "a b", "1a", ""):
        with pytest.raises(CatalogError):
            session.create_aggregate(name, 0, **PLAIN)
    for zero in ([], [[0, 1]], "0", [True], None):
        with pytest.raises(SashError, match="the zero of the aggregate 'mine'"):
            session.create_aggregate("mine", zero, **PLAIN)
    with pytest.raises(SashError, match="cannot be sent to Spark's executors"):
        session.create_aggregate("mine", 0, **{**PLAIN, "lift": lambda x: session.queries})


def test_a_restart_asks_for_the_functions_first(tmp_path: Path) -> None:
    with SparklessSession(checkpoint=tmp_path) as before:
        before.declare(stream())
        create_geomean(before)
        before.register(GEOMEAN.format(10), "q")
        before.push("s", tuples((1, 0, 2), (2, 0, 8)))
    with SparklessSession(checkpoint=tmp_path) as after:
        why = r"query 'q' of the checkpoint calls the aggregate 'geomean'.*create_aggregate\('geomean', \.\.\) before"
        with pytest.raises(CheckpointError, match=why):
            after.declare(stream())
        create_geomean(after)
        after.declare(stream())
        after.epochs["s"] = 1
        after.push("s", tuples((6, 0, 4), (7, 1, 9), (11, 0, 3)))
        answers = [row["g"] for row in after.queries["q"].latest().table.to_pylist()]
        assert answers == pytest.approx([64 ** (1 / 3), 9.0])


# -- with Spark ----------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_lifts_on_the_executors(spark: Any, tmp_path: Path) -> None:
    """One pass: with and without WHERE, several arguments, NULLs, other groups, rows, a function that raises."""
    rows = [(at(i / 5), i % 3, float(i % 7 + 1) if i % 11 else None, i % 5 if i % 13 else None) for i in range(200)]
    schema = pa.schema([("us", pa.int64()), ("k", pa.int64()), ("x", pa.float64()), ("y", pa.int64())])
    table = pa.table([list(column) for column in zip(*rows, strict=True)], schema)
    place = tmp_path / "rows"
    spark.createDataFrame(table).selectExpr("timestamp_micros(us) AS ts", "*").write.parquet(str(place))
    declare = (
        f"CREATE STREAM s (ts TIMESTAMP, us BIGINT, k BIGINT, x DOUBLE, y BIGINT) FROM parquet OPTIONS (path '{place}')"
    )
    texts = {
        "short": "SELECT k, GEOMEAN(x) AS g, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 10 sec] GROUP BY k",
        "long": "SELECT k, GEOMEAN(x) AS g FROM s [WINDOW 20 sec SLIDE 10 sec] WHERE y > 1 GROUP BY k",
        "weighted": "SELECT WEIGHTED(x, y) AS m FROM s [WINDOW 20 sec SLIDE 10 sec]",
        "counted": "SELECT WEIGHTED(x, y) AS m FROM s [ROWS 50 SLIDE 25]",
        "bad": "SELECT y, BAD(x) AS b FROM s [WINDOW 10 sec SLIDE 10 sec] GROUP BY y",
    }

    def weighted(x: pa.Array, y: pa.Array) -> Any:
        return [pc.sum(pc.multiply(x, y)), pc.sum(y)]

    def bad(x: pa.Array) -> Any:
        raise ValueError("no such thing")

    def create(session: sash.Session) -> None:
        create_geomean(session)
        session.create_aggregate("weighted", [0.0, 0.0], weighted, np.add, lambda p: p[0] / p[1])
        session.create_aggregate("bad", 0, bad, np.add, lambda p: p[0])

    def mean(part: list[Any]) -> Any:
        logs = [math.log(x) for _, _, x, _ in part if x is not None]
        return pytest.approx(math.exp(sum(logs) / len(logs))) if logs else None

    def average(part: list[Any]) -> Any:
        pairs = [(x, y) for _, _, x, y in part if x is not None and y is not None]
        return pytest.approx(sum(x * y for x, y in pairs) / sum(y for _, y in pairs)) if pairs else None

    checkpoint = tmp_path / "checkpoint"
    with sash.connect(spark=spark, checkpoint=checkpoint) as session:
        create(session)
        session.sql(f"{declare} TIMESTAMP ts")
        queries = {name: session.register(text, name) for name, text in texts.items()}
        session.run()
        assert "lift of the aggregate 'bad' raised ValueError: no such thing" in str(queries.pop("bad").error)
        seen = 0
        for name, query in queries.items():
            assert query.error is None
            for answer in query.answers():
                end = to_micros(answer.as_of)
                length = 20 if name in ("long", "weighted") else 10
                inside = [row for row in rows if end - length * SECOND < row[0] <= end]
                if name == "counted":
                    inside = rows[: answer.rows][-50:]
                for row in answer.table.to_pylist():
                    seen += 1
                    mine = [each for each in inside if "k" not in row or each[1] == row["k"]]
                    if name in ("short", "long"):
                        large = [each for each in mine if each[3] is not None and each[3] > 1]
                        assert row["g"] == mean(mine if name == "short" else large)
                    else:
                        assert row["m"] == average(mine)
        assert seen > 20
    with sash.connect(spark=spark, checkpoint=checkpoint) as session:
        with pytest.raises(CheckpointError, match="calls the aggregate"):
            session.run()
        create(session)
        assert "s" in session.streams
