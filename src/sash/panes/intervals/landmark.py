"""Landmark synopsis, L-INT (Arasu and Widom, 3.1.2): two values per lookup, for windows of known widths.

    position              1     2     3     4     5     6     7     8     9    10        W_min = 4: landmarks 4, 8
    to the next one    | 1-3 | 2-3 |  3  | 4-7 | 5-7 | 6-7 |  7  |  8  |  9  | 10  |     12 has not come: raw values
    from the latest    | 1-1 | 1-2 | 1-3 |  4  | 4-5 | 4-6 | 4-7 |  8  | 8-9 | 8-10|
    from the one before|     |     |     | 1-4 | 1-5 | 1-6 | 1-7 | 4-8 | 4-9 | 4-10|

The windows' widths are split into partitions with W_max / W_min <= c. Each has its own landmarks, the positions that
W_min divides, and keeps, per position, one value to the next landmark and ceil(W_max / W_min) values from the landmarks
that a window may contain first. Values to a landmark are computed when it is reached; until then their places hold what
arrived, and no lookup reads them. An interval is cut at its first landmark, as in Example 3.2.

Invariant: intervals within the widths of one partition are answered, and also those that the beginning of the stream
cuts short. Definition 3.2 lets a landmark interval be W_max + 1 wide, the prose says less than W_max; no lookup needs
either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sash.panes.intervals.synopsis import Interval, Positions, SharedSynopsis, copy_row, fold_row
from sash.panes.pane_ring import Dtype
from sash.panes.partials import Combine, Component


def landmark_decomposition(left: int, right: int, w_min: int) -> list[Interval]:
    """One or two landmark intervals that make up an interval at least `w_min` wide (Theorem 3.3).

    >>> landmark_decomposition(3257, 5164, 1000)
    [(3257, 3999), (4000, 5164)]
    """
    landmark = -(-left // w_min) * w_min
    return [(left, right)] if left == landmark else [(left, landmark - 1), (landmark, right)]


def partition_by_spread(widths: Iterable[int], spread: int | Fraction = 2) -> list[Interval]:
    """The fewest partitions of window widths, each as (W_min, W_max) with W_max / W_min <= spread.

    >>> partition_by_spread([1000, 10, 15, 20, 21, 2000])
    [(10, 20), (21, 21), (1000, 2000)]
    """
    partitions: list[Interval] = []
    for width in sorted(set(widths)):
        # A partition begins at the narrowest width that does not fit into the one before: no other choice needs fewer.
        if partitions and width <= spread * partitions[-1][0]:
            partitions[-1] = (partitions[-1][0], width)
        else:
            partitions.append((width, width))
    return partitions


# One row per partition: W_min, the number of its layers from landmarks, the first row of its layers in the table.
# The layer to the next landmark comes first, then those from landmarks, the latest landmark first. A layer is a
# circular buffer of `slots` positions.
Plan = NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def kernel_extend(operation: Any, plan: Any, slots: Any, table: Any, length: Any, values: Any) -> None:
    for i in range(values.shape[0]):
        position = length + i + 1
        slot, before = position % slots, (position - 1) % slots
        for j in range(plan.shape[0]):
            step, layers, first = plan[j, 0], plan[j, 1], plan[j, 2]
            at_landmark = position % step == 0
            copy_row(table, first + slot, values, i)
            for k in range(1, layers + 1):
                here = first + k * slots + slot
                if at_landmark and k == 1:
                    copy_row(table, here, values, i)
                else:
                    # A new landmark is the latest; all others move on by one.
                    source = k - 1 if at_landmark else k
                    copy_row(table, here, table, first + source * slots + before)
                    fold_row(operation, table, here, values, i)
            if (position + 1) % step == 0:
                for p in range(position - 1, max(position - step, 0), -1):
                    fold_row(operation, table, first + p % slots, table, first + (p + 1) % slots)


@numba.njit(cache=True, nogil=True)
def kernel_lookup(
    operation: Any, plan: Any, slots: Any, table: Any, partitions: Any, lefts: Any, rights: Any, out: Any
) -> None:
    for i in range(lefts.size):
        left, right = lefts[i], rights[i]
        if left > right:
            continue
        step, first = plan[partitions[i], 0], plan[partitions[i], 2]
        landmark = (left + step - 1) // step * step
        if right < landmark:
            # The beginning of the stream cuts the window short.
            copy_row(out, i, table, first + slots + right % slots)
            continue
        copy_row(out, i, table, first + (right // step - landmark // step + 1) * slots + right % slots)
        if left < landmark:
            fold_row(operation, out, i, table, first + left % slots)


def landmark_parts(left: int, right: int, w_min: int) -> list[Interval]:
    if left > right:
        return []
    return [(left, right)] if left == 1 and right < w_min else landmark_decomposition(left, right, w_min)


class LandmarkSynopsis(SharedSynopsis):
    """Any combine, from precomputed values to and from landmarks.

    Needs: a combine that is associative (and, here, commutative), and the widths of the windows. Time: update
    O(partitions) amortised, O(N_max) at worst; lookup O(1) and a search among partitions. Space: at most
    (c + 2) x partitions x N_max x groups; log_c(W_max / W_min) partitions suffice for any widths.
    Reference: Arasu and Widom 2004, Figure 5.

    >>> synopsis = LandmarkSynopsis(8, 1, Combine.MAX, np.int64, widths=[4, 5, 8])
    >>> synopsis.extend([[39], [22], [64], [8], [86], [5], [25], [10], [93], [12]])
    >>> synopsis.lookup(6, 10), synopsis.probed(6, 10)
    (array([93]), [(6, 7), (8, 10)])
    """

    name = "landmark"

    def __init__(
        self,
        capacity: int,
        groups: int,
        combine: Combine,
        dtype: Dtype,
        widths: Sequence[int] = (),
        spread: int | Fraction = 2,
    ) -> None:
        self.partitions = partition_by_spread(widths, spread)
        if not self.partitions:
            raise ValueError("a landmark synopsis needs the widths of its windows")
        if self.partitions[0][0] < 1 or self.partitions[-1][1] > capacity:
            raise ValueError(f"widths of windows are between 1 and the capacity of {capacity}")
        self._lows, self._highs = (np.array(ends, dtype=np.int64) for ends in zip(*self.partitions, strict=True))
        self._layers = -(-self._highs // self._lows)
        self._plan = self._planned(capacity)
        super().__init__(capacity, groups, combine, dtype, widths)

    def _planned(self, capacity: int) -> Plan:
        before = np.cumsum(self._layers + 1) - (self._layers + 1)
        return np.stack([self._lows, self._layers, before * capacity], axis=1)

    def _slots(self, capacity: int) -> int:
        return int((self._layers + 1).sum()) * capacity

    def _append(self, values: Component) -> None:
        kernel_extend(self._operation, self._plan, self.capacity, self._rows, self.length, values)

    def _answer(self, lefts: Positions, rights: Positions, out: Component) -> None:
        partitions = self._partitions_of(lefts, rights)
        kernel_lookup(self._operation, self._plan, self.capacity, self._rows, partitions, lefts, rights, out)

    def _partitions_of(self, lefts: Positions, rights: Positions) -> Positions:
        """The partition of an interval's width, or, if the interval is cut short, of its window's width."""
        widths = rights - lefts + 1
        found = np.searchsorted(self._highs, widths)
        known = found < len(self._highs)
        found[~known] = 0
        known &= (widths >= self._lows[found]) | (lefts == 1) | (widths == 0)
        if not known.all():
            i = int(np.argmin(known))
            ranges = ", ".join(f"{low} to {high}" for low, high in self.partitions)
            raise ValueError(
                f"interval ({lefts[i]}, {rights[i]}) is not active: it is {widths[i]} wide, "
                f"and the landmarks are laid out for widths of {ranges}"
            )
        return found

    def grow(self, capacity: int) -> None:
        old, old_capacity, positions = self._rows, self.capacity, self._active_positions()
        self._enlarge(capacity)
        self._plan = self._planned(capacity)
        self._rows = self._empty(self._slots(capacity))
        ours, theirs = self._rows.reshape(-1, capacity, self.groups), old.reshape(-1, old_capacity, self.groups)
        ours[:, positions % capacity] = theirs[:, positions % old_capacity]

    def stored(self) -> list[Interval]:
        """The active landmark intervals of all partitions that lookups may read."""
        found: set[Interval] = set()
        for (step, _), layers in zip(self.partitions, self._layers.tolist(), strict=True):
            for position in range(self.oldest, self.length + 1):
                latest = position // step * step
                starts = {max(latest - k * step, 1) for k in range(layers) if latest - k * step >= 0}
                found |= {(start, position) for start in starts} | {(position, latest + step - 1)}
        return sorted((left, right) for left, right in found if left >= self.oldest and right <= self.length)

    def probed(self, left: int, right: int) -> list[Interval]:
        """The part to the first landmark and the part from it."""
        partition = self._partitions_of(np.array([left]), np.array([right]))[0]
        return landmark_parts(left, right, int(self._lows[partition]))
