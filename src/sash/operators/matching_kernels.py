"""Negation and intersection key by key: how many left tuples a key may show, and which."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
# How many of v1 left tuples are shown beside v2 right ones.
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
def _kernel_matching(
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
    What is shown are always the youngest: `edge` is the first place of a key that may be shown.
    Returns times, places of left tuples and signs of what appears and what is taken back.
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
        # What was shown before the epoch is what the counts before it say.
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

    Nobody has seen those from `fresh` on: to hide or to show them is no change.
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
