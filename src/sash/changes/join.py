"""Window join of two inputs (thesis 2.2.2, 2.3.2): a pair lives while both of its tuples do.

    needs   equal keys; any update patterns: a negative tuple on one side takes back its pairs
    time    one pass over both buffers per epoch, and the pairs that are found
    space   the live tuples of both inputs; no result is stored

A pair appears at the later of the two timestamps and expires at the earlier of the two expiries, both known from the
tuples, so an epoch's pairs are found at once and are those of a tuple-at-a-time join. Expiry is lazy: dead tuples are
passed over until their chunk is dropped.

Pairs of tuples with equal keys whose lifetimes meet, found by a chained hash table on the smaller side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from sash.changes.bucket_state import Working
from sash.changes.key_numbers import NO_KEY, join_codes
from sash.changes.lifetimes import Lifetimes, lifetimes
from sash.changes.operator import Epoch, Share, Storing
from sash.core.changes import Changes, UpdatePattern, together

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


class WindowJoinOp:
    """`sides` say how each input is stored; `width` is 0 where nobody asks who a pair is."""

    def __init__(
        self, schema: pa.Schema, keys: tuple[tuple[str, str], ...], sides: tuple[Storing, Storing], width: int
    ) -> None:
        self.schema = schema
        self.width = width
        self._keys = keys
        self._sides = sides
        self._strict = any(side.pattern is UpdatePattern.STRICT for side in sides)

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        buffers = [side.open(state) for side in self._sides]
        left, right = (lifetimes(buffer, arrived) for buffer, arrived in zip(buffers, inputs, strict=True))
        found = self._changes(left, right, epoch)
        for side, alive, buffer in zip(self._sides, (left, right), buffers, strict=True):
            alive.settle(buffer, epoch.high)
            side.close(state, buffer)
        return found

    def _changes(self, left: Lifetimes, right: Lifetimes, epoch: Epoch) -> Changes:
        ones, others = _pairs(left, right, self._keys, epoch.share)
        start = np.maximum(left.tuples.ts[ones], right.tuples.ts[others])
        exp = np.minimum(left.tuples.exp[ones], right.tuples.exp[others])
        appears = self._result(left, right, ones, others, start, exp, 1, start >= epoch.low)
        if not self._strict:
            return appears.in_order()
        end = np.minimum(left.end[ones], right.end[others])
        ends = self._result(left, right, ones, others, end, exp, -1, end < exp)
        return together((appears, ends)).in_order()

    def _result(
        self, left: Lifetimes, right: Lifetimes, ones: Int64s, others: Int64s,
        ts: Int64s, exp: Int64s, sign: int, wanted: NDArray[np.bool_],
    ) -> Changes:  # fmt: skip
        if not wanted.all():
            ones, others, ts, exp = ones[wanted], others[wanted], ts[wanted], exp[wanted]
        halves = (left.tuples.rows.take(pa.array(ones)), right.tuples.rows.take(pa.array(others)))
        columns = [column for half in halves for column in half.columns]
        rows = pa.table(columns, schema=self.schema) if columns else self.schema.empty_table()
        ids = np.zeros((len(ts), 0), dtype=np.int64)
        if self.width:
            ids = np.concatenate([left.tuples.ids[ones], right.tuples.ids[others]], axis=1)
        return Changes(rows, ts, exp, np.full(len(ts), sign, dtype=np.int8), ids)


def _pairs(left: Lifetimes, right: Lifetimes, keys: tuple[tuple[str, str], ...], share: Share) -> tuple[Int64s, Int64s]:
    """A share's pairs of which at least one tuple came or was taken back in this epoch, and that were ever alive."""
    if not keys:
        one, other = np.zeros(len(left), dtype=np.int64), np.zeros(len(right), dtype=np.int64)
        nulls = False
    else:
        one, other, nulls = join_codes(left.tuples.rows, right.tuples.rows, keys)
    touched = [side.touched for side in (left, right)]
    named = [codes != NO_KEY if nulls else np.ones(len(codes), dtype=np.bool_) for codes in (one, other)]
    named = share.taken((one, other), touched, named)
    every = (one, left), (other, right)
    first = _matches(*every[0], touched[0] & named[0], *every[1], named[1])
    second = _matches(*every[1], touched[1] & named[1], *every[0], ~touched[0] & named[0])
    return np.concatenate([first[0], second[1]]), np.concatenate([first[1], second[0]])


def _matches(
    built: Int64s, side: Lifetimes, wanted: NDArray[np.bool_],
    probing: Int64s, other: Lifetimes, allowed: NDArray[np.bool_],
) -> tuple[Int64s, Int64s]:  # fmt: skip
    ones, others = np.flatnonzero(wanted), np.flatnonzero(allowed)
    if not len(ones) or not len(others):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    found = _kernel_pairs(
        built[ones], side.tuples.ts[ones], side.out[ones], probing[others], other.tuples.ts[others], other.out[others]
    )
    return ones[found[0]], others[found[1]]
