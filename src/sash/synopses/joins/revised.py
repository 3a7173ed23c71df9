"""Shared synopses whose old intervals take up values after their time, as the intervals of a join do (thesis 8.3.2).

    values of one update     | 3 | 1 | 0 | 0 | 1 | 2 | 1 |     one per active position, the oldest first
    BIJ   positions          each is combined with its own
    IJ    base-intervals     the leaves are, and every node above them is made again
    RJ    running sums       each grows by what the update brings up to it

Update: b values, 2b for IJ; the synopses of one window append one. Lookups and space are theirs.
RJ keeps one running value more than the thesis' update does, which drops the one that windows of b intervals need.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sash.synopses.intervals import BasicIntervals, IntervalSynopsis, RunningSynopsis, SharedSynopsis
from sash.synopses.intervals.rows import UFUNCS
from sash.synopses.intervals.synopsis import GroupedSynopsis
from sash.synopses.partials import Component


class RevisedSynopsis(SharedSynopsis, Protocol):
    def revise(self, values: Component) -> None:
        """Combine each of the last positions with a value: (n, groups), the oldest first."""

    def reorder(self, places: Component, groups: int) -> None:
        """Give every group another place among so many; those without a place (-1) are forgotten."""


class _Reordered(GroupedSynopsis):
    def reorder(self, places: Component, groups: int) -> None:
        old, kept = self._rows, np.flatnonzero(places >= 0)
        self.groups = groups
        self._rows = self._empty(len(old))
        self._rows[:, places[kept]] = old[:, kept]


class BasicIntervalJoin(_Reordered, BasicIntervals):
    """BIJ over vectors of groups.

    >>> from sash.synopses.partials import Combine
    >>> synopsis = BasicIntervalJoin(3, 1, Combine.MAX, np.int64)
    >>> synopsis.extend([[4], [2], [5]])
    >>> synopsis.revise(np.array([[9], [1]]))
    >>> synopsis.values().ravel().tolist()
    [4, 9, 5]
    """

    def revise(self, values: Component) -> None:
        slots = (self.length - len(values) + np.arange(len(values))) % len(self._rows)
        self._rows[slots] = UFUNCS[self._operation](self._rows[slots], values)


class IntervalJoin(_Reordered, IntervalSynopsis):
    """IJ over vectors of groups."""

    def revise(self, values: Component) -> None:
        tree, combine = self._rows, UFUNCS[self._operation]
        leaves = len(tree) // 2
        slots = leaves + (self.length - len(values) + np.arange(len(values))) % leaves
        tree[slots] = combine(tree[slots], values)
        # A node whose halves lie a turn of the ring apart gets a value that nobody reads: see `interval`.
        while leaves > 1:
            tree[leaves // 2 : leaves] = combine(tree[leaves : 2 * leaves : 2], tree[leaves + 1 : 2 * leaves : 2])
            leaves //= 2


class RunningJoin(_Reordered, RunningSynopsis):
    """RJ over vectors of groups."""

    def revise(self, values: Component) -> None:
        rights = self.length - len(values) + 1 + np.arange(len(values))
        self._rows[rights % len(self._rows)] += np.cumsum(values, axis=0)


REVISED: dict[str, type[RevisedSynopsis]] = {
    "basic": BasicIntervalJoin,
    "interval": IntervalJoin,
    "running": RunningJoin,
}
