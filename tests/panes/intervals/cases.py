"""What the tests of shared synopses have in common: every pair that a synopsis takes, streams, recomputation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from papers.synopses.basic_intervals import BasicIntervals
from sash.panes import intervals
from sash.panes.intervals.landmark import partition_by_spread
from sash.panes.intervals.synopsis import OPERATIONS, UFUNCS, Interval, SharedSynopsis, identity
from sash.panes.pane_ring import Dtype
from sash.panes.partials import Combine, Component

SYNOPSES: dict[str, type[SharedSynopsis]] = {**intervals.SYNOPSES, "basic": BasicIntervals}
DTYPES: tuple[Dtype, ...] = (np.int64, np.float64)
PAIRS = [(combine, dtype) for combine in OPERATIONS for dtype in DTYPES]
ACCEPTED = [
    pytest.param(name, combine, dtype, id=f"{name}-{combine}-{np.dtype(dtype)}")
    for name, kind in SYNOPSES.items()
    for combine, dtype in PAIRS
    if kind.refuse(combine, dtype) is None
]
INTS = st.integers(-(2**40), 2**40)
# Sums of such floats are exact in whatever order they are taken.
FLOATS = st.integers(-1000, 1000).map(float) | st.sampled_from([math.nan, math.inf, -math.inf])


def numbers(dtype: Dtype) -> st.SearchStrategy[Any]:
    return INTS if dtype is np.int64 else FLOATS


def rows(values: list[list[Any]], groups: int, dtype: Dtype) -> Component:
    return np.array(values, dtype=dtype).reshape(-1, groups)


def recomputed(combine: Combine, dtype: Dtype, values: Component, intervals: Iterable[Interval]) -> Component:
    """The answers from all values that ever arrived."""
    combined, start = UFUNCS[OPERATIONS[combine]], identity(combine, dtype)
    with np.errstate(invalid="ignore"):
        answers = [combined.reduce(values[left - 1 : right], axis=0, initial=start) for left, right in intervals]
    return np.array(answers, dtype=dtype).reshape(-1, values.shape[1])


@dataclass(frozen=True)
class Stream:
    """Batches of (n, groups) values for a synopsis of some capacity, and widths of windows for the landmarks."""

    capacity: int
    groups: int
    widths: list[int]
    batches: list[Component]

    @property
    def values(self) -> Component:
        return np.concatenate(self.batches)

    def make(self, name: str, combine: Combine, dtype: Dtype) -> SharedSynopsis:
        return SYNOPSES[name](self.capacity, self.groups, combine, dtype, self.widths)

    def answerable(self, name: str, oldest: int, length: int) -> list[Interval]:
        """All active intervals, suffix and historical, empty ones too; for landmarks those of their widths."""
        intervals = [(left, right) for left in range(oldest, length + 2) for right in range(left - 1, length + 1)]
        if name != "landmark":
            return intervals
        known = {w for low, high in partition_by_spread(self.widths) for w in range(low, high + 1)}
        # At the beginning of the stream a window of any known width is cut short to the positions that there are.
        short = range(1, max(known) + 1)
        return [(a, b) for a, b in intervals if b < a or b - a + 1 in known or (a == 1 and b in short)]


@st.composite
def streams(draw: st.DrawFn, dtype: Dtype) -> Stream:
    capacity, groups = draw(st.integers(1, 12)), draw(st.sampled_from([1, 1, 3]))
    widths = draw(st.lists(st.integers(1, capacity), min_size=1, max_size=4))
    batch = st.lists(st.lists(numbers(dtype), min_size=groups, max_size=groups), max_size=15)
    batches = draw(st.lists(batch, min_size=1, max_size=4))
    return Stream(capacity, groups, widths, [rows(each, groups, dtype) for each in batches])


def base_level(left: int, right: int) -> int | None:
    """The level of a base-interval (Arasu and Widom, 3.1.1), None for any other interval."""
    width = right - left + 1
    if width < 1 or width & (width - 1) or (left - 1) % width:
        return None
    return width.bit_length() - 1


def new_base_intervals(position: int, capacity: int | None = None) -> list[Interval]:
    """Those that are complete with the arrival of a position, the shortest first; with a capacity, the active ones."""
    widths = [1 << level for level in range((position & -position).bit_length())]
    return [(position - w + 1, position) for w in widths if capacity is None or w <= capacity]


def expiring_base_intervals(length: int, capacity: int) -> list[Interval]:
    """Those that cease to be active with the next update: they start at the oldest active position."""
    oldest = length - capacity + 1
    if oldest < 1:
        return []
    levels = range(capacity.bit_length())
    return [(oldest, oldest + (1 << level) - 1) for level in levels if (oldest - 1) % (1 << level) == 0]


def is_landmark_interval(left: int, right: int, w_min: int, w_max: int) -> bool:
    """By definition 3.2 of Arasu and Widom."""
    from_landmark = left % w_min == 0 and right - left <= w_max
    to_landmark = (right + 1) % w_min == 0 and right + 1 - left <= w_max
    return from_landmark or to_landmark
