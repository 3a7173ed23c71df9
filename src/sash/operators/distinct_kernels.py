"""Duplicate elimination value by value: which tuples stand for it, and from when."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
# When a tuple expires that there is not.
GONE = int(np.iinfo(np.int64).min)


@njit(cache=True)
def _kernel_delta_star(
    values: Int64s, ts: Int64s, exp: Int64s, expiring: Int64s, shown: Int64s, spare: Int64s, spare_exp: Int64s,
    first: int, high: int,
) -> tuple[Int64s, Int64s]:  # fmt: skip
    """Delta-star over new tuples in order of (ts, longest lived first) up to `high`.

    Of value v, shown[v] is when the tuple that stands for it expires (GONE: none does), spare[v] and spare_exp[v] the
    place and the expiry of the duplicate that expires last, after that one (-1 and GONE: there is none). All three are
    changed in place. New tuples have the places from `first` on. `expiring` are values whose tuple expires before
    `high`; those of new tuples need not be among them. Returns the places that appear, and when.
    """
    places, times = np.empty(2 * len(ts) + len(expiring), np.int64), np.empty(2 * len(ts) + len(expiring), np.int64)
    found = 0
    for at in range(len(ts)):
        value = values[at]
        found = _expire(value, ts[at] - 1, shown, spare, spare_exp, places, times, found)
        if shown[value] == ts[at] and spare_exp[value] <= exp[at]:
            # Of all that live at an instant the one that expires last is shown: here the new tuple, not the spare.
            shown[value], spare[value], spare_exp[value] = GONE, -1, GONE
        found = _expire(value, ts[at], shown, spare, spare_exp, places, times, found)
        if shown[value] == GONE:
            shown[value] = exp[at]
            places[found], times[found] = first + at, ts[at]
            found += 1
        elif exp[at] > shown[value] and exp[at] >= spare_exp[value]:
            spare[value], spare_exp[value] = first + at, exp[at]
    for value in expiring:
        found = _expire(value, high - 1, shown, spare, spare_exp, places, times, found)
    for value in values:
        found = _expire(value, high - 1, shown, spare, spare_exp, places, times, found)
    return places[:found], times[:found]


@njit(cache=True)
def _expire(
    value: int, now: int, shown: Int64s, spare: Int64s, spare_exp: Int64s, places: Int64s, times: Int64s, found: int
) -> int:
    """Let what stands for a value expire up to and with `now`; its spare duplicate takes its place."""
    while GONE < shown[value] <= now:
        if spare[value] >= 0:
            places[found], times[found] = spare[value], shown[value]
            found += 1
        shown[value] = spare_exp[value]
        spare[value], spare_exp[value] = -1, GONE
    return found


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
