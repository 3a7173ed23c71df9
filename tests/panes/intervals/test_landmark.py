"""Landmarks: how widths are partitioned, and that at most two values are read."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.intervals.landmark import LandmarkSynopsis, landmark_decomposition, partition_by_spread
from sash.panes.partials import Combine
from tests.panes.intervals.cases import is_landmark_interval, recomputed
from tests.support.examples import examples

WIDTHS = st.lists(st.integers(1, 300), min_size=1, max_size=30)


@given(WIDTHS, st.sampled_from([1, Fraction(3, 2), 2, 5]))
def test_partitions_keep_the_spread(widths: list[int], spread: Fraction) -> None:
    partitions = partition_by_spread(widths, spread)
    for low, high in partitions:
        assert low in widths and high in widths and high <= spread * low
    for width in widths:
        assert sum(low <= width <= high for low, high in partitions) == 1
    for (low, _), (next_low, _) in itertools.pairwise(partitions):
        assert next_low > spread * low, "one partition fewer cannot do: no two of these lows share one"


def test_few_partitions_suffice() -> None:
    assert len(partition_by_spread(range(1, 100_001))) == 16


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 400), st.integers(1, 400))
def test_two_landmark_intervals_are_enough(low: int, more: int, left: int, width: int) -> None:
    high = low + more
    width = low + width % (high - low + 1)
    parts = landmark_decomposition(left, left + width - 1, low)
    assert len(parts) <= 2
    assert all(is_landmark_interval(*part, low, high) for part in parts)
    assert [p for a, b in parts for p in range(a, b + 1)] == list(range(left, left + width))


@pytest.mark.parametrize("spread", [1, Fraction(3, 2), 2, 3, 40])
@given(data=st.data())
@settings(max_examples=examples(15))
def test_any_spread(spread: Fraction, data: st.DataObject) -> None:
    """A wider spread means fewer partitions and more values from landmarks; answers are the same."""
    widths = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=6))
    synopsis = LandmarkSynopsis(40, 1, Combine.MIN, np.int64, widths, spread=spread)
    values = np.array(data.draw(st.lists(st.integers(-99, 99), max_size=100)), np.int64).reshape(-1, 1)
    synopsis.extend(values)
    m = len(values)
    intervals = [
        (left, left + width - 1)
        for low, high in synopsis.partitions
        for width in range(low, min(high, m) + 1)
        for left in range(synopsis.oldest, m - width + 2)
    ]
    found = synopsis.lookup_many([left for left, _ in intervals], [right for _, right in intervals])
    np.testing.assert_array_equal(found, recomputed(Combine.MIN, np.int64, values, intervals))
    assert all(len(synopsis.probed(*interval)) <= 2 for interval in intervals)
