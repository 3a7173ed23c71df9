"""Duplicate elimination value by value: which tuples stand for it, and from when."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@njit(cache=True)
def _kernel_delta_star(
    codes: Int64s, ts: Int64s, exp: Int64s, shown: Int64s, spare: Int64s, low: int, high: int
) -> tuple[Int64s, Int64s]:
    """Delta-star over tuples in order of (ts, longest lived first); `shown` and `spare` are changed in place.

    `shown[v]` is the place of the tuple that stands for value v (-1: none), `spare[v]` that of the duplicate that
    expires last. A value's stored tuples come before its new ones. Returns the places that appear, and when.
    """
    places, times = np.empty(2 * len(ts), np.int64), np.empty(2 * len(ts), np.int64)
    found = 0
    for at in range(len(ts)):
        if ts[at] < low:
            continue
        value = codes[at]
        found = _expire(value, ts[at], exp, shown, spare, places, times, found)
        if shown[value] < 0:
            shown[value] = at
            places[found], times[found] = at, ts[at]
            found += 1
        elif exp[at] > exp[shown[value]] and (spare[value] < 0 or exp[at] >= exp[spare[value]]):
            spare[value] = at
    for value in range(len(shown)):
        found = _expire(value, high - 1, exp, shown, spare, places, times, found)
    return places[:found], times[:found]


@njit(cache=True)
def _expire(
    value: int, now: int, exp: Int64s, shown: Int64s, spare: Int64s, places: Int64s, times: Int64s, found: int
) -> int:
    """Let what stands for a value expire up to and with `now`; its spare duplicate takes its place."""
    while shown[value] >= 0 and exp[shown[value]] <= now:
        time, shown[value] = exp[shown[value]], -1
        if spare[value] >= 0 and exp[spare[value]] > time:
            shown[value] = spare[value]
            places[found], times[found] = spare[value], time
            found += 1
        spare[value] = -1
    return found


def reference_delta_star(
    codes: Int64s, ts: Int64s, exp: Int64s, shown: Int64s, spare: Int64s, low: int, high: int
) -> tuple[Int64s, Int64s]:
    """The same, instant by instant, from the whole input: no spare duplicates are kept."""
    found: list[tuple[int, int]] = []
    instants = sorted({int(t) for t in np.concatenate([ts, exp]) if low <= t < high})
    for now in instants:
        for value in range(len(shown)):
            if shown[value] >= 0 and exp[shown[value]] <= now:
                shown[value] = -1
            alive = [at for at in range(len(ts)) if codes[at] == value and ts[at] <= now < exp[at]]
            if shown[value] < 0 and alive:
                shown[value] = max(alive, key=lambda at: (exp[at], ts[at]))
                found.append((int(shown[value]), now))
    spare[:] = -1
    places, times = zip(*found, strict=True) if found else ((), ())
    return np.array(places, dtype=np.int64), np.array(times, dtype=np.int64)


@njit(cache=True)
def _kernel_changes_of_presence(codes: Int64s, times: Int64s, steps: Int64s, present: Int64s) -> tuple[Int64s, Int64s]:
    """Counting: events in order of (code, time); `present` are the counts before them, changed in place.

    Returns places of events after whose instant a value has appeared or disappeared, and +1 or -1.
    """
    places, signs = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
    found, at = 0, 0
    while at < len(codes):
        value, now, before = codes[at], times[at], present[codes[at]]
        while at < len(codes) and codes[at] == value and times[at] == now:
            present[value] += steps[at]
            at += 1
        if (before > 0) != (present[value] > 0):
            places[found], signs[found] = at - 1, 1 if present[value] > 0 else -1
            found += 1
    return places[:found], signs[:found]
