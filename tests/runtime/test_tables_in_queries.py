"""Joins of windows with tables, on Spark: updates between runs, and a restart from a checkpoint."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import SECOND, to_micros
from tests.runtime.test_continuous import declare, write
from tests.support.relational import answer
from tests.support.streams import START
from tests.support.windows_in_duckdb import answer_of_changes

pytestmark = pytest.mark.spark
SETUP = """
    CREATE NONRETROACTIVE TABLE ports (k INT, name STRING, PRIMARY KEY (k));
    CREATE TABLE customers (k INT PRIMARY KEY, name STRING, level INT);
    INSERT INTO ports VALUES (0, 'zero'), (1, 'one');
    INSERT INTO customers VALUES (0, 'Ann', 1), (1, 'Bob', 2)
"""
QUERIES = {
    "looked_up": "SELECT s.v, p.name FROM s [RANGE 3 sec] JOIN ports p USING (k)",
    "related": "SELECT s.v, c.name FROM s [RANGE 3 sec], customers c WHERE s.k = c.k AND c.level > 1",
    "both": "SELECT c.name, COUNT(*) AS n FROM s [RANGE 3 sec], ports p, customers c"
    " WHERE s.k = p.k AND s.k = c.k GROUP BY c.name",
}


def at(second: float) -> datetime:
    return datetime.fromtimestamp(START / SECOND, UTC) + timedelta(seconds=second)


def part(first: int, last: int) -> pa.Table:
    """Two tuples a second, with keys 0, 1, 2 in turn."""
    halves = range(2 * first, 2 * last)
    return pa.table(
        {
            "ts": pa.array([START + half * SECOND // 2 + SECOND // 4 for half in halves], pa.timestamp("us", "UTC")),
            "k": pa.array([half % 3 for half in halves], pa.int32()),
            "g": ["x" for _ in halves],
            "v": pa.array(list(halves), pa.int32()),
        }
    )


def set_up(session: sash.Session, directory: Path) -> dict[str, sash.Query]:
    session.script(SETUP)
    declare(session, directory, "s")
    return {name: session.register(text, name=name) for name, text in QUERIES.items()}


def expected(session: sash.Session, name: str, parts: list[pa.Table], now: int) -> Counter[tuple[Any, ...]]:
    """The definition, with the tables' versions."""
    plan = session.continuous.runtime(session.queries[name]).plan
    names = [column.name.split(".", 1)[1] for column in _window(plan).columns]
    rows = [row for part in parts for row in part.to_pylist()]
    given = [(to_micros(row["ts"]), tuple(row[each] for each in names)) for row in rows]
    tables = {}
    for contents in session.tables.contents.values():
        found = contents.versions
        values = [tuple(row.values()) for row in found.rows.to_pylist()]
        tables[contents.table.name] = list(zip(found.begin.tolist(), found.end.tolist(), values, strict=True))
    return answer(plan, [given], now, tables)


def _window(plan: Any) -> Any:
    return plan if hasattr(plan, "columns") and hasattr(plan, "window") else _window(plan.input)


def check(session: sash.Session, parts: list[pa.Table], changes: dict[str, pa.Table], until: float) -> None:
    for name in QUERIES:
        for quarter in range(int(until * 4)):
            now = START + quarter * SECOND // 4
            assert answer_of_changes(changes[name], now) == expected(session, name, parts, now), (name, quarter / 4)


def test_tables_that_change_between_runs_and_a_restart(spark: Any, tmp_path: Path) -> None:
    data, parts = tmp_path / "data", [part(0, 4), part(4, 8), part(8, 12), part(12, 16)]
    data.mkdir()
    write(parts[:2], data / "s")
    with sash.connect(spark=spark, checkpoint=tmp_path / "state") as session:
        queries = set_up(session, data)
        session.update_table("ports", [{"k": 2, "name": "two"}], at=at(3))
        session.update_table("customers", [{"k": 1, "name": "Bert", "level": 2}], at=at(5.25))
        session.run()
        with pytest.raises(sash.SashError, match=r"earliest possible time is 2023-11-14T22:13:27\.750001"):
            session.update_table("customers", [{"k": 0}], at=at(7.5), delete=True)
        session.sql("DELETE FROM customers WHERE k = 1")
        session.sql("UPDATE ports SET name = 'ONE' WHERE k = 1")
        with pytest.raises(sash.SashError, match="table 'ports' is read by looked_up, both"):
            session.sql("DROP TABLE ports")
        write(parts[2:3], data / "s", first=2)
        session.run()
        check(session, parts[:3], {name: query.changes() for name, query in queries.items()}, 11.75)
        assert (queries["related"].changes()["_sign"].to_numpy() < 0).any()
        assert (queries["looked_up"].changes()["_sign"].to_numpy() > 0).all()
        before = {name: query.changes().num_rows for name, query in queries.items()}
    with sash.connect(spark=spark, checkpoint=tmp_path / "state") as session:
        queries = set_up(session, data)
        assert {name: query.changes().num_rows for name, query in queries.items()} == before
        session.sql("INSERT INTO customers VALUES (1, 'Eve', 7)")
        session.update_table("ports", [{"k": 0}], delete=True)
        write(parts[3:], data / "s", first=3)
        session.run()
        assert [query.error for query in queries.values()] == [None] * 3
        check(session, parts, {name: query.changes() for name, query in queries.items()}, 15.75)
        assert "Eve" in queries["related"].view()["name"].to_pylist()
        assert "zero" not in queries["looked_up"].view()["name"].to_pylist()
        session.sql("DELETE FROM customers WHERE k = 1")
        assert "Eve" in queries["related"].view()["name"].to_pylist(), "time has not passed the change"
        session.advance("s", at(16))
        assert queries["related"].view().num_rows == 0 and queries["looked_up"].view().num_rows > 0


def test_an_explained_join_with_a_table(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with sash.connect(spark=spark) as session:
        session.script(SETUP)
        declare(session, tmp_path, "s")
        shown = session.explain(QUERIES["both"])
        assert "Relation join with customers on s.k = c.k  -> STR" in shown
        assert "Non-retroactive join with ports on s.k = p.k  -> WKS" in shown


PERIODIC = {
    "counted": "SELECT p.name, COUNT(*) AS n, SUM(s.v) AS t FROM s [WINDOW 4 sec SLIDE EXACTLY 2 sec], ports p"
    " WHERE s.k = p.k GROUP BY p.name",
    "some": "SELECT s.k, MAX(v) AS m FROM s [WINDOW 4 sec SLIDE EXACTLY 2 sec] JOIN ports p USING (k)"
    " WHERE p.name LIKE '%o%' GROUP BY k",
    "plain": "SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE EXACTLY 2 sec]",
    "rows": "SELECT COUNT(*) AS n FROM s [ROWS 3 SLIDE 3]",
}


def looked_up(session: sash.Session, parts: list[pa.Table], now: int) -> list[tuple[int, str, int]]:
    """(k, name, v) of the tuples of (now - 4 sec, now] that were in the table when they arrived."""
    found = session.tables.contents["ports"].versions
    versions = list(zip(found.rows.to_pylist(), found.begin.tolist(), found.end.tolist(), strict=True))
    rows = [row for part in parts for row in part.to_pylist() if now - 4 * SECOND < to_micros(row["ts"]) <= now]
    return [
        (row["k"], version["name"], row["v"])
        for row in rows
        for version, begin, end in versions
        if row["k"] == version["k"] and begin < to_micros(row["ts"]) <= end
    ]


def test_periodic_queries_look_up_before_they_aggregate(spark: Any, tmp_path: Path) -> None:
    data, parts = tmp_path / "data", [part(0, 4), part(4, 8), part(8, 12)]
    data.mkdir()
    write(parts[:1], data / "s")
    with sash.connect(spark=spark, checkpoint=tmp_path / "state", policy="conservative") as session:
        session.script(SETUP)
        declare(session, data, "s")
        for name, text in PERIODIC.items():
            session.register(text, name=name)
        session.update_table("ports", [{"k": 2, "name": "two"}], at=at(1.5))
        session.run()
        with pytest.raises(sash.SashError, match=r"earliest possible time is 2023-11-14T22:13:23\.75"):
            session.update_table("ports", [{"k": 0}], at=at(3), delete=True)
        session.sql("UPDATE ports SET name = 'ONE' WHERE k = 1")
        session.update_table("ports", [{"k": 0}], at=at(5), delete=True)
        with pytest.raises(sash.SashError, match="is read by counted, some"):
            session.sql("DROP TABLE ports")
        write(parts[1:2], data / "s", first=1)
        session.run()
    write(parts[2:], data / "s", first=2)
    with sash.connect(spark=spark, checkpoint=tmp_path / "state", policy="conservative") as session:
        session.sql("UPDATE ports SET name = 'zwo' WHERE k = 2")
        session.run()
        queries = session.queries
        assert [query.error for query in queries.values()] == [None] * len(PERIODIC)
        assert len(queries["counted"].answers()) >= 5 and len(queries["rows"].answers()) >= 6
        for answer_ in queries["counted"].answers():
            given = looked_up(session, parts, to_micros(answer_.as_of))
            names = {name for _, name, _ in given}
            wanted = {(n, sum(x == n for _, x, _ in given), sum(v for _, x, v in given if x == n)) for n in names}
            assert {tuple(row.values()) for row in answer_.table.to_pylist()} == wanted, answer_.as_of
        for answer_ in queries["some"].answers():
            given = [row for row in looked_up(session, parts, to_micros(answer_.as_of)) if "o" in row[1]]
            best = {k: max(v for other, _, v in given if other == k) for k, _, _ in given}
            assert {row["k"]: row["m"] for row in answer_.table.to_pylist()} == best, answer_.as_of
