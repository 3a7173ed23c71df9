"""Outer joins of windows on Spark, and ORDER BY and LIMIT of plans under SLIDE: DuckDB's answers, before and after a
restart, in the process and on executors."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import SECOND, to_micros
from tests.runtime.test_continuous import declare, tuples, with_numbers, write
from tests.support.streams import START
from tests.support.windows_in_duckdb import Definition, answer_of_changes

pytestmark = pytest.mark.spark

QUERIES = {
    "left": "SELECT a.k, a.v, b.g AS h FROM s [RANGE 3 sec] a LEFT JOIN t [RANGE 2 sec] b"
    " ON a.k = b.k AND a.v > 3 AND b.v < 8",
    "right": "SELECT a.v, b.k, upper(b.g) AS h FROM s [ROWS 6] a RIGHT JOIN t [RANGE 2 sec] b"
    " ON a.k = b.k + 1 AND a.v < b.v",
    "chain": "SELECT a.v, b.v AS w, COALESCE(c.v, -1) AS x FROM s [RANGE 2 sec] a LEFT JOIN t [RANGE 2 sec] b"
    " ON a.g = b.g LEFT JOIN s [RANGE 1 sec] c ON b.k = c.k WHERE b.v IS NULL OR b.v > 2",
    "alone": "SELECT b.k IS NULL AS alone, COUNT(*) AS n, SUM(a.v) AS v FROM s [RANGE 3 sec] a LEFT JOIN"
    " t [RANGE 1 sec] b ON a.k = b.k GROUP BY b.k IS NULL",
    # Nexmark q101, as RisingWave has it: what is on sale, with its highest bid.
    "q101": "SELECT a.k, a.g, b.most FROM s [RANGE 4 sec] a LEFT JOIN"
    " (SELECT k, MAX(v) AS most FROM t [RANGE 3 sec] GROUP BY k) b ON a.k = b.k",
    # And as a FULL JOIN of windows.
    "full": "SELECT COALESCE(a.k, b.k) AS k, a.v, b.v AS w FROM s [RANGE 2 sec] a FULL JOIN t [RANGE 3 sec] b"
    " ON a.k = b.k",
}  # fmt: skip
PAIRS = "FROM s [RANGE 5 sec SLIDE 2 sec] a LEFT JOIN t [RANGE 3 sec SLIDE 2 sec] b ON a.k = b.k"
INNER = "FROM s [RANGE 5 sec SLIDE 2 sec] a JOIN t [RANGE 3 sec SLIDE 2 sec] b ON a.k = b.k"
SLIDING = {
    "every": f"SELECT a.k, a.v, b.v AS w {PAIRS} ORDER BY w DESC NULLS LAST, a.v, 1 NULLS FIRST LIMIT 7",
    "grouped": f"SELECT b.g AS h, COUNT(*) AS n, SUM(a.v) AS v {PAIRS} GROUP BY b.g ORDER BY n DESC, h NULLS FIRST",
    "joined": f"SELECT a.k, COUNT(*) AS n {INNER} GROUP BY a.k HAVING COUNT(*) > 1 ORDER BY COUNT(*) - a.k, k LIMIT 2",
    "other": f"SELECT a.k, COUNT(*) AS n {INNER} GROUP BY a.k HAVING COUNT(*) > 1 ORDER BY k DESC",
    "pairs": f"SELECT a.k, a.v, b.v AS w {INNER} ORDER BY a.v + b.v, a.k, v, w LIMIT 5",
    "sets": "SELECT * FROM (SELECT k FROM s [RANGE 4 sec SLIDE 2 sec] INTERSECT"
    " SELECT k FROM t [RANGE 2 sec SLIDE 2 sec]) c ORDER BY k DESC NULLS LAST LIMIT 2",
    "distinct": "SELECT DISTINCT k, g FROM s [RANGE 5 sec SLIDE 2 sec] ORDER BY g NULLS FIRST, k NULLS LAST LIMIT 3",
}  # fmt: skip
PARTS = {"s": tuples(31, parts=4), "t": tuples(32, parts=4)}


@pytest.fixture(scope="module")
def definition() -> Definition:
    return Definition({name: with_numbers(each) for name, each in PARTS.items()})


@pytest.fixture(scope="module")
def told(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[sash.Answer]]:
    """What subscribers get, in three processes."""
    directory = tmp_path_factory.mktemp("outer")
    found: dict[str, list[sash.Answer]] = {name: [] for name in (*QUERIES, *SLIDING)}
    for first, last in ((0, 2), (2, 3), (3, 4)):
        for name, each in PARTS.items():
            write(each[first:last], directory / name, first)
        with sash.connect(spark=spark, checkpoint=directory / "checkpoint") as session:
            declare(session, directory)
            for name, text in {**QUERIES, **SLIDING}.items():
                session.register(text, name=name).subscribe(found[name].append)
            session.run()
            assert [query.error for query in session.queries.values()] == [None] * len(found)
    return found


def _last() -> int:
    return min(max(with_numbers(each)["_us"].to_pylist()) for each in PARTS.values())


@pytest.mark.parametrize("name", QUERIES)
def test_the_definitions_answer_at_every_instant(
    name: str, told: dict[str, list[sash.Answer]], definition: Definition
) -> None:
    changes = pa.concat_tables([answer.table for answer in told[name]])
    assert -1 in changes["_sign"].to_pylist()
    for now in range(START, _last(), 400_000):
        assert answer_of_changes(changes, now) == definition.answer(QUERIES[name], now), now


def test_executors_give_the_same_answers(spark: Any, tmp_path: Path, definition: Definition) -> None:
    for name, each in PARTS.items():
        write(each, tmp_path / name)
    with sash.connect(spark=spark, executor_rows=0) as session:
        declare(session, tmp_path, files=2)
        queries = {name: session.register(QUERIES[name], name=name) for name in ("left", "full")}
        session.run()
        for name, query in queries.items():
            changes = query.changes()
            for now in range(START, _last(), 800_000):
                assert answer_of_changes(changes, now) == definition.answer(QUERIES[name], now), now


def _ordered(definition: Definition, text: str, now: int) -> list[Any]:
    """DuckDB's rows. ORDER BY names all columns, so equal rows are neighbours."""
    return list(definition.answer(re.sub(r" SLIDE \d+ sec", "", text), now).elements())


@pytest.mark.parametrize("name", SLIDING)
def test_every_answer_is_sorted_and_cut(
    name: str, told: dict[str, list[sash.Answer]], definition: Definition
) -> None:  # fmt: skip
    answers = [answer for answer in told[name] if to_micros(answer.as_of) <= _last()]
    assert len(answers) > 2 and any(answer.table.num_rows > 1 for answer in answers)
    for answer in answers:
        rows = [tuple(row.values()) for row in answer.table.to_pylist()]
        assert rows == _ordered(definition, SLIDING[name], to_micros(answer.as_of)), answer.as_of


def test_queries_that_differ_in_order_share_their_plan(spark: Any, tmp_path: Path) -> None:
    for name, each in PARTS.items():
        write(each, tmp_path / name)
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        whole = session.register(SLIDING["every"].partition(" ORDER BY")[0], name="whole")
        first = session.register(SLIDING["every"], name="first")
        session.run()
        assert session.stats()["plans"] == 1
        assert first.view().num_rows == 7 < whole.view().num_rows
        # A question reads what the query answers.
        assert session.query("SELECT COUNT(*) AS n FROM first").to_pylist() == [{"n": 7}]
        assert session.query("SELECT COUNT(*) AS n FROM whole").to_pylist() == [{"n": whole.view().num_rows}]
        shown = session.explain(f"REGISTER QUERY q AS {SLIDING['every']}")
        assert "Each answer in the order w DESC, v ASC, k ASC, the first 7 rows" in shown
        assert "Left join on a.k = b.k  -> STR" in shown


def test_tables_keep_tuples_without_a_row(spark: Any, tmp_path: Path) -> None:
    """A NONRETROACTIVE TABLE has the row of a tuple's time; changes of a TABLE give and take back NULLs."""
    stamps = pa.array([START + second * SECOND for second in (1, 2)], pa.timestamp("us", "UTC"))
    rows = pa.table(
        {"ts": stamps, "k": pa.array([1, 2], pa.int32()), "g": ["x", "y"], "v": pa.array([5, 6], pa.int32())}
    )
    write([rows], tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, names="s")
        session.sql("CREATE TABLE now (id INT PRIMARY KEY, name STRING)")
        session.sql("CREATE NONRETROACTIVE TABLE once (id INT PRIMARY KEY, name STRING)")
        for table in ("now", "once"):
            session.sql(f"INSERT INTO {table} VALUES (1, 'one')")
        texts = {
            name: f"SELECT k, name FROM s [RANGE 1 min] LEFT JOIN {name} ON k = id AND v < 9"
            for name in ("now", "once")
        }
        queries = {name: session.register(text, name=f"q_{name}") for name, text in texts.items()}
        none = session.register("SELECT k, name FROM s [RANGE 1 min] LEFT JOIN now ON k = id AND v > 9", name="none")
        session.run()
        for query in queries.values():
            assert Counter(map(tuple, map(dict.values, query.view().to_pylist()))) == Counter([(1, "one"), (2, None)])
        assert none.view()["name"].to_pylist() == [None, None]
