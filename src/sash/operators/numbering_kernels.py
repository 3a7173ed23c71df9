"""Rows of whole numbers found again by a hash table with open addressing: a slot holds a row's number, -1 is free."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@njit(cache=True, inline="always")
def _first_slot(row: Int64s, size: int) -> Any:
    mixed = np.uint64(0)
    for place in range(len(row)):
        mixed = (mixed ^ np.uint64(row[place])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(size - 1))


@njit(cache=True, inline="always")
def _is_same(one: Int64s, other: Int64s) -> bool:
    same = True
    for place in range(len(one)):
        same &= one[place] == other[place]
    return same


@njit(cache=True)
def _kernel_numbers(rows: Int64s, known: Int64s, number: int, slots: Int64s) -> tuple[Int64s, int]:
    """The numbers of rows, and how many are known after them: those that are new get the next number.

    `known` has the rows that are numbered already, by their numbers, and room for all that are new; so has `slots`,
    whose length is a power of two. Both are changed in place.
    """
    found = np.empty(len(rows), np.int64)
    for at in range(len(rows)):
        slot = _first_slot(rows[at], len(slots))
        while slots[slot] >= 0 and not _is_same(known[slots[slot]], rows[at]):
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] < 0:
            slots[slot] = number
            known[number] = rows[at]
            number += 1
        found[at] = slots[slot]
    return found, number
