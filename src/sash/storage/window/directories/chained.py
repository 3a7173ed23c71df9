"""Directories of linked lists: one list (L-INDEX), a list per hash bucket (H-INDEX, UH-INDEX).

    L-INDEX        4 ─ 12 ─ 14 ─ 15 ─ 16 ─ 17 ─ 19

    H-INDEX   0    4 ─ 12 ─ 16         bucket = key mod number of buckets; ascending
              1    17
              2    14
              3    15 ─ 19

    UH-INDEX  0    4 ─ 16 ─ 12         the same, but a new key comes first in its bucket

Reference: Golab, Garg and Özsu 2003, 5.1 and 5.3. The report's example of a UH-INDEX has 12, 16, 4 in the first
bucket, which is what comes of the values in the reverse of their printed order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.storage.window.directories.base import Directory, Ints, empty_slots
from sash.storage.window.directories.chain_kernels import (
    _kernel_find_chain,
    _kernel_link_chain,
    _kernel_unlink_chains,
    _kernel_walk_chains,
)


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
        stored, free, state, following, heads = self._arrays
        _kernel_link_chain(keys, stored, free, state, following, heads, self._ascending, found)

    def find(self, keys: Ints) -> Ints:
        stored, _, _, following, heads = self._arrays
        found = np.empty(len(keys), dtype=np.int64)
        _kernel_find_chain(keys, stored, following, heads, self._ascending, found)
        return found

    def ordered(self) -> Ints:
        stored, _, _, following, heads = self._arrays
        slots: Ints = _kernel_walk_chains(following, heads, len(stored))
        if self._buckets == 1 and self._ascending:
            return slots
        return slots[np.argsort(stored[slots], kind="stable")]

    def buckets(self) -> list[Ints]:
        """The keys of each bucket, in the order of its chain."""
        stored, _, _, following, heads = self._arrays
        return [
            stored[_kernel_walk_chains(following, heads[bucket : bucket + 1], len(stored))]
            for bucket in range(self._buckets)
        ]

    def _unlink(self, alive: NDArray[np.bool_]) -> None:
        _, _, _, following, heads = self._arrays
        _kernel_unlink_chains(following, heads, alive)

    def _relink(self, ascending: Ints) -> None:
        stored, _, _, following, heads = self._arrays
        bucket = stored[ascending] % self._buckets
        # By bucket, ascending within: each entry is followed by its neighbour, the last of a bucket by none.
        order = np.argsort(bucket, kind="stable")
        slots, bucket = ascending[order], bucket[order]
        last = np.append(bucket[1:] != bucket[:-1], True) if len(bucket) else np.zeros(0, dtype=bool)
        heads[:] = -1
        following[slots] = np.where(last, -1, np.roll(slots, -1))
        firsts = np.flatnonzero(np.append(True, last[:-1])) if len(bucket) else np.zeros(0, dtype=np.int64)
        heads[bucket[firsts]] = slots[firsts]
