"""The live tuples of n inputs by join value, for the values that an epoch has touched.

A tuple is touched when it came or was taken back in this epoch: every change of the join has a touched tuple. A small
epoch touches few values of a large window; tuples of other values are skipped, at the price of one look into a hash
table. Join values are numbers: equal numbers mean equal values, within one call. The touched tuples of a value lie
first:

    input 0   | touched  untouched | touched  untouched | ..
              ^first    ^middle    ^last = first of the next value
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.changes.join import Int64s, _slot
from sash.changes.lifetimes import Lifetimes

Booleans = NDArray[np.bool_]


@njit(cache=True)
def kernel_numbered(keys: Int64s) -> tuple[Int64s, Int64s, int]:
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
def kernel_members(
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


@dataclass(frozen=True)
class MemberGroups:
    """`bounds` are first, middle and last by input and value: places in `members`, which has the inputs in sequence.

    `members` are places of tuples in their own input; `ts`, `exp` and `end` are the tuples'.
    """

    bounds: Int64s
    members: Int64s
    ts: Int64s
    exp: Int64s
    end: Int64s

    def __len__(self) -> int:
        return self.bounds.shape[2]

    @property
    def sizes(self) -> Int64s:
        """How many tuples an input has in all values."""
        return (self.bounds[2] - self.bounds[0]).sum(axis=1)

    @property
    def touched(self) -> Int64s:
        return (self.bounds[1] - self.bounds[0]).sum(axis=1)


def groups(
    sides: Sequence[Lifetimes], codes: Sequence[Int64s], named: Sequence[NDArray[np.bool_]], low: int
) -> MemberGroups:
    """Group tuples by value; `named` are the tuples that may match. Tuples that expired before `low` are left out."""
    touched = [side.touched for side in sides]
    wanted = [names & (side.tuples.exp > low) for side, names in zip(sides, named, strict=True)]
    keys = np.concatenate([own[hit & use] for own, hit, use in zip(codes, touched, wanted, strict=True)])
    slots, numbers, count = kernel_numbered(keys)
    found = [
        kernel_members(own, use, hit, keys, slots, numbers, count)
        for own, use, hit in zip(codes, wanted, touched, strict=True)
    ]
    offsets = np.cumsum([0, *(len(places) for *_, places in found[:-1])])
    bounds = np.stack([[part + offset for part in parts[:3]] for parts, offset in zip(found, offsets, strict=True)], 1)
    members = [places for *_, places in found]

    def gathered(values: Sequence[Int64s]) -> Int64s:
        return np.concatenate([each[places] for each, places in zip(values, members, strict=True)])

    return MemberGroups(
        bounds,
        np.concatenate(members),
        gathered([side.tuples.ts for side in sides]),
        gathered([side.tuples.exp for side in sides]),
        gathered([side.end for side in sides]),
    )
