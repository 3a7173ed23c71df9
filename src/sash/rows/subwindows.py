"""Sub-windows and how they store a column: LIST, AGGR, HASH, GROUP.

The values 12 14 16 17 15 4 19 17 16 23 12 19 1 12 5 23 are stored as

    LIST    the rows, in Arrow columns, in order of arrival
    AGGR    1:1  4:1  5:1  12:3  14:1  15:1  16:2  17:2  19:2  23:2       value : count, ascending
    HASH    0   4:1  12:3  16:2                                           the same by value mod 4
            1   1:1  5:1  17:2
            2   14:1
            3   15:1  19:2  23:2
    GROUP   1..5 3   6..10 0   11..15 5   16..20 6   21..25 2             a count per range

    storage   insert, per tuple   space     serves
    LIST      1                   b         all indexes
    AGGR      d                   d         set-valued indexes
    HASH      d / h               d + h     set-valued indexes
    GROUP     g                   g         the G-INDEX

for b tuples and d distinct values in a sub-window, h buckets, g groups. That is the cost of adding tuples to linked
lists one by one, as in the report; AGGR and HASH are made by one sort of the whole sub-window unless `one_by_one` asks
for the report's way. Each column has its own storage: LIST keeps rows of the columns that are not aggregated. A
finished sub-window never changes. NULLs are counted separately.

Reference: Golab, Garg and Özsu 2003, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.core.time import Micros
from sash.rows.directories import ChainedDirectory
from sash.rows.value_groups import Groups
from sash.rows.value_keys import Ints, keys_of, without_nulls


@dataclass(frozen=True)
class ValueCounts:
    """Distinct values and how often each occurs; HASH has them bucket after bucket."""

    values: pa.Array
    counts: Ints
    nulls: int
    starts: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def buckets(self) -> list[list[tuple[object, int]]]:
        pairs = list(zip(self.values.to_pylist(), self.counts.tolist(), strict=True))
        ends = [*self.starts[1:].tolist(), len(pairs)]
        return [pairs[low:high] for low, high in zip(self.starts.tolist(), ends, strict=True)]


@dataclass(frozen=True)
class GroupCounts:
    """How many values are in each group."""

    counts: Ints
    nulls: int


Summary = ValueCounts | GroupCounts


class Storage(Protocol):
    """How a column of a sub-window is stored when its rows are not kept."""

    name: str

    def summarise(self, column: pa.ChunkedArray) -> Summary: ...


@dataclass(frozen=True)
class Aggr:
    """A sorted list of distinct values and counts.

    >>> Aggr().summarise(pa.chunked_array([[3, 1, None, 3]])).buckets()
    [[(1, 1), (3, 2)]]
    """

    one_by_one: bool = False
    name = "aggr"

    def summarise(self, column: pa.ChunkedArray) -> ValueCounts:
        values, _ = without_nulls(column)
        nulls = len(column) - len(values)
        keys = keys_of(values.type)
        if not keys.ordered:
            counted = pc.value_counts(values)
            order = pc.sort_indices(counted.field(0))
            return ValueCounts(counted.field(0).take(order), np.array(counted.field(1).take(order)), nulls)
        distinct, counts = _counted(keys.encode(values), 1, self.one_by_one)
        return ValueCounts(keys.decode(distinct), counts, nulls)


@dataclass(frozen=True)
class Hash:
    """The same in buckets, for columns with number keys: the bucket is the key mod the number of buckets.

    >>> Hash(buckets=2).summarise(pa.chunked_array([[3, 1, 2, 3]])).buckets()
    [[(2, 1)], [(1, 1), (3, 2)]]
    """

    # As in the report (7.1): each sub-window has such a table, so it must be small.
    buckets: int = 5
    one_by_one: bool = False
    name = "hash"

    def summarise(self, column: pa.ChunkedArray) -> ValueCounts:
        values, _ = without_nulls(column)
        keys = keys_of(values.type)
        if not keys.ordered:
            raise TypeError(f"HASH cannot store a column of {values.type}: use AGGR")
        distinct, counts = _counted(keys.encode(values), self.buckets, self.one_by_one)
        buckets = distinct % self.buckets
        order = np.argsort(buckets, kind="stable")
        starts = np.searchsorted(buckets[order], np.arange(self.buckets))
        nulls = len(column) - len(values)
        return ValueCounts(keys.decode(distinct[order]), counts[order], nulls, starts.astype(np.int64))


@dataclass(frozen=True)
class Group:
    """A count per range of values.

    >>> Group(Groups(pa.int64(), [1, 6], 10)).summarise(pa.chunked_array([[3, 7, 1, 12]])).counts.tolist()
    [0, 2, 1, 1]
    """

    groups: Groups
    name = "group"

    def summarise(self, column: pa.ChunkedArray) -> GroupCounts:
        values, _ = without_nulls(column)
        return GroupCounts(self.groups.count(self.groups.keys.encode(values)), len(column) - len(values))


def _counted(keys: Ints, buckets: int, one_by_one: bool) -> tuple[Ints, Ints]:
    """Distinct keys, ascending, and how often each occurs."""
    if not one_by_one:
        distinct, counts = np.unique(keys, return_counts=True)
        return distinct, counts.astype(np.int64)
    lists = ChainedDirectory(buckets)
    counts = np.bincount(lists.link(keys), minlength=lists.capacity)
    entries = lists.ordered()
    return lists.keys[entries], counts[entries].astype(np.int64)


@dataclass(frozen=True)
class SubWindow:
    """A sub-window as queries see it once it is attached. `rows` has the columns that are stored as LIST."""

    number: int
    first_row: int
    size: int
    rows: pa.Table
    summaries: Mapping[str, Summary]
    timestamp: Micros | None = None
