"""Running synopsis, R-INT (Arasu and Widom, 3.2), of an aggregate that a program has made with an `invert`.

As `running_sums`, but all numbers of a partial are combined and taken back together, by the program's functions. The
program decides whether that is exact: an `invert` of floats keeps the rounding errors of what has left.
"""

from __future__ import annotations

from functools import partial as bound

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sash.panes.intervals.synopsis import Activity
from sash.panes.partials import Component, Partial


class RunningFunctions(Activity):
    """Needs: `invert`. Time: update and lookup one call, for all groups. Space: (N_max + 1) x numbers x groups."""

    def __init__(self, capacity: int, groups: int, partial: Partial) -> None:
        super().__init__(capacity)
        assert partial.user is not None
        self._zero = partial.user.zero
        self._combine = bound(partial.user.combined_or_failed, partial.signature)
        self._invert = bound(partial.user.inverted_or_failed, partial.signature)
        self._rows = self._empty(groups)

    def _empty(self, groups: int) -> Component:
        return np.tile(self._zero[:, np.newaxis], (self.capacity + 1, 1, groups))

    def extend(self, values: list[Component]) -> None:
        """Append positions, the oldest first: (n, groups) values of each number of the partial."""
        for row in np.stack(values, axis=1):
            last, self.length = self.length, self.length + 1
            slots = len(self._rows)
            self._rows[self.length % slots] = self._combine(self._rows[last % slots], row)

    def lookup_many(self, lefts: ArrayLike, rights: ArrayLike) -> list[Component]:
        """The (q, groups) values of q active intervals, of each number."""
        left, right = self._active(lefts, rights)
        found = [
            self._between(one, other, slice(None)) for one, other in zip(left.tolist(), right.tolist(), strict=True)
        ]
        return list(np.stack(found, axis=1))

    def lookup_groups(self, left: int, right: int, groups: NDArray[np.integer]) -> list[Component]:
        self._active([left], [right])
        return list(self._between(left, right, groups))

    def _between(self, left: int, right: int, groups: NDArray[np.integer] | slice) -> Component:
        slots = len(self._rows)
        return self._invert(self._rows[right % slots][:, groups], self._rows[(left - 1) % slots][:, groups])

    def grow_groups(self, groups: int) -> None:
        old, self._rows = self._rows, self._empty(groups)
        self._rows[:, :, : old.shape[2]] = old
