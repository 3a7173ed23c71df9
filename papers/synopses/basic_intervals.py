"""Basic interval synopsis (thesis, 2.3.4) over dense panes: the values of the positions themselves, nothing else.

Half the space of an interval synopsis and the cheapest update, but a lookup reads every position of the interval.
Intervals that end at the same position are answered by one scan from there to the oldest (CS2). The product has the
same idea for sparse panes, `sash.panes.basic_interval`; this one is compared with the other shared synopses.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from sash.panes.intervals.synopsis import UFUNCS, Interval, Positions, SharedSynopsis, copy_row, fold_row
from sash.panes.joins.lookups import RevisedSynopsis
from sash.panes.partials import Component


def window_interval(length: int, n_left: int, n_right: int = 0) -> Interval:
    """The interval of the tuple-based window S[N_L, N_R] of a stream of some length (section 2).

    >>> window_interval(16, 9, 4), window_interval(3, 5, 0)
    ((8, 12), (1, 3))
    """
    left = max(length - n_left + 1, 1)
    return left, max(length - n_right, left - 1)


@numba.njit(cache=True, nogil=True)
def kernel_extend(ring: Any, length: Any, values: Any) -> None:
    slots = ring.shape[0]
    slot = length % slots
    for i in range(values.shape[0]):
        copy_row(ring, slot, values, i)
        slot = slot + 1 if slot + 1 < slots else 0


# Intervals come sorted by right end and then from the narrowest to the widest.


@numba.njit(cache=True, nogil=True)
def kernel_lookup(operation: Any, ring: Any, lefts: Any, rights: Any, out: Any) -> None:
    slots = ring.shape[0]
    for i in range(lefts.size):
        position = rights[i]
        if i > 0 and rights[i - 1] == rights[i]:
            copy_row(out, i, out, i - 1)
            position = lefts[i - 1] - 1
        slot = (position - 1) % slots
        for _ in range(position - lefts[i] + 1):
            fold_row(operation, out, i, ring, slot)
            slot = slot - 1 if slot > 0 else slots - 1


class BasicIntervals(SharedSynopsis):
    """Any combine, by a scan of the positions.

    Needs: a combine that is associative (and, here, commutative). Time: update O(1); lookup O(W), and O(W_max)
    for all intervals with one right end. Space: N_max x groups. Reference: thesis, section 2.3.4, Figure 2.5.

    >>> from sash.panes.partials import Combine
    >>> synopsis = BasicIntervals(8, 1, Combine.MAX, np.int64)
    >>> synopsis.extend([[8], [5], [9], [6], [10], [4], [3], [6]])
    >>> synopsis.lookup_many([6, 4, 3], [8, 8, 5]).ravel().tolist()
    [6, 10, 10]
    """

    name = "basic"

    def _slots(self, capacity: int) -> int:
        return capacity

    def _append(self, values: Component) -> None:
        kernel_extend(self._rows, self.length, values)

    def _answer(self, lefts: Positions, rights: Positions, out: Component) -> None:
        if len(lefts) == 1:
            kernel_lookup(self._operation, self._rows, lefts, rights, out)
            return
        order = np.lexsort((-lefts, rights))
        scanned = out.copy()
        kernel_lookup(self._operation, self._rows, lefts[order], rights[order], scanned)
        out[order] = scanned

    def grow(self, capacity: int) -> None:
        old, slots = self._rows, self._active_positions() - 1
        self._enlarge(capacity)
        self._rows = self._empty(self._slots(capacity))
        self._rows[slots % len(self._rows)] = old[slots % len(old)]

    def values(self) -> Component:
        """The values of the active positions, the oldest first."""
        return self._rows[(self._active_positions() - 1) % len(self._rows)]

    def stored(self) -> list[Interval]:
        """Single positions, the oldest first."""
        return [(position, position) for position in range(self.oldest, self.length + 1)]

    def probed(self, left: int, right: int) -> list[Interval]:
        """Single positions, from the youngest to the oldest."""
        return [(position, position) for position in range(right, left - 1, -1)]


class BasicIntervalJoin(BasicIntervals, RevisedSynopsis):
    """BIJ (thesis, 8.3.2) over vectors of groups; the product's is `sash.panes.joins.bands`.

    >>> from sash.panes.partials import Combine
    >>> synopsis = BasicIntervalJoin(3, 1, Combine.MAX, np.int64)
    >>> synopsis.extend([[4], [2], [5]])
    >>> synopsis.revise(np.array([[9], [1]]))
    >>> synopsis.values().ravel().tolist()
    [4, 9, 5]
    """

    def revise(self, values: Component) -> None:
        slots = (self.length - len(values) + np.arange(len(values))) % len(self._rows)
        self._rows[slots] = UFUNCS[self._operation](self._rows[slots], values)
