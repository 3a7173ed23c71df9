"""EXISTS and IN in continuous queries: semi and anti joins, and SQL's NOT IN."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.errors import CqlError, NotSupportedError
from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow, Column, Filter, Intersection, Map, Negation, Union
from sash.plan.expressions import Call, Field, RowExpression
from sash.sql import parse
from tests.sql.examples import check_continuous_error, continuous_plan, explained

SEC = 1_000_000
INT, BOOL = pa.int32(), pa.bool_()


def window(stream: str, alias: str, *columns: str, where: RowExpression | None = None) -> BaseWindow:
    made = tuple(Column(f"{alias}.{name}", RowExpression(name, INT, (name,))) for name in columns)
    return BaseWindow(stream, alias, TimeWindow(5 * SEC), made, where)


def test_not_exists() -> None:
    outer = window("packets", "s", "src", where=RowExpression("port = 80", BOOL, ("port",)))
    inner = window("trades", "t", "shares", where=RowExpression("price > 3", BOOL, ("price",)))
    query = (
        "SELECT src FROM packets [RANGE 5 sec] s WHERE NOT EXISTS"
        " (SELECT 1 FROM trades [RANGE 5 sec] t WHERE t.shares = s.src AND t.price > 3) AND port = 80"
    )
    negation = Negation(outer, inner, (("s.src", "t.shares"),), whole=True)
    assert continuous_plan(query) == Map(negation, (("src", Field("s.src", INT)),))


def test_in_is_an_intersection() -> None:
    query = "SELECT src FROM packets [RANGE 5 sec] s WHERE port IN (SELECT shares FROM trades [RANGE 5 sec])"
    outer, inner = window("packets", "s", "src", "port"), window("trades", "trades", "shares")
    intersection = Intersection(outer, inner, (("s.port", "trades.shares"),), whole=True)
    assert continuous_plan(query) == Map(intersection, (("src", Field("s.src", INT)),))


def test_not_in_knows_null() -> None:
    query = "SELECT src FROM packets [RANGE 5 sec] s WHERE port NOT IN (SELECT shares FROM trades [RANGE 5 sec] t)"
    s, t = window("packets", "s", "src", "port"), window("trades", "t", "shares")
    port, shares = Field("s.port", INT), Field("t.shares", INT)
    known = Filter(s, Call("is_not_null", (port,), BOOL))
    unmatched = Negation(known, t, (("s.port", "t.shares"),), whole=True)
    certain = Negation(unmatched, Filter(t, Call("is_null", (shares,), BOOL)), (), whole=True)
    unknown = Negation(Filter(s, Call("is_null", (port,), BOOL)), t, (), whole=True)
    assert continuous_plan(query) == Map(Union((certain, unknown)), (("src", Field("s.src", INT)),))


def upper(text: str) -> list[str]:
    """The plan of SELECT src FROM packets s, below its Project."""
    project, *nodes = explained(f"SELECT src FROM packets [RANGE 5 sec] s WHERE {text}")
    assert project == "Project s.src AS src  -> STR"
    return [node.removeprefix("  ") for node in nodes]


S = "  Window packets s [WINDOW 5 sec]  -> WKS"
T = "  Window trades t [WINDOW 1 sec]  -> WKS"
PLANS = [
    (  # without an equality all tuples are one group; what EXISTS selects does not matter
        "EXISTS (SELECT * FROM trades [RANGE 1 sec] t)",
        ["Intersection on TRUE, kept while there is a match  -> STR", S, T],
    ),
    (  # the thesis (3.5.1, 3.6) writes Rstream(*), which is the relation
        "EXISTS (SELECT Rstream(*) FROM trades [RANGE 1 sec] t)",
        ["Intersection on TRUE, kept while there is a match  -> STR", S, T],
    ),
    (
        "NOT EXISTS (SELECT Rstream(DISTINCT price) FROM trades [RANGE 1 sec] t WHERE t.shares = s.src)",
        ["Negation on s.src = t.shares, kept while there is no match  -> STR", S, T],
    ),
    (  # an expression of the query around it
        "EXISTS (SELECT s.src + 1 FROM trades [RANGE 1 sec] t)",
        ["Intersection on TRUE, kept while there is a match  -> STR", S, T],
    ),
    (
        "port IN (SELECT Rstream(shares) FROM trades [RANGE 1 sec] t)",
        ["Intersection on s.port = t.shares, kept while there is a match  -> STR", S, T],
    ),
    (
        "NOT NOT EXISTS (SELECT DISTINCT price, 1 FROM trades [RANGE 1 sec] t WHERE s.src = shares)",
        ["Intersection on s.src = t.shares, kept while there is a match  -> STR", S, T],
    ),
    (  # the inner s hides the outer one
        "EXISTS (SELECT 1 FROM packets [RANGE 5 sec] S WHERE s.port = 3)",
        [
            "Intersection on TRUE, kept while there is a match  -> STR",
            S,
            "  Window packets S' [WINDOW 5 sec] where port = 3  -> WKS",
        ],
    ),
    (  # a name that the sub-query has not is the outer one's
        "EXISTS (SELECT 1 FROM trades [RANGE 1 sec] t WHERE symbol = protocol AND dst = shares AND shares = dst)",
        ["Intersection on s.protocol = t.symbol AND s.dst = t.shares, kept while there is a match  -> STR", S, T],
    ),
    (
        "EXISTS (SELECT 1 FROM trades [RANGE 1 sec] t WHERE t.price = s.src + s.port)",
        ["Intersection on s.CAST(src + port AS DOUBLE) = t.price, kept while there is a match  -> STR", S, T],
    ),
    (
        "port + 1 IN (SELECT shares * 2 FROM trades [RANGE 1 sec] t WHERE t.symbol = s.protocol)",
        [
            "Intersection on s.port + 1 = t.shares * 2 AND s.protocol = t.symbol, kept while there is a match  -> STR",
            S,
            T,
        ],
    ),
    (
        "NOT (port IN (SELECT shares FROM trades [RANGE 1 sec] t WHERE t.symbol = s.protocol)) AND TRUE",
        [
            "Union  -> STR",
            "  Negation on s.protocol = t.symbol, kept while there is no match  -> STR",
            "    Negation on s.port = t.shares AND s.protocol = t.symbol, kept while there is no match  -> STR",
            "      Filter is_not_null(s.port)  -> WKS",
            "        Window packets s [WINDOW 5 sec] where TRUE  -> WKS",
            "      Window trades t [WINDOW 1 sec]  -> WKS",
            "    Filter is_null(t.shares)  -> WKS",
            "      Window trades t [WINDOW 1 sec]  -> WKS",
            "  Negation on s.protocol = t.symbol, kept while there is no match  -> STR",
            "    Filter is_null(s.port)  -> WKS",
            "      Window packets s [WINDOW 5 sec] where TRUE  -> WKS",
            "    Window trades t [WINDOW 1 sec]  -> WKS",
        ],
    ),
    (  # a sub-query with groups is a query of its own
        "port IN (SELECT COUNT(*) FROM trades [RANGE 1 sec] t GROUP BY symbol)",
        [
            "Intersection on s.CAST(port AS BIGINT) = count(1), kept while there is a match  -> STR",
            S,
            "  Project COUNT(*) AS count(1)  -> STR",
            "    GroupBy t.symbol: COUNT(*)  -> STR",
            "      Window trades t [WINDOW 1 sec]  -> WKS",
        ],
    ),
    (
        "src + 0.5 IN (SELECT MAX(shares) AS m FROM trades [RANGE 1 sec] t)",
        [
            "Intersection on s.src + 0.5 = m, kept while there is a match  -> STR",
            S,
            "  Project cast(m) AS m  -> STR",
            "    Project MAX(t.shares) AS m  -> STR",
            "      GroupBy (): MAX(t.shares)  -> STR",
            "        Window trades t [WINDOW 1 sec]  -> WKS",
        ],
    ),
    (
        "src IN (SELECT shares FROM trades [RANGE 1 sec] t UNION ALL SELECT port FROM packets [RANGE 2 sec])",
        [
            "Intersection on s.src = shares, kept while there is a match  -> STR",
            S,
            "  Union  -> WK",
            "    Project t.shares AS shares  -> WKS",
            "      Window trades t [WINDOW 1 sec]  -> WKS",
            "    Project packets.port AS port  -> WKS",
            "      Window packets [WINDOW 2 sec]  -> WKS",
        ],
    ),
    (  # several tests, in the order in which they were written
        (
            "EXISTS (SELECT 1 FROM trades [RANGE 1 sec] t) AND ok AND NOT EXISTS"
            " (SELECT 1 FROM trades [RANGE 1 sec] u WHERE u.shares = s.src)"
        ),
        [
            "Negation on s.src = u.shares, kept while there is no match  -> STR",
            "  Intersection on TRUE, kept while there is a match  -> STR",
            "    Window packets s [WINDOW 5 sec] where ok  -> WKS",
            "    Window trades t [WINDOW 1 sec]  -> WKS",
            "  Window trades u [WINDOW 1 sec]  -> WKS",
        ],
    ),
    (  # a test inside of a test
        (
            "EXISTS (SELECT 1 FROM trades [RANGE 1 sec] t WHERE t.shares = s.src"
            " AND NOT EXISTS (SELECT 1 FROM packets [ROWS 3] u WHERE u.port = t.shares))"
        ),
        [
            "Intersection on s.src = t.shares, kept while there is a match  -> STR",
            S,
            "  Negation on t.shares = u.port, kept while there is no match  -> STR",
            "    Window trades t [WINDOW 1 sec]  -> WKS",
            "    Window packets u [ROWS 3]  -> STR",
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), PLANS)
def test_plan(text: str, expected: list[str]) -> None:
    assert upper(text) == expected


def test_a_key_over_several_windows_is_computed_above_their_join() -> None:
    assert explained(
        "SELECT a.src FROM packets [RANGE 5 sec] a JOIN packets [RANGE 5 sec] b ON a.src = b.src"
        " WHERE EXISTS (SELECT 1 FROM trades [RANGE 1 sec] t WHERE t.shares = a.length + b.length)"
    ) == [
        "Project a.src AS src  -> STR",
        "  Intersection on a.length + b.length = t.shares, kept while there is a match  -> STR",
        "    Project a.src, a.length, b.length, b.src, add(a.length, b.length) AS a.length + b.length  -> WK",
        "      Join on a.src = b.src  -> WK",
        "        Window packets a [WINDOW 5 sec]  -> WKS",
        "        Window packets b [WINDOW 5 sec]  -> WKS",
        "    Window trades t [WINDOW 1 sec]  -> WKS",
    ]


SELECT = "SELECT src FROM packets [NOW] s WHERE "
ERRORS = [
    ("src > 3 OR «EXISTS» (SELECT 1 FROM trades [NOW])", "EXISTS (SELECT ..) is a condition of its own, joined"),
    ("NOT (ok AND port «IN» (SELECT shares FROM trades [NOW]))", "IN (SELECT ..) is a condition of its own"),
    ("(«EXISTS» (SELECT 1 FROM trades [NOW])) = ok", "EXISTS (SELECT ..) is a condition of its own"),
    ("EXISTS (SELECT 1 FROM trades [NOW] t WHERE «t.shares > s.src»)", "tied to the query around it by equalities"),
    ("EXISTS (SELECT 1 FROM trades [NOW] t WHERE «t.shares + s.src = t.price»)", "tied to the query around it"),
    (
        "EXISTS (SELECT 1 FROM trades [NOW] t WHERE «s.src > 1»)",
        "the query around the sub-query alone: write it",
    ),
    ("EXISTS (SELECT «x» FROM trades [NOW] t)", "unknown column 'x'"),
    ("EXISTS (SELECT «q».src FROM trades [NOW] t)", "unknown stream 'q'; known: s, t"),
    (
        "EXISTS (SELECT 1 FROM trades [NOW] t, «packets» [NOW] u WHERE t.shares = s.src)",
        "needs an equality",
    ),
    (
        "EXISTS (SELECT symbol FROM trades [NOW] t WHERE t.shares = «s.src» GROUP BY symbol)",
        "cannot speak of the query around it: compare with its answer, x IN (SELECT k .. GROUP BY k)",
    ),
    (
        "port NOT «IN» (SELECT shares, price FROM trades [NOW])",
        "NOT IN compares with a sub-query of one column",
    ),
    ("port «IN» (SELECT * FROM trades [NOW])", "IN compares with a sub-query of one column, this one has 6"),
    ("port «IN» (SELECT symbol, COUNT(*) FROM trades [NOW] GROUP BY symbol)", "one column, this one has 2"),
    ("port IN (SELECT shares FROM trades [NOW] «LIMIT» 3)", "a change stream has no order"),
    (
        "port IN (SELECT shares FROM trades «[UNBOUNDED]»)",
        "IN over [UNBOUNDED] would have to remember",
    ),
    ("NOT EXISTS (SELECT 1 FROM trades «[UNBOUNDED]» WHERE shares = length)", "NOT EXISTS over [UNBOUNDED]"),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_continuous_error(SELECT + text, reason)


def test_an_unbounded_left_side() -> None:
    text = "SELECT src FROM packets «[UNBOUNDED]» WHERE EXISTS (SELECT 1 FROM trades [NOW])"
    check_continuous_error(text, "EXISTS over [UNBOUNDED]")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT src IN (SELECT shares FROM trades [NOW]) AS x FROM packets [NOW]",
        "SELECT src FROM packets [NOW] WHERE src = (SELECT MAX(shares) FROM trades [NOW])",
        "SELECT COUNT(*) FROM packets [NOW] HAVING EXISTS (SELECT 1 FROM trades [NOW])",
    ],
)
def test_sub_queries_elsewhere_come_later(text: str) -> None:
    with pytest.raises(NotSupportedError, match="sub-queries"):
        continuous_plan(text)


def test_a_sub_query_begins_with_select() -> None:
    """sqlglot reads SELECT * before a FROM, which has no place in the text: an error about it could not be shown."""
    with pytest.raises(CqlError, match="expected SELECT at 'FROM'") as refused:
        parse("SELECT src FROM packets [WINDOW 4 min] WHERE src NOT IN (FROM packets)")
    assert refused.value.span is not None and refused.value.text[refused.value.span.start :].startswith("FROM packets)")
