"""One catalog for all tests of the language, and short ways to parse and bind."""

from __future__ import annotations

from sash.catalog import Catalog, Stream
from sash.language import CreateStream, Explain, RegisterQuery, SelectStatement, bind, parse
from sash.plan.nodes import Project, chain

PACKETS = """CREATE STREAM packets (ts TIMESTAMP, src INT, dst INT, protocol STRING, port INT, length INT,
    price DECIMAL(10,2), ratio DOUBLE, day DATE, ok BOOLEAN, tags ARRAY<STRING>, `a b` INT)
    FROM parquet OPTIONS (path 'data/packets') TIMESTAMP ts"""
WINDOW = "[WINDOW 10 min SLIDE 2 min]"


def catalog() -> Catalog:
    statement = parse(PACKETS)
    assert isinstance(statement, CreateStream) and statement.schema is not None
    known = Catalog()
    known.add_stream(Stream(statement.name, statement.schema, statement.timestamp))
    return known


CATALOG = catalog()


def plan(text: str, *, periodic: bool = True) -> Project:
    """Binds a SELECT; `packets W` stands for packets with an ordinary window."""
    statement = parse(expand(text))
    assert isinstance(statement, SelectStatement | RegisterQuery | Explain)
    return bind(statement.select, CATALOG, periodic=periodic)


def expand(text: str) -> str:
    return text.replace("packets W", f"packets {WINDOW}")


def described(text: str, *, periodic: bool = True) -> list[str]:
    return [node.describe() for node in chain(plan(text, periodic=periodic))][:-2]


def marked(text: str) -> tuple[str, int, int]:
    """A statement with its wrong word between « and »: the statement, and where the word starts and ends."""
    start, end = text.index("«"), text.index("»") - 1
    return text.replace("«", "").replace("»", ""), start, end
