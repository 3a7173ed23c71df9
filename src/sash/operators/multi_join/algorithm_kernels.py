"""The loops of the multi-way join algorithms. A tuple is its place in what arrives.

A window is a list per bucket, linked by places in the order of arrival:

    heads[stream, bucket] -> place -> following[place] -> .. -> -1

`counts` are results found, tuples probed, join values compared. `times` has rows: reported, ts, exp, sign. Results are
collected in arrays that grow; an array may become another one on the way, so they are passed on and returned.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.operators.join_kernels import Int64s
from sash.operators.multi_join.kernels import _wider

Booleans = NDArray[np.bool_]
_FOUND, _PROBED, _COMPARED = 0, 1, 2
_NEVER = np.iinfo(np.int64).max
_Results = tuple[Int64s, Int64s]


@njit(cache=True)
def _insert(place: int, window: int, bucket: int, heads: Int64s, tails: Int64s, following: Int64s) -> None:
    following[place] = -1
    if heads[window, bucket] < 0:
        heads[window, bucket] = place
    else:
        following[tails[window, bucket]] = place
    tails[window, bucket] = place


@njit(cache=True)
def _remove(
    gone: int, until: int, window: int, bucket: int, fifo: bool,
    exp: Int64s, heads: Int64s, tails: Int64s, following: Int64s,
) -> bool:  # fmt: skip
    """Take tuple `gone` out of a bucket (-1: none), and all whose `exp` is not after `until`; whether it was there."""
    before, place, hit = -1, heads[window, bucket], False
    while place >= 0:
        after = following[place]
        if place == gone or exp[place] <= until:
            hit = hit or place == gone
            if before < 0:
                heads[window, bucket] = after
            else:
                following[before] = after
            if after < 0:
                tails[window, bucket] = before
        elif fifo and gone < 0:
            break
        else:
            before = place
        place = after
    return hit


@njit(cache=True)
def _clean(
    until: int, besides: int, fifo: Booleans, exp: Int64s, heads: Int64s, tails: Int64s, following: Int64s
) -> None:
    """Remove what has expired from every window but one (-1: from all)."""
    for window in range(heads.shape[0]):
        for bucket in range(heads.shape[1]):
            if window != besides:
                _remove(-1, until, window, bucket, fifo[window], exp, heads, tails, following)


@njit(cache=True)
def _probe(
    group: Int64s, turn: Int64s, since: int, together: bool, now: int, sign: int, keep: bool,
    value: Int64s, ts: Int64s, exp: Int64s, heads: Int64s, following: Int64s,
    members: Int64s, times: Int64s, counts: Int64s,
) -> _Results:  # fmt: skip
    """ComputeJoin: `group` are tuples of one stream with one join value, `turn` the order, their stream first.

    Tuples that expired by `since` are passed over. `together`: results whose members never lived at one time are left
    out. A result appears when its last member came; it is reported `now`.
    """
    inputs = len(turn)
    wanted, bucket = value[group[0]], value[group[0]] % heads.shape[1]
    at, picked = np.empty(inputs, np.int64), np.empty(inputs, np.int64)
    # Of what is picked up to a depth: when all had come, when the first expires.
    came, expires = np.empty(inputs, np.int64), np.empty(inputs, np.int64)
    came[0], expires[0] = -1, _NEVER
    depth = 1
    at[1] = heads[turn[1], bucket]
    while depth > 0:
        place = at[depth]
        if place < 0:
            depth -= 1
            continue
        at[depth] = following[place]
        counts[_PROBED] += 1
        if exp[place] <= since:
            continue
        counts[_COMPARED] += 1
        if value[place] != wanted:
            continue
        picked[turn[depth]] = place
        came[depth], expires[depth] = max(came[depth - 1], ts[place]), min(expires[depth - 1], exp[place])
        if depth + 1 < inputs:
            depth += 1
            at[depth] = heads[turn[depth], bucket]
            continue
        for each in group:
            start, until = max(came[depth], ts[each]), min(expires[depth], exp[each])
            if together and start >= until:
                continue
            found = counts[_FOUND]
            if keep and found == members.shape[1]:
                members, times = _wider(members, 2 * found), _wider(times, 2 * found)
            # Results that nobody wants to keep are returned all the same, one over the other.
            slot = found if keep else found % members.shape[1]
            picked[turn[0]] = each
            for stream in range(inputs):
                members[stream, slot] = picked[stream]
            times[0, slot], times[1, slot], times[2, slot], times[3, slot] = now, start, until, sign
            counts[_FOUND] += 1
    return members, times


@njit(cache=True)
def _kernel_eager(
    stream: Int64s, value: Int64s, ts: Int64s, exp: Int64s, back: Int64s,
    order: Int64s, orders: Int64s, fifo: Booleans, timestamps: bool, interval: int, buckets: int, keep: bool,
) -> tuple[Int64s, Int64s, Int64s]:  # fmt: skip
    """Algorithms 2 and 3 (`timestamps`)."""
    inputs = orders.shape[0]
    heads, tails = np.full((inputs, buckets), -1, np.int64), np.full((inputs, buckets), -1, np.int64)
    following = np.full(len(ts), -1, np.int64)
    members, times, counts = np.empty((inputs, 64), np.int64), np.empty((4, 64), np.int64), np.zeros(3, np.int64)
    group, cleaned = np.empty(1, np.int64), -1
    for place in range(len(ts)):
        now, window = ts[place], stream[place]
        bucket = value[place] % buckets
        negative = back[place] >= 0
        if negative:
            _remove(back[place], -1, window, bucket, False, exp, heads, tails, following)
        else:
            _insert(place, window, bucket, heads, tails, following)
        if not timestamps:
            _clean(now, window, fifo, exp, heads, tails, following)
        elif now // interval > cleaned:
            _clean(now, -1, fifo, exp, heads, tails, following)
            cleaned = now // interval
        group[0] = back[place] if negative else place
        first, since = counts[_FOUND], now if timestamps else -1
        members, times = _probe(
            group, orders[window], since, False, now, -1 if negative else 1, keep,
            value, ts, exp, heads, following, members, times, counts,
        )  # fmt: skip
        if negative and keep:
            times[1, first : counts[_FOUND]] = now
    kept = counts[_FOUND] if keep else 0
    return members[:, :kept].T.copy(), times[:, :kept], counts


@njit(cache=True)
def _kernel_lazy(
    stream: Int64s, value: Int64s, ts: Int64s, exp: Int64s, back: Int64s,
    order: Int64s, orders: Int64s, fifo: Booleans, timestamps: bool, interval: int, buckets: int, keep: bool,
) -> tuple[Int64s, Int64s, Int64s]:  # fmt: skip
    """Algorithms 4 and 5 (`timestamps`)."""
    inputs = orders.shape[0]
    heads, tails = np.full((inputs, buckets), -1, np.int64), np.full((inputs, buckets), -1, np.int64)
    following = np.full(len(ts), -1, np.int64)
    members, times, counts = np.empty((inputs, 64), np.int64), np.empty((4, 64), np.int64), np.zeros(3, np.int64)
    # Expiries are set when negative tuples come; those of the tuples themselves stay as they were given.
    exp, group, first = exp.copy(), np.empty(1, np.int64), 0
    while first < len(ts):
        now = -(-ts[first] // interval) * interval
        last = first
        while last < len(ts) and ts[last] <= now:
            last += 1
        # The last evaluation may have been many intervals ago.
        _clean(now - interval if timestamps else now, -1, fifo, exp, heads, tails, following)
        for place in range(first, last):
            gone = back[place]
            if gone < 0:
                continue
            window, results = stream[place], counts[_FOUND]
            # Results that were reported are taken back; what only came since the last evaluation is in none.
            if gone < first and (
                timestamps or _remove(gone, -1, window, value[gone] % buckets, False, exp, heads, tails, following)
            ):
                group[0] = gone
                members, times = _probe(
                    group, orders[window], ts[place] if timestamps else -1, False, now, -1, keep,
                    value, ts, exp, heads, following, members, times, counts,
                )  # fmt: skip
                if keep:
                    times[1, results : counts[_FOUND]] = ts[place]
            exp[gone] = ts[place]
        for window in order:
            members, times = _evaluate(
                window, first, last, now, timestamps, keep, orders[window], stream, value, ts, exp, back,
                heads, tails, following, members, times, counts,
            )  # fmt: skip
        _clean(now if timestamps else now + interval, -1, fifo, exp, heads, tails, following)
        first = last
    kept = counts[_FOUND] if keep else 0
    return members[:, :kept].T.copy(), times[:, :kept], counts


@njit(cache=True)
def _evaluate(
    window: int, first: int, last: int, now: int, timestamps: bool, keep: bool, turn: Int64s,
    stream: Int64s, value: Int64s, ts: Int64s, exp: Int64s, back: Int64s,
    heads: Int64s, tails: Int64s, following: Int64s, members: Int64s, times: Int64s, counts: Int64s,
) -> _Results:  # fmt: skip
    """Take the new tuples of one window, and let those of each join value probe the others once."""
    new, number = np.empty(last - first, np.int64), 0
    for place in range(first, last):
        if stream[place] == window and back[place] < 0 and (timestamps or exp[place] > now):
            _insert(place, window, value[place] % heads.shape[1], heads, tails, following)
            new[number] = place
            number += 1
    new = new[:number]
    new = new[np.argsort(value[new], kind="mergesort")]
    begin = 0
    while begin < number:
        end = begin + 1
        while end < number and value[new[end]] == value[new[begin]]:
            end += 1
        group = new[begin:end]
        since = ts[group].min() if timestamps else -1
        members, times = _probe(
            group, turn, since, timestamps, now, 1, keep,
            value, ts, exp, heads, following, members, times, counts,
        )  # fmt: skip
        begin = end
    return members, times
