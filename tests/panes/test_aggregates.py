"""The conformance matrix: every aggregate over every type of argument, through panes, equals a recomputation."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.window import TimeWindow
from sash.panes.aggregates import AGGREGATES
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.partials import Combine, Partial
from tests.panes.raw import SparkOverflowError, column, lift_rows, recompute, same
from tests.support.examples import examples

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-100, 100)),
    pa.float32(): st.floats(-1e6, 1e6, width=32) | st.sampled_from([math.nan, math.inf, -math.inf, -0.0]),
    pa.float64(): st.floats(-1e9, 1e9) | st.sampled_from([math.nan, math.inf, -math.inf, -0.0]),
    pa.decimal128(10, 2): st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(f"{n}E-2")),
    pa.decimal128(38, 4): st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-4"))
    | st.integers(-(10**6), 10**6).map(lambda n: Decimal(f"{n}E-4")),
    pa.date32(): st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    pa.timestamp("us", "UTC"): st.datetimes(
        dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC)
    ),
    pa.timestamp("us"): st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    pa.string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.bool_(): st.booleans(),
}
ORDERED = ("min", "max", "count", "any_value")
CONDITIONS = ("bool_and", "bool_or")


def is_number(type: pa.DataType) -> bool:
    return pt.is_integer(type) or pt.is_floating(type) or pt.is_decimal(type)


# The approximate ones have tests of their own, among the sketches; pairs, bits and higher moments are compared with
# DuckDB (tests/runtime/test_aggregate_oracle.py) and Spark (tests/runtime/test_streaming_aggregates.py).
_ELSEWHERE = ("approx", "regr", "co", "bit", "first", "last", "min_by", "max_by", "skewness", "kurtosis")
EXACT = [
    name
    for name in AGGREGATES
    if name == "count" or (not name.startswith(_ELSEWHERE) and not name.endswith(("_lower", "_upper")))
]


def takes(name: str, type: pa.DataType) -> bool:
    return pt.is_boolean(type) if name in CONDITIONS else is_number(type) or name in ORDERED


ALLOWED = [(name, type) for name in EXACT for type in VALUES if takes(name, type)]
REFUSED = [(name, type) for name in EXACT for type in VALUES if (name, type) not in ALLOWED]


def through_panes(name: str, type: pa.DataType | None, panes: list[list[Any]]) -> pa.Array:
    """Pane i holds the values i; the answer over all of them."""
    argument = None if type is None else column("x", type)
    partials = AGGREGATES[name].lift(argument, None)
    synopsis = BasicIntervalSynopsis([])
    synopsis.require(partials, None)
    for end, values in enumerate(panes, 1):
        synopsis.absorb(lift_rows([(end, {"x": value}) for value in values], 1, [], list(partials)))
    synopsis.close(len(panes))
    (view,) = synopsis.scan({TimeWindow(len(panes) + 1): list(partials)}, len(panes))
    return AGGREGATES[name].lower(partials, {p: view.accumulator.merged(p, None) for p in partials})


def check(name: str, type: pa.DataType | None, panes: list[list[Any]]) -> None:
    values = [value for pane in panes for value in pane]
    try:
        expected = recompute(name, type, values)
    except OverflowError:
        with pytest.raises((OverflowError, SparkOverflowError)):
            through_panes(name, type, panes)
        return
    try:
        lowered = through_panes(name, type, panes)
    except SparkOverflowError:
        return
    lowered.validate(full=True)
    assert lowered.type == AGGREGATES[name].result_type(type)
    finite = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value)]
    size = sum(finite) if name in ("sum", "avg", "mean") else sum(finite) ** 2
    assert same(lowered.to_pylist()[0], expected, size), (lowered.to_pylist()[0], expected)


@pytest.mark.parametrize(("name", "type"), ALLOWED, ids=str)
@given(data=st.data())
@settings(max_examples=examples(12))
def test_matrix(name: str, type: pa.DataType, data: st.DataObject) -> None:
    check(name, type, data.draw(st.lists(st.lists(st.none() | VALUES[type], max_size=5), max_size=4)))


@pytest.mark.parametrize(("name", "type"), ALLOWED, ids=str)
@pytest.mark.parametrize("panes", [[], [[]], [[None]], [[None, None], [None]]], ids=str)
def test_nothing_but_nulls(name: str, type: pa.DataType, panes: list[list[None]]) -> None:
    check(name, type, panes)
    assert through_panes(name, type, panes).to_pylist() == [0 if name == "count" else None]


@given(st.lists(st.lists(st.none(), max_size=5), max_size=4))
@settings(max_examples=examples(10))
def test_count_star(panes: list[list[None]]) -> None:
    check("count", None, panes)


@pytest.mark.parametrize(("name", "type"), REFUSED, ids=str)
def test_refused(name: str, type: pa.DataType) -> None:
    with pytest.raises(ValueError, match=r"needs a (whole )?(number|condition)"):
        AGGREGATES[name].result_type(type)


@pytest.mark.parametrize("name", [name for name in AGGREGATES if not name.startswith("count") and name != "regr_count"])
def test_only_count_and_its_bounds_take_a_star(name: str) -> None:
    with pytest.raises(ValueError, match="has no meaning"):
        AGGREGATES[name].result_type(None)


@pytest.mark.parametrize("name", ["min", "max"])
def test_no_order_no_extreme(name: str) -> None:
    with pytest.raises(ValueError, match="values with an order"):
        AGGREGATES[name].result_type(pa.list_(pa.int32()))


# -- the edges, by hand -------------------------------------------------------------------------------

TOP = 2**63 - 1


def one(name: str, type: pa.DataType, *panes: list[Any]) -> Any:
    return through_panes(name, type, list(panes)).to_pylist()[0]


def test_sums_of_bigint_are_exact_and_overflow_is_an_error() -> None:
    assert one("sum", pa.int64(), [TOP], [TOP], [-TOP], [-1]) == TOP - 1
    assert one("sum", pa.int64(), [-TOP - 1]) == -TOP - 1
    for panes in ([[TOP], [1]], [[-TOP - 1], [-1]], [[TOP] * 5]):
        with pytest.raises(OverflowError):
            one("sum", pa.int64(), *panes)
    assert one("avg", pa.int64(), [TOP], [TOP]) == float(TOP), "the average does not overflow"


def test_sums_of_decimals_overflow_at_their_type() -> None:
    nines = Decimal("9" * 34 + ".9999")
    assert one("sum", pa.decimal128(38, 4), [nines], [nines.copy_negate()], [Decimal("0.0001")]) == Decimal("0.0001")
    with pytest.raises(OverflowError):
        one("sum", pa.decimal128(38, 4), [nines], [Decimal("0.0001")])


def test_averages_of_decimals() -> None:
    """Four more places, half up, with more digits than Python's Decimal has by default."""
    third = one("avg", pa.decimal128(10, 2), [Decimal(1)], [Decimal(0), Decimal(0)])
    assert third == Decimal("0.333333")
    assert one("avg", pa.decimal128(10, 2), [Decimal("-0.01"), Decimal("0.00")] + [Decimal(0)] * 14) == Decimal(
        "-0.000625"
    )
    wide = Decimal("12345678901234567890123456789.1234")
    assert one("avg", pa.decimal128(34, 4), [wide], [wide]) == wide
    with pytest.raises(OverflowError):
        one("avg", pa.decimal128(38, 4), [Decimal("9" * 34)])


def test_extremes_of_floats() -> None:
    nan, inf = math.nan, math.inf
    assert one("min", pa.float64(), [nan], [inf], [nan]) == inf
    assert math.isnan(one("max", pa.float64(), [inf], [nan], [1.0]))
    assert math.isnan(one("min", pa.float64(), [nan], [nan]))
    assert one("max", pa.float64(), [-inf]) == -inf


def test_extremes_at_the_edge_of_their_type() -> None:
    assert one("min", pa.int64(), [TOP]) == TOP
    assert one("max", pa.int64(), [-TOP - 1]) == -TOP - 1
    assert one("min", pa.int8(), [127], [None]) == 127


@pytest.mark.parametrize("offset", [1e9, -1e9, 1e12])
def test_variance_far_from_zero(offset: float) -> None:
    values = [offset + i / 4 for i in range(40)]
    panes = [values[i : i + 3] for i in range(0, 40, 3)]
    assert math.isclose(one("var_pop", pa.float64(), *panes), recompute("var_pop", pa.float64(), values), rel_tol=1e-9)
    spread = one("stddev", pa.float64(), *panes)
    assert math.isclose(spread, recompute("stddev", pa.float64(), values), rel_tol=1e-9)


def test_variance_of_few_values() -> None:
    assert one("variance", pa.int32(), [5]) is None
    assert one("var_pop", pa.int32(), [5]) == 0.0
    assert one("stddev_samp", pa.int32(), [5], [7]) == pytest.approx(math.sqrt(2))
    assert one("var_pop", pa.float64(), [1e200], [1e200]) == 0.0


def test_float_sums_do_not_come_from_differences() -> None:
    """A huge value that has left the window leaves no trace: panes are only ever added."""
    assert one("sum", pa.float64(), [0.1], [0.2]) == 0.1 + 0.2


def test_shared_partials() -> None:
    """SS1: aggregates of one argument share their partials."""
    x = column("x", pa.int64())
    lifted = {name: AGGREGATES[name].lift(x, None) for name in EXACT}
    assert lifted["avg"] == lifted["sum"] and lifted["var_pop"] == lifted["stddev"]
    assert all(Partial("count", x) in partials for partials in lifted.values())
    every = [each.lift(x, None) for name, each in AGGREGATES.items() if not name.endswith(("_lower", "_upper"))]
    assert {p.combine for partials in every for p in partials} == set(Combine) - {
        Combine.FUNCTION,
    }


@pytest.mark.parametrize("name", ["sum", "count", "avg", "mean"])
def test_what_is_subtractable_can_be_taken_back(name: str) -> None:
    """Over exact types: the partials of a whole without those of a part are those of the rest."""
    x = column("x", pa.int64())
    whole, part, rest = (
        {p: view.accumulator.merged(p, None) for p in AGGREGATES[name].lift(x, None)}
        for view in (_view(name, values) for values in ([1, 2**62, -5, 7], [2**62, -5], [1, 7]))
    )
    for partial in whole:
        inverted = partial.invert(whole[partial], part[partial])
        assert [c.tolist() for c in inverted] == [c.tolist() for c in rest[partial]]


def _view(name: str, values: list[int]) -> Any:
    partials = AGGREGATES[name].lift(column("x", pa.int64()), None)
    synopsis = BasicIntervalSynopsis([])
    synopsis.require(partials, None)
    synopsis.absorb(lift_rows([(1, {"x": value}) for value in values], 1, [], list(partials)))
    synopsis.close(1)
    (view,) = synopsis.scan({TimeWindow(1): list(partials)}, 1)
    return view


@pytest.mark.parametrize(
    "partial", [Partial("max", column("x", pa.int64())), Partial("sum", column("x", pa.float64()))]
)
def test_what_cannot_be_taken_back_says_so(partial: Partial) -> None:
    with pytest.raises(ValueError, match="cannot be taken back"):
        partial.invert([], [])
