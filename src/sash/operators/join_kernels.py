"""Pairs of tuples with equal keys whose lifetimes meet, found by a chained hash table on the smaller side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@njit(cache=True)
def _kernel_chains(codes: Int64s) -> tuple[Int64s, Int64s]:
    """Hash chains: the first place of each slot, and the next place in the same slot (-1: none)."""
    size = 16
    while size < 2 * len(codes):
        size *= 2
    heads, following = np.full(size, -1, np.int64), np.empty(len(codes), np.int64)
    for place in range(len(codes) - 1, -1, -1):
        slot = _slot(codes[place], size)
        following[place] = heads[slot]
        heads[slot] = place
    return heads, following


@njit(cache=True, inline="always")
def _slot(code: Any, size: int) -> Any:
    mixed = np.uint64(code) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(size - 1))


@njit(cache=True)
def _kernel_pairs(
    built: Int64s, built_ts: Int64s, built_out: Int64s, probing: Int64s, probing_ts: Int64s, probing_out: Int64s
) -> tuple[Int64s, Int64s]:
    """Places of pairs with equal codes (none of them negative where NULL is meant) that are alive together."""
    heads, following = _kernel_chains(built)
    size, found = len(heads), 0
    for count_only in (True, False):
        if not count_only:
            ones, others = np.empty(found, np.int64), np.empty(found, np.int64)
            found = 0
        for place in range(len(probing)):
            code = probing[place]
            at = heads[_slot(code, size)]
            while at >= 0:
                if built[at] == code and max(built_ts[at], probing_ts[place]) < min(built_out[at], probing_out[place]):
                    if not count_only:
                        ones[found], others[found] = at, place
                    found += 1
                at = following[at]
    return ones, others
