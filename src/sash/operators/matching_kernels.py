"""Negation and intersection key by key: how many left tuples a key may show, and which."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
# How many of v1 left tuples are shown beside v2 right ones.
EXCEPT_ALL, WITHOUT_MATCH, INTERSECT_ALL, WITH_MATCH = range(4)


@njit(cache=True, inline="always")
def _shown(rule: int, v1: int, v2: int) -> int:
    if rule == EXCEPT_ALL:
        return max(v1 - v2, 0)
    if rule == INTERSECT_ALL:
        return min(v1, v2)
    return v1 if (v2 == 0) == (rule == WITHOUT_MATCH) else 0


def shown(rule: int, v1: int, v2: int) -> int:
    """The number of tuples with one key in the answer, from their numbers in both windows.

    >>> [shown(EXCEPT_ALL, 3, 1), shown(EXCEPT_ALL, 1, 4), shown(WITHOUT_MATCH, 3, 1), shown(INTERSECT_ALL, 3, 1)]
    [2, 0, 0, 1]
    """
    return int(_shown(rule, v1, v2))


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
    size = 16
    times, places, signs = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    found = 0
    alive, visible = np.zeros(len(ts), np.bool_), np.zeros(len(ts), np.bool_)
    for key in range(len(starts) - 1):
        first, last = starts[key], starts[key + 1]
        came, went = first, first
        right, right_last = right_starts[key], right_starts[key + 1]
        gone, gone_last = right_went_starts[key], right_went_starts[key + 1]
        v1, v2, count = 0, 0, 0
        while came < last and ts[came] < low:
            alive[came] = True
            v1 += 1
            came += 1
        while right < right_last and right_came[right] < low:
            v2 += 1
            right += 1
        edge = came
        # What was shown before the epoch is what the counts before it say.
        target = _shown(rule, v1, v2)
        while count < target:
            edge -= 1
            if alive[edge]:
                visible[edge] = True
                count += 1
        while True:
            now = high
            if came < last:
                now = min(now, ts[came])
            if went < last:
                now = min(now, out[by_out[went]])
            if right < right_last:
                now = min(now, right_came[right])
            if gone < gone_last:
                now = min(now, right_went[gone])
            if now >= high:
                break
            if found + (last - first) + 1 > size:
                size = 2 * (size + last - first + 1)
                times, places, signs = _grown(times, size), _grown(places, size), _grown(signs, size)
            while went < last and out[by_out[went]] == now:
                place = by_out[went]
                if alive[place]:
                    alive[place] = False
                    v1 -= 1
                    if visible[place]:
                        visible[place] = False
                        count -= 1
                        if now < exp[place]:
                            times[found], places[found], signs[found] = now, place, -1
                            found += 1
                went += 1
            while gone < gone_last and right_went[gone] == now:
                v2 -= 1
                gone += 1
            fresh = came
            while came < last and ts[came] == now:
                alive[came], visible[came] = True, True
                v1 += 1
                count += 1
                came += 1
            while right < right_last and right_came[right] == now:
                v2 += 1
                right += 1
            target = _shown(rule, v1, v2)
            while count > target:
                if visible[edge]:
                    visible[edge] = False
                    count -= 1
                    if edge < fresh:
                        times[found], places[found], signs[found] = now, edge, -1
                        found += 1
                edge += 1
            if count == 0:
                edge = came
            while count < target:
                edge -= 1
                if alive[edge]:
                    visible[edge] = True
                    count += 1
                    if edge < fresh:
                        times[found], places[found], signs[found] = now, edge, 1
                        found += 1
            for place in range(max(fresh, edge), came):
                if visible[place]:
                    times[found], places[found], signs[found] = now, place, 1
                    found += 1
    return times[:found], places[:found], signs[:found]


@njit(cache=True)
def _grown(array: Int64s, size: int) -> Int64s:
    larger = np.empty(size, np.int64)
    larger[: len(array)] = array
    return larger
