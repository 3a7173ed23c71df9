"""Items: the values of a holistic aggregate's argument, which are keys of a pane table of their own.

COUNT(DISTINCT x), MEDIAN(x), TOP(k, x) need to know how often each value occurs, so they read a pane table that is
grouped by the query's keys *and* x (thesis 2.3.4: frequency counts per interval). One row per (group, item):

    codes     0          1          2          3          4          in order of arrival
              (b, 80)    (a, 22)    (b, 22)    (a, NULL)  (a, 80)
    order     1 4 3 | 2 0                                            by group, then by item; NULL items last
    starts    0       3     5
    valid     2       5                                              where the NULL item of a group begins

A window's counts, read in this order, are each group's sorted multiset: ranks, modes and distinct values are one
walk. All windows of a scan are walked by one kernel call.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.storage.keys import KeyDictionary
from sash.synopses.item_kernels import count_distinct, pick_modes, pick_ranks, sum_groups

Ints = NDArray[np.int64]


class ItemOrder:
    """The (group, item) pairs of a key dictionary in the order above; `item` and `group` are places among its keys."""

    def __init__(self, keys: KeyDictionary, item: int, group: tuple[int, ...]) -> None:
        columns = keys.decode_all()
        self.groups = KeyDictionary([keys.types[place] for place in group])
        owners = self.groups.encode([columns[place] for place in group], len(keys)).astype(np.int64)
        self._column = columns[item]
        ranks, is_null = _ranks(self._column)
        self.order: Ints = np.argsort(owners * (len(keys) + 1) + ranks, kind="stable").astype(np.int64)
        bounds = np.arange(len(self.groups) + 1)
        self.starts: Ints = np.searchsorted(owners[self.order], bounds).astype(np.int64)
        nulls = np.bincount(owners[is_null], minlength=len(self.groups)).astype(np.int64)
        self.valid: Ints = self.starts[1:] - nulls[: len(self.groups)]

    @cached_property
    def valid_pairs(self) -> tuple[Ints, Ints]:
        """The pairs whose item is not NULL, in order, and the group of each."""
        owners = np.repeat(np.arange(len(self.groups)), np.diff(self.starts))
        keep = np.arange(len(self.order)) < self.valid[owners]
        return self.order[keep], owners[keep]

    def values(self, codes: NDArray[np.integer]) -> pa.Array:
        """The items of pairs; NULL for code -1."""
        return self._column.take(pa.array(codes, mask=codes < 0))


def _ranks(column: pa.Array) -> tuple[Ints, NDArray[np.bool_]]:
    """Each value's place among the distinct ones, NaN after every number, NULL last."""
    encoded = column.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)) if column.null_count else encoded.indices
    order = np.asarray(pc.sort_indices(encoded.dictionary), dtype=np.int64)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = len(order)
    return rank[np.asarray(codes, dtype=np.int64)], np.asarray(column.is_null())


def item_order(keys: KeyDictionary, item: int, group: tuple[int, ...]) -> ItemOrder:
    """The order of a dictionary's pairs, made again only when pairs have come."""
    return keys.derived((item, group), lambda: ItemOrder(keys, item, group))


class ItemCounts:
    """How often each item occurs, in some windows: a row of `counts` per window, a column per pair."""

    def __init__(self, counts: Ints, order: ItemOrder) -> None:
        self.counts = np.ascontiguousarray(counts)
        self.order = order

    @property
    def windows(self) -> int:
        return len(self.counts)

    @property
    def groups(self) -> int:
        return len(self.order.groups)

    @cached_property
    def rows(self) -> Ints:
        """Tuples per window and group, NULL items too: whether a group is there at all."""
        return sum_groups(self.counts, self.order.order, self.order.starts[:-1], self.order.starts[1:])

    @cached_property
    def totals(self) -> Ints:
        """Tuples per window and group whose item is not NULL."""
        return sum_groups(self.counts, self.order.order, self.order.starts[:-1], self.order.valid)

    def distinct(self) -> Ints:
        return count_distinct(self.counts, self.order.order, self.order.starts[:-1], self.order.valid)

    def modes(self) -> Ints:
        """The pair of the most frequent item of each window and group, the least item among equals; -1 for none."""
        return pick_modes(self.counts, self.order.order, self.order.starts[:-1], self.order.valid)

    def at(self, ranks: Ints) -> Ints:
        """The pair whose item has a 1-based rank among a window's and group's sorted items; -1 where there is none."""
        return pick_ranks(self.counts, self.order.order, self.order.starts[:-1], self.order.valid, ranks)

    def values(self, pairs: Ints) -> pa.Array:
        return self.order.values(pairs.ravel())
