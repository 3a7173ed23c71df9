"""WITH: names for queries are sub-queries where the names stand."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.errors import CqlError, NotSupportedError
from sash.sql import SelectStatement, bind_stored, parse
from sash.sql.reading.dialect import parse_query, tokenize
from tests.sql.examples import CATALOG, check_error, continuous_plan, expand, plan
from tests.support.examples import examples

A = "SELECT src, COUNT(*) AS n FROM packets W GROUP BY src"
B = "SELECT src, SUM(length) AS m FROM packets W WHERE length > 5 GROUP BY src"

# WITH, and the same with sub-queries.
PANES = [
    (f"WITH a AS ({A}) SELECT n FROM a", f"SELECT n FROM ({A}) a"),
    (f"with A as ({A}) select N from a", f"SELECT N FROM ({A}) a"),
    (f"WITH a AS ({A}) SELECT x.n FROM a AS x WHERE x.n > 1", f"SELECT x.n FROM ({A}) x WHERE x.n > 1"),
    (
        f"WITH a AS ({A}), b AS ({B}) SELECT * FROM a JOIN b USING (src) ORDER BY n LIMIT 3",
        f"SELECT * FROM ({A}) a JOIN ({B}) b USING (src) ORDER BY n LIMIT 3",
    ),
    (
        f"WITH a AS ({A}) SELECT x.src, y.n FROM a x LEFT JOIN a y ON x.src = y.src",
        f"SELECT x.src, y.n FROM ({A}) x LEFT JOIN ({A}) y ON x.src = y.src",
    ),
    (
        f"WITH a(k, often) AS ({A}) SELECT k, often + 1 AS more FROM a",
        "SELECT k, often + 1 AS more FROM (SELECT src AS k, COUNT(*) AS often FROM packets W GROUP BY src) a",
    ),
    ("WITH a AS (SELECT 1 FROM nowhere) SELECT COUNT(*) AS n FROM packets W", "SELECT COUNT(*) AS n FROM packets W"),
    (f"WITH packets AS ({A}) SELECT n FROM packets", f"SELECT n FROM ({A}) packets"),
    (f"WITH a AS (WITH b AS ({A}) {B}) SELECT m FROM a", f"SELECT m FROM ({B}) a"),
]
CHANGES = [
    (
        "WITH a AS (SELECT src FROM packets [RANGE 5 sec] WHERE length > 9) SELECT DISTINCT src FROM a",
        "SELECT DISTINCT src FROM (SELECT src FROM packets [RANGE 5 sec] WHERE length > 9) a",
    ),
    (
        (
            "WITH a AS (SELECT src FROM packets [RANGE 5 sec]), b AS (SELECT src FROM a WHERE src > 1) "
            "SELECT p.dst FROM packets [RANGE 9 sec] p WHERE p.src IN (SELECT src FROM b)"
        ),
        (
            "SELECT p.dst FROM packets [RANGE 9 sec] p WHERE p.src IN (SELECT src FROM (SELECT src FROM "
            "(SELECT src FROM packets [RANGE 5 sec]) a WHERE src > 1) b)"
        ),
    ),
    (
        "WITH a AS (SELECT src FROM packets [RANGE 5 sec]) SELECT src FROM a UNION ALL SELECT src FROM a",
        (
            "SELECT src FROM (SELECT src FROM packets [RANGE 5 sec]) a "
            "UNION ALL SELECT src FROM (SELECT src FROM packets [RANGE 5 sec]) a"
        ),
    ),
    (
        "WITH a AS (SELECT SUM(length) AS n FROM packets [RANGE 1 min INTERNAL]) SELECT AVG(n) AS n FROM a [ROWS 10]",
        "SELECT AVG(n) AS n FROM (SELECT SUM(length) AS n FROM packets [RANGE 1 min INTERNAL]) [ROWS 10] a",
    ),
    (
        "Istream(WITH a(s) AS (SELECT src FROM packets [RANGE 5 sec]) SELECT s FROM a)",
        "Istream(SELECT s FROM (SELECT src AS s FROM packets [RANGE 5 sec]) a)",
    ),
    (
        "WITH a(s) AS (SELECT Istream(src) FROM packets [RANGE 5 sec]) SELECT s FROM a [ROWS 3]",
        "SELECT s FROM (SELECT Istream(src AS s) FROM packets [RANGE 5 sec]) [ROWS 3] a",
    ),
]


@pytest.mark.parametrize(("text", "written"), PANES)
def test_panes_answer_what_they_answer_of_sub_queries(text: str, written: str) -> None:
    assert plan(text) == plan(written)


@pytest.mark.parametrize(("text", "written"), CHANGES)
def test_continuous_queries(text: str, written: str) -> None:
    assert continuous_plan(text) == continuous_plan(written)


def test_questions_over_stored_rows() -> None:
    """Spark gets sub-queries."""
    bound = []
    for text in (
        "WITH a AS (SELECT src, length FROM packets [RANGE 1 min]) SELECT a.src, b.length FROM a, a b",
        (
            "SELECT a.src, b.length FROM (SELECT src, length FROM packets [RANGE 1 min]) a, "
            "(SELECT src, length FROM packets [RANGE 1 min]) b"
        ),
    ):
        statement = parse(text)
        assert isinstance(statement, SelectStatement)
        bound.append(bind_stored(statement.select, CATALOG))
    assert bound[0].sql == bound[1].sql
    assert [each.window for each in bound[0].windows.values()] == [each.window for each in bound[1].windows.values()]


ERRORS = [
    ("WITH «RECURSIVE» a AS (SELECT src FROM a) SELECT src FROM a", "write its steps as queries of their own"),
    (f"WITH a AS ({A}), «a» AS ({A}) SELECT n FROM a", "'a' stands twice in WITH"),
    (f"WITH «a»(x, y, z) AS ({A}) SELECT x FROM a", "has 3 names for columns, and its SELECT list 2"),
    (f"WITH a(«x», y) AS (SELECT * FROM ({A})) SELECT x FROM a", "a SELECT list that names them, without *"),
    (
        f"WITH a AS ({A}) SELECT COUNT(*) FROM «TUMBLE»(a, ts, INTERVAL '5' SECOND) GROUP BY window_end",
        "call",
    ),
    (f"WITH a AS ({A}) SELECT «m» FROM a", "unknown column 'm'"),
    ("WITH a AS (SELECT «nothing», COUNT(*) AS n FROM packets W GROUP BY src) SELECT n FROM a", "unknown column"),
    (f"WITH a AS ({A}) SELECT n FROM a, «a»", "'a' stands twice in FROM"),
    (f"WITH a AS ({A}) SELECT n FROM «b»", "unknown stream 'b'"),
    ("WITH a AS (SELECT src FROM «a») SELECT src FROM a", "unknown stream 'a'"),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_error(text, reason)


def test_recursion_is_not_supported_yet() -> None:
    with pytest.raises(NotSupportedError):
        parse("WITH RECURSIVE a AS (SELECT src FROM a) SELECT src FROM a")


def test_names_that_double_are_refused_before_they_are_copied() -> None:
    steps = [f"t{i + 1} AS (SELECT a.src FROM t{i} a, t{i} b)" for i in range(10)]
    text = f"WITH t0 AS (SELECT src FROM packets [RANGE 1 min]), {', '.join(steps)} SELECT src FROM t10"
    with pytest.raises(CqlError, match="reads 128 windows and tables, and a query reads at most 64"):
        parse(text)


def test_names_that_stand_in_each_other_too_deeply() -> None:
    steps = [f"t{i + 1} AS (SELECT src FROM t{i})" for i in range(50)]
    text = f"WITH t0 AS (SELECT src FROM packets [RANGE 1 min]), {', '.join(steps)} SELECT src FROM t100"
    with pytest.raises(CqlError, match="nested too deeply: at most 32 levels are read"):
        parse(text)


def test_a_name_does_not_hide_a_path() -> None:
    """A name with a dot is none of WITH, so it is refused as ever."""
    check_error("WITH text AS (SELECT 1 FROM packets W) SELECT n FROM «text.`/etc/passwd`»", "one name, without a dot")


def test_the_text_of_a_query_is_what_was_written() -> None:
    """EXPLAIN shows the CQL of windows that were left out, once for each that was written."""
    text = f"WITH a AS ({expand(A)}) SELECT x.n FROM a x, a y"
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    assert statement.select.text == statement.select.cql == text


# -- DuckDB as the oracle ------------------------------------------------------------------------------

_names = st.sampled_from(["s", "t", "u"])


@st.composite
def _queries(draw: st.DrawFn, depth: int = 2) -> str:
    """A SELECT of one number x over `s`, a table, and over names that may be those of WITH, anywhere."""
    sources = [draw(_names) if depth == 0 or draw(st.booleans()) else f"({draw(_queries(depth - 1))})"]
    if draw(st.booleans()):
        sources.append(draw(_names))
    named = ", ".join(f"{source} AS a{i}" for i, source in enumerate(sources))
    where = draw(st.sampled_from(["", " WHERE a0.x > 1"]))
    text = f"SELECT a0.x + {draw(st.integers(0, 3))} AS x FROM {named}{where}"
    if depth and draw(st.booleans()):
        text += f" UNION SELECT x FROM {draw(_names)}"
    if depth == 0 or draw(st.booleans()):
        return text
    defined = [
        f"{name}{draw(st.sampled_from(['', '(x)']))} AS ({draw(_queries(depth - 1))})"
        for name in draw(st.lists(_names, min_size=1, max_size=2, unique=True))
    ]
    return f"WITH {', '.join(defined)} {text}"


@settings(max_examples=examples(150), deadline=None)
@given(text=_queries())
def test_names_mean_what_they_mean_to_duckdb(text: str) -> None:
    """A name means the innermost definition before it. DuckDB runs the text as it is, and with sub-queries."""
    database = duckdb.connect()
    for name, values in (("s", [1, 2]), ("t", [3]), ("u", [5, 8])):
        database.register(name, pa.table({"x": values}))
    inlined = parse_query(tokenize(text), text).sql("duckdb")
    assert "WITH" not in inlined
    assert sorted(database.sql(inlined).fetchall()) == sorted(database.sql(text).fetchall())
