"""One catalog for all tests of the language, and short ways to parse and bind."""

from __future__ import annotations

from typing import TypeVar

import pytest

from sash.catalog import Catalog, Stream, Table
from sash.core.errors import CqlError
from sash.plan import continuous
from sash.plan.nodes import Project, tree
from sash.sql import (
    CreateStream,
    CreateTable,
    Explain,
    RegisterQuery,
    SelectStatement,
    bind,
    parse,
    plan_changes,
    plan_panes,
)
from tests.support.plans import explain

PACKETS = """CREATE STREAM packets (ts TIMESTAMP, src INT, dst INT, protocol STRING, port INT, length INT,
    price DECIMAL(10,2), ratio DOUBLE, day DATE, ok BOOLEAN, tags ARRAY<STRING>, `a b` INT)
    FROM parquet OPTIONS (path 'data/packets') TIMESTAMP ts"""
TRADES = """CREATE STREAM trades (ts TIMESTAMP, symbol STRING, exchange STRING, price DOUBLE, shares INT,
    toward_ask BOOLEAN) FROM parquet OPTIONS (path 'data/trades') TIMESTAMP ts"""
ODD = """CREATE STREAM odd (ts TIMESTAMP, x INT, `count` INT, weight INT, `lower` INT, approx BOOLEAN)
    FROM parquet OPTIONS (path 'data/odd') TIMESTAMP ts"""
LOGS = """CREATE STREAM logs (ts TIMESTAMP, http STRUCT<status: INT, size: INT>, host STRING)
    FROM parquet OPTIONS (path 'data/logs') TIMESTAMP ts"""
TABLES = (
    "CREATE TABLE customers (id INT PRIMARY KEY, name STRING, city STRING)",
    "CREATE NONRETROACTIVE TABLE ports (port INT, name STRING, PRIMARY KEY (port))",
    "CREATE NONRETROACTIVE TABLE routes (src INT, dst INT, cost DECIMAL(5, 2), since DATE, PRIMARY KEY (src, dst))",
)
WINDOW = "[WINDOW 10 min SLIDE 2 min]"
MIN = 60_000_000
T = TypeVar("T")


def catalog() -> Catalog:
    known = Catalog()
    for text in (PACKETS, TRADES, ODD, LOGS):
        statement = parse(text)
        assert isinstance(statement, CreateStream) and statement.schema is not None
        known.add_stream(Stream(statement.name, statement.schema, statement.timestamp))
    for text in TABLES:
        table = parse(text)
        assert isinstance(table, CreateTable)
        known.add_table(Table(table.name, table.schema, table.key, table.retroactive))
    return known


CATALOG = catalog()


def plan(text: str, *, periodic: bool = True) -> Project:
    """Binds a SELECT; `packets W` stands for packets with an ordinary window."""
    statement = parse(expand(text))
    assert isinstance(statement, SelectStatement | RegisterQuery | Explain)
    return plan_panes(bind(statement.select, CATALOG), periodic=periodic)


def expand(text: str) -> str:
    return text.replace("packets W", f"packets {WINDOW}")


def find(text: str, kind: type[T], *, periodic: bool = True) -> T:
    """The one node of a kind in a SELECT's plan."""
    (node,) = (node for _, node in tree(plan(text, periodic=periodic)) if isinstance(node, kind))
    return node


def described(text: str, *, periodic: bool = True) -> list[str]:
    """The plan's nodes from the answer down, without windows and streams."""
    nodes = [node.describe() for _, node in tree(plan(text, periodic=periodic))]
    return [text for text in nodes if not text.startswith(("StreamWindow", "StreamScan"))]


def marked(text: str) -> tuple[str, int, int]:
    """A statement with its wrong word between « and »: the statement, and where the word starts and ends."""
    start, end = text.index("«"), text.index("»") - 1
    return text.replace("«", "").replace("»", ""), start, end


def raised(statement: str, *, periodic: bool = True) -> CqlError:
    with pytest.raises(CqlError) as caught:
        plan(statement, periodic=periodic)
    return caught.value


def check_error(text: str, reason: str, *, periodic: bool = True) -> CqlError:
    """The statement's error gives the reason, at the word between « and »."""
    statement, start, end = marked(expand(text))
    error = raised(statement, periodic=periodic)
    assert reason in error.reason and error.span is not None
    assert (error.span.start, error.span.end) == (start, end)
    return error


def continuous_plan(text: str, known: Catalog = CATALOG) -> continuous.Node:
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    return plan_changes(bind(statement.select, known))


def explained(text: str) -> list[str]:
    """The plan of a continuous query as EXPLAIN prints it."""
    return list(explain(continuous_plan(text)))


def check_continuous_error(text: str, reason: str, known: Catalog = CATALOG) -> CqlError:
    statement, start, end = marked(text)
    with pytest.raises(CqlError) as caught:
        continuous_plan(statement, known)
    error = caught.value
    assert reason in error.reason and error.span is not None
    assert (error.span.start, error.span.end) == (start, end)
    return error
