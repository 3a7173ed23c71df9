"""Items: the values of a holistic aggregate's argument, which are keys of a pane table of their own.

COUNT(DISTINCT x), MEDIAN(x), TOP(k, x) need to know how often each value occurs, so they read a pane table that is
grouped by the query's keys *and* x (thesis 2.3.4: frequency counts per interval), one code per (group, item):

    codes     0          1          2          3          4          in order of arrival
              (b, 80)    (a, 22)    (b, 22)    (a, NULL)  (a, 80)
    order     1 4 3 | 2 0                                            by group, then by item; NULL items last
    starts    0       3     5
    valid     2       5                                              where the NULL item of a group begins

A window's counts, read in this order, are each group's sorted multiset: ranks, modes and distinct values are one
walk, by one kernel call for all windows of a scan. `counts` has a row per window and a column per pair; group g has the
places first[g] .. last[g] - 1 of `order`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.expr.value_codes import KeyDictionary, value_ranks


@numba.njit(cache=True, nogil=True)
def kernel_sum_groups(counts: Any, order: Any, first: Any, last: Any) -> Any:
    out = np.zeros((counts.shape[0], first.size), dtype=np.int64)
    for w in range(counts.shape[0]):
        for g in range(first.size):
            total = 0
            for place in range(first[g], last[g]):
                total += counts[w, order[place]]
            out[w, g] = total
    return out


@numba.njit(cache=True, nogil=True)
def kernel_count_distinct(counts: Any, order: Any, first: Any, last: Any) -> Any:
    out = np.zeros((counts.shape[0], first.size), dtype=np.int64)
    for w in range(counts.shape[0]):
        for g in range(first.size):
            found = 0
            for place in range(first[g], last[g]):
                found += counts[w, order[place]] > 0
            out[w, g] = found
    return out


@numba.njit(cache=True, nogil=True)
def kernel_pick_modes(counts: Any, order: Any, first: Any, last: Any) -> Any:
    out = np.full((counts.shape[0], first.size), -1, dtype=np.int64)
    for w in range(counts.shape[0]):
        for g in range(first.size):
            most = 0
            for place in range(first[g], last[g]):
                # Items ascend: only a greater count replaces, so the least item among equals stays.
                if counts[w, order[place]] > most:
                    most = counts[w, order[place]]
                    out[w, g] = order[place]
    return out


@numba.njit(cache=True, nogil=True)
def kernel_pick_ranks(counts: Any, order: Any, first: Any, last: Any, ranks: Any) -> Any:
    out = np.full((counts.shape[0], first.size), -1, dtype=np.int64)
    for w in range(counts.shape[0]):
        for g in range(first.size):
            left = ranks[w, g]
            if left < 1:
                continue
            for place in range(first[g], last[g]):
                left -= counts[w, order[place]]
                if left <= 0:
                    out[w, g] = order[place]
                    break
    return out


@numba.njit(cache=True, nogil=True)
def kernel_pick_top(weights: Any, there: Any, order: Any, first: Any, last: Any, k: int) -> Any:
    # The k heaviest pairs of each window and group, heaviest first. there: 0 no tuples, 1 a NULL weight (last), 2 a
    # weight.
    out = np.full((weights.shape[0], first.size, k), -1, dtype=np.int64)
    heap = np.empty(k, dtype=weights.dtype)
    for w in range(weights.shape[0]):
        for g in range(first.size):
            _top_of_group(weights[w], there[w], order[first[g] : last[g]], out[w, g], heap)
    return out


@numba.njit(cache=True, nogil=True)
def _top_of_group(weights: Any, there: Any, pairs: Any, best: Any, heap: Any) -> None:
    # `best` has places among the pairs, and `heap` their weights: the first place comes after all others.
    k, found = best.size, 0
    for place in range(pairs.size):
        weight = weights[pairs[place]]
        # Most pairs end here: k others are heavier.
        if (found == k and not _is_heavier(weight, heap[0])) or there[pairs[place]] != 2:
            continue
        if found == k:
            best[0], heap[0] = place, weight
            _sift(best, heap, 0, k)
            continue
        best[found], heap[found] = place, weight
        found += 1
        if found == k:
            _make_heap(best, heap, k)
    if found < k:
        _make_heap(best, heap, found)
    for end in range(found - 1, 0, -1):
        best[0], best[end], heap[0], heap[end] = best[end], best[0], heap[end], heap[0]
        _sift(best, heap, 0, end)
    for i in range(found):
        best[i] = pairs[best[i]]
    for pair in pairs:
        if found == k:
            return
        if there[pair] == 1:
            best[found] = pair
            found += 1


@numba.njit(cache=True, nogil=True)
def _make_heap(best: Any, heap: Any, size: int) -> None:
    for at in range(size // 2 - 1, -1, -1):
        _sift(best, heap, at, size)


@numba.njit(cache=True, nogil=True)
def _sift(best: Any, heap: Any, at: int, size: int) -> None:
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _comes_before(best, heap, child, child + 1):
            child += 1
        if _comes_before(best, heap, child, at):
            return
        best[at], best[child], heap[at], heap[child] = best[child], best[at], heap[child], heap[at]
        at = child


@numba.njit(cache=True, nogil=True)
def _comes_before(best: Any, heap: Any, a: int, b: int) -> bool:
    # Equal weights stay in the order of their items.
    return bool(_is_heavier(heap[a], heap[b]) or (best[a] < best[b] and not _is_heavier(heap[b], heap[a])))


@numba.njit(cache=True, nogil=True)
def _is_heavier(a: Any, b: Any) -> bool:
    # NaN is the greatest number.
    return bool(a > b or (a != a and b == b))


sum_groups = kernel_sum_groups
count_distinct = kernel_count_distinct
pick_modes = kernel_pick_modes
pick_ranks = kernel_pick_ranks
pick_top = kernel_pick_top


Ints = NDArray[np.int64]


class ItemOrder:
    """The (group, item) pairs of a key dictionary in the order above; `item` and `group` are places among its keys."""

    def __init__(self, keys: KeyDictionary, item: int, group: tuple[int, ...]) -> None:
        columns = keys.decode_all()
        self.groups = KeyDictionary([keys.types[place] for place in group])
        owners = self.groups.encode([columns[place] for place in group], len(keys)).astype(np.int64)
        self._column = columns[item]
        ranks, is_null = value_ranks(self._column)
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

    @cached_property
    def mirrored_pairs(self) -> tuple[Ints, Ints]:
        """The same with the items of each group from the last to the first."""
        owners = np.repeat(np.arange(len(self.groups)), self.valid - self.starts[:-1])
        last = self.starts[:-1] + self.valid - 1
        places = np.flatnonzero(np.arange(len(self.order)) < np.repeat(self.valid, np.diff(self.starts)))
        return self.order[last[owners] - places], owners

    @property
    def type(self) -> pa.DataType:
        return self._column.type

    def pairs_of(self, item: pa.Scalar) -> tuple[Ints, Ints]:
        """The pairs with one item, and the group of each. As Spark has it, -0.0 is 0.0, and all NaN are one item."""
        value = item.as_py()
        same = pc.equal(self._column, item) if value == value else pc.is_nan(self._column)
        pairs, owners = self.valid_pairs
        here = np.asarray(same.fill_null(False))[pairs]
        return pairs[here], owners[here]

    def values(self, codes: NDArray[np.integer]) -> pa.Array:
        """The items of pairs; NULL for code -1."""
        return self._column.take(pa.array(codes, mask=codes < 0))


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
        """Tuples per window and group, NULL items too: 0 means that the group is absent."""
        return sum_groups(self.counts, self.order.order, self.order.starts[:-1], self.order.starts[1:])

    @cached_property
    def totals(self) -> Ints:
        """Tuples per window and group whose item is not NULL."""
        return sum_groups(self.counts, self.order.order, self.order.starts[:-1], self.order.valid)

    def distinct(self) -> Ints:
        return count_distinct(self.counts, self.order.order, self.order.starts[:-1], self.order.valid)

    def count_of(self, item: pa.Scalar) -> Ints:
        """How often one item occurs in each window and group."""
        pairs, owners = self.order.pairs_of(item)
        found = np.zeros((self.windows, self.groups), dtype=np.int64)
        found[:, owners] = self.counts[:, pairs]
        return found

    def modes(self) -> Ints:
        """The pair of the most frequent item of each window and group, the least item among equals; -1 for none."""
        return pick_modes(self.counts, self.order.order, self.order.starts[:-1], self.order.valid)

    def at(self, ranks: Ints) -> Ints:
        """The pair whose item has a 1-based rank among a window's and group's sorted items; -1 where there is none."""
        return pick_ranks(self.counts, self.order.order, self.order.starts[:-1], self.order.valid, ranks)

    def values(self, pairs: Ints) -> pa.Array:
        return self.order.values(pairs.ravel())

    def only(self, window: int) -> ItemCounts:
        return ItemCounts(self.counts[window : window + 1], self.order)

    def lengths(self, once: bool) -> Ints:
        """How many elements a list of the items has; `once`: of the different items."""
        return self.distinct() if once else self.totals

    def lists(self, once: bool, descending: bool, most: int) -> tuple[Ints, Ints]:
        """The pairs of each window and group in the order of their items, and how many: at most the first `most`."""
        pairs, owners = self.order.mirrored_pairs if descending else self.order.valid_pairs
        found, sizes = [np.empty(0, dtype=np.int64)], []
        for counts, lengths in zip(self.counts, self.lengths(once), strict=True):
            times = (counts[pairs] > 0).astype(np.int64) if once else counts[pairs]
            first = np.cumsum(lengths) - lengths
            place = np.cumsum(times) - times - first[owners]
            found.append(np.repeat(pairs, np.clip(most - place, 0, times)))
            sizes.append(np.minimum(lengths, most))
        return np.concatenate(found), np.concatenate(sizes) if sizes else found[0]
