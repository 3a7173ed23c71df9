"""Joins under SLIDE, and aggregates over joins, with a join value that nearly all tuples have: divided and not."""

from __future__ import annotations

import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import to_micros
from sash.spark import buckets
from sash.spark.buckets import Shares
from tests.runtime.test_continuous import declare, with_numbers, write
from tests.runtime.test_skew import CORES, DIVIDED, HERE, PARTS, shares_in
from tests.support.streams import SECOND, START
from tests.support.windows_in_duckdb import Definition

pytestmark = pytest.mark.spark


def over(asked: str, first: int, second: int, slide: int, end: str = "") -> str:
    windows = f"s [RANGE {first} sec SLIDE {slide} sec], t [RANGE {second} sec SLIDE {slide} sec]"
    return f"SELECT {asked} FROM {windows} WHERE s.k = t.k {end}".strip()


# Results wait for the next multiple, also from one micro-batch to the next: these have a second each.
JOINS = {
    "often": over("s.k, s.v, t.v AS w", 2, 1, 1, "AND s.v < t.v"),
    "seldom": over("s.v, t.g", 2, 2, 2, "AND s.v > 5"),
    "three": "SELECT s.v, t.g, u.v AS w FROM s [RANGE 1 sec SLIDE 1 sec], t [RANGE 1 sec SLIDE 1 sec], "
    "u [RANGE 1 sec SLIDE 1 sec] WHERE s.k = t.k AND t.g = u.g AND s.v > 6 AND t.v > 6 AND u.v > 6",
}
EVERYTHING = "COUNT(*) AS n, COUNT(t.k) AS m, SUM(s.v) AS x, MIN(t.g) AS y, MAX(t.v) AS z, AVG(s.v) AS w"
# One group of "groups" has nearly all results, so all tasks have a part of it.
AGGREGATES = {
    "groups": over(f"t.g, {EVERYTHING}", 2, 2, 1, "GROUP BY t.g"),
    "values": over("s.v, MIN(t.v) AS x, MAX(t.g) AS y", 1, 2, 2, "GROUP BY s.v"),
    "all": over(EVERYTHING, 2, 2, 1),
    # Shorter windows than those of the join that runs: their first results are watched.
    "short": over("COUNT(*) AS n, MAX(s.v) AS x", 1, 1, 1),
    "having": over("s.k, SUM(t.v) AS x", 2, 1, 1, "GROUP BY s.k HAVING COUNT(*) > 40"),
}
QUERIES = {"joins": JOINS, "aggregates": AGGREGATES}
# Of each query, its answers by time.
Answers = dict[str, dict[int, Counter[Any]]]


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "Shares", lambda stages, cores, least: Shares(stages, CORES, least))


def run(spark: Any, directory: Path, texts: dict[str, str], where: tuple[int, int]) -> Answers:
    told: Answers = {name: {} for name in texts}
    directory.mkdir()
    for stream, parts in PARTS.items():
        write(parts, directory / stream)
    least, rows = where
    with sash.connect(spark=spark, policy="conservative", executor_rows=rows, share_results=least) as session:
        declare(session, directory, "stu")
        for name, text in texts.items():

            def take(answer: sash.Answer, mine: dict[int, Counter[Any]] = told[name]) -> None:
                mine[to_micros(answer.as_of)] = listed(answer.table)

            session.register(text, name=name).subscribe(take)
        session.run()
        assert [query.error for query in session.queries.values()] == [None] * len(texts)
    return told


def listed(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def check(texts: dict[str, str], told: Answers) -> None:
    """The definition's answer at every multiple; none only where there is nothing to say yet."""
    tables = {name: with_numbers(parts) for name, parts in PARTS.items()}
    definition = Definition(tables)
    last = min(max(table["_us"].to_pylist()) for table in tables.values())
    for name, text in texts.items():
        (slide,) = {int(each) * SECOND for each in re.findall(r"SLIDE (\d+) sec", text)}
        multiples = range(-(-START // slide) * slide, last, slide)
        assert multiples and not [at for at in told[name] if at % slide], name
        for at in multiples:
            expected = definition.answer(re.sub(r" SLIDE \d+ sec\]", "]", text), at)
            if at in told[name] or "GROUP BY" in text or name in JOINS:
                assert told[name].get(at, Counter()) == expected, (name, at)
            else:
                assert at < min(told[name]) and {row[0] for row in expected} == {0}, (name, at)


@pytest.mark.parametrize("kind", QUERIES)
def test_divided_buckets_give_the_definitions_answers(
    kind: str, spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = QUERIES[kind]
    with caplog.at_level(logging.DEBUG, "sash.spark"):
        divided = run(spark, tmp_path / "there", texts, DIVIDED)
    shares = shares_in(caplog)
    assert len(shares) >= 2 and max(max(each.values()) for each in shares) == CORES
    assert all(len(each) > 1 and sum(map(len, each.values())) > 3 for each in divided.values())
    check(texts, divided)
    assert divided == run(spark, tmp_path / "here", texts, HERE)
