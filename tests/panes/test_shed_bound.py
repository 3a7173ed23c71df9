"""Error bars after shedding: exact if nothing was shed, and right as often as they promise."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.panes.aggregates import AGGREGATES
from sash.panes.partials import Partial
from sash.plan.expressions import RowExpression

X = RowExpression("x", pa.float64(), ("x",))


def merged(function: str, batches: list[tuple[int, list[float]]], argument: RowExpression | None) -> dict[Partial, Any]:
    """The partials of one window, as they are defined: (k, the kept values) of each micro-batch."""
    found: dict[Partial, Any] = {}
    for partial in AGGREGATES[f"{function}_lower"].lift(argument, None):
        weight = {"sum": lambda x: x, "shed": lambda x: x * x if function == "sum" else 1.0}.get(partial.kind)
        total = 0.0
        for k, values in batches:
            scale = k * (k - 1) if partial.kind == "shed" else k
            total += scale * sum(1 if weight is None else weight(x) for x in values)
        found[partial] = [np.array([total], dtype=partial.dtypes[0])]
    return found


def bounds(function: str, batches: list[tuple[int, list[float]]], argument: RowExpression | None) -> tuple[Any, Any]:
    parts = merged(function, batches, argument)
    lower, upper = (AGGREGATES[f"{function}_{side}"] for side in ("lower", "upper"))
    return tuple(each.lower(tuple(parts), parts)[0].as_py() for each in (lower, upper))  # type: ignore[return-value]


@given(
    batches=st.lists(st.lists(st.integers(-1_000, 1_000).map(float), min_size=1, max_size=5), min_size=1, max_size=4)
)
def test_without_shedding_the_bounds_are_the_value(batches: list[list[float]]) -> None:
    whole = [(1, values) for values in batches]
    total, count = sum(map(sum, batches)), sum(map(len, batches))
    assert bounds("sum", whole, X) == (total, total)
    assert bounds("count", whole, None) == (count, count)


@given(k=st.integers(2, 10), values=st.lists(st.integers(-100, 100).map(float), min_size=1, max_size=30))
def test_bounds_lie_around_the_estimate(k: int, values: list[float]) -> None:
    deviation = (k * (k - 1) * sum(x * x for x in values)) ** 0.5
    lower, upper = bounds("sum", [(k, values)], X)
    assert upper - lower == pytest.approx(2 * 2.576 * deviation)
    assert (upper + lower) / 2 == pytest.approx(k * sum(values), abs=1e-6 * (1 + deviation))
    low, high = bounds("count", [(k, values)], None)
    assert 0 <= low <= k * len(values) <= high


@pytest.mark.parametrize("k", [2, 5, 10])
@pytest.mark.parametrize("function", ["sum", "count"])
def test_bounds_hold_about_as_often_as_they_say(function: str, k: int) -> None:
    random, held, trials = np.random.default_rng(7), 0, 400
    for _ in range(trials):
        values = random.exponential(10.0, 3_000)
        first, rest = values[:1_000], values[1_000:]
        kept = rest[random.integers(0, k, len(rest)) == 0]
        batches = [(1, first.tolist()), (k, kept.tolist())]
        lower, upper = bounds(function, batches, X if function == "sum" else None)
        held += lower <= (values.sum() if function == "sum" else len(values)) <= upper
    assert held >= 0.97 * trials


def test_counts_of_a_column_and_decimals() -> None:
    partials = AGGREGATES["count_lower"].lift(X, None)
    assert [partial.kind for partial in partials] == ["count", "shed"]
    assert "IS NULL" in partials[1].lift()[0].argument
    money = RowExpression("m", pa.decimal128(10, 2), ("m",))
    total, count, shed = AGGREGATES["sum_upper"].lift(money, None)
    limbs = [np.array([part]) for part in (1_250, 0, 0, 0)]
    parts = {total: limbs, count: [np.array([2])], shed: [np.array([0.0])]}
    found = AGGREGATES["sum_upper"].lower((total, count, shed), parts)
    assert found.to_pylist() == [float(Decimal("12.50"))]


def test_no_value_has_no_bounds() -> None:
    assert bounds("sum", [(2, [])], X) == (None, None)
    assert bounds("count", [(2, [])], None) == (0, 0)
