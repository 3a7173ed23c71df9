"""Sub-queries in FROM and their joins: several windows in one query."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import NotSupportedError
from sash.core.window import RowWindow, TimeWindow
from sash.plan.expressions import Call, Field, Literal, RowExpression
from sash.plan.nodes import (
    Aggregate,
    AggregateCall,
    AnswerFilter,
    AnswerJoin,
    Key,
    Limit,
    Output,
    Project,
    Sort,
    SortKey,
    StreamScan,
    StreamWindow,
    Subquery,
    tree,
)
from tests.sql.examples import MIN, check_error, described, plan

SRC = RowExpression("src", pa.int32(), ("src",))
LENGTH = RowExpression("length", pa.int32(), ("length",))


def test_the_spread_and_the_volume_of_two_windows() -> None:
    """The whole plan, node by node."""
    long = StreamWindow(StreamScan("packets"), TimeWindow(30 * MIN, MIN))
    short = StreamWindow(StreamScan("packets"), TimeWindow(5 * MIN, MIN))
    hi, lo = Field("MAX(length)", pa.int32()), Field("MIN(length)", pa.int32())
    extremes = (
        AggregateCall("MAX(length)", "max", LENGTH, pa.int32()),
        AggregateCall("MIN(length)", "min", LENGTH, pa.int32()),
    )
    average = (AggregateCall("AVG(length)", "avg", LENGTH, pa.float64()),)
    src = Output("src", Field("src", pa.int32()))
    a = Subquery("a", Project(Aggregate(long, (Key("src", SRC),), extremes), (src, Output("hi", hi), Output("lo", lo))))
    b = Subquery(
        "b",
        Project(
            Aggregate(short, (Key("src", SRC),), average), (src, Output("vol", Field("AVG(length)", pa.float64())))
        ),
    )
    spread = Call("subtract", (Field("a.hi", pa.int32()), Field("a.lo", pa.int32())), pa.int32())
    join = AnswerJoin(a, b, "inner", (("a.src", "b.src"),))
    condition = Call("gt", (Field("b.vol", pa.float64()), Literal(3.0, pa.float64())), pa.bool_())
    assert plan(
        "SELECT a.src, a.hi - a.lo AS spread, b.vol"
        " FROM (SELECT src, MAX(length) AS hi, MIN(length) AS lo"
        "       FROM packets [WINDOW 30 min SLIDE 1 min] GROUP BY src) a"
        " JOIN (SELECT src, AVG(length) AS vol FROM packets [WINDOW 5 min SLIDE 1 min] GROUP BY src) b USING (src)"
        " WHERE vol > 3 ORDER BY spread DESC LIMIT 5"
    ) == Project(
        Limit(Sort(AnswerFilter(join, condition), (SortKey(spread, True, False),)), 5),
        (
            Output("src", Field("a.src", pa.int32())),
            Output("spread", spread),
            Output("vol", Field("b.vol", pa.float64())),
        ),
    )


# Short names for sub-queries: {a} has src, n; {b} has src, m; {c} has dst, m.
QUERIES = {
    "a": "(SELECT src, COUNT(*) AS n FROM packets W GROUP BY src) a",
    "b": "(SELECT src, SUM(length) AS m FROM packets W GROUP BY src) AS b",
    "c": "(SELECT dst, MAX(length) AS m FROM packets W GROUP BY dst) c",
    "d": "(SELECT src, COUNT(*) AS n FROM packets W GROUP BY src) d",
    "big": "(SELECT COUNT(*) AS src FROM packets W) big",
}


def spelt(text: str) -> str:
    for name, query in QUERIES.items():
        text = text.replace(f"{{{name}}}", query)
    return text


def upper_part(text: str) -> list[str]:
    """The nodes above the sub-queries."""
    return [line for line in described(spelt(text)) if not line.startswith(("Project src", "Project dst", "Aggregate"))]


PLANS = [
    ("SELECT n FROM {a}", ["Project a.n AS n", "Subquery a"]),
    (
        "SELECT m + 1 AS l FROM (SELECT n * 2 AS m FROM {a} WHERE n > 1) b",
        [
            "Project add(b.m, 1) AS l",
            "Subquery b",
            "Project multiply(a.n, 2) AS m",
            "AnswerFilter gt(a.n, 1)",
            "Subquery a",
        ],
    ),
    (
        "SELECT A.N AS x, 1 FROM {a} WHERE a.n > 1",
        ["Project a.n AS x, 1", "AnswerFilter gt(a.n, 1)", "Subquery a"],
    ),
    (
        "SELECT * FROM {a} JOIN {b} USING (src)",
        [
            "Project a.src AS src, a.n AS n, b.m AS m",
            "AnswerJoin inner ON a.src = b.src",
            "Subquery a",
            "Subquery b",
        ],
    ),
    (
        "SELECT * FROM {a}, {d}",
        [
            "Project a.src AS a_src, a.n AS a_n, d.src AS d_src, d.n AS d_n",
            "AnswerJoin cross",
            "Subquery a",
            "Subquery d",
        ],
    ),
    (
        "SELECT * FROM {a} FULL JOIN {b} USING (src) CROSS JOIN {d}",
        [
            "Project coalesce(a.src, b.src) AS src, a.n AS a_n, b.m AS m, d.src AS d_src, d.n AS d_n",
            "AnswerJoin cross",
            "AnswerJoin full ON a.src = b.src",
            "Subquery a",
            "Subquery b",
            "Subquery d",
        ],
    ),
    (
        "SELECT *, b.src AS other FROM {a} LEFT OUTER JOIN {b} USING (SRC) ORDER BY SRC",
        [
            "Project a.src AS src, a.n AS n, b.m AS m, b.src AS other",
            "Sort a.src ASC",
            "AnswerJoin left ON a.src = b.src",
            "Subquery a",
            "Subquery b",
        ],
    ),
    (
        "SELECT src, a.src AS l FROM {a} RIGHT JOIN {b} USING (src)",
        [
            "Project b.src AS src, a.src AS l",
            "AnswerJoin right ON a.src = b.src",
            "Subquery a",
            "Subquery b",
        ],
    ),
    (
        "SELECT src, n - m FROM {a} FULL JOIN {b} USING (src) WHERE src > 3",
        [
            "Project coalesce(a.src, b.src) AS src, subtract(a.n, b.m) AS n - m",
            "AnswerFilter gt(coalesce(a.src, b.src), 3)",
            "AnswerJoin full ON a.src = b.src",
            "Subquery a",
            "Subquery b",
        ],
    ),
    (
        "SELECT a.*, c.m FROM {a} JOIN {c} ON c.dst = a.src AND a.n > c.m AND c.m <> 5 WHERE dst = 1 OR n = 2",
        [
            "Project a.src AS src, a.n AS n, c.m AS m",
            "AnswerFilter and(gt(a.n, cast(c.m)), and(ne(c.m, 5), or(eq(c.dst, 1), eq(a.n, 2))))",
            "AnswerJoin inner ON a.src = c.dst",
            "Subquery a",
            "Subquery c",
        ],
    ),
    (
        "SELECT a.n FROM {a} JOIN {c} ON a.n < c.m",
        [
            "Project a.n AS n",
            "AnswerFilter lt(a.n, cast(c.m))",
            "AnswerJoin cross",
            "Subquery a",
            "Subquery c",
        ],
    ),
    (
        "SELECT a.n, dst FROM {a}, {c} CROSS JOIN {d}",
        [
            "Project a.n AS n, c.dst AS dst",
            "AnswerJoin cross",
            "AnswerJoin cross",
            "Subquery a",
            "Subquery c",
            "Subquery d",
        ],
    ),
    (
        "SELECT a.src, b.m, c.m AS top FROM {a} JOIN {b} USING (src) LEFT JOIN {c} ON b.src = c.dst AND a.src = c.dst",
        [
            "Project a.src AS src, b.m AS m, c.m AS top",
            "AnswerJoin left ON b.src = c.dst AND a.src = c.dst",
            "AnswerJoin inner ON a.src = b.src",
            "Subquery a",
            "Subquery b",
            "Subquery c",
        ],
    ),
    (
        "SELECT src, a.n + d.n AS sum FROM {a} RIGHT JOIN {b} USING (src) FULL JOIN {d} USING (src)",
        [
            "Project coalesce(b.src, d.src) AS src, add(a.n, d.n) AS sum",
            "AnswerJoin full ON b.src = d.src",
            "AnswerJoin right ON a.src = b.src",
            "Subquery a",
            "Subquery b",
            "Subquery d",
        ],
    ),
]


@pytest.mark.parametrize(("query", "expected"), PLANS)
def test_plan(query: str, expected: list[str]) -> None:
    assert upper_part(query) == expected


def test_row_based_windows_and_one_time_queries() -> None:
    query = "SELECT a.n / b.n FROM (SELECT COUNT(*) AS n FROM packets {}) a, (SELECT COUNT(*) AS n FROM packets {}) b"
    rows = plan(query.format("[ROWS 9 SLIDE 3]", "[PARTITION BY src ROWS 1 SLIDE 3 LAG 2]"))
    windows = [node.window for _, node in tree(rows) if isinstance(node, StreamWindow)]
    assert windows == [RowWindow(9, 3), RowWindow(1, 3, 2)]
    once = plan(query.format("[WINDOW 1 min]", "[UNBOUNDED]"), periodic=False)
    assert [node.window.slide for _, node in tree(once) if isinstance(node, StreamWindow)] == [None, None]


def test_what_a_sub_query_may_be() -> None:
    text = (
        "SELECT t.src, t.count / a.n AS share FROM (SELECT protocol, TOP(3, src) FROM packets W GROUP BY protocol) t"
        " JOIN (SELECT protocol, APPROX_COUNT_DISTINCT(dst) AS n FROM packets W GROUP BY protocol HAVING n > 3"
        " ORDER BY n LIMIT 5 WITH BOUNDS) a USING (protocol) WHERE n_upper < 7"
    )
    assert described(text) == [
        "Project t.src AS src, divide(cast(t.count), cast(a.n)) AS share",
        "AnswerFilter lt(a.n_upper, 7)",
        "AnswerJoin inner ON t.protocol = a.protocol",
        "Subquery t",
        "Project protocol, src, COUNT(src) AS count",
        "Items TOP 3 of src",
        "Aggregate COUNT(src) BY protocol, src",
        "Subquery a",
        (
            "Project protocol, APPROX_COUNT_DISTINCT(dst) AS n, APPROX_COUNT_DISTINCT_LOWER(dst) AS n_lower,"
            " APPROX_COUNT_DISTINCT_UPPER(dst) AS n_upper"
        ),
        "Limit 5",
        "Sort APPROX_COUNT_DISTINCT(dst) ASC",
        "Having gt(APPROX_COUNT_DISTINCT(dst), 3)",
        (
            "Aggregate APPROX_COUNT_DISTINCT(dst), APPROX_COUNT_DISTINCT_LOWER(dst), APPROX_COUNT_DISTINCT_UPPER(dst)"
            " BY protocol"
        ),
    ]


KINDS = ["JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN"]


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
def test_a_star_shows_the_columns_of_using_once(kinds: list[str]) -> None:
    """Left-deep, in the order they were written; the shared column is that of the newest side that is never missing."""
    query, never_missing = "SELECT * FROM (SELECT src, COUNT(*) AS n0 FROM packets W GROUP BY src) t0", "t0"
    for i, kind in enumerate(kinds, start=1):
        query += f" {kind} (SELECT src, COUNT(*) AS n{i} FROM packets W GROUP BY src) t{i} USING (src)"
        never_missing = f"t{i}" if kind == "RIGHT JOIN" else never_missing
    bound = plan(query)
    assert bound.outputs == (
        Output("src", Field(f"{never_missing}.src", pa.int32())),
        *(Output(f"n{i}", Field(f"t{i}.n{i}", pa.int64())) for i in range(len(kinds) + 1)),
    )
    node = bound.input
    for kind in reversed(kinds):
        assert isinstance(node, AnswerJoin)
        assert node.kind == {"LEFT JOIN": "left", "RIGHT JOIN": "right"}.get(kind, "inner")
        node = node.left
    assert isinstance(node, Subquery) and node.alias == "t0"


LEAVES = st.sampled_from(["x", "y", "1", "2.5", "NULL"])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map(lambda e: f"abs({e})"),
        st.tuples(inner, inner).map(lambda p: f"coalesce({p[0]}, {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"CASE WHEN {p[0]} > 1 THEN {p[1]} END"),
        st.tuples(inner, inner).map(lambda p: f"CAST({p[0]} BETWEEN 1 AND {p[1]} AS INT)"),
    ),
    max_leaves=5,
)


PROBES = [
    (
        (
            "SELECT src, SUM(length) AS s FROM packets W GROUP BY src HAVING COUNT(*) > 3 AND s > "
            "(SELECT AVG(port) * 100 FROM packets W)"
        ),
        [
            "Project packets.src AS src, packets.SUM(length) AS s",
            "AnswerFilter gt(cast(packets.SUM(length)), SCALARSUBQUERY(query))",
            "AnswerProbe SCALARSUBQUERY(query)",
            "Subquery packets",
            "Project src, SUM(length)",
            "Having gt(COUNT(*), 3)",
            "Aggregate SUM(length), COUNT(*) BY src",
            "Subquery query",
            "Project multiply(AVG(port), 100.0) AS avg(port) * 100",
            "Aggregate AVG(port) BY ()",
        ],
    ),
    (
        "SELECT a.n FROM {a} WHERE a.src NOT IN (SELECT src FROM {b} WHERE m > 5) AND EXISTS (SELECT m FROM {c})",
        [
            "Project a.n AS n",
            "AnswerFilter and(not(a.src IN (query)), EXISTS(`query'`))",
            "AnswerProbe EXISTS(`query'`)",
            "AnswerProbe a.src IN (query)",
            "Subquery a",
            "Subquery query",
            "Project b.src AS src",
            "AnswerFilter gt(b.m, 5)",
            "Subquery b",
            "Subquery query'",
            "Project 1",
            "Subquery c",
        ],
    ),
]


@pytest.mark.parametrize(("query", "expected"), PROBES)
def test_sub_queries_in_expressions(query: str, expected: list[str]) -> None:
    found = described(spelt(query)) if "Aggregate" in str(expected) else upper_part(query)
    assert found == expected


UNIONS = [
    (
        (
            "SELECT src, COUNT(*) AS n FROM packets W GROUP BY src UNION ALL "
            "SELECT dst, AVG(port) FROM packets W GROUP BY dst ORDER BY n DESC, 1 LIMIT 3"
        ),
        [
            "Project union.src AS src, union.n AS n",
            "Limit 3",
            "Sort union.n DESC, union.src ASC",
            "AnswerUnion",
            "Subquery union",
            "Project src, cast(COUNT(*)) AS n",
            "Aggregate COUNT(*) BY src",
            "Subquery union",
            "Project dst AS src, AVG(port) AS n",
            "Aggregate AVG(port) BY dst",
        ],
    ),
    (
        "SELECT x FROM (SELECT n AS x FROM {a} UNION SELECT m FROM {b}) u WHERE x > 3",
        [
            "Project u.x AS x",
            "AnswerFilter gt(u.x, 3)",
            "Subquery u",
            "Project union.x AS x",
            "AnswerUnion distinct",
            "Subquery union",
            "Project a.n AS x",
            "Subquery a",
            "Project src, COUNT(*) AS n",
            "Aggregate COUNT(*) BY src",
            "Subquery union",
            "Project b.m AS x",
            "Subquery b",
            "Project src, SUM(length) AS m",
            "Aggregate SUM(length) BY src",
        ],
    ),
]


@pytest.mark.parametrize(("query", "expected"), UNIONS)
def test_unions_of_answers(query: str, expected: list[str]) -> None:
    assert described(spelt(query)) == expected


UNION_ERRORS = [
    (
        "SELECT COUNT(*) FROM packets W UNION SELECT COUNT(*) FROM packets [WINDOW 9 min SLIDE «9 min»]",
        "all windows of a query slide together: write SLIDE 2 min here too",
    ),
    (
        "SELECT COUNT(*) AS n FROM packets W UNION ALL SELECT MAX(src) AS m FROM packets W ORDER BY «m»",
        "unknown column",
    ),
    ("SELECT COLLECT_SET(src) FROM packets W «UNION» SELECT COLLECT_SET(dst) FROM packets W", "DISTINCT of ARRAY<INT>"),
    ("SELECT COUNT(*) FROM packets W UNION ALL SELECT «src» FROM packets W", "a SELECT without aggregates; GROUP BY"),
]
IN_EXPRESSIONS = [
    (
        "SELECT COUNT(*) FROM packets W HAVING COUNT(*) > («SELECT src, dst FROM packets W GROUP BY src, dst»)",
        "a value is a sub-query of one column, this one has 2",
    ),
    (
        "SELECT src FROM packets W GROUP BY src HAVING src IN (SELECT «dst» FROM packets W)",
        "a SELECT without aggregates; GROUP BY the columns",
    ),
    (
        "SELECT COUNT(*) FROM packets W HAVING COUNT(*) > (SELECT COUNT(*) FROM packets [WINDOW 9 min SLIDE «9 min»])",
        "all windows of a query slide together: write SLIDE 2 min here too",
    ),
    (
        (
            "SELECT src FROM packets p [WINDOW 9 min SLIDE 9 min] GROUP BY src HAVING COUNT(*) > (SELECT COUNT(*) FROM "
            "packets q [WINDOW 9 min SLIDE 9 min] WHERE q.src = «p.src»)"
        ),
        "cannot speak of the query around it: compare with its answer, x IN (SELECT k .. GROUP BY k)",
    ),
    (
        "SELECT (SELECT COUNT(*) FROM packets W) AS c FROM packets W GROUP BY «c»",
        "a sub-query cannot stand in GROUP BY",
    ),
    (
        "SELECT COUNT(*) FROM packets W HAVING APPROX «COUNT(*) > (SELECT COUNT(*) FROM packets» W)",
        "HAVING APPROX with a sub-query: leave out APPROX",
    ),
]
NOT_IN_EXPRESSIONS = [
    (
        "SELECT COUNT(*) FROM packets W WHERE length > («SELECT AVG(length) FROM packets» W)",
        "HAVING, SELECT and ORDER BY over groups may have them, and WHERE over sub-queries in FROM",
    ),
    (
        "SELECT SUM(length - («SELECT MIN(length) FROM packets» W)) FROM packets W",
        "sub-queries in an expression here; HAVING, SELECT and ORDER BY over groups",
    ),
    (
        "SELECT COUNT(*) FROM packets W HAVING COUNT(*) > (SELECT COUNT(*) FROM «trades» [WINDOW 1 min SLIDE 2 min])",
        "sub-queries over different streams",
    ),
    (
        "SELECT src FROM packets W GROUP BY src QUALIFY «RANK»() OVER (ORDER BY src) IN (SELECT MAX(1) FROM packets W)",
        "OVER before IN (SELECT ..); number the rows inside a sub-query",
    ),
]


@given(EXPRESSIONS)
def test_an_expression_over_sub_queries_is_the_one_over_groups(text: str) -> None:
    """One vocabulary: only the names of the fields differ."""
    spelt_out = text.replace("x", "SUM(length)").replace("y", "MAX(ratio)")
    over_groups = plan(f"SELECT {spelt_out} AS e, COUNT(*) FROM packets W")
    over_answers = plan(f"SELECT {text} AS e FROM (SELECT SUM(length) AS x, MAX(ratio) AS y FROM packets W) a")
    assert renamed(over_answers.outputs[0].expression) == over_groups.outputs[0].expression


def renamed(expression: Field | Literal | Call) -> Field | Literal | Call:
    if isinstance(expression, Call):
        return Call(expression.function, tuple(map(renamed, expression.arguments)), expression.type)
    if isinstance(expression, Field):
        return Field({"a.x": "SUM(length)", "a.y": "MAX(ratio)"}[expression.name], expression.type)
    return expression


ERRORS = [
    (
        "SELECT «n» FROM (SELECT COUNT(*) AS n FROM packets W), (SELECT COUNT(*) AS n FROM packets W)",
        "column 'n' is in several sub-queries: write subquery.n or subquery2.n",
    ),
    ("SELECT n FROM {a} JOIN (SELECT COUNT(*) AS m FROM packets W) «A» USING (n)", "'A' stands twice in FROM"),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM packets W) «`a.b`»", "has no dot"),
    ("SELECT n FROM {a} WHERE «SUM»(n) > 1", "the aggregate SUM cannot stand in WHERE"),
    ("SELECT «n» FROM {a}, {d}", "column 'n' is in several sub-queries: write a.n or d.n"),
    ("SELECT a.n, «d.n» FROM {a}, {d}", "two columns of the answer are named 'n' and 'n'"),
    ("SELECT «x».n FROM {a}", "unknown sub-query 'x'; known: a"),
    ("SELECT «x».* FROM {a}", "unknown sub-query 'x'; known: a"),
    ("SELECT «packets».src FROM {a}", "unknown sub-query 'packets'"),
    ("SELECT a.«nn» FROM {a}", "unknown column 'nn'; did you mean 'n'?"),
    ("SELECT b.«n» FROM {a} JOIN {b} USING (src)", "unknown column 'n'; known: m, src"),
    ("SELECT «length» FROM {a}", "unknown column 'length'; known: n, src"),
    ("SELECT n FROM {a} JOIN {b} USING («srcs»)", "unknown column 'srcs'; did you mean 'src'?"),
    ("SELECT n FROM {a} JOIN {b} ON a.src = b.«dst»", "unknown column 'dst'; known: m, src"),
    ("SELECT n FROM {a} JOIN {b} ON «a.n»", "ON needs a condition, but got BIGINT"),
    ("SELECT n FROM {a} «JOIN» {b}", "JOIN needs USING (..) or ON ..; CROSS JOIN pairs every row with every row"),
    ("SELECT n FROM {a} «LEFT JOIN» {b}", "JOIN needs USING (..) or ON"),
    ("SELECT n FROM {a} «CROSS JOIN» {b} ON a.src = b.src", "CROSS JOIN has no condition: write JOIN"),
    ("SELECT n FROM {a} «OUTER JOIN» {b} USING (src)", "write LEFT, RIGHT or FULL before it"),
    (
        "SELECT n FROM {a} JOIN {big} USING («src»)",
        "a.src is INT and big.src is BIGINT: CAST one inside its sub-query",
    ),
    ("SELECT n FROM {a} JOIN {big} ON «big.src = a.src»", "a.src is INT and big.src is BIGINT"),
    ("SELECT n FROM {a} WHERE «n»", "WHERE needs a condition, but got BIGINT"),
    ("SELECT n FROM {a} ORDER BY «2»", "ORDER BY 2: the SELECT list has 1"),
    ("SELECT n FROM {a} «WITH BOUNDS»", "WITH BOUNDS belongs into the sub-query"),
    ("SELECT n FROM (SELECT SUM(«lenght») AS n FROM packets W) a", "did you mean 'length'?"),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM «packets») a", "continuous queries (a window without SLIDE)"),
    (
        "SELECT a.n FROM {a} JOIN (SELECT src FROM packets [WINDOW 1 min SLIDE «1 min»] GROUP BY src) x USING (src)",
        "all windows of a query slide together: write SLIDE 2 min here too",
    ),
    (
        (
            "SELECT x.n FROM (SELECT COUNT(*) n FROM packets [ROWS 1 SLIDE EXACTLY 2]) x,"
            " (SELECT COUNT(*) n FROM packets [ROWS 1 SLIDE «2»]) y"
        ),
        "write SLIDE EXACTLY 2 here too",
    ),
    (
        "SELECT a.n FROM {a} JOIN (SELECT src FROM packets «[ROWS 5 SLIDE 1]» GROUP BY src) x USING (src)",
        "time-based and row-based windows cannot be read as of one time",
    ),
]
LATER = [
    ("SELECT «MAX»(n) FROM {a}", "the aggregate MAX over sub-queries; aggregate inside a sub-query"),
    ("SELECT «TOP»(3, n) FROM {a}", "the aggregate TOP over sub-queries"),
    ("SELECT n FROM {a} «GROUP BY» n", "GROUP BY over sub-queries"),
    ("SELECT n FROM {a} «HAVING» n > 1", "HAVING over sub-queries"),
    ("SELECT «DISTINCT» n FROM {a}", "SELECT DISTINCT"),
    ("SELECT n FROM {a} LEFT JOIN {b} ON a.src = b.src AND «b.m > 3»", "LEFT JOIN ON anything but equalities"),
    ("SELECT n FROM {a} FULL JOIN {b} ON «a.src < b.src»", "FULL JOIN ON anything but equalities"),
    ("SELECT n FROM {a} JOIN {b} ON a.n > b.m «FULL JOIN» {c} ON a.src = c.dst", "FULL JOIN behind a JOIN"),
    ("SELECT n FROM {a} «LEFT SEMI JOIN» {b} ON a.src = b.src", "LEFT SEMI JOIN"),
    ("SELECT n FROM {a} «NATURAL JOIN» {b}", "NATURAL JOIN"),
    ("SELECT n FROM {a} JOIN «packets» W p ON a.src = p.src", "joins of streams; put each window into a sub-query"),
    (
        "SELECT a.n FROM {a} FULL JOIN {b} USING (src) JOIN {d} USING («src»)",
        "USING of a FULL JOIN made; write ON a.src = d.src",
    ),
    ("SELECT n FROM {a} JOIN «(»SELECT src FROM packets W GROUP BY src) x JOIN {b} ON x.src = b.src ON TRUE", "a join"),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM packets W) «a(m»)", "names for columns behind an alias"),
    ("SELECT a.n FROM {a}, (SELECT COUNT(*) AS n FROM «trades» [WINDOW 1 min SLIDE 2 min]) t", "different streams"),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM packets W «INTERSECT» SELECT COUNT(*) FROM packets W) a", "INTERSECT"),
    ("SELECT «MD5»(p) FROM (SELECT protocol AS p FROM packets W GROUP BY protocol) a", "function MD5 over an answer"),
    ("SELECT n FROM {a} WHERE «n IN (SELECT dst FROM packets» [ROWS 9 SLIDE 1])", "sub-queries (IN)"),
    ("SELECT «* EXCEPT (n»)  FROM {a}", "EXCEPT, REPLACE and RENAME after *"),
]


@pytest.mark.parametrize(("text", "reason"), [*ERRORS, *IN_EXPRESSIONS, *UNION_ERRORS])
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_error(spelt(text), reason)


@pytest.mark.parametrize(("text", "what"), [*LATER, *NOT_IN_EXPRESSIONS])
def test_what_comes_later_says_so(text: str, what: str) -> None:
    assert isinstance(check_error(spelt(text), what), NotSupportedError)
