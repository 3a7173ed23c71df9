"""Aggregates that give one value per group: their calls in the plan, their types, and WITH BOUNDS."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import NotSupportedError
from sash.plan.expressions import Field, RowExpression
from sash.plan.nodes import Aggregate, AggregateCall, Having, Output, Parameter, WindowFilter
from tests.sql.examples import check_error, described, find, plan

TYPES = {
    "src": pa.int32(),
    "protocol": pa.string(),
    "price": pa.decimal128(10, 2),
    "ratio": pa.float64(),
    "day": pa.date32(),
    "ts": pa.timestamp("us", tz="UTC"),
    "ok": pa.bool_(),
}
P90 = (Fraction(9, 10),)
CALLS: list[tuple[str, str, str, pa.DataType, tuple[Parameter, ...]]] = [
    ("COUNT(DISTINCT protocol)", "count_distinct", "protocol", pa.int64(), ()),
    ("MEDIAN(src)", "median", "src", pa.float64(), ()),
    ("MEDIAN(price)", "median", "price", pa.float64(), ()),
    ("QUANTILE(src, 0.9)", "quantile", "src", pa.int32(), P90),
    ("QUANTILE(protocol, 0.9)", "quantile", "protocol", pa.string(), P90),
    ("QUANTILE(ts, 0.9)", "quantile", "ts", TYPES["ts"], P90),
    ("QUANTILE_CONT(price, 0.9)", "quantile_cont", "price", pa.float64(), P90),
    ("MODE(day)", "mode", "day", pa.date32(), ()),
    ("APPROX_COUNT_DISTINCT(protocol)", "approx_count_distinct", "protocol", pa.int64(), ()),
    ("APPROX_QUANTILE(src, 0.9)", "approx_quantile", "src", pa.float64(), P90),
    ("COUNT_MIN(src, 5)", "count_min", "src", pa.int64(), (5,)),
    ("BOOL_AND(ok)", "bool_and", "ok", pa.bool_(), ()),
    ("ANY_VALUE(day)", "any_value", "day", pa.date32(), ()),
    ("BIT_XOR(src)", "bit_xor", "src", pa.int32(), ()),
    ("SKEWNESS(price)", "skewness", "price", pa.float64(), ()),
    ("COLLECT_SET(price)", "collect_set", "price", pa.list_(TYPES["price"]), ()),
    ("COLLECT_SET(protocol, 20000)", "collect_set", "protocol", pa.list_(pa.string()), (20_000,)),
]


@pytest.mark.parametrize(("text", "function", "column", "type", "parameters"), CALLS)
def test_calls(text: str, function: str, column: str, type: pa.DataType, parameters: tuple[Parameter, ...]) -> None:
    argument = RowExpression(column, TYPES[column], (column,))
    expected = AggregateCall(text, function, argument, type, parameters)
    bound = plan(f"SELECT {text.lower()} AS x FROM packets W")
    assert isinstance(bound.input, Aggregate) and bound.input.calls == (expected,)
    assert bound.outputs == (Output("x", Field(text, type)),)


_KEYED = "CASE WHEN ({0}) IS NOT NULL THEN named_struct('_0', {0}, '_1', {1}) END"


@pytest.mark.parametrize(
    ("text", "name", "argument", "type"),
    [
        ("MIN_BY(ok, src)", "MIN_BY(ok, src)", _KEYED.format("src", "ok"), pa.bool_()),
        ("FIRST(price)", "FIRST(price)", _KEYED.format("ts", "price"), TYPES["price"]),
        ("LAST_VALUE(price, false)", "LAST(price)", _KEYED.format("ts", "price"), TYPES["price"]),
        ("FIRST(src) RESPECT NULLS", "FIRST(src)", _KEYED.format("ts", "src"), TYPES["src"]),
    ],
)
def test_pairs(text: str, name: str, argument: str, type: pa.DataType) -> None:
    (call,) = find(f"SELECT {text} FROM packets W", Aggregate).calls
    assert (call.name, call.type, call.condition) == (name, type, None)
    assert call.argument is not None and call.argument.sql == argument


_LISTED = "CASE WHEN (protocol) IS NOT NULL THEN named_struct('_0', {0}, '_1', protocol) END"
VALUE_LISTS = [
    ("COLLECT_LIST(protocol)", "COLLECT_LIST(protocol)", _LISTED.format("ts"), ()),
    ("ARRAY_AGG(protocol, 5)", "COLLECT_LIST(protocol, 5)", _LISTED.format("ts"), (5,)),
    ("ARRAY_AGG(DISTINCT protocol)", "COLLECT_SET(protocol)", "protocol", ()),
    (
        "LISTAGG(protocol, ', ')",
        "LISTAGG(protocol, ', ') WITHIN GROUP (ORDER BY ts)",
        _LISTED.format("ts"),
        (", ", False, False),
    ),
    (
        "STRING_AGG(DISTINCT protocol)",
        "LISTAGG(DISTINCT protocol, '') WITHIN GROUP (ORDER BY protocol)",
        "protocol",
        ("", True, False),
    ),
    (
        "LISTAGG(protocol, '', 5) WITHIN GROUP (ORDER BY src DESC)",
        "LISTAGG(protocol, '', 5) WITHIN GROUP (ORDER BY src DESC)",
        _LISTED.format("src"),
        ("", False, True, 5),
    ),
]


@pytest.mark.parametrize(("text", "name", "argument", "parameters"), VALUE_LISTS)
def test_lists_of_values(text: str, name: str, argument: str, parameters: tuple[Parameter, ...]) -> None:
    """The name is the canonical text: it is read as the same aggregate."""
    (call,) = find(f"SELECT {text} FROM packets W", Aggregate).calls
    assert (call.name, call.parameters) == (name, parameters) and str(call) == name
    assert call.argument is not None and call.argument.sql == argument
    assert find(f"SELECT {name} FROM packets W", Aggregate).calls == (call,)


@pytest.mark.parametrize(
    ("text", "function", "condition", "where"),
    [
        ("SUM(src) FILTER (WHERE ok AND src > 2)", "sum", "ok AND src > 2", "port > 1 AND ok AND src > 2"),
        ("COUNT_IF(ok)", "count", "ok", "port > 1 AND ok"),
        ("COUNT_IF(ok) FILTER (WHERE src > 2)", "count", "ok AND src > 2", "port > 1 AND ok AND src > 2"),
        ("MEDIAN(src) FILTER (WHERE ok)", "median", "ok", "port > 1 AND ok"),
        ("LAST(src) IGNORE NULLS", "last", "src IS NOT NULL", "port > 1 AND src IS NOT NULL"),
        ("FIRST(src, true)", "first", "src IS NOT NULL", "port > 1 AND src IS NOT NULL"),
    ],
)
def test_a_filter_is_a_part_of_the_predicate(text: str, function: str, condition: str, where: str) -> None:
    """An aggregate with FILTER shares with a query that has the condition in WHERE."""
    (call,) = find(f"SELECT {text} AS n FROM packets W WHERE port > 1", Aggregate).calls
    assert call.function == function and call.condition is not None and call.condition.sql == condition
    written = find(f"SELECT COUNT(*) FROM packets W WHERE {where}", WindowFilter)
    assert call.filtered == written.predicate and call.filtered.terms == written.predicate.terms


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("COUNT_IF(«src»)", "COUNT_IF needs a condition, but 'src' is INT"),
        ("BOOL_OR(«src»)", "BOOL_OR needs a condition, but 'src' is INT"),
        ("BIT_AND(«ratio»)", "BIT_AND needs a whole number, but 'ratio' is DOUBLE"),
        ("CORR(src, «protocol»)", "CORR needs a number, but 'protocol' is STRING"),
        ("«CORR»(src)", "CORR takes 2 arguments, got 1"),
        ("«MIN_BY»(src)", "MIN_BY takes 2 arguments, got 1"),
        ("FIRST(src, «1»)", "FIRST takes TRUE or FALSE as its second argument: FIRST(x) IGNORE NULLS"),
        ("«MAX»(src) IGNORE NULLS", "IGNORE NULLS stands behind FIRST(x) and LAST(x)"),
        ("SUM(src) FILTER (WHERE «src»)", "FILTER needs a condition"),
        ("SUM(src) FILTER (WHERE «MAX»(src) > 1)", "cannot stand inside FILTER (WHERE ..); HAVING tests aggregates"),
        ("«UPPER»(protocol) FILTER (WHERE ok)", "FILTER stands behind an aggregate, and UPPER(protocol) is none"),
        ("«PERCENTILE_CONT»(src, 0.5)", "write PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)"),
        ("PERCENTILE_DISC(«50») WITHIN GROUP (ORDER BY src)", "a constant from 0 to 1, got 50; 50 percent is 0.5"),
    ],
)
def test_bad_arguments(text: str, reason: str) -> None:
    check_error(f"SELECT {text} FROM packets W", reason)


def test_percentiles() -> None:
    bound = plan(
        "SELECT PERCENTILE(src, 0.9), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY src DESC),"
        " PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY src DESC) FROM packets W"
    )
    assert [str(output.expression) for output in bound.outputs] == [
        "QUANTILE_CONT(src, 0.9)",
        "QUANTILE_CONT(src, 0.1)",
        "PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY src DESC)",
    ]


@pytest.mark.parametrize(
    ("column", "constant", "value"),
    [
        ("src", "-3", -3),
        ("src", "5.0", 5),
        ("src", "5L", 5),
        ("protocol", "'TCP'", "TCP"),
        ("price", "2", Decimal("2.00")),
        ("price", "1.5", Decimal("1.50")),
        ("ratio", "2", 2.0),
        ("ratio", "0.1", 0.1),
        ("ok", "false", False),
        ("day", "'2024-02-29'", date(2024, 2, 29)),
        ("day", "DATE '2024-02-29'", date(2024, 2, 29)),
        ("ts", "TIMESTAMP '2024-02-29 12:00:00'", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("ts", "'2024-02-29 12:00:00+02:00'", datetime(2024, 2, 29, 10, tzinfo=UTC)),
    ],
)
def test_the_value_of_count_min_is_of_the_columns_type(column: str, constant: str, value: Parameter) -> None:
    (call,) = find(f"SELECT COUNT_MIN({column}, {constant}) FROM packets W", Aggregate).calls
    assert call.parameters == (value,) and type(call.parameters[0]) is type(value)
    assert pa.scalar(call.parameters[0], TYPES[column]).as_py() == value


@given(st.integers(0, 10**9), st.integers(0, 12))
def test_the_fraction_of_a_quantile_is_exact(digits: int, zeros: int) -> None:
    written = f"0.{digits:09}{'0' * zeros}" if digits < 10**9 else "1.0"
    (call,) = find(f"SELECT QUANTILE(src, {written}) FROM packets W", Aggregate).calls
    assert call.parameters == (Fraction(digits, 10**9),)


def test_one_call_for_one_fraction_however_it_is_written() -> None:
    (call,) = find(
        "SELECT QUANTILE(src, .5) a, QUANTILE(SRC, 0.50) b, quantile(src, 5e-1) c FROM packets W", Aggregate
    ).calls
    assert call.name == "QUANTILE(src, 0.5)"


def test_many_aggregates_in_one_query() -> None:
    assert described(
        "SELECT protocol, COUNT(DISTINCT src) - COUNT(*) AS d, MEDIAN(length) / AVG(length), MODE(port) FROM packets W"
        " GROUP BY protocol HAVING QUANTILE(length, 0.9) > 2 * MEDIAN(length) ORDER BY QUANTILE_CONT(length, 0.1)"
    ) == [
        (
            "Project protocol, subtract(COUNT(DISTINCT src), COUNT(*)) AS d,"
            " divide(MEDIAN(length), AVG(length)) AS median(length) / avg(length), MODE(port) AS mode(port)"
        ),
        "Sort QUANTILE_CONT(length, 0.1) ASC",
        "Having gt(cast(QUANTILE(length, 0.9)), multiply(2.0, MEDIAN(length)))",
        (
            "Aggregate COUNT(DISTINCT src), COUNT(*), MEDIAN(length), AVG(length), MODE(port), QUANTILE(length, 9/10),"
            " QUANTILE_CONT(length, 1/10) BY protocol"
        ),
    ]


def test_outputs_without_an_alias_are_named_as_spark_does() -> None:
    bound = plan("SELECT COUNT(DISTINCT SRC), Quantile(length, 0.90), COUNT_MIN(protocol, 'TCP') FROM packets W")
    names = [output.name for output in bound.outputs]
    assert names == ["count(DISTINCT src)", "quantile(length, 0.9)", "count_min(protocol, 'TCP')"]


def test_bounds() -> None:
    bound = plan(
        "SELECT ok, APPROX_COUNT_DISTINCT(src) AS n, COUNT(*) AS packets, COUNT_MIN(src, 7) AS sevens,"
        " APPROX_QUANTILE(ratio, 0.5) + 1 AS shifted FROM packets W GROUP BY ok"
        " HAVING n_lower > 10 ORDER BY 3, n_upper LIMIT 5 WITH BOUNDS"
    )
    src = RowExpression("src", pa.int32(), ("src",))
    assert [output.name for output in bound.outputs] == [
        "ok",
        *("n", "n_lower", "n_upper", "packets"),
        *("sevens", "sevens_lower", "sevens_upper", "shifted"),
    ]
    aggregate = find("SELECT COUNT_MIN(src, 7) AS n FROM packets W WITH BOUNDS", Aggregate)
    assert aggregate.calls == (
        AggregateCall("COUNT_MIN(src, 7)", "count_min", src, pa.int64(), (7,)),
        AggregateCall("COUNT_MIN_LOWER(src, 7)", "count_min_lower", src, pa.int64(), (7,)),
        AggregateCall("COUNT_MIN_UPPER(src, 7)", "count_min_upper", src, pa.int64(), (7,)),
    )
    assert described("SELECT APPROX_QUANTILE(src, 0.5) q FROM packets W HAVING q_upper > 1 WITH BOUNDS") == [
        (
            "Project APPROX_QUANTILE(src, 0.5) AS q, APPROX_QUANTILE_LOWER(src, 0.5) AS q_lower,"
            " APPROX_QUANTILE_UPPER(src, 0.5) AS q_upper"
        ),
        "Having gt(APPROX_QUANTILE_UPPER(src, 0.5), 1.0)",
        "Aggregate APPROX_QUANTILE(src, 1/2), APPROX_QUANTILE_LOWER(src, 1/2), APPROX_QUANTILE_UPPER(src, 1/2) BY ()",
    ]


@pytest.mark.parametrize(
    ("condition", "approximate"),
    [
        ("APPROX SUM(length) > 5", True),
        ("approx (total > 5)", True),
        ("APPROX NOT total > 5", True),
        ("APPROX 5 < total AND src > 1", True),
        ("SUM(length) > 5", False),
        ("approx > 5", False),
        ("approx NOT IN (5)", False),
        ("approx BETWEEN 1 AND 2", False),
        ("approx IS NOT NULL", False),
        ("APPROX approx > 5", True),
    ],
)
def test_having_approx(condition: str, approximate: bool) -> None:
    selected = "SELECT src, SUM(length) AS total, MAX(length) AS approx FROM packets W GROUP BY src"
    assert find(f"{selected} HAVING {condition} ORDER BY src", Having).approximate is approximate


ERRORS = [
    (
        "SELECT MEDIAN(«protocol») FROM packets W",
        "MEDIAN needs a number, but 'protocol' is STRING; QUANTILE(protocol, 0.5) takes any type with an order",
    ),
    ("SELECT MEDIAN(«day») FROM packets W", "QUANTILE(day, 0.5) takes any type with an order"),
    ("SELECT QUANTILE_CONT(«protocol», 0.1) FROM packets W", "QUANTILE(protocol, p) takes any type with an order"),
    ("SELECT APPROX_QUANTILE(«ts», 0.1) FROM packets W", "APPROX_QUANTILE needs a number, but 'ts' is TIMESTAMP"),
    ("SELECT MEDIAN(«*») FROM packets W", "MEDIAN(*) has no meaning"),
    ("SELECT «MEDIAN»(src, dst) FROM packets W", "MEDIAN takes 1 argument, got 2"),
    ("SELECT «QUANTILE»(src) FROM packets W", "QUANTILE takes 2 arguments, got 1"),
    ("SELECT QUANTILE(src, «dst») FROM packets W", "QUANTILE needs a constant from 0 to 1 as its second argument"),
    ("SELECT QUANTILE(src, «'0.5'») FROM packets W", "a constant from 0 to 1"),
    ("SELECT QUANTILE(src, «90») FROM packets W", "got 90; 90 percent is 0.9"),
    ("SELECT QUANTILE(src, -«0.1») FROM packets W", "a constant from 0 to 1, got -0.1"),
    ("SELECT MODE(«NULL») FROM packets W", "MODE needs a type: write CAST(NULL AS ..)"),
    ("SELECT COUNT(DISTINCT «NULL») FROM packets W", "COUNT(DISTINCT ..) needs a type"),
    ("SELECT COUNT(DISTINCT «MAX»(src)) FROM packets W", "the aggregate MAX cannot stand inside COUNT"),
    ("SELECT COUNT_MIN(src, «1.5») FROM packets W", "COUNT_MIN needs a constant of type INT as its second argument"),
    ("SELECT COUNT_MIN(src, «3000000000») FROM packets W", "a constant of type INT"),
    ("SELECT COUNT_MIN(src, «'5'») FROM packets W", "a constant of type INT"),
    ("SELECT COUNT_MIN(src, «dst») FROM packets W", "not dst"),
    ("SELECT COUNT_MIN(src, «NULL») FROM packets W", "a constant of type INT"),
    ("SELECT COUNT_MIN(price, «1.555») FROM packets W", "a constant of type DECIMAL(10,2)"),
    ("SELECT COUNT_MIN(day, «'tomorrow'») FROM packets W", "a constant of type DATE"),
    ("SELECT COUNT_MIN(protocol, «5») FROM packets W", "a constant of type STRING"),
    ("SELECT COUNT(*) FROM packets W WHERE «MEDIAN»(src) > 1", "the aggregate MEDIAN cannot stand in WHERE"),
    ("SELECT «MEDIAM»(src) FROM packets W", "did you mean 'MEDIAN'?"),
    ("SELECT «COUNT_DISTINCT»(src) FROM packets W", "unknown function"),
    ("SELECT «PERCENTILE»(length) FROM packets W", "PERCENTILE takes 2 arguments, got 1"),
    ("SELECT «MEAN»(length, 2) FROM packets W", "MEAN takes 1 argument, got 2"),
    ("SELECT APPROX_PERCENTILE(length, «5») FROM packets W", "APPROX_PERCENTILE needs a constant from 0 to 1, got 5"),
    ("SELECT «COLLECT_LIST»(src, 1, 2) FROM packets W", "COLLECT_LIST takes a value and the most elements of its list"),
    (
        "SELECT «LISTAGG»() FROM packets W",
        "LISTAGG takes a value, a separator and the most elements of its list, got 0",
    ),
    ("SELECT COLLECT_LIST(«*») FROM packets W", "COLLECT_LIST(*) has no meaning"),
    ("SELECT COLLECT_SET(src, «dst») FROM packets W", "a whole constant from 1 to 1,000,000 as the most elements"),
    ("SELECT ARRAY_AGG(src, «1000001») FROM packets W", "ARRAY_AGG needs a whole constant from 1 to 1,000,000"),
    (
        "SELECT LISTAGG(«src», ', ') FROM packets W",
        "LISTAGG needs a STRING, but 'src' is INT; write CAST(src AS STRING)",
    ),
    ("SELECT STRING_AGG(protocol, «src») FROM packets W", "STRING_AGG needs a constant STRING between the values"),
    (
        "SELECT LISTAGG(DISTINCT protocol, ', ') WITHIN GROUP (ORDER BY «src») FROM packets W",
        "LISTAGG(DISTINCT protocol, ..) can only be ordered by protocol",
    ),
    (
        "SELECT COLLECT_LIST(«MAX»(src)) FROM packets W",
        "the aggregate MAX cannot stand inside COLLECT_LIST",
    ),
    (
        "SELECT protocol, COLLECT_SET(src) AS l FROM packets W GROUP BY protocol HAVING «l = l»",
        "= cannot compare ARRAY<INT> with ARRAY<INT>",
    ),
    ("SELECT COUNT(*) FROM packets W «WITH BOUNDS»", "needs a column that is one approximate aggregate"),
    ("SELECT APPROX_COUNT_DISTINCT(src) + 1 FROM packets W «WITH BOUNDS»", "one approximate aggregate"),
    ("SELECT ok AS n_lower, APPROX_COUNT_DISTINCT(src) AS «n» FROM packets W GROUP BY ok WITH BOUNDS", "'n_lower'"),
]


@pytest.mark.parametrize("name", ["APPROX_PERCENTILE", "PERCENTILE_APPROX"])
def test_the_approximate_percentile_of_spark(name: str) -> None:
    ours = described("SELECT APPROX_QUANTILE(src, 0.5) AS q FROM packets W")
    assert described(f"SELECT {name}(src, 0.5) AS q FROM packets W") == ours


LATER = [
    ("SELECT PERCENTILE(length, 0.5, «2») FROM packets W", "the third argument of PERCENTILE, how often"),
    (
        "SELECT APPROX_PERCENTILE(length, 0.5, «100») FROM packets W",
        "of APPROX_PERCENTILE, its accuracy",
    ),
    ("SELECT MODE(«tags») FROM packets W", "MODE of ARRAY<STRING>"),
    ("SELECT COUNT(DISTINCT «tags») FROM packets W", "COUNT(DISTINCT ..) of ARRAY<STRING>"),
    ("SELECT «COUNT»(DISTINCT *) FROM packets W", "COUNT(DISTINCT *); name the columns"),
    ("SELECT «AVG»(DISTINCT src) FROM packets W", "AVG(DISTINCT ..)"),
    ("SELECT COLLECT_LIST(«tags») FROM packets W", "COLLECT_LIST of ARRAY<STRING>"),
    ("SELECT «COLLECT_SET»(src) WITHIN GROUP (ORDER BY src) FROM packets W", "WITHIN GROUP behind COLLECT_SET"),
    (
        "SELECT LISTAGG(protocol) WITHIN GROUP (ORDER BY src, «dst») FROM packets W",
        "LISTAGG WITHIN GROUP by several keys",
    ),
    (
        "SELECT LISTAGG(protocol) WITHIN GROUP (ORDER BY «src» NULLS LAST) FROM packets W",
        "other NULLS in WITHIN GROUP than first, or last with DESC",
    ),
    ("SELECT COLLECT_SET(src) AS l FROM packets W ORDER BY «l»", "ORDER BY of ARRAY<INT>"),
    ("SELECT «APPROX_TOP_K»(src) FROM packets W", "APPROX_TOP comes near"),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_error(text, reason)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str) -> None:
    assert isinstance(check_error(text, what), NotSupportedError)
