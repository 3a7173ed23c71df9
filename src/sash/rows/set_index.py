"""L-, T-, H- and UH-INDEX: a directory of values, with a count per window in each entry.

    directory    4   12   14   15   16   17   19
    side 0       1    1    1    1    1    2    1        how often the value is in the first window
    side 1       0    3    0    0    1    0    0        and in the second one, when two windows share the index

An attached sub-window is linked with entries, one link per tuple (LIST) or per distinct value (AGGR, HASH), and its
counts are added; when it is evicted, the links lead to the entries without any search, and its counts are taken back.
Links are made when the sub-window is attached, not while it is filled: the total cost is the same, and queries see no
change in between. An entry whose counts are all 0 stays until `purge`.

Histogram, intersection and difference are one pass over the directory; the number of distinct values is kept.

Reference: Golab, Garg and Özsu 2003, 5.1 to 5.3, 5.5, 7.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from sash.isolation import Optimistic
from sash.rows.directories import DIRECTORIES, Directory
from sash.rows.subwindows import Group, GroupCounts, Storage, SubWindow, ValueCounts
from sash.rows.value_keys import Ints, forget_values, keys_of, without_nulls


@njit(cache=True)
def kernel_apply(counts: Any, entries: Any, amounts: Any, sign: int) -> int:
    """Add amounts to counts, or take them back; returns by how many the entries with a count above 0 have grown."""
    grown = 0
    for place in range(entries.size):
        before = counts[entries[place]]
        after = before + sign * amounts[place]
        counts[entries[place]] = after
        grown += (after > 0) - (before > 0)
    return grown


@njit(cache=True)
def kernel_apply_ones(counts: Any, entries: Any, sign: int) -> int:
    """The same where each link is one tuple."""
    grown = 0
    for place in range(entries.size):
        before = counts[entries[place]]
        counts[entries[place]] = before + sign
        grown += (before + sign > 0) - (before > 0)
    return grown


# Measured by papers/window_index/run.py; the figures are in docs/windows.md.
DEFAULT_DIRECTORY = "tree"

Link = tuple[Ints, Ints | None, int]


class SetIndex:
    """Values and counts of one column, of one window or of two.

    Needs: LIST, AGGR or HASH. Time: per link what the directory needs, once; per query D. Space: D entries and the
    links of all sub-windows in the window.

    >>> index = SetIndex(pa.int64())
    >>> for number, values in enumerate([[12, 14, 16, 17], [19, 4, 15, 17]]):
    ...     index.add(number, pa.array(values))
    >>> index.evict(0)
    >>> index.histogram().to_pydict()
    {'value': [4, 15, 17, 19], 'count': [1, 1, 1, 1]}
    >>> index.distinct(), index.median(), index.count(17)
    (4, 16.0, 1)
    """

    def __init__(self, type: pa.DataType, directory: str | Directory = DEFAULT_DIRECTORY, sides: int = 1) -> None:
        if isinstance(directory, str):
            if directory not in DIRECTORIES:
                raise ValueError(f"unknown directory {directory!r}; known: {', '.join(DIRECTORIES)}")
            directory = DIRECTORIES[directory]()
        self.type = type.value_type if pa.types.is_dictionary(type) else type
        self.directory, self.sides = directory, sides
        self.taken: dict[int, Optimistic] = {}
        self.keys = keys_of(self.type)
        self._counts = np.zeros((sides, directory.capacity), dtype=np.int64)
        self._links: list[dict[int, Link]] = [{} for _ in range(sides)]
        self._distinct, self._nulls, self._total = [0] * sides, [0] * sides, [0] * sides

    # For windows.

    def refuse(self, column: str, storage: Storage | None) -> None:
        """Raise if the index cannot be kept from the storage of a column."""
        if isinstance(storage, Group):
            raise ValueError(f"{column!r} is stored as GROUP, which has no values: only a G-INDEX can be kept of it")

    def attach(self, sub_window: SubWindow, column: str, side: int = 0) -> None:
        summary = sub_window.summaries.get(column)
        if summary is None:
            self.add(sub_window.number, sub_window.rows[column], side)
            return
        assert not isinstance(summary, GroupCounts), "refused when the index was made"
        self.add_counts(sub_window.number, summary, side)

    def add(self, number: int, column: pa.Array | pa.ChunkedArray, side: int = 0) -> None:
        """Link the tuples of a sub-window, one by one."""
        values, _ = without_nulls(column)
        self._add(number, self._linked(values), None, len(column) - len(values), side)

    def add_counts(self, number: int, counts: ValueCounts, side: int = 0) -> None:
        """Link the values of a sub-window, each with its count."""
        self._add(number, self._linked(counts.values), counts.counts, counts.nulls, side)

    def counts_of(self, number: int, side: int = 0) -> ValueCounts:
        """The values and counts of a sub-window, by its links: a checkpoint needs nothing else of it."""
        entries, amounts, nulls = self._links[side][number]
        ones = np.ones(len(entries), dtype=np.int64)
        return ValueCounts(self._values(entries), ones if amounts is None else amounts, nulls)

    @property
    def links(self) -> int:
        """How many links all sub-windows have."""
        return sum(len(entries) for side in self._links for entries, _, _ in side.values())

    def evict(self, number: int, side: int = 0) -> None:
        """Take back the counts of a sub-window."""
        entries, amounts, nulls = self._links[side].pop(number)
        self._apply(entries, amounts, nulls, side, -1)

    def clear(self, side: int = 0) -> None:
        """Forget one window."""
        self._counts[side] = 0
        self._links[side] = {}
        self._distinct[side] = self._nulls[side] = self._total[side] = 0

    def purge(self) -> None:
        """Forget the entries whose counts are all 0. No link leads to them: each link belongs to a count."""
        self.directory.keep(np.logical_or.reduce(self._counts, axis=0))
        forget_values(self.keys, self.directory)

    def _linked(self, values: pa.Array) -> Ints:
        return self.directory.link(self.keys.encode(values))

    def _add(self, number: int, entries: Ints, amounts: Ints | None, nulls: int, side: int) -> None:
        missing = self.directory.capacity - self._counts.shape[1]
        if missing:
            self._counts = np.pad(self._counts, ((0, 0), (0, missing)))
        self._links[side][number] = entries, amounts, nulls
        self._apply(entries, amounts, nulls, side, 1)

    def _apply(self, entries: Ints, amounts: Ints | None, nulls: int, side: int, sign: int) -> None:
        counts = self._counts[side]
        if amounts is None:
            self._distinct[side] += kernel_apply_ones(counts, entries, sign)
        else:
            self._distinct[side] += kernel_apply(counts, entries, amounts, sign)
        self._nulls[side] += sign * nulls
        self._total[side] += sign * (len(entries) if amounts is None else int(amounts.sum()))

    # For queries. Answers are in ascending order of values.

    def count(self, value: Any, side: int = 0) -> int:
        """How often a value is in the window."""
        if value is None:
            return self._nulls[side]
        keys, known = self.keys.find(pa.array([value], self.type))
        entry = int(self.directory.find(keys)[0]) if known[0] else -1
        return int(self._counts[side, entry]) if entry >= 0 else 0

    def distinct(self, side: int = 0) -> int:
        """COUNT(DISTINCT x): NULL is not counted."""
        return self._distinct[side]

    def items(self, side: int = 0, zeros: bool = False) -> tuple[pa.Array, Ints]:
        """Values and counts; with `zeros` also the values that wait to be purged."""
        entries = self._ordered(None if zeros else self._counts[side] > 0)
        return self._values(entries), self._counts[side, entries]

    def histogram(self, side: int = 0) -> pa.Table:
        """HISTOGRAM(x): NULL is no item."""
        values, counts = self.items(side)
        return pa.table({"value": values, "count": counts})

    def intersection(self) -> pa.Array:
        """Values that both windows have. NULL is a value, as in INTERSECT, and comes first."""
        return self._set((self._counts[0] > 0) & (self._counts[1] > 0), self._nulls[0] > 0 and self._nulls[1] > 0)

    def difference(self, side: int = 0) -> pa.Array:
        """Values that only this window has, as in EXCEPT."""
        other = 1 - side
        return self._set(
            (self._counts[side] > 0) & (self._counts[other] == 0), self._nulls[side] > 0 and self._nulls[other] == 0
        )

    def median(self, side: int = 0) -> float | None:
        """MEDIAN(x) of numbers: the middle one, or halfway between the two in the middle."""
        if not (pa.types.is_integer(self.type) or pa.types.is_floating(self.type) or pa.types.is_decimal(self.type)):
            raise TypeError(f"MEDIAN needs numbers, not {self.type}")
        number = self._total[side]
        if not number:
            return None
        lower, upper = (float(value.as_py()) for value in self._at([(number + 1) // 2, number // 2 + 1], side))
        return 0.5 * lower + 0.5 * upper if lower != upper else lower

    def _at(self, positions: list[int], side: int) -> pa.Array:
        """The elements at positions, from 1, of the sorted window."""
        entries = self._ordered(self._counts[side] > 0)
        reached = np.cumsum(self._counts[side, entries])
        return self._values(entries[np.searchsorted(reached, positions)])

    def _ordered(self, wanted: NDArray[np.bool_] | None) -> Ints:
        entries = self.directory.ordered()
        if wanted is not None:
            entries = entries[wanted[entries]]
        if self.keys.ordered:
            return entries
        return entries[np.array(pc.sort_indices(self._values(entries)), dtype=np.int64)]

    def _values(self, entries: Ints) -> pa.Array:
        return self.keys.decode(self.directory.keys[entries])

    def _set(self, wanted: NDArray[np.bool_], null: bool) -> pa.Array:
        values = self._values(self._ordered(wanted))
        return pa.concat_arrays([pa.nulls(1, self.type), values]) if null else values
