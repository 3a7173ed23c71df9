"""A stream in which nearly all tuples have one join value: its bucket is divided, and the changes stay the same."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.spark import buckets
from sash.spark.buckets import Shares
from tests.runtime.test_continuous import declare, with_numbers, write
from tests.support.streams import SECOND, START
from tests.support.windows_in_duckdb import Definition, answer_of_changes

pytestmark = pytest.mark.spark

QUERIES = {
    "join": "SELECT s.k, s.v, t.v AS w FROM s [RANGE 2 sec], t [RANGE 2 sec] WHERE s.k = t.k AND s.v < t.v",
    # Tuples are pushed out by later ones, so results are taken back; the last 30 of a stream are in one bucket.
    "rows": "SELECT s.v, t.v AS w FROM s [ROWS 30], t [RANGE 1 sec] WHERE s.k = t.k",
    # Two stages, both are divided: the second key is computed from results of the first join.
    "sums": "SELECT s.v, t.g, u.v AS w FROM s [RANGE 1 sec], t [RANGE 1 sec], u [RANGE 1 sec] "
    "WHERE s.k = t.k AND s.v + t.v = u.v",
    # One stage, in which every bucket has all of one window.
    "chain": "SELECT s.v, t.g, u.v AS w FROM s [RANGE 1 sec], t [RANGE 1 sec], u [RANGE 1 sec] "
    "WHERE s.k = t.k AND t.g = u.g",
}  # fmt: skip
# How many results a bucket must have to be divided, and with how many tuples epochs run on the executors.
DIVIDED, NOT, HERE = (5, 0), (10**9, 0), (5, 500_000)
CORES = 4
# Sessions from one checkpoint, with how many micro-batches each.
Sessions = list[tuple[tuple[int, int], int]]


def tuples(seed: int, parts: int = 5, per_part: int = 40) -> list[pa.Table]:
    """Of ten tuples nine have the value 1 in `k`, and `x` in `g`; no two of a stream at one instant."""
    chance, found = random.Random(seed), []
    for part in range(parts):
        begin = START + part * SECOND
        places = sorted(chance.sample(range(begin, begin + SECOND, 5_000), per_part))
        hot = [chance.random() < 0.9 for _ in places]
        columns = {
            "ts": pa.array(places, pa.timestamp("us", "UTC")),
            "k": pa.array([1 if each else chance.choice([0, 2, 3, None]) for each in hot], pa.int32()),
            "g": pa.array(["x" if each else chance.choice("yz") for each in hot]),
            "v": pa.array([chance.randrange(10) for _ in places], pa.int32()),
        }
        found.append(pa.table(columns))
    return found


PARTS = {name: tuples(seed) for seed, name in enumerate("stu", 5)}


def run(spark: Any, directory: Path, names: Iterable[str], sessions: Sessions) -> dict[str, pa.Table]:
    collected: dict[str, list[pa.Table]] = {name: [] for name in names}
    first = 0
    for (least, rows), number in sessions:
        for stream, parts in PARTS.items():
            write(parts[first : first + number], directory / stream, first)
        first += number
        with sash.connect(
            spark=spark, checkpoint=directory / "checkpoint", executor_rows=rows, share_results=least
        ) as session:
            declare(session, directory, "stu")
            for name in collected:
                query = session.register(QUERIES[name], name=name)
                query.subscribe(lambda answer, name=name: collected[name].append(answer.table))
            session.run()
            assert [query.error for query in session.queries.values()] == [None] * len(collected)
    assert first == len(PARTS["s"])
    return {name: pa.concat_tables(tables) for name, tables in collected.items()}


def shares_in(caplog: pytest.LogCaptureFixture) -> list[dict[int, int]]:
    """By epoch, the divided buckets and into how many shares."""
    return [record.args[1] for record in caplog.records if "shares" in record.msg]  # type: ignore[index, misc]


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "Shares", lambda stages, cores, least: Shares(stages, CORES, least))


@pytest.fixture(scope="module")
def expected(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    return run(spark, tmp_path_factory.mktemp("here"), QUERIES, [(HERE, 5)])


def test_the_definitions_answer(expected: dict[str, pa.Table]) -> None:
    tables = {name: with_numbers(each) for name, each in PARTS.items()}
    definition = Definition(tables)
    last = min(max(table["_us"].to_pylist()) for table in tables.values())
    for name, text in QUERIES.items():
        for now in range(START, last, 400_000):
            assert answer_of_changes(expected[name], now) == definition.answer(text, now), (name, now)


# All queries on executors take long; the test below has one of them, tests/changes/test_shares.py all without Spark.
@pytest.mark.deep
def test_divided_buckets_give_the_same_changes(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, expected: dict[str, pa.Table]
) -> None:
    with caplog.at_level(logging.DEBUG, "sash.spark"):
        found = run(spark, tmp_path, QUERIES, [(DIVIDED, 5)])
    shares = shares_in(caplog)
    assert len(shares) >= len(QUERIES) and max(max(each.values()) for each in shares) == CORES
    # Buckets of both stages at once.
    assert any(len(each) > 1 for each in shares)
    check(found, expected)


def test_state_does_not_know_how_work_was_divided(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, expected: dict[str, pa.Table]
) -> None:
    with caplog.at_level(logging.DEBUG, "sash.spark"):
        found = run(spark, tmp_path, ["rows"], [(HERE, 1), (DIVIDED, 3), (NOT, 1)])
    assert shares_in(caplog)
    check(found, expected)


def check(found: dict[str, pa.Table], expected: dict[str, pa.Table]) -> None:
    for name, table in found.items():
        assert table.schema == expected[name].schema
        assert table["_ts"].to_pylist() == expected[name]["_ts"].to_pylist(), name
        assert Counter(map(str, table.to_pylist())) == Counter(map(str, expected[name].to_pylist())), name


def test_undivided_below_the_threshold(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "sash.spark"):
        run(spark, tmp_path, ["join"], [(NOT, 5)])
    assert not shares_in(caplog)
