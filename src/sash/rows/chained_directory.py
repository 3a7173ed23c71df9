"""Directories of linked lists: one list (L-INDEX), a list per hash bucket (H-INDEX, UH-INDEX).

    L-INDEX        4 ─ 12 ─ 14 ─ 15 ─ 16 ─ 17 ─ 19

    H-INDEX   0    4 ─ 12 ─ 16         bucket = key mod number of buckets; ascending
              1    17
              2    14
              3    15 ─ 19

    UH-INDEX  0    4 ─ 16 ─ 12         the same, but a new key comes first in its bucket

Reference: Golab, Garg and Özsu 2003, 5.1 and 5.3. The report's example of a UH-INDEX has 12, 16, 4 in the first bucket:
the result for the values in the reverse of their printed order.

In arrays: `heads` has the first entry of each bucket, `following` the next entry by slot, -1 at the end. `state[0]` is
the number of free slots; the next free slot is on top of the stack `free`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.rows.directory import Directory, Ints, empty_slots


@njit(cache=True)
def kernel_link_chain(
    values: Any, keys: Any, free: Any, state: Any, following: Any, heads: Any, ascending: bool, found: Any
) -> None:
    """Find or make the entry of each value. In a chain that does not ascend, a new entry comes first."""
    for place in range(values.size):
        value = values[place]
        bucket = value % heads.size
        before, at = -1, heads[bucket]
        if ascending:
            while at >= 0 and keys[at] < value:
                before, at = at, following[at]
        else:
            while at >= 0 and keys[at] != value:
                at = following[at]
        if at < 0 or keys[at] != value:
            state[0] -= 1
            slot = free[state[0]]
            keys[slot] = value
            if before < 0:
                following[slot] = heads[bucket]
                heads[bucket] = slot
            else:
                following[slot] = following[before]
                following[before] = slot
            at = slot
        found[place] = at


@njit(cache=True)
def kernel_find_chain(values: Any, keys: Any, following: Any, heads: Any, ascending: bool, found: Any) -> None:
    for place in range(values.size):
        value = values[place]
        at = heads[value % heads.size]
        if ascending:
            while at >= 0 and keys[at] < value:
                at = following[at]
        else:
            while at >= 0 and keys[at] != value:
                at = following[at]
        found[place] = at if at >= 0 and keys[at] == value else -1


@njit(cache=True)
def kernel_walk_chains(following: Any, heads: Any, most: int) -> Any:
    """All slots, chain after chain; at most `most`."""
    found, number = np.empty(most, np.int64), 0
    for bucket in range(heads.size):
        at = heads[bucket]
        while at >= 0:
            found[number] = at
            number += 1
            at = following[at]
    return found[:number]


@njit(cache=True)
def kernel_unlink_chains(following: Any, heads: Any, alive: Any) -> None:
    """Take the entries that are not alive out of their chains; the others stay in their order."""
    for bucket in range(heads.size):
        before, at = -1, heads[bucket]
        while at >= 0:
            if alive[at]:
                before = at
            elif before < 0:
                heads[bucket] = following[at]
            else:
                following[before] = following[at]
            at = following[at]


class ChainedDirectory(Directory):
    """Buckets of linked entries.

    Time: D / h per key for D entries in h buckets. Space: one link per entry, h heads.

    >>> directory = ChainedDirectory(buckets=4)
    >>> directory.link(np.array([12, 14, 16, 17, 19, 4, 15, 17])).tolist()
    [0, 1, 2, 3, 4, 5, 6, 3]
    >>> [bucket.tolist() for bucket in directory.buckets()]
    [[4, 12, 16], [17], [14], [15, 19]]
    """

    def __init__(self, buckets: int = 1, ascending: bool = True) -> None:
        if buckets < 1:
            raise ValueError(f"a hash table needs at least 1 bucket, not {buckets}")
        self._buckets, self._ascending = buckets, ascending
        super().__init__()

    def _room(self, capacity: int) -> tuple[Any, ...]:
        following, heads = np.full(capacity, -1, dtype=np.int64), np.full(self._buckets, -1, dtype=np.int64)
        return *empty_slots(capacity), following, heads

    def _link(self, keys: Ints, found: Ints) -> None:
        stored, free, state, following, heads = self.arrays
        kernel_link_chain(keys, stored, free, state, following, heads, self._ascending, found)

    def find(self, keys: Ints) -> Ints:
        stored, _, _, following, heads = self.arrays
        found = np.empty(len(keys), dtype=np.int64)
        kernel_find_chain(keys, stored, following, heads, self._ascending, found)
        return found

    def ordered(self) -> Ints:
        stored, _, _, following, heads = self.arrays
        slots: Ints = kernel_walk_chains(following, heads, len(stored))
        if self._buckets == 1 and self._ascending:
            return slots
        return slots[np.argsort(stored[slots], kind="stable")]

    def buckets(self) -> list[Ints]:
        """The keys of each bucket, in the order of its chain."""
        stored, _, _, following, heads = self.arrays
        return [
            stored[kernel_walk_chains(following, heads[bucket : bucket + 1], len(stored))]
            for bucket in range(self._buckets)
        ]

    def _unlink(self, alive: NDArray[np.bool_]) -> None:
        _, _, _, following, heads = self.arrays
        kernel_unlink_chains(following, heads, alive)

    def _relink(self, ascending: Ints) -> None:
        stored, _, _, following, heads = self.arrays
        bucket = stored[ascending] % self._buckets
        # By bucket, ascending within: each entry links to its neighbour, the last of a bucket to none.
        order = np.argsort(bucket, kind="stable")
        slots, bucket = ascending[order], bucket[order]
        last = np.append(bucket[1:] != bucket[:-1], True) if len(bucket) else np.zeros(0, dtype=bool)
        heads[:] = -1
        following[slots] = np.where(last, -1, np.roll(slots, -1))
        firsts = np.flatnonzero(np.append(True, last[:-1])) if len(bucket) else np.zeros(0, dtype=np.int64)
        heads[bucket[firsts]] = slots[firsts]
