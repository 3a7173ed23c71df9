"""Sums by subtraction stay exact when the running sum leaves the range of int64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.intervals.running import RunningSynopsis
from sash.panes.partials import Combine
from tests.support.examples import examples

LARGEST = 2**63 - 1


@pytest.mark.parametrize("value", [2**62, -(2**62), LARGEST, -LARGEST - 1])
def test_a_running_sum_that_wraps_around(value: int) -> None:
    synopsis = RunningSynopsis(4, 1, Combine.ADD, np.int64)
    synopsis.extend([[value]] * 1_000)
    assert synopsis.lookup(1_000, 1_000) == value
    synopsis.extend([[-1], [1]])
    assert synopsis.lookup(1_001, 1_002) == 0
    assert synopsis.lookup(1_000, 1_002) == value


@given(st.lists(st.integers(-(2**63), LARGEST), min_size=1, max_size=40))
@settings(max_examples=examples(40))
def test_exact_whenever_the_windows_sum_fits(values: list[int]) -> None:
    synopsis = RunningSynopsis(len(values), 1, Combine.ADD, np.int64)
    synopsis.extend(np.array(values).reshape(-1, 1))
    for left in range(1, len(values) + 1):
        for right in range(left, len(values) + 1):
            exact = sum(values[left - 1 : right])
            if -LARGEST - 1 <= exact <= LARGEST:
                assert synopsis.lookup(left, right) == exact


def test_values_of_running_intervals() -> None:
    synopsis = RunningSynopsis(2, 1, Combine.ADD, np.int64)
    assert synopsis.running(0) == 0
    synopsis.extend([[1], [2], [3]])
    assert [int(synopsis.running(right)[0]) for right in (1, 2, 3)] == [1, 3, 6]
    for right in (0, 4):
        with pytest.raises(ValueError, match="not active"):
            synopsis.running(right)
