"""G-INDEX: a count per group of values, and window, instead of one per value.

The counts of an attached sub-window are added to the index, and those of the evicted one are taken back: g steps each,
however many tuples there are. No links are needed. Answers are approximate: ranges of values.

`GroupIndex` gets its groups from the caller. The groups of `GrowingGroupIndex` grow with the values, so nobody needs to
know the values in advance:

    values   3   5   6   200  201             at most 4 groups

    width 1  [3] [5] [6] [200] [201]          five: too many
    width 2  [2..3] [4..5] [6..7] [200..201]  four

A group is all keys with the same upper bits: width 2**k, from a multiple of it. Only groups with values are kept, so
the values may lie anywhere, and may wander as timestamps do. While the windows have no more values than the allowed
groups, every group is one value and the index is exact. When they have more, groups double their width until they are
few enough, in the index and in all sub-windows. They never become narrower: a sub-window does not remember finer
groups. The widest are two: below 0, and from 0 on.

NULL is in no group. Reference: Golab, Garg and Özsu 2003, 5.4 and 7.2.3, where groups are given and stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.isolation import Optimistic
from sash.rows.subwindows import Group, GroupCounts, Storage, SubWindow, ValueCounts
from sash.rows.value_groups import Groups, keys_with_groups
from sash.rows.value_keys import Ints, without_nulls


@dataclass(frozen=True)
class GroupedCounts:
    """Numbers of groups, ascending, and how many values are in each."""

    groups: Ints
    counts: Ints

    @classmethod
    def of(cls, groups: Ints, counts: Ints) -> GroupedCounts:
        """The counts of groups in any order; a group may come more than once."""
        every, places = np.unique(groups, return_inverse=True)
        # Sums of whole numbers: weights would make them floating-point.
        sums = np.zeros(len(every), dtype=np.int64)
        np.add.at(sums, places, counts)
        return cls(every, sums)

    def wider(self) -> GroupedCounts:
        return GroupedCounts.of(self.groups >> 1, self.counts)


class GrowingGroupIndex:
    """Ranges of one column, of one window or of two, at most `most` of them.

    Needs: values and counts of sub-windows (AGGR). Time: g per slide and query, besides the values of the new
    sub-window. Space: g counts per sub-window and side.

    >>> index = GrowingGroupIndex(pa.int64(), most=4, sides=2)
    >>> index.add_counts(0, ValueCounts(pa.array([3, 5, 200]), np.array([1, 1, 1]), 0), side=0)
    >>> index.intersection().to_pylist()
    []
    >>> index.add_counts(0, ValueCounts(pa.array([6, 201]), np.array([2, 1]), 0), side=1)
    >>> index.intersection().to_pylist(), index.width
    ([{'low': 200, 'high': 201}], 2)
    """

    def __init__(self, type: pa.DataType, most: int, sides: int = 1) -> None:
        if most < 2:
            raise ValueError(f"an index needs at least 2 groups, for values below 0 and others, not {most}")
        self.type, self.most, self.sides = type, most, sides
        self.shift = 0
        self._keys = keys_with_groups(type)
        self._parts: list[dict[int, GroupedCounts]] = [{} for _ in range(sides)]
        self._groups: Ints = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros((sides, 0), dtype=np.int64)

    @property
    def width(self) -> int:
        """How many values a group may have."""
        return 1 << self.shift

    def add_counts(self, number: int, counts: ValueCounts, side: int = 0) -> None:
        groups = self._keys.encode(counts.values) >> self.shift
        self.add_groups(number, GroupedCounts.of(groups, counts.counts), side)

    def add_groups(self, number: int, part: GroupedCounts, side: int = 0) -> None:
        """Add a sub-window in groups of the present width, as `groups_of` gives it."""
        self._parts[side][number] = part
        self._change(part, side, 1)
        while len(self._groups) > self.most:
            self._widen()

    def groups_of(self, number: int, side: int = 0) -> GroupedCounts:
        """The groups and counts of a sub-window."""
        return self._parts[side][number]

    @property
    def links(self) -> int:
        """How many groups all sub-windows together have."""
        return sum(len(part.groups) for side in self._parts for part in side.values())

    def evict(self, number: int, side: int = 0) -> None:
        self._change(self._parts[side].pop(number), side, -1)

    def purge(self) -> None:
        """Do nothing: groups without values are not kept."""

    def _change(self, part: GroupedCounts, side: int, sign: int) -> None:
        every = np.union1d(self._groups, part.groups)
        counts = np.zeros((self.sides, len(every)), dtype=np.int64)
        counts[:, np.searchsorted(every, self._groups)] = self._counts
        counts[side, np.searchsorted(every, part.groups)] += sign * part.counts
        occupied = counts.any(axis=0)
        self._groups, self._counts = every[occupied], counts[:, occupied]

    def _widen(self) -> None:
        self.shift += 1
        self._parts = [{number: part.wider() for number, part in parts.items()} for parts in self._parts]
        sides = [GroupedCounts(self._groups, counts).wider() for counts in self._counts]
        self._groups, self._counts = sides[0].groups, np.stack([side.counts for side in sides])

    def histogram(self, side: int = 0) -> pa.Table:
        """Ranges that have values, and how many."""
        found = self._counts[side] > 0
        return self._ranges(found).append_column("count", pa.array(self._counts[side, found]))

    def intersection(self) -> pa.Table:
        """Ranges that both windows have values in: every value of the exact intersection but NULL is in one."""
        return self._ranges(np.logical_and.reduce(self._counts > 0, axis=0))

    def _ranges(self, wanted: NDArray[np.bool_]) -> pa.Table:
        """Both ends of the ranges, within the type's limits."""
        lows = self._groups[wanted] << self.shift
        highs = lows + (self.width - 1)
        least, greatest = _limits(self.type)
        low, high = (self._keys.decode(np.clip(ends, least, greatest)) for ends in (lows, highs))
        return pa.table({"low": low, "high": high})


def _limits(type: pa.DataType) -> tuple[int, int]:
    """The keys of the least and the greatest value of a type."""
    if pa.types.is_boolean(type):
        return 0, 1
    if pa.types.is_decimal(type):
        return 1 - 10**type.precision, 10**type.precision - 1
    if pa.types.is_signed_integer(type):
        return int(np.iinfo(type.to_pandas_dtype()).min), int(np.iinfo(type.to_pandas_dtype()).max)
    if pa.types.is_unsigned_integer(type) and type.bit_width < 64:
        return 0, 2**type.bit_width - 1
    bits = type.bit_width - 1
    return -(2**bits), 2**bits - 1


class GroupIndex:
    """Ranges and counts of one column, of one window or of two.

    Needs: any storage of the column; GROUP has its counts ready. Time: g per slide and query. Space: g counts per
    sub-window and side.

    >>> index = GroupIndex(Groups(pa.int64(), [1, 6, 11], 15), sides=2)
    >>> index.add(0, pa.array([2, 3, 7]), side=0)
    >>> index.add(0, pa.array([8, 12]), side=1)
    >>> index.intersection().to_pylist()
    [{'low': 6, 'high': 10}]
    """

    def __init__(self, groups: Groups, sides: int = 1) -> None:
        self.groups, self.sides = groups, sides
        self.taken: dict[int, Optimistic] = {}
        self._counts = np.zeros((sides, len(groups)), dtype=np.int64)
        self._parts: list[dict[int, Ints]] = [{} for _ in range(sides)]
        self._ranges = groups.ranges()

    def refuse(self, column: str, storage: Storage | None) -> None:
        """Raise if the index cannot be kept from the storage of a column."""
        if isinstance(storage, Group) and storage.groups != self.groups:
            raise ValueError(f"{column!r} is stored as GROUP with other groups than those of the index")

    def attach(self, sub_window: SubWindow, column: str, side: int = 0) -> None:
        summary = sub_window.summaries.get(column)
        if summary is None:
            self.add(sub_window.number, sub_window.rows[column], side)
            return
        if isinstance(summary, ValueCounts):
            places = self.groups.place(self.groups.keys.encode(summary.values))
            counts = np.bincount(places, summary.counts, len(self.groups)).astype(np.int64)
        else:
            assert isinstance(summary, GroupCounts)
            counts = summary.counts
        self._add(sub_window.number, counts, side)

    def add(self, number: int, column: pa.Array | pa.ChunkedArray, side: int = 0) -> None:
        values, _ = without_nulls(column)
        self._add(number, self.groups.count(self.groups.keys.encode(values)), side)

    def _add(self, number: int, counts: Ints, side: int) -> None:
        self._parts[side][number] = counts
        self._counts[side] += counts

    def evict(self, number: int, side: int = 0) -> None:
        self._counts[side] -= self._parts[side].pop(number)

    def clear(self, side: int = 0) -> None:
        self._counts[side] = 0
        self._parts[side] = {}

    def purge(self) -> None:
        """Do nothing: groups are few, and stay."""

    def histogram(self, side: int = 0) -> pa.Table:
        """Ranges that have values, and how many."""
        table = self._ranges.append_column("count", pa.array(self._counts[side]))
        return table.filter(pa.array(self._counts[side] > 0))

    def intersection(self) -> pa.Table:
        """Ranges that both windows have values in: every value of the exact intersection is in one of them."""
        return self._ranges.filter(pa.array((self._counts > 0).all(axis=0)))

    def difference(self, side: int = 0) -> pa.Table:
        """Ranges that only this window has values in: all of these values are in the exact difference."""
        return self._ranges.filter(pa.array((self._counts[side] > 0) & (self._counts[1 - side] == 0)))
