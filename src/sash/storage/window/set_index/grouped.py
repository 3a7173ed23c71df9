"""G-INDEX: a count per group of values, and window, instead of one per value.

The counts of a sub-window that is attached are added to the index, those of the evicted one taken back: g steps each,
however many tuples there are. No links are needed. Answers are approximate: ranges of values.

Reference: Golab, Garg and Özsu 2003, 5.4 and 7.2.3.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.storage.window.groups import Groups
from sash.storage.window.keys import Ints, without_nulls
from sash.storage.window.slides import Slides
from sash.storage.window.subwindows import Group, GroupCounts, Storage, SubWindow, ValueCounts


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
        self.taken: dict[int, Slides] = {}
        self._counts = np.zeros((sides, len(groups)), dtype=np.int64)
        self._parts: list[dict[int, Ints]] = [{} for _ in range(sides)]
        self._ranges = groups.ranges()

    def refuse(self, column: str, storage: Storage | None) -> None:
        """Raise where a column is stored in a way that the index cannot be kept from."""
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
        """Nothing: groups are few, and stay."""

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
