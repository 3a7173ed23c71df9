"""Running synopsis, R-INT (Arasu and Widom, 3.2; thesis, 2.3.4): differences of sums of the stream so far.

N_max + 1 running values answer every window of up to N_max positions; the thesis counts b of them for windows
shorter than b, and lists b + 1.

Sums only, because a maximum has no inverse. And integers only, because a running sum of floats grows without bound and
loses the digits of the window's sum. A running sum of integers may leave the range of int64 as well, but loses nothing:
int64 counts modulo 2^64, and so a difference is exact whenever the window's own sum fits.

An aggregate that a program has made with an `invert` is kept in the same way (`RunningFunctions`).
"""

from __future__ import annotations

from functools import partial as bound
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sash.panes.intervals.synopsis import Activity, Interval, Positions, SharedSynopsis, refuse_partial
from sash.panes.pane_ring import Dtype
from sash.panes.partials import Combine, Component, Partial


@numba.njit(cache=True, nogil=True)
def kernel_extend(running: Any, length: Any, values: Any) -> None:
    slots = running.shape[0]
    last = length % slots
    for i in range(values.shape[0]):
        slot = last + 1 if last + 1 < slots else 0
        for g in range(running.shape[1]):
            # The sum may wrap around: see the module's docstring.
            running[slot, g] = running[last, g] + values[i, g]
        last = slot


@numba.njit(cache=True, nogil=True)
def kernel_lookup(running: Any, lefts: Any, rights: Any, out: Any) -> None:
    slots = running.shape[0]
    for i in range(lefts.size):
        plus, minus = rights[i] % slots, (lefts[i] - 1) % slots
        for g in range(running.shape[1]):
            out[i, g] = running[plus, g] - running[minus, g]


class RunningSynopsis(SharedSynopsis):
    """Sums by subtraction of running sums.

    Needs: a subtractable combine without rounding: ADD of int64. Time: update and lookup O(1).
    Space: (N_max + 1) x groups. Reference: Arasu and Widom 2004, Figure 6.

    >>> synopsis = RunningSynopsis(4, 1, Combine.ADD, np.int64)
    >>> synopsis.extend([[3], [6], [6], [6], [7], [7], [7], [9]])
    >>> synopsis.lookup(5, 7), synopsis.probed(5, 7)
    (array([21]), [(1, 7), (1, 4)])
    """

    name = "running"

    @staticmethod
    def refuse(combine: Combine, dtype: Dtype) -> str | None:
        if combine in (Combine.MIN, Combine.MAX):
            extreme = "maximum" if combine is Combine.MAX else "minimum"
            return f"{combine.upper()} is not subtractable: a running synopsis would have to take back a {extreme}"
        if combine is Combine.ADD and dtype is np.float64:
            return "float sums are never taken by subtraction"
        return refuse_partial(combine, dtype)

    def _slots(self, capacity: int) -> int:
        return capacity + 1

    def _append(self, values: Component) -> None:
        kernel_extend(self._rows, self.length, values)

    def _answer(self, lefts: Positions, rights: Positions, out: Component) -> None:
        kernel_lookup(self._rows, lefts, rights, out)

    def lookup_groups(self, left: int, right: int, groups: NDArray[np.integer]) -> Component:
        self._active([left], [right])
        slots = len(self._rows)
        return self._rows[right % slots][groups] - self._rows[(left - 1) % slots][groups]

    def running(self, right: int) -> Component:
        """The value f(1, right) of an active running interval."""
        if not self.oldest - 1 <= right <= self.length:
            raise ValueError(f"running interval (1, {right}) is not active")
        return self._rows[right % len(self._rows)].copy()

    def grow(self, capacity: int) -> None:
        old, rights = self._rows, np.arange(self.oldest - 1, self.length + 1)
        self._enlarge(capacity)
        self._rows = self._empty(self._slots(capacity))
        self._rows[rights % len(self._rows)] = old[rights % len(old)]

    def stored(self) -> list[Interval]:
        """Running intervals, the youngest first; (1, 0) is the empty one before the stream began."""
        return [(1, right) for right in range(self.length, self.oldest - 2, -1)]

    def probed(self, left: int, right: int) -> list[Interval]:
        """The interval that is added and the interval that is subtracted."""
        return [(1, right), (1, left - 1)]


class RunningFunctions(Activity):
    """All numbers of a program's partial, combined and taken back together, by the program's functions.

    The program decides whether that is exact: an `invert` of floats keeps the rounding errors of what has left.
    Needs: `invert`. Time: update and lookup one call, for all groups. Space: (N_max + 1) x numbers x groups.
    """

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
