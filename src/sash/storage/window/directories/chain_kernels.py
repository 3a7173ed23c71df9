"""Chains of entries, one per bucket: `heads` by bucket, `following` by slot, -1 at the end.

`state[0]` is the number of free slots; the one that is taken next is on top of the stack `free`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def _kernel_link_chain(
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
def _kernel_find_chain(values: Any, keys: Any, following: Any, heads: Any, ascending: bool, found: Any) -> None:
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
def _kernel_walk_chains(following: Any, heads: Any, most: int) -> Any:
    """All slots, chain after chain; there are no more of them than `most`."""
    found, number = np.empty(most, np.int64), 0
    for bucket in range(heads.size):
        at = heads[bucket]
        while at >= 0:
            found[number] = at
            number += 1
            at = following[at]
    return found[:number]


@njit(cache=True)
def _kernel_unlink_chains(following: Any, heads: Any, alive: Any) -> None:
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
