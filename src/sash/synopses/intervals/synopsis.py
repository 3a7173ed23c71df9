"""What the shared synopses have in common: the interface that callers see, and the bookkeeping of positions.

              oldest active position                      length m
                  v                                          v
    ... 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15 | 16 |            capacity (N_max) = 9
                  |<------ an interval (8, 14) ---->|                     historical: it ends before m
                            |<-- an interval (11, 16) ----->|             suffix: it ends at m

One position is one pane: of time, of one row, or of several rows; its values are one partial per group. Positions
are 1-based, an interval (left, right) includes both ends, and right = left - 1 is the empty interval, whose answer
is the identity. An interval is *active* while all its positions are among the last `capacity` ones
(Arasu and Widom, 3.1.1); only active intervals can be looked up.

Invariant: what is looked up is exactly the combine of the values in the interval. A synopsis that was grown
has no more positions than before; it fills with the updates that follow (thesis, 8.2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sash.synopses.intervals.base_intervals import Interval
from sash.synopses.intervals.rows import OPERATIONS, identity
from sash.synopses.partials import Combine, Component, Dtype

Positions = NDArray[np.int64]


class SharedSynopsis(Protocol):
    """One synopsis that answers all windows over the same values; which intervals it precomputes is its own affair."""

    name: ClassVar[str]
    capacity: int
    groups: int
    length: int

    def __init__(
        self, capacity: int, groups: int, combine: Combine, dtype: Dtype, widths: Sequence[int] = ()
    ) -> None: ...

    @staticmethod
    def refuse(combine: Combine, dtype: Dtype) -> str | None:
        """Why this pair cannot work, or None if it can."""

    @property
    def oldest(self) -> int:
        """The oldest position that may be looked up."""

    def update(self, values: ArrayLike) -> None:
        """Append one position: (groups,) values."""

    def extend(self, values: ArrayLike) -> None:
        """Append positions, the oldest first: (n, groups) values."""

    def lookup(self, left: int, right: int) -> Component:
        """The (groups,) combined values of an active interval."""

    def lookup_many(self, lefts: ArrayLike, rights: ArrayLike) -> Component:
        """The (q, groups) combined values of q active intervals."""

    def lookup_groups(self, left: int, right: int, groups: NDArray[np.integer]) -> Component:
        """The combined values of an active interval for some groups alone."""

    def grow(self, capacity: int) -> None:
        """Keep more positions from now on."""

    def grow_groups(self, groups: int) -> None:
        """Hold more groups; the new ones have had no values so far."""

    def stored(self) -> list[Interval]:
        """The active intervals whose values it keeps."""

    def probed(self, left: int, right: int) -> list[Interval]:
        """The stored intervals that a lookup reads."""


def window_interval(length: int, n_left: int, n_right: int = 0) -> Interval:
    """The interval of the tuple-based window S[N_L, N_R] of a stream of some length (section 2).

    >>> window_interval(16, 9, 4), window_interval(3, 5, 0)
    ((8, 12), (1, 3))
    """
    left = max(length - n_left + 1, 1)
    return left, max(length - n_right, left - 1)


def refuse_partial(combine: Combine, dtype: Dtype) -> str | None:
    """Why no shared synopsis takes a combine of a dtype, or None."""
    if combine in OPERATIONS and dtype in (np.int64, np.float64):
        return None
    return f"{combine.upper()} of {np.dtype(dtype)}: a shared synopsis adds or compares one machine number per group"


def as_rows(values: ArrayLike, shape: tuple[int, ...], dtype: Dtype) -> Component:
    """Values as a writable array in rows: a kernel would be compiled again for a read-only or a strided one."""
    array = np.asarray(values)
    if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        needed = ", ".join(["n", *map(str, shape[1:])])
        raise ValueError(f"values of shape {array.shape} where ({needed}) is needed")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"values of {array.dtype} do not fit into {np.dtype(dtype)}")
    return np.require(array, dtype, ["C", "W"])


class Activity:
    """Which positions may be looked up, and the refusals of those that may not."""

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


class GroupedSynopsis(Activity, ABC):
    """The shared code of the synopses whose intervals hold a vector over groups. Not safe for several threads."""

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
        """Hold more groups, at the price of one copy; the new ones have had no values so far."""
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
    def grow(self, capacity: int) -> None: ...

    @abstractmethod
    def stored(self) -> list[Interval]: ...

    @abstractmethod
    def probed(self, left: int, right: int) -> list[Interval]: ...
