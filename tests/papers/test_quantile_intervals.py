"""Quantiles of intervals against sorting the elements of the interval."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.synopses.quantile_intervals import QuantileIntervals, from_keys, quantile_rank, to_keys
from sash.panes.pane_ring import Dtype
from tests.panes.intervals.cases import DTYPES
from tests.support.examples import examples

PHIS = [Fraction(n, d) for d in (1, 2, 3, 10, 7919) for n in {1, d // 2 or 1, d - 1 or 1, d}]
HUGE = 10**30
# Few values, so that many are equal.
ELEMENTS: dict[Dtype, st.SearchStrategy[Any]] = {
    np.int64: st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    np.float64: st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5]) | st.floats(width=64),
}


def expected(elements: np.ndarray, intervals: list[tuple[int, int]], phis: list[Fraction]) -> list[Any]:
    """NumPy's sort puts NaN last."""
    return [
        np.sort(elements[left - 1 : right])[max(1, math.floor(phi * (right - left + 1))) - 1]
        for (left, right), phi in zip(intervals, phis, strict=True)
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_every_interval_and_many_phi(dtype: Dtype, data: st.DataObject) -> None:
    capacity = data.draw(st.integers(1, 40))
    synopsis = QuantileIntervals(capacity, dtype)
    elements = np.empty(0, dtype)
    for batch in data.draw(st.lists(st.lists(ELEMENTS[dtype], max_size=50), min_size=1, max_size=3)):
        synopsis.extend(np.array(batch, dtype))
        elements = np.concatenate([elements, np.array(batch, dtype)])
    if not len(elements):
        return
    ends = st.integers(synopsis.oldest, synopsis.length)
    drawn = data.draw(st.lists(st.tuples(ends, ends, st.sampled_from(PHIS)), min_size=1, max_size=20))
    intervals, phis = [(min(a, b), max(a, b)) for a, b, _ in drawn], [phi for _, _, phi in drawn]
    found = synopsis.lookup_many([left for left, _ in intervals], [right for _, right in intervals], phis)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected(elements, intervals, phis))
    one = synopsis.lookup_many([left for left, _ in intervals], [right for _, right in intervals], phis[0])
    np.testing.assert_array_equal(one, expected(elements, intervals, [phis[0]] * len(intervals)))


@given(data=st.data())
@settings(max_examples=examples(20))
def test_growing(data: st.DataObject) -> None:
    elements, capacity, oldest = np.empty(0, np.int64), data.draw(st.integers(1, 9)), 1
    synopsis = QuantileIntervals(capacity, np.int64)
    for _ in range(3):
        batch = np.array(data.draw(st.lists(st.integers(-9, 9), max_size=20)), np.int64)
        synopsis.extend(batch)
        elements = np.concatenate([elements, batch])
        oldest = max(oldest, len(elements) - capacity + 1)
        assert synopsis.oldest == oldest
        intervals = [(a, b) for a in range(oldest, len(elements) + 1) for b in range(a, len(elements) + 1)]
        found = [synopsis.lookup(left, right, Fraction(1, 2)) for left, right in intervals]
        assert found == expected(elements, intervals, [Fraction(1, 2)] * len(intervals))
        capacity += data.draw(st.integers(0, 9))
        synopsis.grow(capacity)


def test_a_long_stream() -> None:
    chance = np.random.default_rng(3)
    elements = chance.integers(0, 500, 5_000)
    synopsis = QuantileIntervals(1_000, np.int64)
    for element in elements[:20]:
        synopsis.update(int(element))
    synopsis.extend(elements[20:])
    for phi in PHIS:
        left = chance.integers(4_001, 5_001, 20)
        right = left + (chance.random(20) * (5_001 - left)).astype(np.int64)
        intervals = list(zip(left.tolist(), right.tolist(), strict=True))
        assert synopsis.lookup_many(left, right, phi).tolist() == expected(elements, intervals, [phi] * 20)


def test_phi_is_exact() -> None:
    """0.29 x 100 is 28.999999999999996 in doubles, and 29 here."""
    synopsis = QuantileIntervals(100, np.int64)
    synopsis.extend(range(1, 101))
    assert synopsis.lookup(1, 100, Fraction("0.29")) == 29
    # A numerator that int64 does not hold.
    close = Fraction(29 * HUGE - 1, 100 * HUGE)
    assert synopsis.lookup(1, 100, close) == 28
    assert quantile_rank(close, 100) == 28


@pytest.mark.parametrize("phi", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_phi_out_of_range(phi: Fraction) -> None:
    synopsis = QuantileIntervals(4)
    synopsis.update(1.0)
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        synopsis.lookup(1, 1, phi)
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        synopsis.lookup_many([1, 1], [1, 1], [Fraction(1), phi])


def test_refusals() -> None:
    synopsis = QuantileIntervals(4, np.int64)
    synopsis.extend([1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="the last 4"):
        synopsis.lookup(1, 3, Fraction(1))
    with pytest.raises(ValueError, match="empty interval"):
        synopsis.lookup(3, 2, Fraction(1))
    with pytest.raises(TypeError, match="do not fit"):
        synopsis.update(0.5)
    with pytest.raises(ValueError, match="does not shrink"):
        synopsis.grow(3)


@given(st.lists(st.floats(width=64), min_size=1, max_size=20))
def test_keys_have_the_order_of_floats(values: list[float]) -> None:
    floats = np.array(values)
    keys = to_keys(floats)
    np.testing.assert_array_equal(from_keys(keys), floats)
    np.testing.assert_array_equal(from_keys(np.sort(keys)), np.sort(floats))
    signed = to_keys(np.array([-math.nan, math.nan, math.inf]))
    assert signed[0] == signed[1] > signed[2], "whatever the bits of a NaN"
