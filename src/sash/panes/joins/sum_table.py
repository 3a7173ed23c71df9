"""Running sums in two dimensions: every pair of windows from four values, for sums that can be taken back.

F(x, y) is the sum of all results of a first tuple up to pane x and a second one up to pane y. The join of windows of n1
and n2 panes as of k is F(k, k) - F(k - n1, k) - F(k, k - n2) + F(k - n1, k - n2).

A result belongs to the pane of its younger tuple. So when pane k closes, F changes only in the last row and column: one
border of N1 + N2 + 1 values is added, and the oldest row and column are overwritten. RJ, with its running sums by
expiry alone, has to change all of them. A running sum may leave the range of 64 bits and loses nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sash.panes.accumulator import FOLDS
from sash.panes.joins.pairs import WindowPair
from sash.panes.partials import Combine, Component

Numbers = NDArray[np.int64]


class RunningTable:
    """Every pair of windows of up to `longest` panes.

    Needs: sums of whole numbers. Time: an update N1 + N2 + 1 values, a lookup 4. Space: (N1 + 1) x (N2 + 1) x groups.

    >>> table = RunningTable(WindowPair(8, 8), 1)
    >>> table.update(np.array([0, 3]), np.array([2, 0]), np.array([0, 0]), np.array([5, 1]))
    >>> [int(table.lookup(WindowPair(*pair))[0]) for pair in ((3, 3), (3, 2), (1, 8), (4, 1))]
    [5, 0, 5, 1]
    """

    def __init__(self, longest: WindowPair, groups: int) -> None:
        if min(longest) < 1:
            raise ValueError(f"windows of {longest.first} and {longest.second} panes: a window has one pane at least")
        self.longest = longest
        self._now = 0
        self._sums: Component = np.zeros((longest.first + 1, longest.second + 1, groups), dtype=np.int64)

    @property
    def groups(self) -> int:
        return int(self._sums.shape[2])

    @property
    def numbers(self) -> int:
        """Numbers kept per group."""
        return (self.longest.first + 1) * (self.longest.second + 1)

    # -- updates -------------------------------------------------------------------------------------

    def update(self, first_ages: Numbers, second_ages: Numbers, codes: NDArray[np.integer], values: Component) -> None:
        """Take the results of a pane that has closed, with the ages of their tuples as of its end."""
        self.slide(1)
        self.insert(first_ages, second_ages, codes, values)

    def slide(self, panes: int) -> None:
        """Make every pane some panes older; the new borders repeat the last one."""
        for _ in range(min(panes, max(self.longest) + 1)):
            self._now += 1
            self._sums[self._slot(0, 0)] = self._sums[self._slot(0, 1)]
            self._sums[:, self._slot(1, 0)] = self._sums[:, self._slot(1, 1)]

    def insert(self, first_ages: Numbers, second_ages: Numbers, codes: NDArray[np.integer], values: Component) -> None:
        """Insert more results of the youngest closed pane."""
        if len(codes) and int(np.minimum(first_ages, second_ages).max()) > 0:
            raise ValueError("a result comes with the younger of its tuples, in the pane that closed last")
        inside = (first_ages < self.longest.first) & (second_ages < self.longest.second)
        first, second, codes, values = first_ages[inside], second_ages[inside], codes[inside], values[inside]
        row, column = first == 0, second == 0
        across = self._summed(1, second[row], codes[row], values[row])
        down = self._summed(0, first[column], codes[column], values[column])
        both = row & column
        corner = across[-1] + down[-1] - self._summed(1, second[both], codes[both], values[both])[-1]
        self._sums[self._slot(0, 0), self._past(1)] += across[:-1]
        self._sums[self._past(0), self._slot(1, 0)] += down[:-1]
        self._sums[self._slot(0, 0), self._slot(1, 0)] += corner

    def _summed(self, axis: int, ages: Numbers, codes: NDArray[np.integer], values: Component) -> Component:
        """The sums up to each pane of a border, the oldest first."""
        size = self.longest[axis] + 1
        sums = np.zeros((size, self.groups), dtype=np.int64)
        FOLDS[Combine.ADD]((size - 1 - ages) * self.groups + codes, values, sums.reshape(-1))
        return np.cumsum(sums, axis=0)

    def _slot(self, axis: int, age: int) -> int:
        return (self._now - age) % (self.longest[axis] + 1)

    def _past(self, axis: int) -> Numbers:
        """The slots of all panes but the last, the oldest first."""
        size = self.longest[axis] + 1
        return (self._now + 1 + np.arange(size - 1)) % size

    def begin(self, pane: int) -> None:
        """Begin before any update: the sums do not depend on the panes' own numbers."""

    def grow_groups(self, groups: int) -> None:
        """Hold more groups, which have no results yet."""
        self._sums = np.pad(self._sums, ((0, 0), (0, 0), (0, groups - self.groups)))

    def reorder(self, places: Numbers, groups: int) -> None:
        """Give every group another place; groups without a place (-1) are forgotten."""
        old, kept = self._sums, np.flatnonzero(places >= 0)
        self._sums = np.zeros((*old.shape[:2], groups), dtype=np.int64)
        self._sums[:, :, places[kept]] = old[:, :, kept]

    # -- recovery ------------------------------------------------------------------------------------

    @property
    def places(self) -> int:
        """How many rows `dump` has."""
        return self.longest.first * self.longest.second

    def dump(self) -> Component:
        """The sums of single cells, by the ages of the first tuple and then of the second."""
        firsts, seconds = ((self._now - np.arange(length + 1)) % (length + 1) for length in self.longest)
        sums = self._sums[firsts][:, seconds]
        cells = sums[:-1, :-1] - sums[1:, :-1] - sums[:-1, 1:] + sums[1:, 1:]
        return np.ascontiguousarray(cells).reshape(-1, self.groups)

    def restore(self, rows: Component) -> None:
        """The inverse of `dump`, into an empty table."""
        cells = rows.reshape(*self.longest, self.groups)[::-1, ::-1]
        sums = np.cumsum(np.cumsum(cells, axis=0), axis=1)
        firsts, seconds = ((self._now - np.arange(length)[::-1]) % (length + 1) for length in self.longest)
        self._sums[np.ix_(firsts, seconds)] = sums

    # -- lookups -------------------------------------------------------------------------------------

    def everything(self) -> Component:
        """The sums of the longest windows."""
        return self.lookup(self.longest)

    def lookup(self, pair: WindowPair) -> Component:
        """The (groups,) sums of the results in a pair of windows."""
        if not (1 <= pair.first <= self.longest.first and 1 <= pair.second <= self.longest.second):
            kept = f"{self.longest.first} and {self.longest.second}"
            raise ValueError(f"a join of windows of {pair.first} and {pair.second} panes: the synopsis keeps {kept}")
        new, now = self._sums[self._slot(0, 0)], self._slot(1, 0)
        old, start = self._sums[self._slot(0, pair.first)], self._slot(1, pair.second)
        return np.asarray(new[now] - new[start] - old[now] + old[start])
