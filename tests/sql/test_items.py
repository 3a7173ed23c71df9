"""TOP, FREQUENT, HISTOGRAM and APPROX_TOP: one row per item."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.errors import NotSupportedError
from sash.core.window import TimeWindow
from sash.plan.expressions import Call, Field, RowExpression
from sash.plan.nodes import (
    Aggregate,
    AggregateCall,
    Items,
    Key,
    Output,
    Project,
    StreamScan,
    StreamWindow,
    WindowFilter,
)
from tests.sql.examples import MIN, check_error, described, plan

WINDOWED = StreamWindow(StreamScan("packets"), TimeWindow(10 * MIN, 2 * MIN))
SRC = RowExpression("src", pa.int32(), ("src",))
LENGTH = RowExpression("length", pa.int32(), ("length",))
PROTOCOL = RowExpression("protocol", pa.string(), ("protocol",))
COUNT = AggregateCall("COUNT(src)", "count", SRC, pa.int64())
SUM = AggregateCall("SUM(length)", "sum", LENGTH, pa.int64())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TOP(3, src) FROM packets W",
        "SELECT TOP(3, src, COUNT(*)) FROM packets W",
        "SELECT top(3, packets.src, count(1)) FROM packets W",
        "SELECT TOP(3, src, COUNT(src)) FROM packets W",
    ],
)
def test_by_count(text: str) -> None:
    assert plan(text) == Project(
        Items(Aggregate(WINDOWED, (Key("src", SRC),), (COUNT,)), "top", 3),
        (Output("src", Field("src", pa.int32())), Output("count", Field("COUNT(src)", pa.int64()))),
    )


def test_by_weight_within_groups() -> None:
    source = WindowFilter(WINDOWED, RowExpression("ok", pa.bool_(), ("ok",)))
    keys = (Key("protocol", PROTOCOL), Key("src", SRC))
    protocol = Field("protocol", pa.string())
    assert plan(
        "SELECT UPPER(protocol) AS name, TOP(3, src, SUM(length)) AS who, protocol FROM packets W WHERE ok"
        " GROUP BY protocol"
    ) == Project(
        Items(Aggregate(source, keys, (SUM,)), "top", 3),
        (
            Output("name", Call("upper", (protocol,), pa.string())),
            Output("who", Field("src", pa.int32())),
            Output("weight", Field("SUM(length)", pa.int64())),
            Output("protocol", protocol),
        ),
    )


@pytest.mark.parametrize("function", ["frequent", "approx_top"])
def test_bounds(function: str) -> None:
    estimates = (Output("lower", Field("lower", pa.int64())), Output("upper", Field("upper", pa.int64())))
    assert plan(f"SELECT {function}(3, src) FROM packets W WITH BOUNDS") == Project(
        Items(Aggregate(WINDOWED, (Key("src", SRC),), (COUNT,)), function, 3, bounds=True),
        (Output("src", Field("src", pa.int32())), Output("count", Field("COUNT(src)", pa.int64())), *estimates),
    )


def test_a_key_that_is_named_as_a_bound() -> None:
    bound = plan("SELECT `lower` AS low, APPROX_TOP(3, x) FROM odd [ROWS 9 SLIDE 1] GROUP BY `lower` WITH BOUNDS")
    assert isinstance(bound.input, Items) and [key.name for key in bound.input.input.keys] == ["lower'", "x"]
    assert bound.outputs[0] == Output("low", Field("lower'", pa.int32()))
    assert bound.outputs[3] == Output("lower", Field("lower", pa.int64()))


PLANS = [
    (
        "SELECT HISTOGRAM(length DIV 100) FROM packets W",
        [
            "Project length DIV 100, COUNT(length DIV 100) AS count",
            "Items HISTOGRAM of length DIV 100",
            "Aggregate COUNT(length DIV 100) BY length DIV 100",
        ],
    ),
    (
        "SELECT src + 1 AS k, FREQUENT(5, UPPER(protocol)) AS p FROM packets W x GROUP BY 1",
        [
            "Project src + 1 AS k, UPPER(protocol) AS p, COUNT(UPPER(protocol)) AS count",
            "Items FREQUENT 5 of UPPER(protocol)",
            "Aggregate COUNT(UPPER(protocol)) BY src + 1, UPPER(protocol)",
        ],
    ),
    (
        "SELECT APPROX_TOP(2, protocol) FROM packets W GROUP BY src",
        [
            "Project protocol, COUNT(protocol) AS count",
            "Items APPROX_TOP 2 of protocol",
            "Aggregate COUNT(protocol) BY src, protocol",
        ],
    ),
]


@pytest.mark.parametrize(("query", "expected"), PLANS)
def test_plan(query: str, expected: list[str]) -> None:
    assert described(query) == expected


ERRORS = [
    ("SELECT TOP(«src», 3) FROM packets W", "TOP needs a positive whole constant first, for example TOP(10, src)"),
    ("SELECT TOP(«0», src) FROM packets W", "TOP needs a positive whole constant first"),
    ("SELECT FREQUENT(«1.5», src) FROM packets W", "FREQUENT needs a positive whole constant first"),
    ("SELECT «TOP»(3) FROM packets W", "TOP takes a count k and an item, and a weight such as SUM(y); got 1 argument"),
    ("SELECT «HISTOGRAM»(3, src) FROM packets W", "HISTOGRAM takes an item; got 2 arguments"),
    ("SELECT «FREQUENT»(3, src, SUM(dst)) FROM packets W", "FREQUENT takes a count k and an item; got 3"),
    ("SELECT TOP(3, «*») FROM packets W", "TOP needs a column or an expression as its item"),
    ("SELECT TOP(3, «MAX»(src)) FROM packets W", "the aggregate MAX cannot stand inside TOP"),
    ("SELECT TOP(3, src, SUM(«protocol»)) FROM packets W", "SUM needs a number"),
    ("SELECT TOP(3, src), «COUNT»(*) FROM packets W", "cannot stand beside TOP, only GROUP BY keys"),
    ("SELECT TOP(3, src), «FREQUENT»(3, dst) FROM packets W", "rows of one TOP, FREQUENT, HISTOGRAM or APPROX_TOP"),
    ("SELECT «dst», TOP(3, src) FROM packets W", "'dst' is neither in GROUP BY nor inside an aggregate"),
    ("SELECT «src» AS k, TOP(3, src) FROM packets W", "'src' is neither in GROUP BY nor inside an aggregate"),
    ("SELECT «*», TOP(3, src) FROM packets W", "SELECT * has no meaning"),
    ("SELECT TOP(3, «src») FROM packets W GROUP BY src", "'src' is in GROUP BY, so a group has one such item"),
    ("SELECT TOP(3, src) FROM packets W GROUP BY «1»", "an aggregate cannot stand in GROUP BY"),
    ("SELECT «TOP»(3, src) + 1 FROM packets W", "stands by itself in the SELECT list"),
    ("SELECT COUNT(*) FROM packets W HAVING «TOP»(3, src) > 1", "FROM (SELECT .. ) a"),
    ("SELECT COUNT(*) FROM packets W WHERE «TOP»(3, src) > 1", "the aggregate TOP cannot stand in WHERE"),
    ("SELECT TOP(3, src) FROM packets W «ORDER BY» count", "write SELECT .. FROM (SELECT TOP(..) ..) a ORDER BY .."),
    ("SELECT TOP(3, src) FROM packets W «LIMIT» 3", "FROM (SELECT TOP(..) ..) a LIMIT .."),
    ("SELECT TOP(3, src) FROM packets W «HAVING» count > 3", "FROM (SELECT TOP(..) ..) a WHERE .."),
    ("SELECT dst AS «count», TOP(3, src) FROM packets W GROUP BY dst", "give the key an alias with AS"),
    ("SELECT dst AS «lower», APPROX_TOP(3, src) FROM packets W GROUP BY dst WITH BOUNDS", "give the key an alias"),
    ("SELECT TOP(3, src) AS «count» FROM packets W", "the item's column would be named 'count'"),
    ("SELECT «`count`», TOP(3, x) FROM odd [ROWS 9 SLIDE 1] GROUP BY `count`", "give the key an alias with AS"),
    ("SELECT «TOP(3, `count`») FROM odd [ROWS 9 SLIDE 1]", "the item's column would be named 'count'"),
    ("SELECT «TOP(3, weight, SUM(x»)) FROM odd [ROWS 9 SLIDE 1]", "the item's column would be named 'weight'"),
    ("SELECT dst, TOP(3, src) AS «dst» FROM packets W GROUP BY dst", "two columns of the answer are named"),
    ("SELECT TOP(3, src) FROM packets W «WITH BOUNDS»", "the counts of TOP are exact"),
    ("SELECT HISTOGRAM(src) FROM packets W «WITH BOUNDS»", "the counts of HISTOGRAM are exact"),
]
LATER = [
    ("SELECT TOP(3, src, «MAX»(dst)) FROM packets W", "TOP by another weight than SUM(..) or COUNT(*)"),
    ("SELECT TOP(3, src, «COUNT»(dst)) FROM packets W", "TOP by another weight"),
    ("SELECT TOP(3, src, «length») FROM packets W", "TOP by another weight"),
    ("SELECT TOP(3, «tags») FROM packets W", "TOP of ARRAY<STRING>"),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_error(text, reason)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str) -> None:
    assert isinstance(check_error(text, what), NotSupportedError)
