"""Text cannot reach files, catalogs or the session: only declared streams and tables, and listed functions.

Every attempt is made as a periodic query, as a continuous one, and as a question that Spark answers from stored rows;
and is refused by all of them at its word, which stands between « and ».
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from sash.core.errors import CqlError
from sash.sql import (
    RegisterQuery,
    Select,
    SelectStatement,
    bind,
    bind_change,
    bind_stored,
    parse,
    plan_changes,
    plan_panes,
)
from sash.sql.binding import stored as stored_questions
from sash.sql.expressions.aggregates import ITEM_FUNCTIONS, NAMES
from sash.sql.expressions.calls import FUNCTION_NAMES
from sash.sql.expressions.functions import FUNCTIONS, REFUSED, absence
from tests.sql.examples import CATALOG, marked

_SLIDES, _STAYS = "[WINDOW 10 min SLIDE 2 min]", "[WINDOW 10 min]"
BINDERS: dict[str, tuple[str, Callable[[Select], object]]] = {
    "periodic": (_SLIDES, lambda select: plan_panes(bind(select, CATALOG), periodic=True)),
    "one-time": (_STAYS, lambda select: plan_panes(bind(select, CATALOG), periodic=False)),
    "continuous": (_STAYS, lambda select: plan_changes(bind(select, CATALOG))),
    "continuous that slides": (_SLIDES, lambda select: plan_changes(bind(select, CATALOG))),
    "stored": (_STAYS, lambda select: bind_stored(select, CATALOG)),
}

SOURCES = [
    "SELECT COUNT(*) AS n FROM «parquet.`/etc/passwd`» W",
    "SELECT COUNT(*) AS n FROM «csv.`file:///etc/passwd`» W",
    "SELECT COUNT(*) AS n FROM «`/etc/passwd`» W",
    "SELECT COUNT(*) AS n FROM «delta.`s3://bucket/key`» W",
    "SELECT COUNT(*) AS n FROM «spark_catalog.default.secrets» W",
    "SELECT COUNT(*) AS n FROM «default.packets» W",
    "SELECT COUNT(*) AS n FROM «global_temp.packets» W",
    "SELECT COUNT(*) AS n FROM «information_schema.tables» W",
    "SELECT COUNT(*) AS n FROM «nosuch» W",
    "SELECT COUNT(*) AS n FROM «_window_0» W",
    "SELECT COUNT(*) AS n FROM «`${spark.sql.warehouse.dir}`» W",
    "SELECT COUNT(*) AS n FROM «${x}» W",
    "SELECT COUNT(*) AS n FROM «read_files('/etc/passwd')»",
    "SELECT COUNT(*) AS n FROM «range(10)»",
    "SELECT COUNT(*) AS n FROM «IDENTIFIER('parquet.`/etc/passwd`')»",
    "SELECT COUNT(*) AS n FROM «VALUES (1), (2)»",
    "SELECT COUNT(*) AS n FROM «:name» W",
    "SELECT COUNT(*) AS n FROM «@name» W",
    "SELECT COUNT(*) AS n FROM packets W «TABLESAMPLE (10 ROWS)»",
    "SELECT COUNT(*) AS n FROM packets «TABLESAMPLE (10 PERCENT) W»",
    "SELECT COUNT(*) AS n FROM packets «VERSION AS OF 1» W",
    "SELECT COUNT(*) AS n FROM packets «TIMESTAMP AS OF '2020-01-01'» W",
    "SELECT COUNT(*) AS n FROM packets W «LATERAL VIEW explode(tags) t AS tag»",
    "SELECT COUNT(*) AS n FROM packets W, «LATERAL (SELECT 1)»",
    "SELECT COUNT(*) AS n FROM packets W «PIVOT (SUM(length) FOR port IN (80))»",
    "SELECT COUNT(*) AS n FROM (SELECT * FROM «parquet.`/etc/passwd`» W) s",
    "SELECT COUNT(*) AS n FROM packets W p JOIN «parquet.`/etc/passwd`» W q ON p.src = q.src",
    "SELECT COUNT(*) AS n FROM packets W WHERE src IN (SELECT src FROM «parquet.`/etc/passwd`» W)",
    "SELECT COUNT(*) AS n FROM packets W WHERE EXISTS (SELECT 1 FROM «text.`/etc/passwd`» W)",
    "SELECT (SELECT MAX(value) FROM «text.`/etc/passwd`») AS n FROM packets W",
    "SELECT COUNT(*) AS n FROM packets W GROUP BY (SELECT value FROM «text.`/etc/passwd`»)",
    "SELECT COUNT(*) AS n FROM packets W HAVING COUNT(*) > (SELECT 1 FROM «text.`/etc/passwd`»)",
    "SELECT COUNT(*) AS n FROM packets W «ORDER BY (SELECT 1 FROM text.`/etc/passwd`)»",
    "SELECT src FROM packets W «UNION ALL SELECT value FROM text.`/etc/passwd`» W",
    "«FROM text.`/etc/passwd` SELECT value»",
    "«TABLE secrets»",
    "«WITH t AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM t»",
]
EXPRESSIONS = [
    "«input_file_name»()",
    "«INPUT_FILE_BLOCK_START»()",
    "«java_method»('java.lang.System', 'exit', 1)",
    "«reflect»('java.lang.Runtime', 'getRuntime')",
    "«`reflect`»('java.lang.System', 'getenv', 'HOME')",
    "«try_reflect»('java.lang.System', 'getenv', 'HOME')",
    "«system.builtin.reflect('java.lang.System', 'getenv', 'HOME')»",
    "«spark_catalog.default.f(src)»",
    "«from_avro»(protocol, '{}')",
    "«from_protobuf»(protocol, 'M', '/etc/passwd')",
    "«from_json»(protocol, 'a INT')",
    "«xpath_string»(protocol, '/a')",
    "«current_user»()",
    "«current_catalog»()",
    "«current_database»()",
    "«version»()",
    "«session_user»",
    "«current_user»",
    "«rand»()",
    "«uuid»()",
    "«now»()",
    "«current_timestamp»",
    "«raise_error»('x')",
    "«assert_true»(ok)",
    "«secret»('scope', 'key')",
    "«explode»(tags)",
    "«stack»(2, src, dst)",
    "«transform(tags, t -> reflect('a', 'b'))»",
    "«aggregate»(tags, 0, (a, b) -> a)",
    "«udf»(src)",
    "«session.x»",
    "«system.session.x»",
    "«@x»",
    "«:x»",
    "«?»",
    "«${spark.master}»",
    "«`${spark.master}`»",
    "«IDENTIFIER('src')»",
    "«packets.default.src»",
    "«tags[0]»",
    "«_metadata.file_path»",
    "«_metadata»",
]


# What Spark lists as functions, and the language has as syntax or as windows.
SYNTAX = {"and", "between", "case", "cast", "div", "extract", "in", "not", "or", "when"}
WINDOWS = {"window", "window_time", "session_window"}


def attempt(text: str, name: str) -> CqlError:
    with pytest.raises(CqlError) as caught:
        bound(text, name)
    return caught.value


def bound(text: str, name: str) -> object:
    """`W` stands for a window."""
    window, binder = BINDERS[name]
    statement = parse(re.sub(r"\bW\b", window, text))
    assert isinstance(statement, SelectStatement | RegisterQuery)
    return binder(statement.select)


@pytest.mark.parametrize("name", BINDERS)
@pytest.mark.parametrize("text", SOURCES)
def test_nothing_but_declared_streams_and_tables_is_read(text: str, name: str) -> None:
    _check_word(text, name)


@pytest.mark.parametrize("name", BINDERS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize(
    "template",
    [
        "SELECT SUM(length) AS n FROM packets W WHERE {} = 1",
        "SELECT COUNT(*) AS n FROM packets W GROUP BY {}",
        "SELECT {}, COUNT(*) AS n FROM packets W GROUP BY src",
        "SELECT SUM({}) AS n FROM packets W",
        "SELECT COUNT(*) AS n FROM packets W HAVING MAX({}) = 1",
        "SELECT src, COUNT(*) AS n FROM packets W GROUP BY src «ORDER BY {}»",
    ],
)
def test_no_expression_reaches_out(template: str, expression: str, name: str) -> None:
    """A clause that stands between the signs itself may be refused as a whole: a change stream has no order."""
    plain = expression.replace("«", "").replace("»", "")
    _check_word(template.format(plain if "«" in template else expression), name)


def _check_word(text: str, name: str) -> None:
    statement, start, end = marked(re.sub(r"\bW\b", BINDERS[name][0], text))
    error = attempt(statement, name)
    assert error.span is not None
    assert error.span.start < end and start < error.span.end, f"{error} is not about {statement[start:end]}"


@pytest.mark.parametrize("name", BINDERS)
def test_a_string_stays_a_string(name: str) -> None:
    """Spark replaces ${..} in its text, also in strings."""
    plan = bound("SELECT COUNT(*) AS n FROM packets W WHERE protocol = '${spark.master} it\\'s'", name)
    written = plan.sql if isinstance(plan, stored_questions.StoredQuestion) else str(plan)
    assert "\\u0024{spark.master}" in written and "${" not in written


def test_a_string_stays_a_string_where_order_by_is_left_out() -> None:
    plan = bound("SELECT src FROM packets W WHERE protocol = '${spark.master} it\\'s' ORDER BY src", "stored")
    assert isinstance(plan, stored_questions.StoredQuestion) and plan.sorting is not None
    assert "\\u0024{spark.master}" in plan.sorting.sql and "${" not in plan.sorting.sql


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO customers VALUES (1, «reflect('java.lang.System', 'getenv', 'HOME')», 'x')",
        "INSERT INTO customers VALUES (1, «(SELECT value FROM text.`/etc/passwd`)», 'x')",
        "INSERT INTO «parquet.`/tmp/x`» VALUES (1)",
        "INSERT INTO customers «SELECT * FROM text.`/etc/passwd`»",
        "UPDATE customers SET name = «input_file_name()» WHERE id = 1",
        "DELETE FROM «parquet.`/tmp/x`» WHERE id = 1",
        "«LOAD DATA INPATH '/etc/passwd' INTO TABLE customers»",
        "«COPY INTO customers FROM '/etc/passwd'»",
        "«ADD JAR '/tmp/x.jar'»",
        "«SET spark.master = 'x'»",
        "«USE default»",
        "«REFRESH TABLE x»",
        "«ANALYZE TABLE x COMPUTE STATISTICS»",
        "CREATE «VIEW v AS SELECT 1»",
        "CREATE «FUNCTION f AS 'x.Y' USING JAR '/tmp/x.jar'»",
        "CREATE TABLE t «USING parquet LOCATION '/etc'»",
        "DROP «DATABASE default»",
        "SHOW FUNCTIONS «IN default»",
        "SHOW «DATABASES»",
        "DESCRIBE «EXTENDED default.secrets»",
    ],
)
def test_no_statement_reaches_out(text: str) -> None:
    statement, start, end = marked(text)
    with pytest.raises(CqlError) as caught:
        bind_change(parse(statement), CATALOG)  # type: ignore[arg-type]
    span = caught.value.span
    assert span is not None and span.start <= end and start < span.end


def test_a_function_is_in_one_list() -> None:
    assert not FUNCTIONS.keys() & REFUSED.keys()
    assert not [name for name in FUNCTIONS if absence(name) is not None]


@pytest.mark.spark
def test_every_function_of_spark_is_in_a_list(spark: Any) -> None:
    """A new function of Spark is allowed, refused with a reason, or said to be absent."""
    known = {row["function"].lower() for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    names = {name for name in known if name.isidentifier()}
    unlisted = names - FUNCTION_NAMES - SYNTAX - WINDOWS
    assert {name for name in unlisted if absence(name) is None} == set()
    assert FUNCTIONS.keys() <= names


@pytest.mark.spark
def test_functions_of_spark_are_refused_unless_they_are_listed(spark: Any) -> None:
    known = {row["function"].lower() for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    names = sorted(name for name in known if name.isidentifier())
    listed = FUNCTIONS.keys() | NAMES | ITEM_FUNCTIONS.keys()
    assert len(names) > 400
    for name in names:
        call = f"SELECT COUNT(*) AS n FROM packets W WHERE `{name}`(src) = 1"
        if name not in listed:
            attempt(call, "periodic")
            attempt(call, "continuous")
        if name not in stored_questions.KNOWN_FUNCTIONS:
            attempt(call, "stored")
