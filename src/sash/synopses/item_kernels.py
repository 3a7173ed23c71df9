"""Kernels over (group, item) pairs in sorted order (see `items`).

`counts` has a row per window and a column per pair; `order` lists the pairs by group and item; group g has the
places first[g] .. last[g] - 1 of it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def _kernel_sum_groups(counts: Any, order: Any, first: Any, last: Any) -> Any:
    out = np.zeros((counts.shape[0], first.size), dtype=np.int64)
    for w in range(counts.shape[0]):
        for g in range(first.size):
            total = 0
            for place in range(first[g], last[g]):
                total += counts[w, order[place]]
            out[w, g] = total
    return out


@numba.njit(cache=True, nogil=True)
def _kernel_count_distinct(counts: Any, order: Any, first: Any, last: Any) -> Any:
    out = np.zeros((counts.shape[0], first.size), dtype=np.int64)
    for w in range(counts.shape[0]):
        for g in range(first.size):
            found = 0
            for place in range(first[g], last[g]):
                found += counts[w, order[place]] > 0
            out[w, g] = found
    return out


@numba.njit(cache=True, nogil=True)
def _kernel_pick_modes(counts: Any, order: Any, first: Any, last: Any) -> Any:
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
def _kernel_pick_ranks(counts: Any, order: Any, first: Any, last: Any, ranks: Any) -> Any:
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
def _kernel_pick_top(weights: Any, there: Any, order: Any, first: Any, last: Any, k: int) -> Any:
    # The k heaviest pairs of each window and group, heaviest first. there: 0 no tuples, 1 a NULL weight (last), 2 a
    # weight.
    out = np.full((weights.shape[0], first.size, k), -1, dtype=np.int64)
    for w in range(weights.shape[0]):
        for g in range(first.size):
            _top_of_group(weights[w], there[w], order[first[g] : last[g]], out[w, g])
    return out


@numba.njit(cache=True, nogil=True)
def _top_of_group(weights: Any, there: Any, pairs: Any, best: Any) -> None:
    found = 0
    for pair in pairs:
        if there[pair] == 0:
            continue
        at = found
        # Equal weights stay in the order of their items.
        while at > 0 and _is_heavier(weights, there, pair, best[at - 1]):
            at -= 1
        if at == best.size:
            continue
        found = min(best.size, found + 1)
        for j in range(found - 1, at, -1):
            best[j] = best[j - 1]
        best[at] = pair


@numba.njit(cache=True, nogil=True)
def _is_heavier(weights: Any, there: Any, a: int, b: int) -> bool:
    if there[a] != there[b]:
        return bool(there[a] > there[b])
    if there[a] == 1:
        return False
    # NaN is the greatest number.
    if weights[a] != weights[a]:
        return bool(weights[b] == weights[b])
    return bool(weights[a] > weights[b])


sum_groups = _kernel_sum_groups
count_distinct = _kernel_count_distinct
pick_modes = _kernel_pick_modes
pick_ranks = _kernel_pick_ranks
pick_top = _kernel_pick_top
