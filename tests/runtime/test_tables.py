"""Tables of a session: statements, updates from Python, versions in event time, recovery. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.catalog import Catalog, Stream, Table
from sash.core.changes import NEVER
from sash.core.errors import CatalogError, CheckpointError, CqlError, SashError
from sash.core.time import BEGINNING
from sash.runtime.records.catalog_history import CatalogHistory
from sash.runtime.records.session_tables import Tables

PORTS = "CREATE NONRETROACTIVE TABLE ports (port INT PRIMARY KEY, name STRING)"
CUSTOMERS = "CREATE TABLE customers (id INT, region STRING, name STRING, since DATE, PRIMARY KEY (id, region))"


@pytest.fixture
def session() -> Iterator[sash.Session]:
    with sash.connect() as found:
        found.script(f"{PORTS}; {CUSTOMERS}")
        yield found


def versions(session: sash.Session, name: str) -> list[tuple[Any, ...]]:
    """(row, begin, end) of all versions."""
    found = session.tables.contents[name].versions
    rows = [tuple(row.values()) for row in found.rows.to_pylist()]
    return list(zip(rows, found.begin.tolist(), found.end.tolist(), strict=True))


# -- statements ----------------------------------------------------------------------------------------


def test_what_is_said_before_anything_ran_holds_from_the_beginning(session: sash.Session) -> None:
    session.sql("INSERT INTO customers VALUES (1, 'x', 'one', NULL), (2, 'x', 'two', DATE '2024-01-31')")
    session.sql("UPDATE customers SET name = 'uno' WHERE id = 1 AND region = 'x'")
    session.sql("DELETE FROM customers WHERE id = 2 AND region = 'x'")
    session.sql("INSERT INTO customers (region, id) VALUES ('x', 2)")
    assert versions(session, "customers") == [
        ((1, "x", "uno", None), BEGINNING, NEVER),
        ((2, "x", None, None), BEGINNING, NEVER),
    ]
    shown = session.sql("SHOW TABLES")
    assert isinstance(shown, pa.Table) and shown.to_pylist() == [
        {"name": "ports", "kind": "NONRETROACTIVE TABLE", "key": "port", "rows": 0},
        {"name": "customers", "kind": "TABLE", "key": "id, region", "rows": 2},
    ]
    described = session.sql("DESCRIBE ports")
    assert isinstance(described, pa.Table)
    assert described.to_pylist() == [{"column": "port", "type": "INT"}, {"column": "name", "type": "STRING"}]


def test_keys(session: sash.Session) -> None:
    session.sql("INSERT INTO ports VALUES (80, 'http')")
    refused = [
        ("INSERT INTO ports VALUES (81, 'x'), (80, 'y')", "has a row with port = 80 already; UPDATE it"),
        ("INSERT INTO ports VALUES (82, 'x'), (82, 'y')", "port = 82 stands twice"),
        ("UPDATE ports SET name = 'x' WHERE port = 81", "no row with port = 81"),
        ("DELETE FROM ports WHERE port = 81", "no row with port = 81"),
    ]
    for statement, reason in refused:
        with pytest.raises(CqlError, match=reason) as caught:
            session.sql(statement)
        assert caught.value.span is not None
        assert statement[caught.value.span.start : caught.value.span.end] == "ports"
    session.sql("DELETE FROM ports WHERE port = 80")
    with pytest.raises(CqlError, match="a key of a NONRETROACTIVE TABLE is not used again"):
        session.sql("INSERT INTO ports VALUES (80, 'web')")
    with pytest.raises(SashError, match="is not used again"):
        session.update_table("ports", [{"port": 80, "name": "web"}])


def test_names_do_not_clash(session: sash.Session) -> None:
    catalog = session.catalog
    with pytest.raises(CatalogError, match="table 'Ports' exists already"):
        session.sql("CREATE TABLE Ports (a INT PRIMARY KEY)")
    with pytest.raises(CatalogError, match="'ports' is a table already"):
        catalog.add_stream(Stream("ports", pa.schema([("ts", pa.timestamp("us", "UTC"))]), "ts"))
    catalog.add_stream(Stream("s", pa.schema([("ts", pa.timestamp("us", "UTC"))]), "ts"))
    with pytest.raises(CatalogError, match="'s' is a stream already"):
        session.sql("CREATE TABLE s (a INT PRIMARY KEY)")
    session.sql("DROP TABLE ports")
    with pytest.raises(CatalogError, match="unknown table 'ports'"):
        session.sql("DROP TABLE ports")
    session.sql(PORTS)
    assert versions(session, "ports") == []


# -- Python --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        [{"port": 80, "name": "http"}, {"NAME": None, "Port": 443}],
        pa.table({"name": ["http", None], "port": pa.array([80, 443], pa.int64())}),
        pd.DataFrame({"port": [80, 443], "name": ["http", None]}),
    ],
)
def test_rows_of_every_kind(session: sash.Session, rows: Any) -> None:
    session.update_table("PORTS", rows)
    assert versions(session, "ports") == [((80, "http"), BEGINNING - 1, NEVER), ((443, None), BEGINNING - 1, NEVER)]
    session.update_table("ports", rows, at=5)
    assert len(versions(session, "ports")) == 2, "nothing has changed"
    session.update_table("ports", rows, at=7, delete=True)
    assert versions(session, "ports") == [((80, "http"), BEGINNING - 1, 7), ((443, None), BEGINNING - 1, 7)]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"port": 80}], "lack the column 'name'"),
        ([{"port": 80, "name": "x", "nam": 1}], "has no column 'nam'; did you mean 'name'"),
        ([{"port": "x", "name": "x"}], "do not fit the columns of table 'ports'"),
        ([{"port": 2**40, "name": "x"}], "do not fit"),
        ([{"port": None, "name": "x"}], "cannot be NULL"),
        ({"port": 1, "name": "x"}, "a list of dicts, a pyarrow.Table or a pandas DataFrame"),
        (pa.table({"port": [2**40], "name": ["x"]}), "do not fit"),
    ],
)
def test_rows_that_do_not_fit(session: sash.Session, rows: Any, reason: str) -> None:
    with pytest.raises(SashError, match=reason):
        session.update_table("ports", rows)
    assert versions(session, "ports") == []


def test_changes_at_a_time(session: sash.Session) -> None:
    session.update_table("ports", [{"port": 80, "name": "http"}], at=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    session.update_table("ports", [{"port": 80, "name": "web"}, {"port": 22, "name": "ssh"}], at=3_000_000)
    assert versions(session, "ports") == [
        ((80, "http"), 1_000_000, 3_000_000),
        ((80, "web"), 3_000_000, NEVER),
        ((22, "ssh"), 3_000_000, NEVER),
    ]
    with pytest.raises(SashError, match="port = 80 of table 'ports' changes at 1970-01-01T00:00:03"):
        session.update_table("ports", [{"port": 80, "name": "x"}], at=2_999_999)
    session.update_table("ports", [{"port": 80, "name": "x"}])  # without a time: after what was said of the row
    session.update_table("ports", [{"port": 25, "name": "smtp"}], at=2_000_000)  # another row
    assert versions(session, "ports")[1:] == [
        ((22, "ssh"), 3_000_000, NEVER),
        ((80, "x"), 3_000_000, NEVER),
        ((25, "smtp"), 2_000_000, NEVER),
    ]
    with pytest.raises(SashError, match="time zone"):
        session.update_table("ports", [{"port": 1, "name": "x"}], at=datetime(2024, 1, 1))
    with pytest.raises(SashError, match="event time"):
        session.update_table("ports", [{"port": 1, "name": "x"}], at=-(2**63))


# -- what plans have processed -------------------------------------------------------------------------


def made(session: sash.Session) -> Tables:
    return session.tables


@pytest.mark.parametrize(("table", "earliest"), [("ports", 9), ("customers", 10)])
def test_a_change_comes_after_what_was_processed(session: sash.Session, table: str, earliest: int) -> None:
    made(session).read({"ports": ["port"], "customers": ["id"]}, BEGINNING, 10)
    row: dict[str, Any] = {"port": 1, "name": "x"}
    if table == "customers":
        row = {"id": 1, "region": "x", "name": None, "since": date(2024, 1, 1)}
    with pytest.raises(SashError, match=f"the earliest possible time is 1970-01-01T00:00:00.{earliest:06d}"):
        session.update_table(table, [row], at=earliest - 1)
    session.update_table(table, [row])
    assert [begin for _, begin, _ in versions(session, table)] == [earliest]
    changed = made(session).read({table: ["name"]}, 10, 20)[table]
    assert changed.rows.schema.names == ["name"] and len(changed) == 1


def test_an_epoch_gets_what_it_needs(session: sash.Session) -> None:
    for at, name in ((5, "a"), (8, "b"), (12, "c")):
        session.update_table("ports", [{"port": 1, "name": name}], at=at)
    found = made(session).read({"ports": ["name"]}, 9, 13)["ports"]
    assert found.rows["name"].to_pylist() == ["b"]  # a tuple at 12 still finds b
    found = made(session).read({"ports": ["name"]}, 13, 20)["ports"]
    assert found.rows["name"].to_pylist() == ["c"]
    assert np.array_equal(found.number, [2])


# -- recovery ------------------------------------------------------------------------------------------


def test_tables_survive_a_restart(tmp_path: Path) -> None:
    with sash.connect(checkpoint=tmp_path) as session:
        session.script(f"{PORTS}; {CUSTOMERS}; CREATE TABLE gone (a INT PRIMARY KEY); INSERT INTO gone VALUES (1)")
        session.script("DROP TABLE gone; INSERT INTO ports VALUES (80, 'http'), (22, 'ssh')")
        session.update_table("ports", [{"port": 80, "name": "web"}], at=datetime(2024, 1, 1, tzinfo=UTC))
        session.update_table("ports", [{"port": 22}], at=datetime(2024, 1, 2, tzinfo=UTC), delete=True)
        session.sql("INSERT INTO customers VALUES (1, 'x', 'it''s', DATE '2024-02-29')")
        before = {name: versions(session, name) for name in ("ports", "customers")}
    with sash.connect(checkpoint=tmp_path) as session:
        assert {name: versions(session, name) for name in ("ports", "customers")} == before
        with pytest.raises(CheckpointError, match="another here than in the checkpoint"):
            session.sql("CREATE TABLE ports (port INT PRIMARY KEY, name STRING)")
        # A program may insert its first rows again.
        session.script(f"{PORTS}; INSERT INTO ports VALUES (80, 'http'), (22, 'ssh')")
        assert versions(session, "ports") == before["ports"]
        with pytest.raises(CqlError, match="has a row with port = 80 already"):
            session.sql("INSERT INTO ports VALUES (80, 'other')")
        with pytest.raises(SashError, match="is not used again"):
            session.update_table("ports", [{"port": 22, "name": "x"}])


def test_the_history_holds_changes_in_little_space(tmp_path: Path) -> None:
    history = CatalogHistory(tmp_path / "catalog")
    tables = Tables(Catalog(), history)
    tables.create(Table("t", pa.schema([("k", pa.int32()), ("v", pa.string())]), ("k",)))
    rows = pa.table({"k": pa.array(range(1000), pa.int32()), "v": [f"value {i}" for i in range(1000)]})
    tables.change("t", "upsert", rows, None, BEGINNING)
    assert (tmp_path / "catalog").stat().st_size < 40_000
    again = Tables(Catalog(), CatalogHistory(tmp_path / "catalog"))
    assert again.contents["t"].versions.rows.equals(rows)


# -- the model -----------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sampled_from(["upsert", "delete"]), st.integers(0, 2), st.integers(0, 3), st.integers(0, 12)),
    max_size=16,
)


@given(STEPS, st.booleans())
def test_versions_are_what_the_changes_leave_at_every_instant(
    steps: list[tuple[str, int, int, int]], retroactive: bool
) -> None:
    """Changes of each row in order of time; a refused one leaves everything as it was."""
    tables, history = Tables(Catalog(), CatalogHistory()), list[tuple[int, int, int | None]]()
    schema = pa.schema([("k", pa.int32()), ("v", pa.int32())])
    tables.create(Table("t", schema, ("k",), retroactive))
    live, last, gone = dict[int, int](), dict[int, int](), set[int]()
    for kind, key, value, at in steps:
        rows = pa.table(
            [[key], [value]][: 1 if kind == "delete" else 2], schema=pa.schema(list(schema)[: 1 + (kind == "upsert")])
        )
        missing = kind == "delete" and key not in live
        used_again = kind == "upsert" and not retroactive and key in gone
        unchanged = kind == "upsert" and live.get(key) == value
        if missing or used_again or (not unchanged and at < last.get(key, at)):
            with pytest.raises(SashError):
                tables.change("t", kind, rows, at, BEGINNING)
            continue
        tables.change("t", kind, rows, at, BEGINNING)
        if not unchanged:
            history.append((at, key, None if kind == "delete" else value))
            last[key] = at
        if kind == "delete":
            del live[key]
            gone.add(key)
        else:
            live[key] = value
    found = tables.contents["t"].versions
    for now in range(14):
        wanted = dict[int, int | None]()
        for at, key, changed in history:
            if at <= now:
                wanted[key] = changed
        there = (found.begin <= now) & (now < found.end)
        shown = {row["k"]: row["v"] for row in found.where(there).rows.to_pylist()}
        assert shown == {key: value for key, value in wanted.items() if value is not None}
