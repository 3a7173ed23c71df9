"""Statements as an attacker, or a program with a defect, would send them; and what must hold for every one of them.

sentences of the grammar, whose names, types and clauses may or may not fit
the same with words left out, doubled, exchanged or put in from elsewhere
words in any order; any text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from sash.catalog import Catalog, RegisteredQuery
from sash.core.errors import CqlError, SashError
from sash.engine.compiler import compile_any_question, compile_query, compile_select
from sash.engine.declare import declared_stream
from sash.language import (
    CreateStream,
    Delete,
    Explain,
    Insert,
    RegisterQuery,
    Select,
    SelectStatement,
    Statement,
    Update,
    bind_change,
    bind_continuous,
    bind_stored,
    has_slide,
    is_continuous,
    parse_script,
    stream_names,
)
from tests.language.examples import CATALOG

Texts = st.SearchStrategy[str]


def _words(text: str) -> list[str]:
    return text.split()


_COLUMNS = _words("""ts src dst protocol port length price ratio day ok tags `a` symbol exchange shares x weight approx
    id name city cost since p.src q.src packets.ts t.*""")
_CONSTANTS = _words("""1 0 -1 1.5 1e3 1e999 .5 10L 99999999999 123456789012345678901234567890123456789 NULL TRUE FALSE
    'x' '' "y" r'\\d' 'it''s' '\\u0041' '\\U0001F600' '\\ud800' '\\UFFFFFFFF' '${x}' X'1F' 0x1F 1_000 INTERVAL""")
_CONSTANTS += ["DATE '2026-01-01'", "TIMESTAMP '9999-12-31 23:59:59+14:00'", "DATE 'x'", "INTERVAL 5 MINUTES"]
_CONSTANTS += [f"INTERVAL '{'9' * 5_000}' DAYS", "TIMESTAMP '0001-01-01 00:00:00+14:00'", "1" * 60, "1e-400"]
_CONSTANTS += _words("1e 1e+ 1.e5 1. 1..2 2D 3F 4BD 5S 6Y 0b1 1e-999999999 ² ٣ '²' INTERVAL'--5'DAY INTERVAL'²'DAY")
_BINARY = _words("+ - * / % DIV = == <> < >= <=> AND OR LIKE RLIKE || & | ^ << >> IS")
_CALLS = _words("""abs upper substring concat coalesce if greatest round nullif date_trunc hash sum count avg min max
    median quantile top frequent histogram approx_quantile approx_count_distinct approx_top now rand reflect lag
    count_distinct stddev java_method from_avro explode struct array""")
_TYPES = _words("""INT BIGINT STRING DOUBLE DECIMAL(10,2) DECIMAL(99,1) DATE TIMESTAMP BINARY ARRAY<INT>
    MAP<STRING,INT> STRUCT<a:INT> FOO VARCHAR(3) TIMESTAMP_NTZ ARRAY<ARRAY<INT>>""")
_SOURCES = _words("""packets trades odd customers ports routes nosuch parquet.`/etc/passwd` spark_catalog.default.t
    json.`x` `packets`""")
_DURATIONS = ["10 min", "2 min", "1 sec", "0 sec", "-1 sec", "1.5 sec", "1e9 sec", "9" * 20 + " days", "5", "1 parsec"]
_WINDOWS = ["", "[NOW]", "[UNBOUNDED]", "[ROWS 5]", "[ROWS 5 SLIDE 5]", "[ROWS 0]", "[PARTITION BY src ROWS 3 SLIDE 1]"]
_WORDS = _words("""SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT WITH BOUNDS UNION ALL EXCEPT INTERSECT APPROX GROUPS ON
    AS JOIN LEFT OUTER CROSS USING IN NOT EXISTS BETWEEN CASE WHEN THEN ELSE END CAST DISTINCT OVER PARTITION ROWS
    RANGE SLIDE EXACTLY LAG INTERNAL NOW UNBOUNDED WINDOW CREATE STREAM TABLE INDEX NONRETROACTIVE PRIMARY KEY REGISTER
    QUERY LIFETIME PRIORITY SYNOPSIS SHOW QUERIES DESCRIBE DROP INSERT INTO VALUES UPDATE SET DELETE EXECUTION EXPLAIN
    TIMESTAMP DELAY GRANULE OFFSET CLOSED LATE REVISE IDLE AFTER KEEP OPTIONS Istream Dstream Rstream Wstream restore
    LATERAL VIEW TABLESAMPLE PIVOT UNPIVOT QUALIFY CLUSTER SORT DISTRIBUTE FILTER WITHIN IGNORE RESPECT NULLS FIRST
    ROLLUP CUBE GROUPING SETS NATURAL SEMI ANTI FULL MAX JUMP ANY SOME ESCAPE INTERVAL ARRAY STRUCT
    ( ) [ ] { } , ; . * + - / % = < > ! ~ & | ^ : :: -> => ? @ # $ \\ ' " ` /* */ -- /*+""")


def _of(items: list[str]) -> Texts:
    return st.sampled_from(items)


def _joined(*parts: Texts | str) -> Texts:
    made = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*made).map(" ".join)


def _some(item: Texts, most: int = 3, between: str = ", ") -> Texts:
    return st.lists(item, min_size=1, max_size=most).map(between.join)


def _maybe(*parts: Texts | str) -> Texts:
    return st.just("") | _joined(*parts)


def _longer(inner: Texts) -> Texts:
    return st.one_of(
        _joined("(", inner, ")"),
        _joined(inner, _of(_BINARY), inner),
        _joined(_of(["NOT", "-", "~", "+"]), inner),
        st.tuples(_of(_CALLS), _some(inner)).map(lambda call: f"{call[0]}({call[1]})"),
        st.tuples(_of(_CALLS), inner).map(lambda call: f"{call[0]}(DISTINCT {call[1]})"),
        _joined(inner, _of(["", "NOT"]), "IN (", _some(inner), ")"),
        _joined(inner, "BETWEEN", inner, "AND", inner),
        _joined(
            inner, _of(["IS NULL", "IS NOT NULL", "IS TRUE", "[0]", ".a", "::INT", "OVER ()", "FILTER (WHERE ok)"])
        ),
        _joined("CASE WHEN", inner, "THEN", inner, _maybe("ELSE", inner), "END"),
        _joined(_of(["CAST(", "TRY_CAST("]), inner, "AS", _of(_TYPES), ")"),
        _joined("EXTRACT(", _of(["YEAR", "HOUR", "FOO"]), "FROM", inner, ")"),
        _joined(_of(["EXISTS (", "(", "src IN (", "src NOT IN ("]), "SELECT", inner, "FROM packets [RANGE 1 min] )"),
    )


EXPRESSIONS = st.recursive(_of(_COLUMNS) | _of(_CONSTANTS) | st.just("*"), _longer, max_leaves=5)
_WINDOW = st.one_of(
    _of(_WINDOWS),
    _joined(
        "[", _of(["WINDOW", "RANGE"]), _of(_DURATIONS), _maybe("SLIDE", _of(["", "EXACTLY"]), _of(_DURATIONS)), "]"
    ),
    st.just("[WINDOW 10 min SLIDE 2 min]"),
    st.just("[RANGE 1 min]"),
)
_SOURCE = _joined(_of(_SOURCES) | st.just("packets"), _WINDOW, _of(["", "p", "AS q"]))
_JOIN = _joined(
    _of([",", "JOIN", "LEFT JOIN", "CROSS JOIN", "NATURAL JOIN"]),
    _SOURCE,
    _maybe("ON", EXPRESSIONS) | st.just("USING (src)"),
)


def _select(source: Texts) -> Texts:
    return _joined(
        "SELECT", _of(["", "DISTINCT", "/*+ BROADCAST(p) */"]), _some(_joined(EXPRESSIONS, _of(["", "AS c", "`d e`"]))),
        "FROM", source, _maybe(_JOIN), _maybe("WHERE", EXPRESSIONS), _maybe("GROUP BY", _some(EXPRESSIONS, 2)),
        _maybe("HAVING", _of(["", "APPROX"]), EXPRESSIONS), _maybe("ORDER BY", EXPRESSIONS, _of(["", "DESC"])),
        _maybe("LIMIT", _of(["5", "0", "-1", "src", "9" * 30])), _of(["", "", "WITH BOUNDS", "TABLESAMPLE (5 ROWS)"]),
    )  # fmt: skip


_PLAIN = _select(_SOURCE)
_NESTED = _select(_joined("(", _PLAIN, ")", _WINDOW, _of(["", "s"])))
_OPERATIONS = _of(["UNION ALL", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL ON (src)", "APPROX INTERSECT GROUPS 5"])
SELECTS = st.one_of(
    _PLAIN,
    _PLAIN,
    _NESTED,
    _joined(_PLAIN, _OPERATIONS, _PLAIN),
    _joined(_of(["Istream(", "Dstream(", "Rstream-restore(", "Wstream("]), _PLAIN, ")", _of(["", "[ROWS 3]"])),
)
_COLUMN = _joined(_of(_COLUMNS), _of(_TYPES), _of(["", "PRIMARY KEY"]))
_CLAUSES = ["DELAY", "GRANULE", "OFFSET", "KEEP", "MAX JUMP"]
STATEMENTS = st.one_of(
    SELECTS,
    _joined("EXPLAIN", SELECTS),
    _joined("REGISTER QUERY q AS", SELECTS, _maybe("PRIORITY", _of(["5", "-1", "x", "9" * 900])),
            _of(["", "LIFETIME 1 day", "SYNOPSIS RUNNING", "SYNOPSIS ''"])),
    _joined("CREATE STREAM s (ts TIMESTAMP,", _some(_COLUMN), ") FROM csv OPTIONS (path 'x') TIMESTAMP ts",
            _maybe(_of(_CLAUSES), _of(_DURATIONS)), _of(["", "CLOSED LEFT", "LATE REVISE", "IDLE AFTER 1 min"])),
    _joined(_of(["CREATE TABLE t (", "CREATE NONRETROACTIVE TABLE t ("]), _some(_COLUMN), ")"),
    _joined("INSERT INTO", _of(["customers", "routes", "packets"]), "VALUES (", _some(EXPRESSIONS, 4), ")"),
    _joined("UPDATE customers SET name =", EXPRESSIONS, "WHERE id =", EXPRESSIONS),
    _joined("DELETE FROM routes WHERE src =", EXPRESSIONS, "AND dst = 1"),
    _joined(_of(["SHOW", "DROP", "DESCRIBE", "SET", "CREATE INDEX ON packets"]), _some(_of(_WORDS), 3, " ")),
)  # fmt: skip


@st.composite
def _mutated(draw: Callable[[Texts | st.SearchStrategy[Any]], Any]) -> str:
    """A sentence that someone has stumbled over."""
    words = re.findall(r"\w+|\s+|.", draw(STATEMENTS), re.DOTALL)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(words)))
        match draw(st.integers(0, 4)):
            case 0:
                del words[place : place + draw(st.integers(1, 3))]
            case 1:
                words[place:place] = words[place : place + 4]
            case 2:
                words.insert(place, f" {draw(_of(_WORDS))} ")
            case 3:
                words.insert(place, draw(st.text(max_size=3)))
            case _:
                other = draw(st.integers(0, len(words)))
                words[place : place + 1], words[other : other + 1] = words[other : other + 1], words[place : place + 1]
    return "".join(words)


TEXTS: Texts = st.one_of(
    STATEMENTS,
    _mutated(),
    _mutated(),
    _some(_of(_WORDS) | _of(_COLUMNS) | _of(_CONSTANTS), 20, " "),
    st.text(max_size=40),
    st.binary(max_size=40).map(lambda octets: octets.decode("latin-1")),
    st.text(st.characters(categories=["Cs", "Cc", "Nd", "No", "Po"]), max_size=20),
)


def survives(text: str, catalog: Catalog = CATALOG) -> None:
    """Whatever is parsed and bound in every way that there is: nothing but a SashError comes of it."""
    try:
        statements = parse_script(text)
    except SashError as error:
        _check_place(error)
        return
    for action in (action for statement in statements for action in _actions(statement, catalog)):
        try:
            action()
        except SashError as error:
            _check_place(error)


def _check_place(error: SashError) -> None:
    """It can be shown, on any terminal."""
    assert str(error).encode()
    if isinstance(error, CqlError) and error.span is not None:
        assert 0 <= error.span.start <= len(error.text) + 1 and error.line is not None


def _actions(statement: Statement, catalog: Catalog) -> Iterator[Callable[[], object]]:
    if isinstance(statement, SelectStatement | RegisterQuery | Explain):
        yield from _bindings(statement.select, catalog)
    if isinstance(statement, RegisterQuery):
        query = RegisteredQuery(statement.name, statement.text, "", synopsis=statement.synopsis)
        yield lambda: compile_query(query, catalog)
        yield lambda: compile_select(statement.select, catalog, statement.name, synopsis=statement.synopsis)
    if isinstance(statement, Insert | Update | Delete):
        yield lambda: bind_change(statement, catalog)
    if isinstance(statement, CreateStream) and statement.schema is not None:
        schema = statement.schema
        yield lambda: declared_stream(statement, schema)


def _bindings(select: Select, catalog: Catalog) -> Iterator[Callable[[], object]]:
    yield lambda: (is_continuous(select), has_slide(select), stream_names(select))
    yield lambda: compile_select(select, catalog)
    yield lambda: bind_continuous(select, catalog)
    yield lambda: bind_stored(select, catalog)
    yield lambda: compile_any_question(select, catalog)
