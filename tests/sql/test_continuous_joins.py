"""Joins of windows and sub-queries in continuous queries: keys, what is left over, and the order of the joins."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.errors import NotSupportedError
from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow, Column, Filter, Join, Map, windows
from sash.plan.expressions import Call, Field, Literal, RowExpression
from tests.sql.examples import check_continuous_error, continuous_plan, explained

SEC = 1_000_000
INT, LONG, BOOL = pa.int32(), pa.int64(), pa.bool_()


def column(name: str, type: pa.DataType = INT) -> RowExpression:
    return RowExpression(name, type, (name,))


def test_where_each_condition_goes() -> None:
    """The whole plan: below the join, into its key, and above it."""
    left = BaseWindow(
        "packets",
        "a",
        TimeWindow(5 * SEC),
        (Column("a.src", column("src")), Column("a.length", column("length"))),
        RowExpression("port = 80", BOOL, ("port",)),
    )
    right = BaseWindow(
        "packets",
        "b",
        TimeWindow(60 * SEC),
        (Column("b.length", column("length")), Column("b.dst", column("dst"))),
        RowExpression("ok", BOOL, ("ok",)),
    )
    total = Call("add", (Field("a.length", INT), Field("b.length", INT)), INT)
    query = (
        "SELECT a.src, a.length + b.length AS total FROM packets [RANGE 5 sec] a, packets [RANGE 1 min] b"
        " WHERE a.src = b.dst AND a.port = 80 AND b.ok AND a.length + b.length > 100"
    )
    assert continuous_plan(query) == Map(
        Filter(Join(left, right, (("a.src", "b.dst"),)), Call("gt", (total, Literal(100, INT)), BOOL)),
        (("src", Field("a.src", INT)), ("total", total)),
    )


PLANS = [
    (
        "SELECT * FROM (SELECT src, dst FROM packets [NOW]) a JOIN (SELECT src, port FROM packets [NOW]) b USING (SRC)",
        [
            "Project a.src AS src, a.dst AS dst, b.port AS port  -> WK",
            "  Join on a.src = b.src  -> WK",
            "    Project src AS a.src, dst AS a.dst  -> WKS",
            "      Project packets.src AS src, packets.dst AS dst  -> WKS",
            "        Window packets [WINDOW 0.001 ms]  -> WKS",
            "    Project port AS b.port, src AS b.src  -> WKS",
            "      Project packets'.src AS src, packets'.port AS port  -> WKS",
            "        Window packets packets' [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        (
            "SELECT symbol, src FROM trades [ROWS 5] t CROSS JOIN packets [NOW]"
            " WHERE shares = src AND src = shares AND t.price > 1"
        ),
        [
            "Project t.symbol AS symbol, packets.src AS src  -> STR",
            "  Join on t.shares = packets.src  -> STR",
            "    Filter t.price > 1  -> STR",
            "      Window trades t [ROWS 5]  -> STR",
            "    Window packets [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        # ON does not filter rows of the kept side; WHERE and expressions are above the join.
        (
            "SELECT a.src, COALESCE(b.length, 0) AS n FROM packets [RANGE 5 sec] a LEFT JOIN packets [NOW] b"
            " ON a.src = b.dst AND a.port = 80 AND b.ok WHERE a.length > 3 AND b.length < 5"
        ),
        [
            "Project a.src AS src, coalesce(b.length, 0) AS n  -> STR",
            "  Filter lt(b.length, 5)  -> STR",
            "    Left join on a.CASE WHEN port = 80 THEN src END = b.dst  -> STR",
            "      Window packets a [WINDOW 5 sec] where length > 3  -> WKS",
            "      Window packets b [WINDOW 0.001 ms] where ok  -> WKS",
        ],
    ),
    (
        "SELECT src, 1 + 1 AS two FROM packets [ROWS 5] a FULL JOIN packets [NOW] b USING (src) WHERE a.port = 80",
        [
            "Project coalesce(a.src, b.src) AS src, add(1, 1) AS two  -> STR",
            "  Filter eq(a.port, 80)  -> STR",
            "    Full join on a.src = b.src  -> STR",
            "      Window packets a [ROWS 5]  -> STR",
            "      Window packets b [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        "SELECT a.src FROM packets [NOW] a RIGHT JOIN packets [NOW] b ON a.length + 1 < b.length AND a.src = b.dst",
        [
            "Project a.src AS src  -> STR",
            "  Right join on a.src = b.dst AND lt(add(a.length, 1), b.length)  -> STR",
            "    Window packets a [WINDOW 0.001 ms]  -> WKS",
            "    Window packets b [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        # Joins keep the order of FROM where an outer join is in between.
        (
            "SELECT a.src, c.dst FROM packets [NOW] a, packets [NOW] b LEFT JOIN packets [NOW] c ON b.src = c.src"
            " JOIN trades [NOW] t ON t.shares = c.dst WHERE a.dst = b.dst AND t.price > 1"
        ),
        [
            "Project a.src AS src, c.dst AS dst  -> STR",
            "  Join on c.dst = t.shares  -> STR",
            "    Left join on b.src = c.src  -> STR",
            "      Join on a.dst = b.dst  -> WK",
            "        Window packets a [WINDOW 0.001 ms]  -> WKS",
            "        Window packets b [WINDOW 0.001 ms]  -> WKS",
            "      Window packets c [WINDOW 0.001 ms]  -> WKS",
            "    Window trades t [WINDOW 0.001 ms] where price > 1  -> WKS",
        ],
    ),
    (
        "SELECT p.src FROM packets [NOW] p JOIN trades [NOW] t ON p.length = t.price AND UPPER(p.protocol) = t.symbol",
        [
            "Project p.src AS src  -> WK",
            "  Join on p.CAST(length AS DOUBLE) = t.price AND p.UPPER(protocol) = t.symbol  -> WK",
            "    Window packets p [WINDOW 0.001 ms]  -> WKS",
            "    Window trades t [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        (
            "SELECT a.src FROM (SELECT src FROM packets [NOW] WHERE src > 1) a JOIN trades [NOW] t"
            " ON a.src + 1 = t.shares AND a.src < 9 WHERE t.price > 2"
        ),
        [
            "Project a.src AS src  -> WK",
            "  Join on a.src + 1 = t.shares  -> WK",
            "    Project src AS a.src, add(src, 1) AS a.src + 1  -> WKS",
            "      Filter lt(src, 9)  -> WKS",
            "        Project packets.src AS src  -> WKS",
            "          Window packets [WINDOW 0.001 ms] where src > 1  -> WKS",
            "    Window trades t [WINDOW 0.001 ms] where price > 2  -> WKS",
        ],
    ),
    (  # b waits for c
        "SELECT a.src FROM packets [NOW] a, packets [NOW] b, packets [NOW] c WHERE a.src = c.src AND b.dst = c.dst",
        [
            "Project a.src AS src  -> WK",
            "  Join on c.dst = b.dst  -> WK",
            "    Join on a.src = c.src  -> WK",
            "      Window packets a [WINDOW 0.001 ms]  -> WKS",
            "      Window packets c [WINDOW 0.001 ms]  -> WKS",
            "    Window packets b [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (  # all equalities that tie c are its keys
        (
            "SELECT a.src FROM packets [NOW] a JOIN packets [NOW] b USING (src) JOIN packets [NOW] c"
            " ON a.dst = c.dst AND c.port = b.port"
        ),
        [
            "Project a.src AS src  -> WK",
            "  Join on a.dst = c.dst AND b.port = c.port  -> WK",
            "    Join on a.src = b.src  -> WK",
            "      Window packets a [WINDOW 0.001 ms]  -> WKS",
            "      Window packets b [WINDOW 0.001 ms]  -> WKS",
            "    Window packets c [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (  # a needs both of the others
        (
            "SELECT a.src FROM packets [NOW] a, packets [NOW] b, packets [NOW] c"
            " WHERE a.src = b.length + c.length AND b.dst = c.dst"
        ),
        [
            "Project a.src AS src  -> WK",
            "  Join on b.length + c.length = a.src  -> WK",
            "    Project b.dst, b.length, c.dst, c.length, add(b.length, c.length) AS b.length + c.length  -> WK",
            "      Join on b.dst = c.dst  -> WK",
            "        Window packets b [WINDOW 0.001 ms]  -> WKS",
            "        Window packets c [WINDOW 0.001 ms]  -> WKS",
            "    Window packets a [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (  # an equality that ties nothing any more, and one that is no key
        (
            "SELECT a.src FROM packets [NOW] a, packets [NOW] b"
            " WHERE a.src = b.src AND a.dst + b.dst = a.port AND a.dst <=> b.dst"
        ),
        [
            "Project a.src AS src  -> WK",
            "  Filter and(eq(add(a.dst, b.dst), a.port), null_safe_eq(a.dst, b.dst))  -> WK",
            "    Join on a.src = b.src  -> WK",
            "      Window packets a [WINDOW 0.001 ms]  -> WKS",
            "      Window packets b [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (  # Spark computes what one window has, but nothing that a CASE may not reach
        (
            "SELECT CONCAT(MD5(a.protocol), b.protocol) AS c, CASE WHEN b.src > 0 THEN 1 / a.dst END AS d"
            " FROM packets [NOW] a JOIN packets [NOW] b ON a.src = b.src WHERE a.ts < b.ts + INTERVAL 5 MINUTES"
        ),
        [
            (
                "Project concat(a.MD5(protocol), b.protocol) AS c, "
                "case(gt(b.src, 0), divide(1.0, cast(a.dst)), NULL) AS d  -> WK"
            ),
            "  Filter lt(a.ts, b.ts + INTERVAL '5' MINUTE)  -> WK",
            "    Join on a.src = b.src  -> WK",
            "      Window packets a [WINDOW 0.001 ms]  -> WKS",
            "      Window packets b [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        (
            "SELECT a.src % 2 AS k, SUM(a.length + b.length) AS s, COUNT(*) FROM packets [RANGE 5 sec] a"
            " JOIN packets [ROWS 9] b USING (src) GROUP BY 1 HAVING s > 5"
        ),
        [
            "Project a.src % 2 AS k, SUM(a.length + b.length) AS s, COUNT(*) AS count(1)  -> STR",
            "  Filter gt(SUM(a.length + b.length), 5)  -> STR",
            "    GroupBy a.src % 2: SUM(a.length + b.length), COUNT(*)  -> STR",
            "      Project a.src % 2, add(a.length, b.length) AS a.length + b.length  -> STR",
            "        Join on a.src = b.src  -> STR",
            "          Window packets a [WINDOW 5 sec]  -> WKS",
            "          Window packets b [ROWS 9]  -> STR",
        ],
    ),
    (  # groups are bounded by their number, so they may be joined
        (
            "SELECT p.src, n FROM (SELECT src, COUNT(*) AS n FROM packets [UNBOUNDED] GROUP BY src) a"
            " JOIN packets [RANGE 1 sec] p ON p.src = a.src AND p.length > n"
        ),
        [
            "Project p.src AS src, a.n AS n  -> STR",
            "  Filter gt(cast(p.length), a.n)  -> STR",
            "    Join on a.src = p.src  -> STR",
            "      Project n AS a.n, src AS a.src  -> STR",
            "        Project packets.src AS src, COUNT(*) AS n  -> STR",
            "          GroupBy packets.src: COUNT(*)  -> STR",
            "            Window packets [UNBOUNDED]  -> MON",
            "      Window packets p [WINDOW 1 sec]  -> WKS",
        ],
    ),
    (
        "SELECT MAX(n) AS m FROM (SELECT src, COUNT(*) AS n FROM packets [NOW] GROUP BY src) a WHERE n > 1",
        [
            "Project MAX(a.n) AS m  -> STR",
            "  GroupBy (): MAX(a.n)  -> STR",
            "    Project n AS a.n  -> STR",
            "      Filter gt(n, 1)  -> STR",
            "        Project packets.src AS src, COUNT(*) AS n  -> STR",
            "          GroupBy packets.src: COUNT(*)  -> STR",
            "            Window packets [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
]


@pytest.mark.parametrize(("query", "expected"), PLANS)
def test_plan(query: str, expected: list[str]) -> None:
    assert explained(query) == expected


def test_keys_have_one_type() -> None:
    plan = continuous_plan(
        "SELECT a.src FROM packets [NOW] a, (SELECT COUNT(*) AS n FROM trades [NOW]) b WHERE n = src"
    )
    assert isinstance(plan, Map) and isinstance(plan.input, Join)
    ((left, right),) = plan.input.keys
    assert plan.input.left.schema.field(left).type == plan.input.right.schema.field(right).type == LONG


def test_inner_windows_get_other_names() -> None:
    plan = continuous_plan(
        "SELECT p.src FROM (SELECT p.src FROM packets [NOW] P, (SELECT dst FROM packets [NOW] p) q"
        " WHERE P.src = q.dst) a, packets [NOW] p WHERE a.src = p.src"
    )
    assert [base.alias for base in windows(plan)] == ["P'", "p''", "p"]


ONE, OTHER = "(SELECT src, dst FROM packets [NOW])", "(SELECT src, dst, port FROM packets [NOW])"
STARS = [
    (f"SELECT * FROM {ONE} a, {OTHER} b WHERE a.src = b.src", "a_src a_dst b_src b_dst port"),
    (f"SELECT Rstream(*) FROM {ONE} a, {OTHER} b WHERE a.src = b.src", "a_src a_dst b_src b_dst port"),
    (f"SELECT Wstream(*)[ROWS 10] FROM {ONE} a, {OTHER} b WHERE a.src = b.src", "a_src a_dst b_src b_dst port"),
    (f"SELECT * FROM {ONE} a JOIN {OTHER} b USING (src)", "src a_dst b_dst port"),
    (f"SELECT * FROM {ONE} a JOIN {OTHER} b USING (src, dst)", "src dst port"),
    (f"SELECT * FROM {ONE} a JOIN {OTHER} b USING (src) JOIN {ONE} c USING (src)", "src a_dst b_dst port c_dst"),
    # The column of USING is that of a and b, and keeps its name.
    (
        f"SELECT * FROM {ONE} a JOIN {OTHER} b USING (src, dst) JOIN {ONE} c ON a.src = c.dst",
        "src dst port c_src c_dst",
    ),
    (f"SELECT a.*, b.port FROM {ONE} a, {OTHER} b WHERE a.src = b.src", "src dst port"),
    (f"SELECT a.*, b.* FROM {ONE} a, {OTHER} b WHERE a.src = b.src", "a_src a_dst b_src b_dst port"),
    (f"SELECT a.*, b.* FROM {ONE} a JOIN {OTHER} b USING (src)", "a_src a_dst b_src b_dst port"),
    (
        f"SELECT * FROM {ONE} A JOIN (SELECT src AS SRC, port FROM packets [NOW]) b ON a.src = b.src",
        "A_src dst b_SRC port",
    ),
]


@pytest.mark.parametrize(("text", "names"), STARS)
def test_columns_of_one_name_get_their_aliases_as_prefixes(text: str, names: str) -> None:
    assert continuous_plan(text).schema.names == names.split()


def test_a_prefixed_column_is_that_of_its_alias() -> None:
    plan = continuous_plan(f"SELECT * FROM {ONE} a, {OTHER} b WHERE a.src = b.dst AND a.dst = b.src")
    assert isinstance(plan, Map)
    fields = {name: made.name for name, made in plan.outputs if isinstance(made, Field)}
    assert fields == {"a_src": "a.src", "a_dst": "a.dst", "b_src": "b.src", "b_dst": "b.dst", "port": "b.port"}


def test_a_stream_without_an_alias_gives_its_name() -> None:
    plan = continuous_plan("SELECT * FROM packets [NOW], packets [NOW] b WHERE packets.src = b.src")
    assert plan.schema.names[0] == "packets_ts" and plan.schema.names[-1].startswith("b_")


ERRORS = [
    ("SELECT a.src FROM packets [NOW] a, «packets» [NOW] b", "a join of windows needs an equality between them"),
    (
        "SELECT a.src FROM packets [NOW] a JOIN «packets» [NOW] b ON a.src > b.src",
        "a join of windows needs an equality",
    ),
    ("SELECT a.src FROM packets [NOW] a, «packets» [NOW] b WHERE a.src = 1 AND b.src = 1", "needs an equality"),
    ("SELECT a.src FROM packets [NOW] a, «(»SELECT src FROM packets [NOW]) b WHERE a.src = 1", "needs an equality"),
    ("SELECT a.src FROM packets [NOW] a «JOIN» packets [NOW] b", "JOIN needs USING (..) or ON .."),
    (
        "SELECT «src» FROM packets [NOW] a, packets [NOW] b WHERE a.src = b.src",
        "several windows: write a.src or b.src",
    ),
    (
        "SELECT *, b.src AS «a_src» FROM (SELECT src FROM packets [NOW]) a, packets [NOW] b WHERE a.src = b.src",
        "two columns of the answer are named 'a_src' and 'a_src'",
    ),
    ("SELECT a.src, «b.*» FROM packets [NOW] a, packets [NOW] b WHERE a.src = b.src", "are named 'src' and 'src'"),
    ("SELECT a.*, «a.*» FROM packets [NOW] a, packets [NOW] b WHERE a.src = b.src", "are named 'a_ts' and 'a_ts'"),
    ("SELECT a.src, «b.src» FROM packets [NOW] a, packets [NOW] b WHERE a.src = b.src", "are named 'src' and 'src'"),
    ("SELECT a.src FROM packets [NOW] a, trades [NOW] «A» WHERE a.src = 1", "'A' stands twice in FROM"),
    ("SELECT src FROM packets [NOW], «packets» [NOW]", "'packets' stands twice in FROM"),
    (
        "SELECT a.src FROM packets [NOW] a JOIN packets [NOW] b ON a.src = «SUM»(b.src)",
        "cannot stand in ON",
    ),
    (
        "SELECT a.src FROM packets [NOW] a JOIN packets [NOW] b ON a.src = «c».src, packets [NOW] c",
        "stream 'c'",
    ),
    ("SELECT a.src FROM packets [NOW] a JOIN trades [NOW] b USING («src»)", "unknown column 'src'"),
    (
        "SELECT a.src FROM packets [NOW] a JOIN (SELECT ts AS port FROM packets [NOW]) b USING («port»)",
        "= cannot compare INT with TIMESTAMP",
    ),
    (
        "SELECT a.src FROM packets [NOW] a JOIN packets [NOW] b ON «a.ok = b.ts»",
        "cannot compare BOOLEAN with",
    ),
    ("SELECT a.src FROM packets «[UNBOUNDED]» a, packets [NOW] b WHERE a.src = b.src", "a join over [UNBOUNDED]"),
    (
        "SELECT a.src FROM packets [NOW] a JOIN (SELECT src FROM packets «[UNBOUNDED]») b USING (src)",
        "give a window",
    ),
    ("SELECT a.src FROM packets [NOW] a «LEFT JOIN» packets [NOW] b", "JOIN needs USING (..) or ON .."),
    (
        "SELECT a.src FROM packets [NOW] a «FULL JOIN» packets [NOW] b ON a.src = 1",
        "a FULL JOIN needs an equality between its sides: ON a.k = b.k",
    ),
    (
        "SELECT a.src FROM packets [NOW] a LEFT JOIN packets «[UNBOUNDED]» b ON a.src = b.src",
        "a LEFT JOIN over [UNBOUNDED] would have to remember the whole stream",
    ),
    (
        "SELECT a.src FROM packets «[NOW INTERNAL]» a RIGHT JOIN packets [NOW] b ON a.src = b.src",
        "a RIGHT JOIN over an INTERNAL window is refused",
    ),
    (  # WHERE a.src = b.src would be tested behind the FULL JOIN
        (
            "SELECT a.src FROM packets [NOW] a, «packets» [NOW] b FULL JOIN packets [NOW] c ON b.src = c.src"
            " WHERE a.src = b.src"
        ),
        "a join of windows needs an equality between them",
    ),
    (
        "SELECT «MD5»(b.protocol) AS m FROM packets [NOW] a LEFT JOIN packets [NOW] b ON a.src = b.src",
        "function MD5 over joined windows, sub-queries or groups; compute it inside a sub-query over one window",
    ),
]
LATER = [
    ("SELECT a.src FROM packets [NOW] a «NATURAL JOIN» packets [NOW] b", "NATURAL JOIN"),
    ("SELECT a.src FROM packets [NOW] a «LEFT SEMI JOIN» packets [NOW] b ON a.src = b.src", "LEFT SEMI JOIN"),
    (
        "SELECT «MD5»(CONCAT(a.protocol, b.protocol)) AS m FROM packets [NOW] a, packets [NOW] b WHERE a.src = b.src",
        "function MD5 over joined windows, sub-queries or groups; compute it inside a sub-query over one window",
    ),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_continuous_error(text, reason)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str) -> None:
    assert isinstance(check_continuous_error(text, what), NotSupportedError)
