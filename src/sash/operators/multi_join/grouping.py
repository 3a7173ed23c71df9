"""The live tuples of n inputs by join value, as far as an epoch has touched the value.

A tuple is touched when it came or was taken back in this epoch: every change of the join has one. Most values of a
large window are left alone by a small epoch, and their tuples are passed over at the price of one look into a hash
table. Of each value an input's touched tuples lie first:

    input 0   | touched  untouched | touched  untouched | ..
              ^first    ^middle    ^last = first of the next value
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sash.operators.join_kernels import Int64s
from sash.operators.lifetimes import Lifetimes
from sash.operators.multi_join.grouping_kernels import _kernel_members, _kernel_numbered


@dataclass(frozen=True)
class MemberGroups:
    """`bounds` are first, middle and last by input and value: places in `members`, which has the inputs in sequence.

    `members` are places of tuples in their own input; `ts`, `exp` and `end` are theirs.
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
    """By value; `named` are the tuples whose value equals anything. Who expired before `low` is left out."""
    touched = [side.touched for side in sides]
    wanted = [names & (side.tuples.exp > low) for side, names in zip(sides, named, strict=True)]
    keys = np.concatenate([own[hit & use] for own, hit, use in zip(codes, touched, wanted, strict=True)])
    slots, numbers, count = _kernel_numbered(keys)
    found = [
        _kernel_members(own, use, hit, keys, slots, numbers, count)
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
