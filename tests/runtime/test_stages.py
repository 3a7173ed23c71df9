"""Continuous queries whose operators have different keys, on Spark: the definition's answer, here and on executors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import sash
from tests.runtime.test_continuous import declare, tuples, with_numbers, write
from tests.support.streams import START
from tests.support.windows_in_duckdb import Definition, answer_of_changes

pytestmark = pytest.mark.spark

QUERIES = {
    "sums": "SELECT s.k, t.g, u.v FROM s [RANGE 2 sec], t [RANGE 2 sec], u [RANGE 2 sec] "
    "WHERE s.k = t.k AND s.v + t.v = u.v",
    "groups": "SELECT t.g, COUNT(*) AS n, SUM(s.v) AS total FROM s [RANGE 2 sec], t [RANGE 2 sec] "
    "WHERE s.k = t.k GROUP BY t.g",
    "distinct": "SELECT DISTINCT s.g, t.v FROM s [RANGE 2 sec], t [RANGE 3 sec] WHERE s.k = t.k",
    "except": "SELECT s.g FROM s [RANGE 2 sec], t [RANGE 2 sec] WHERE s.k = t.k AND t.v > 4 "
    "EXCEPT ALL SELECT g FROM u [RANGE 1 sec]",
    "rows": "SELECT t.k, COUNT(*) AS n FROM s [ROWS 7], t [RANGE 2 sec] WHERE s.g = t.g GROUP BY t.k",
}  # fmt: skip
# Joins along a graph of equalities: one stage, in which some of the windows are in every bucket.
GRAPHS = {
    "chain": "SELECT s.k, t.g, u.v FROM s [RANGE 2 sec], t [RANGE 2 sec], u [RANGE 2 sec] "
    "WHERE s.k = t.k AND t.g = u.g",
    "star": "SELECT s.k, s.g, t.v AS tv, u.v AS uv FROM s [ROWS 6], t [RANGE 2 sec], u [PARTITION BY k ROWS 2] "
    "WHERE s.k = t.k AND s.g = u.g",
    "cycle": "SELECT s.v, t.k, u.g FROM s [RANGE 2 sec], t [RANGE 3 sec], u [RANGE 2 sec] "
    "WHERE s.k = t.k AND t.g = u.g AND u.v = s.v",
}  # fmt: skip
QUERIES |= GRAPHS
STREAMS = "stu"


HERE, THERE = 500_000, 0
# Where the epochs of two sessions run, one after the other from one checkpoint.
PLACES = {"here": (HERE, HERE), "there": (THERE, THERE), "both": (THERE, HERE)}
PARTS = {name: tuples(seed, parts=4) for seed, name in enumerate(STREAMS, 11)}


# Executors alone cost most of the time, and "both" has their operators and what they leave in the checkpoint.
@pytest.fixture(scope="module", params=["here", "both", pytest.param("there", marks=pytest.mark.deep)])
def changes(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the queries give, with a restart from the checkpoint after two micro-batches."""
    directory = tmp_path_factory.mktemp(request.param)
    collected: dict[str, list[pa.Table]] = {name: [] for name in QUERIES}
    for first, rows in zip((0, 2), PLACES[request.param], strict=True):
        for name, each in PARTS.items():
            write(each[first : first + 2], directory / name, first)
        with sash.connect(spark=spark, checkpoint=directory / "checkpoint", executor_rows=rows) as session:
            declare(session, directory, STREAMS)
            for name, text in QUERIES.items():
                shown = session.explain(text)
                assert "; every bucket has" in shown if name in GRAPHS else "stages" in shown, shown
                query = session.register(text, name=name)
                query.subscribe(lambda answer, name=name: collected[name].append(answer.table))
            session.run()
            assert [query.error for query in session.queries.values()] == [None] * len(QUERIES)
    return {name: pa.concat_tables(tables) for name, tables in collected.items()}


def test_the_definitions_answer_at_every_instant(changes: dict[str, Any]) -> None:
    tables = {name: with_numbers(each) for name, each in PARTS.items()}
    definition = Definition(tables)
    last = min(max(table["_us"].to_pylist()) for table in tables.values())
    for name, text in QUERIES.items():
        assert changes[name].num_rows > 10, name
        for now in range(START, last, 700_000):
            assert answer_of_changes(changes[name], now) == definition.answer(text, now), (name, now)


def test_the_same_changes_wherever_epochs_run(changes: dict[str, Any], first: dict[str, Any]) -> None:
    for name in QUERIES:
        one, other = first.setdefault(name, changes[name]), changes[name]
        assert one.schema == other.schema
        assert Counter(map(str, one.to_pylist())) == Counter(map(str, other.to_pylist())), name
        assert one["_ts"].to_pylist() == other["_ts"].to_pylist(), name


@pytest.fixture(scope="module")
def first() -> dict[str, Any]:
    """The changes of the first place, with which those of the others are compared."""
    return {}
