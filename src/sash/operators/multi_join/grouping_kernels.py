"""Which tuples have one of some keys, and where they lie when they are put in order of the key."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.operators.join_kernels import Int64s, _slot

Booleans = NDArray[np.bool_]


@njit(cache=True)
def _kernel_numbered(keys: Int64s) -> tuple[Int64s, Int64s, int]:
    """A hash table of the different keys: each slot has the place of a key (-1: none) and the key's number."""
    size = 16
    while size < 2 * len(keys):
        size *= 2
    slots, numbers, count = np.full(size, -1, np.int64), np.zeros(size, np.int64), 0
    for place in range(len(keys)):
        slot = _slot(keys[place], size)
        while slots[slot] >= 0 and keys[slots[slot]] != keys[place]:
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot], numbers[slot] = place, count
            count += 1
    return slots, numbers, count


@njit(cache=True)
def _kernel_members(
    codes: Int64s, wanted: Booleans, touched: Booleans, keys: Int64s, slots: Int64s, numbers: Int64s, count: int
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Where each key's tuples begin, where its untouched ones do, where they end; and the places of the tuples."""
    size = len(slots)
    number_of = np.full(len(codes), -1, np.int64)
    middle, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for place in range(len(codes)):
        if not wanted[place]:
            continue
        slot = _slot(codes[place], size)
        while slots[slot] >= 0 and keys[slots[slot]] != codes[place]:
            slot = (slot + 1) & (size - 1)
        if slots[slot] >= 0:
            number_of[place] = numbers[slot]
            last[numbers[slot]] += 1
            if touched[place]:
                middle[numbers[slot]] += 1
    first, total = np.empty(count, np.int64), 0
    for number in range(count):
        first[number] = total
        middle[number] += total
        total += last[number]
        last[number] = total
    places, hit, others = np.empty(total, np.int64), first.copy(), middle.copy()
    for place in range(len(codes)):
        number = number_of[place]
        if number < 0:
            continue
        if touched[place]:
            places[hit[number]] = place
            hit[number] += 1
        else:
            places[others[number]] = place
            others[number] += 1
    return first, middle, last, places
