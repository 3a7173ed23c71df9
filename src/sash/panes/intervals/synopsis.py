"""The common part of the shared synopses: positions, intervals, and how two rows of partials combine.

One position is one pane: of time, of one row, or of several rows; its values are one partial per group. Positions are
1-based, an interval (left, right) includes both ends, and right = left - 1 is the empty interval, whose answer is the
identity. An interval is *active* while all its positions are among the last `capacity` ones (Arasu and Widom, 3.1.1);
only active intervals can be looked up. A grown synopsis has the same positions as before at first; the updates that
follow fill it (thesis, 8.2).

A synopsis is a 2-D array, slots x groups; its kernels fold one row into another. A small number tells the kernel which
of the three combines to use, so that each kernel is compiled once per dtype. Kernels are inlined by force: passing two
arrays costs more than combining two numbers. Numba's cache watches a kernel's own file only, so a change here takes
effect after `make clean`. NaN is the greatest number, and the identity of a minimum of floats.

A level-l base-interval is (2^l i + 1, 2^l (i + 1)); every interval is a union of few. The paper cuts (1, 43) into eight
of them (Example 3.1), which fits (2, 43); `decompose` returns the fewest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sash.panes.pane_ring import Dtype
from sash.panes.partials import Combine, Component

ADD, MIN, MAX = 0, 1, 2
OPERATIONS: dict[Combine, int] = {Combine.ADD: ADD, Combine.MIN: MIN, Combine.MAX: MAX}
# The operations in NumPy.
UFUNCS: tuple[np.ufunc, ...] = (np.add, np.fmin, np.maximum)


def identity(combine: Combine, dtype: Dtype) -> int | float:
    """The neutral value (the same as `Partial.identity`)."""
    if combine is Combine.ADD:
        return 0
    if dtype is np.float64:
        return float("nan") if combine is Combine.MIN else float("-inf")
    return np.iinfo(np.int64).max if combine is Combine.MIN else np.iinfo(np.int64).min


@numba.njit(cache=True, nogil=True, forceinline=True)
def kernel_fold(operation: Any, old: Any, new: Any) -> Any:
    if operation == ADD:
        return old + new
    if operation == MIN:
        return new if new < old or old != old else old
    return new if new > old or new != new else old


@numba.njit(cache=True, nogil=True, forceinline=True)
def kernel_fold_row(operation: Any, target: Any, t: Any, source: Any, s: Any) -> None:
    # Rows are given by number: a slice would be an object with a reference count.
    groups = target.shape[1]
    if groups == 1:
        # For one group a loop would take ten times as long to begin as to run.
        target[t, 0] = kernel_fold(operation, target[t, 0], source[s, 0])
    elif operation == ADD:
        for g in range(groups):
            target[t, g] += source[s, g]
    elif operation == MIN:
        for g in range(groups):
            target[t, g] = kernel_fold(MIN, target[t, g], source[s, g])
    else:
        for g in range(groups):
            target[t, g] = kernel_fold(MAX, target[t, g], source[s, g])


@numba.njit(cache=True, nogil=True, forceinline=True)
def kernel_copy_row(target: Any, t: Any, source: Any, s: Any) -> None:
    if target.shape[1] == 1:
        target[t, 0] = source[s, 0]
        return
    for g in range(target.shape[1]):
        target[t, g] = source[s, g]


fold = kernel_fold
fold_row = kernel_fold_row
copy_row = kernel_copy_row


Interval = tuple[int, int]


def decompose(left: int, right: int) -> list[Interval]:
    """The fewest base-intervals that make up an interval, from left to right (Theorem 3.1).

    >>> decompose(1, 43)
    [(1, 32), (33, 40), (41, 42), (43, 43)]
    """
    parts = []
    while left <= right:
        # The longest base-interval that starts here (0 is a multiple of everything) and does not reach too far.
        aligned, fitting = (left - 1) & -(left - 1), 1 << ((right - left + 1).bit_length() - 1)
        width = min(aligned, fitting) or fitting
        parts.append((left, left + width - 1))
        left += width
    return parts


def active_base_intervals(length: int, oldest: int) -> list[Interval]:
    """The base-intervals inside the active positions `oldest .. length`, level by level, as a synopsis stores them."""
    found = []
    width = 1
    while width <= length - oldest + 1:
        first = -(-(oldest - 1) // width) * width + 1
        found += [(left, left + width - 1) for left in range(first, length - width + 2, width)]
        width *= 2
    return found


Positions = NDArray[np.int64]


def refuse_partial(combine: Combine, dtype: Dtype) -> str | None:
    """Why no shared synopsis takes a combine of a dtype, or None."""
    if combine in OPERATIONS and dtype in (np.int64, np.float64):
        return None
    return f"{combine.upper()} of {np.dtype(dtype)}: a shared synopsis adds or compares one machine number per group"


def as_rows(values: ArrayLike, shape: tuple[int, ...], dtype: Dtype) -> Component:
    """Values as a writable array in rows: a read-only or strided array would make Numba compile the kernel again."""
    array = np.asarray(values)
    if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        needed = ", ".join(["n", *map(str, shape[1:])])
        raise ValueError(f"values of shape {array.shape} where ({needed}) is needed")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"values of {array.dtype} do not fit into {np.dtype(dtype)}")
    return np.require(array, dtype, ["C", "W"])


class Activity:
    """The positions that may be looked up, and the refusals of others."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a capacity of {capacity}: a synopsis keeps one position at least")
        self.capacity = capacity
        self.length = 0
        # Positions before this one were gone already when the synopsis was grown.
        self._kept_from = 1

    @property
    def oldest(self) -> int:
        """The oldest position that may be looked up."""
        return max(self._kept_from, self.length - self.capacity + 1)

    def _enlarge(self, capacity: int) -> None:
        if capacity < self.capacity:
            raise ValueError(f"a synopsis of {self.capacity} positions does not shrink to {capacity}")
        self._kept_from, self.capacity = self.oldest, capacity

    def _active(self, lefts: ArrayLike, rights: ArrayLike) -> tuple[Positions, Positions]:
        """Intervals as arrays, all of them active."""
        left, right = (np.require(ends, np.int64, ["C", "W"]).reshape(-1) for ends in (lefts, rights))
        if left.size != right.size:
            raise ValueError(f"{left.size} left ends and {right.size} right ends")
        bad = (left < self.oldest) | (right > self.length) | (left > right + 1)
        if bad.any():
            i = int(np.argmax(bad))
            raise ValueError(self._inactive(int(left[i]), int(right[i])))
        return left, right

    def _inactive(self, left: int, right: int) -> str:
        interval = f"interval ({left}, {right}) is not active"
        if left > right + 1:
            return f"{interval}: it ends before it begins"
        if right > self.length:
            return f"{interval}: the stream has only {self.length} positions"
        if left < 1:
            return f"{interval}: positions begin at 1"
        if left > self.length - self.capacity:
            return f"{interval}: when the synopsis was grown, positions before {self.oldest} were gone already"
        return f"{interval}: of {self.length} positions the synopsis keeps the last {self.capacity}"


class SharedSynopsis(Activity, ABC):
    """One synopsis that answers all windows over the same values, each a vector over groups.

    Each kind precomputes its own intervals. Not safe for several threads.
    """

    name: ClassVar[str]

    def __init__(self, capacity: int, groups: int, combine: Combine, dtype: Dtype, widths: Sequence[int] = ()) -> None:
        super().__init__(capacity)
        if groups < 1:
            raise ValueError(f"{groups} groups: a synopsis has one at least")
        if (reason := self.refuse(combine, dtype)) is not None:
            raise ValueError(reason)
        self.groups, self.combine, self.dtype = groups, combine, dtype
        self._operation = OPERATIONS[combine]
        self._identity = identity(combine, dtype)
        self._rows = self._empty(self._slots(capacity))

    @staticmethod
    def refuse(combine: Combine, dtype: Dtype) -> str | None:
        """Why this pair cannot work, or None if it can."""
        return refuse_partial(combine, dtype)

    def update(self, values: ArrayLike) -> None:
        """Append one position: (groups,) values."""
        self.extend(np.asarray(values)[np.newaxis])

    def extend(self, values: ArrayLike) -> None:
        """Append positions, the oldest first: (n, groups) values."""
        rows = as_rows(values, (-1, self.groups), self.dtype)
        self._append(rows)
        self.length += len(rows)

    def lookup(self, left: int, right: int) -> Component:
        """The (groups,) combined values of an active interval."""
        return self.lookup_many([left], [right])[0]

    def lookup_many(self, lefts: ArrayLike, rights: ArrayLike) -> Component:
        """The (q, groups) combined values of q active intervals."""
        left, right = self._active(lefts, rights)
        out = self._empty(len(left))
        self._answer(left, right, out)
        return out

    def lookup_groups(self, left: int, right: int, groups: NDArray[np.integer]) -> Component:
        """The combined values of an active interval for some groups alone."""
        return self.lookup(left, right)[groups]

    def grow_groups(self, groups: int) -> None:
        """Hold more groups, at the price of one copy; the new groups have no values yet."""
        if groups < self.groups:
            raise ValueError(f"a synopsis of {self.groups} groups does not shrink to {groups}")
        old, self.groups = self._rows, groups
        self._rows = self._empty(len(old))
        self._rows[:, : old.shape[1]] = old

    def _empty(self, slots: int) -> Component:
        return np.full((slots, self.groups), self._identity, dtype=self.dtype)

    def _active_positions(self) -> Positions:
        return np.arange(self.oldest, self.length + 1)

    @abstractmethod
    def _slots(self, capacity: int) -> int: ...

    @abstractmethod
    def _append(self, values: Component) -> None: ...

    @abstractmethod
    def _answer(self, lefts: Positions, rights: Positions, out: Component) -> None:
        """Fold the intervals into `out`, which holds identities."""

    @abstractmethod
    def grow(self, capacity: int) -> None:
        """Keep more positions from now on."""

    @abstractmethod
    def stored(self) -> list[Interval]:
        """The active intervals with stored values."""

    @abstractmethod
    def probed(self, left: int, right: int) -> list[Interval]:
        """The stored intervals that a lookup reads."""
