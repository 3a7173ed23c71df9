"""From SELECT to plan: pairs of a query and its plan, and the errors with the word they point at."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.errors import CqlError, NotSupportedError
from sash.core.window import TimeWindow
from sash.plan.expressions import Call, Field, Literal, RowExpression
from sash.plan.nodes import (
    Aggregate,
    AggregateCall,
    Having,
    Key,
    Output,
    Project,
    Sort,
    StreamScan,
    StreamWindow,
    WindowFilter,
)
from sash.sql import bind
from tests.sql.examples import CATALOG, MIN, check_error, described, expand, find, plan, raised


def test_the_query_of_the_design() -> None:
    protocol = RowExpression("protocol = 'TCP'", pa.bool_(), ("protocol",))
    source = WindowFilter(StreamWindow(StreamScan("packets"), TimeWindow(10 * MIN, 2 * MIN)), protocol)
    src = RowExpression("src", pa.int32(), ("src",))
    length = RowExpression("length", pa.int32(), ("length",))
    total = Field("SUM(length)", pa.int64())
    call = AggregateCall("SUM(length)", "sum", length, pa.int64())
    condition = Call("gt", (total, Literal(1_000_000, pa.int64())), pa.bool_())
    assert plan(
        "SELECT src, SUM(length) AS bytes FROM packets W WHERE protocol = 'TCP' GROUP BY src"
        " HAVING SUM(length) > 1000000"
    ) == Project(
        Having(Aggregate(source, (Key("src", src),), (call,)), condition),
        (Output("src", Field("src", pa.int32())), Output("bytes", total)),
    )


GOLDEN = [
    (
        "SELECT COUNT(*), COUNT(src) FROM packets W",
        ["Project COUNT(*) AS count(1), COUNT(src) AS count(src)", "Aggregate COUNT(*), COUNT(src) BY ()"],
    ),
    ("SELECT src FROM packets W GROUP BY src", ["Project src", "Aggregate  BY src"]),
    (
        "SELECT src + 1 AS k, src + 1 + 2 AS z, MEAN(length) a FROM packets W GROUP BY 1 ORDER BY a DESC, z LIMIT 5",
        [
            "Project src + 1 AS k, add(src + 1, 2) AS z, AVG(length) AS a",
            "Limit 5",
            "Sort AVG(length) DESC, add(src + 1, 2) ASC",
            "Aggregate AVG(length) BY src + 1",
        ],
    ),
    (
        "SELECT UPPER(protocol) p, MAX(src) - MIN(src) FROM packets W x WHERE x.src BETWEEN 1 AND 9 GROUP BY P",
        [
            "Project UPPER(protocol) AS p, subtract(MAX(src), MIN(src)) AS max(src) - min(src)",
            "Aggregate MAX(src), MIN(src) BY UPPER(protocol)",
            "Filter src BETWEEN 1 AND 9",
        ],
    ),
    (
        "SELECT src, SUM(length) AS length FROM packets W GROUP BY src HAVING length > 5 AND src > 1",
        [
            "Project src, SUM(length) AS length",
            "Having and(gt(SUM(length), 5), gt(src, 1))",
            "Aggregate SUM(length) BY src",
        ],
    ),
    (
        "SELECT SUM(length) / COUNT(*) AS mean, 1 AS one FROM packets W",
        [
            "Project divide(cast(SUM(length)), cast(COUNT(*))) AS mean, 1 AS one",
            "Aggregate SUM(length), COUNT(*) BY ()",
        ],
    ),
    (
        "SELECT NVL(SUM(price), 0) v, SUM(price) * 1.5 w FROM packets W",
        [
            "Project coalesce(SUM(price), Decimal('0.00')) AS v, multiply(SUM(price), Decimal('1.5')) AS w",
            "Aggregate SUM(price) BY ()",
        ],
    ),
    (
        "SELECT CASE WHEN COUNT(*) BETWEEN 1 AND 2 THEN 'few' END c FROM packets W",
        [
            "Project case(and(ge(COUNT(*), 1), le(COUNT(*), 2)), 'few', NULL) AS c",
            "Aggregate COUNT(*) BY ()",
        ],
    ),
    (
        "SELECT `A B`, COUNT(*) AS n FROM packets W WHERE `a b` > 1 GROUP BY `a b` ORDER BY 2 NULLS LAST",
        [
            "Project a b AS A B, COUNT(*) AS n",
            "Sort COUNT(*) ASC",
            "Aggregate COUNT(*) BY `a b`",
            "Filter `a b` > 1",
        ],
    ),
]


@pytest.mark.parametrize(("query", "expected"), GOLDEN)
def test_plan(query: str, expected: list[str]) -> None:
    assert described(query) == expected


def test_one_call_for_the_same_aggregate() -> None:
    aggregate = find(
        "SELECT sum(LENGTH) a, SUM(length) + 1 b FROM packets W HAVING SUM( length ) > 1 ORDER BY sum(length)",
        Aggregate,
    )
    assert [call.name for call in aggregate.calls] == ["SUM(length)"]


@pytest.mark.parametrize(
    ("order", "descending", "nulls_first"),
    [
        ("", False, True),
        ("ASC", False, True),
        ("DESC", True, False),
        ("DESC NULLS FIRST", True, True),
        ("NULLS LAST", False, False),
    ],
)
def test_order_of_nulls_is_sparks(order: str, descending: bool, nulls_first: bool) -> None:
    (key,) = find(f"SELECT COUNT(*) n FROM packets W ORDER BY n {order}", Sort).keys
    assert (key.descending, key.nulls_first) == (descending, nulls_first)


def test_one_time_query_and_lag() -> None:
    once = find("SELECT COUNT(*) FROM packets [RANGE 1 min LAG 5 sec]", StreamWindow, periodic=False)
    assert once.window == TimeWindow(MIN, None, 5_000_000)
    exact = find("SELECT COUNT(*) FROM packets [WINDOW 1 min SLIDE EXACTLY 2 min] AS p", StreamWindow)
    assert exact.window == TimeWindow(MIN, 2 * MIN, 0, True)


ERRORS = [
    ("SELECT «length» IS TRUE AS t, COUNT(*) FROM packets [WINDOW 1 min SLIDE 1 min] GROUP BY 1", "IS needs"),
    ("SELECT COUNT(*) FROM «packts» [WINDOW 1 min SLIDE 1 min]", "unknown stream 'packts'; did you mean 'packets'?"),
    (
        "SELECT n FROM (SELECT COUNT(*) AS n FROM packets W) JOIN (SELECT COUNT(*) AS n FROM «packets») USING (n)",
        "write packets [WINDOW 10 min SLIDE 2 min]",
    ),
    ("SELECT COUNT(*) FROM packets [WINDOW «1500 ms» SLIDE 1 sec]", "nearest: 1 sec or 2 sec"),
    ("SELECT COUNT(*) FROM packets [WINDOW 1 min SLIDE «300 ms»]", "granule of 'packets', 1 sec; nearest: 1 sec"),
    ("SELECT COUNT(*) FROM packets [WINDOW 1 min SLIDE 1 min LAG «1 ms»]", "LAG 1 ms is not a multiple"),
    ("SELECT SUM(«lenght») FROM packets W", "unknown column 'lenght'; did you mean 'length'?"),
    ("SELECT SUM(«q».length) FROM packets W", "unknown stream 'q'"),
    ("SELECT SUM(«protocol») FROM packets W", "SUM needs a number, but 'protocol' is STRING"),
    ("SELECT SUM(«*») FROM packets W", "SUM(*) has no meaning"),
    ("SELECT «MAX»(src, dst) FROM packets W", "MAX takes 1 argument, got 2"),
    ("SELECT SUM(«NULL») FROM packets W", "CAST(NULL AS ..)"),
    ("SELECT «dst», COUNT(*) FROM packets W GROUP BY src", "'dst' is neither in GROUP BY nor inside an aggregate"),
    ("SELECT COUNT(*) FROM packets W ORDER BY «src»", "'src' is neither in GROUP BY nor inside an aggregate"),
    ("SELECT «*» FROM packets W", "SELECT * has no meaning"),
    ("SELECT SUM(«MAX»(src)) FROM packets W", "the aggregate MAX cannot stand inside SUM"),
    ("SELECT COUNT(*) FROM packets W WHERE «SUM»(src) > 1", "the aggregate SUM cannot stand in WHERE"),
    ("SELECT src FROM packets W GROUP BY «SUM»(src)", "the aggregate SUM cannot stand in GROUP BY"),
    ("SELECT COUNT(*) AS n FROM packets W GROUP BY «n»", "an aggregate cannot stand in GROUP BY"),
    ("SELECT COUNT(*) FROM packets W GROUP BY «3»", "GROUP BY 3: the SELECT list has 1"),
    ("SELECT src, «SRC» FROM packets W GROUP BY src", "named 'SRC' and 'src'"),
    ("SELECT COUNT(*) FROM packets W WHERE «length»", "WHERE needs a condition, but got INT"),
    ("SELECT COUNT(*) n FROM packets W HAVING «n»", "HAVING needs a condition, but got BIGINT"),
    ("SELECT COUNT(*) FROM packets W LIMIT «1.5»", "LIMIT needs a whole number"),
    ("SELECT COUNT(*) FROM packets W WHERE «uper»(protocol) = 'X'", "unknown function 'uper'; did you mean 'UPPER'?"),
    ("SELECT COUNT(*) FROM packets W WHERE «rand»() > 0.5", "RAND is refused: it gives another value"),
    ("SELECT COUNT(*) FROM packets W WHERE ts > «current_timestamp»", "it reads the clock"),
    ("SELECT COUNT(*) FROM packets W WHERE «now»() > ts", "it reads the clock"),
    ("SELECT COUNT(*) FROM packets W WHERE «input_file_name»() = ''", "it reaches outside"),
    ("SELECT COUNT(*) FROM packets W WHERE «upper»() = ''", "UPPER takes 1 argument, got 0"),
    (
        "SELECT COUNT(*) FROM packets W WHERE SQRT(«protocol») > 1",
        "SQRT needs a number as its first argument, but got STRING",
    ),
    ("SELECT COUNT(*) FROM packets W WHERE «ok < ts»", "< cannot compare BOOLEAN with TIMESTAMP"),
    ("SELECT COUNT(*) FROM packets W WHERE src + «protocol» > 1", "+ needs numbers, but got STRING; CAST it first"),
    ("SELECT COUNT(*) FROM packets W WHERE ok AND «src»", "WHERE needs a condition"),
    ("SELECT COUNT(*) FROM packets W WHERE «src = dst» = ok", "put parentheses"),
    ("SELECT COUNT(*) FROM packets W WHERE «src & dst» | port > 1", "put parentheses"),
    ("SELECT COUNT(*) FROM packets W WHERE CAST(«day» AS INT) = 1", "cannot cast DATE to INT"),
    ("SELECT ROUND(AVG(length), «src») FROM packets W GROUP BY src", "constant number of digits"),
    ("SELECT COUNT(*) FROM packets W GROUP BY« »", "after GROUP BY"),
]
LATER = [
    ("SELECT COUNT(*) FROM packets «[WINDOW 1 min]»", "continuous queries (a window without SLIDE)"),
    ("SELECT «src» FROM packets W", "a SELECT without aggregates"),
    ("SELECT «SUM»(DISTINCT src) FROM packets W", "SUM(DISTINCT ..)"),
    ("SELECT «DISTINCT» src FROM packets W", "SELECT DISTINCT"),
    ("SELECT «SUM»(length) WITHIN GROUP (ORDER BY length) FROM packets W", "WITHIN GROUP behind SUM"),
    ("SELECT TOP(3, src) FILTER (WHERE src > 1) FROM packets W", None),
    (
        "SELECT SUM(«http.status») FROM logs [WINDOW 10 min SLIDE 2 min]",
        "make a column of it before the stream is made: df.selectExpr('*', 'http.status AS http_status')",
    ),
    ("SELECT COUNT(*) FROM logs [WINDOW 10 min SLIDE 2 min] WHERE «logs.http.status» = 200", "fields of structs"),
    ("SELECT «TRY_SUM»(src) FROM packets W", "the aggregate TRY_SUM"),
    ("SELECT COUNT(*) FROM packets W WHERE tags[0] = 'x'", None),
    ("SELECT «MD5»(protocol), COUNT(*) FROM packets W GROUP BY protocol", "function MD5 over an answer"),
    ("SELECT CAST(«AVG»(length) AS STRING) FROM packets W", "CAST of DOUBLE to STRING over an answer"),
    ("SELECT COUNT(*) FROM packets W «EXCEPT» ALL SELECT COUNT(*) FROM packets W", "EXCEPT"),
    ("SELECT COUNT(*) FROM packets W GROUP BY «tags»", "GROUP BY of ARRAY<STRING>"),
    ("SELECT COUNT(*) FROM packets W JOIN «trades» [ROWS 9 SLIDE 1] ON src = shares", "joins of streams; put each"),
    ("SELECT COUNT(*) FROM packets W WHERE src IN (SELECT dst FROM packets W)", None),
    ("SELECT COUNT(*) FROM packets W GROUP BY src WITH «ROLLUP»", "write GROUP BY ROLLUP(a, b)"),
    ("SELECT COUNT(*) FROM packets W GROUP BY ALL", None),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_error(text, reason)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str | None) -> None:
    error = raised(expand(text)) if what is None else check_error(text, what)
    assert isinstance(error, NotSupportedError) and error.span is not None


def test_a_slide_on_a_one_time_query() -> None:
    with pytest.raises(CqlError, match="leave out SLIDE"):
        plan("SELECT COUNT(*) FROM packets W", periodic=False)


def test_a_long_condition_and_a_deep_one() -> None:
    plan("SELECT COUNT(*) FROM packets W WHERE " + " OR ".join(f"src = {i}" for i in range(2000)))
    plan("SELECT COUNT(*) n FROM packets W HAVING " + " OR ".join(f"n = {i}" for i in range(500)))
    with pytest.raises(CqlError, match="nested too deeply"):
        plan("SELECT COUNT(*) FROM packets W WHERE " + "(" * 5000 + "TRUE" + ")" * 5000)


def test_bind_is_exported() -> None:
    assert callable(bind) and CATALOG.streams
