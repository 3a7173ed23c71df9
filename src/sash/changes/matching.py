"""Negation and intersection of two windows on keys (thesis 2.2.2), duplicate-preserving.

    needs   equal keys; any update patterns on both sides
    time    one pass over both buffers per epoch
    space   the live tuples of the left input, keys and expiries of the right

With v1 left and v2 right tuples of a key, negation shows v1 - v2 of the left ones (none if that is negative),
intersection the lesser of v1 and v2; the anti join shows all while v2 is 0, the semi join all while it is not.

By the procedure of the thesis, the shown tuples are at any time the youngest live ones, as many as the rule says. As
printed, the procedure breaks its equation twice: a right expiry needs v1 > v2 (not >=), and the expiry of a hidden left
tuple may take back a shown one. Both follow here from the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from sash.changes.bucket_state import WorkingState
from sash.changes.key_numbers import dense_codes
from sash.changes.lifetimes import Lifetimes, lifetimes
from sash.changes.operator import Epoch, StoredInput
from sash.core.changes import Changes

Int64s = NDArray[np.int64]
# The rules: how many of v1 left tuples are shown beside v2 right ones.
EXCEPT_ALL, WITHOUT_MATCH, INTERSECT_ALL, WITH_MATCH = range(4)


@njit(cache=True, inline="always")
def shown(rule: int, v1: int, v2: int) -> int:
    """The number of tuples with one key in the answer, from their numbers in both windows.

    >>> [shown(EXCEPT_ALL, 3, 1), shown(EXCEPT_ALL, 1, 4), shown(WITHOUT_MATCH, 3, 1), shown(INTERSECT_ALL, 3, 1)]
    [2, 0, 0, 1]
    """
    if rule == EXCEPT_ALL:
        return max(v1 - v2, 0)
    if rule == INTERSECT_ALL:
        return min(v1, v2)
    return v1 if (v2 == 0) == (rule == WITHOUT_MATCH) else 0


@njit(cache=True)
def kernel_matching(
    rule: int,
    starts: Int64s,
    ts: Int64s,
    exp: Int64s,
    out: Int64s,
    by_out: Int64s,
    right_starts: Int64s,
    right_came: Int64s,
    right_went_starts: Int64s,
    right_went: Int64s,
    low: int,
    high: int,
) -> tuple[Int64s, Int64s, Int64s]:
    """Left tuples lie in order of (key, ts), key k from starts[k] on; `by_out` are their places by (key, out).

    The right input is times only: of arrivals (-1: before the epoch) and of departures, each in order per key.
    The shown tuples are always the youngest: `edge` is the first place of a key that may be shown. Returns times,
    places of left tuples and signs of tuples that appear and are taken back.
    """
    changes, found = np.empty((16, 3), np.int64), 0
    alive, visible = np.zeros(len(ts), np.bool_), np.zeros(len(ts), np.bool_)
    for key in range(len(starts) - 1):
        first, last = starts[key], starts[key + 1]
        right_first, right_last = right_starts[key], right_starts[key + 1]
        gone, gone_last = right_went_starts[key], right_went_starts[key + 1]
        came, went = _after(ts, first, last, low - 1), first
        right = _after(right_came, right_first, right_last, low - 1)
        v1, v2 = came - first, right - right_first
        alive[first:came] = True
        # The counts before the epoch say how many tuples were shown before it.
        count = shown(rule, v1, v2)
        edge, _ = _move_edge(alive, visible, came, first, 0, count, low, changes, found)
        while True:
            now = min(_next(ts, came, last, high), _next(right_came, right, right_last, high))
            now = min(now, _next(right_went, gone, gone_last, high))
            if went < last:
                now = min(now, out[by_out[went]])
            if now >= high:
                break
            changes = _with_room(changes, found + last - first)
            while went < last and out[by_out[went]] == now:
                place = by_out[went]
                v1 -= alive[place]
                count -= visible[place]
                if visible[place] and now < exp[place]:
                    found = _put(changes, found, now, place, -1)
                alive[place], visible[place] = False, False
                went += 1
            fresh, right_before, gone_before = came, right, gone
            came = _after(ts, came, last, now)
            right = _after(right_came, right, right_last, now)
            gone = _after(right_went, gone, gone_last, now)
            v1 += came - fresh
            v2 += right - right_before - (gone - gone_before)
            for place in range(fresh, came):
                alive[place], visible[place] = True, True
            count += came - fresh
            if count == 0:
                edge = came
            target = shown(rule, v1, v2)
            edge, found = _move_edge(alive, visible, edge, fresh, count, target, now, changes, found)
            for place in range(max(fresh, edge), came):
                if visible[place]:
                    found = _put(changes, found, now, place, 1)
            count = target
    return changes[:found, 0], changes[:found, 1], changes[:found, 2]


@njit(cache=True)
def _move_edge(
    alive: Any, visible: Any, edge: int, fresh: int, count: int, target: int, now: int, changes: Int64s, found: int
) -> tuple[int, int]:
    """Hide the oldest of `count` visible tuples, or show older ones, until there are `target` of them.

    Tuples from `fresh` on have not been shown yet: to hide or to show them is no change.
    """
    while count > target:
        if visible[edge]:
            visible[edge] = False
            count -= 1
            if edge < fresh:
                found = _put(changes, found, now, edge, -1)
        edge += 1
    while count < target:
        edge -= 1
        if alive[edge]:
            visible[edge] = True
            count += 1
            if edge < fresh:
                found = _put(changes, found, now, edge, 1)
    return edge, found


@njit(cache=True)
def _after(times: Int64s, at: int, last: int, now: int) -> int:
    """The first place from `at` on whose time is after `now`."""
    while at < last and times[at] <= now:
        at += 1
    return at


@njit(cache=True)
def _next(times: Int64s, at: int, last: int, otherwise: int) -> int:
    return times[at] if at < last else otherwise


@njit(cache=True)
def _put(changes: Int64s, found: int, time: int, place: int, sign: int) -> int:
    changes[found, 0], changes[found, 1], changes[found, 2] = time, place, sign
    return found + 1


@njit(cache=True)
def _with_room(changes: Int64s, number: int) -> Int64s:
    if number <= len(changes):
        return changes
    larger = np.empty((2 * number, 3), np.int64)
    larger[: len(changes)] = changes
    return larger


@dataclass
class MatchingOp:
    """`rule` says how many left tuples are shown (`shown`). The right side comes with its key columns only."""

    schema: pa.Schema
    rule: int
    keys: tuple[tuple[str, str], ...]
    sides: tuple[StoredInput, StoredInput]
    null_safe: bool
    width: int

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        buffers = [side.open(state) for side in self.sides]
        # Without keys one column stands for the row: a table must have one.
        right_keys = list(dict.fromkeys(other for _, other in self.keys)) or inputs[1].rows.schema.names[:1]
        arrived = (inputs[0], inputs[1].with_rows(inputs[1].rows.select(right_keys)))
        left, right = (lifetimes(buffer, changes) for buffer, changes in zip(buffers, arrived, strict=True))
        found = matched(self.rule, self.keys, left, right, epoch, null_safe=self.null_safe)
        for side, alive, buffer in zip(self.sides, (left, right), buffers, strict=True):
            alive.settle(buffer, epoch.high - 1)
            side.close(state, buffer)
        return found


def matched(
    rule: int, keys: tuple[tuple[str, str], ...], left: Lifetimes, right: Lifetimes, epoch: Epoch, *, null_safe: bool
) -> Changes:
    """The left tuples that appear and are taken back in the epoch, by a rule."""
    codes, others = _codes(rule, keys, left, right, null_safe=null_safe)
    theirs = np.flatnonzero((right.before(epoch) | right.is_new) & (others >= 0))
    times = others[theirs], right.tuples.ts[theirs], right.out[theirs]
    return matched_by_codes(rule, left, codes, times, epoch)


def matched_by_codes(
    rule: int, left: Lifetimes, codes: Int64s, others: tuple[Int64s, Int64s, Int64s], epoch: Epoch
) -> Changes:
    """The same for known keys; of the right tuples `others` has the keys, the times they came, and those they leave."""
    keys, came_at, went_at = others
    number = int(max(codes.max(initial=-1), keys.max(initial=-1))) + 1
    ours = np.flatnonzero((left.before(epoch) | left.is_new) & (codes >= 0))
    ours = ours[np.lexsort((*left.tuples.ids[ours].T, left.tuples.ts[ours], codes[ours]))]
    ts, out = left.tuples.ts[ours], left.out[ours]
    came, came_starts = times_by_key(keys, came_at, number)
    leaving = went_at < epoch.high
    went, went_starts = times_by_key(keys[leaving], went_at[leaving], number)
    times, places, signs = kernel_matching(
        rule, key_starts(codes[ours], number), ts, left.tuples.exp[ours], out, np.lexsort((out, codes[ours])),
        came_starts, came, went_starts, went, epoch.low, epoch.high,
    )  # fmt: skip
    shown = left.tuples.take(ours[places])
    return Changes(shown.rows, times, shown.exp, signs.astype(np.int8), shown.ids).in_order()


def _codes(
    rule: int, keys: tuple[tuple[str, str], ...], left: Lifetimes, right: Lifetimes, *, null_safe: bool
) -> tuple[Int64s, Int64s]:
    """Keys of both sides. A left tuple with a NULL that equals nothing has a key of its own: it has no match."""
    if not keys:
        return np.zeros(len(left), dtype=np.int64), np.zeros(len(right), dtype=np.int64)
    names = ([one for one, _ in keys], [other for _, other in keys])
    ours, theirs = dense_codes((left.tuples.rows, right.tuples.rows), names, null_safe=null_safe)
    nameless = ours < 0
    if nameless.any():
        alone = int(max(ours.max(), theirs.max(initial=-1))) + 1
        ours = np.where(nameless, alone if rule == WITHOUT_MATCH else ours, ours)
    return ours, theirs


def times_by_key(codes: Int64s, times: Int64s, number: int) -> tuple[Int64s, Int64s]:
    """Times in order of (key, time), and where each key begins."""
    order = np.lexsort((times, codes))
    return times[order], key_starts(codes[order], number)


def key_starts(codes: NDArray[np.int64], number: int) -> Int64s:
    return np.searchsorted(codes, np.arange(number + 1))
