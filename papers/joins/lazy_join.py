"""Lazy evaluation of multi-way joins (thesis 5.2, algorithms 4 and 5): results once per interval, with counts of work.

    4  once per interval the new tuples probe together, each join value once; tuples that would expire before the
       next evaluation are removed at the end of this one
    5  .. with restore: tuples that expired since the last evaluation take part: it finds results that came and went

Queries run them as plans (`sash.plan.lazy_joins`), over micro-batches and with a hash bucket per value. Here they are
as printed, a tuple at a time, for comparison with the eager algorithms 2 and 3 (algorithms.py).

A tuple is its place in what arrives. A window is a list per bucket of a hash table, linked by places in the order of
arrival; one bucket is nested loops:

    heads[stream, bucket] -> place -> following[place] -> .. -> -1

`counts` are results found, tuples probed, join values compared. `times` has rows: reported, ts, exp, sign. Results are
collected in arrays that grow; an array may become another one on the way, so they are passed on and returned.

Inputs that take tuples back (STRICT) give negative tuples, which the join answers by negative results. Algorithm 4
removes the tuple at once, algorithm 5 sets its expiry to the negative tuple's time.

Where the printed algorithms must be read differently:

- a tuple is gone at `exp`: comparisons are strict where the thesis has k.ts <= u.exp;
- algorithm 5's bound u.exp <= NOW would leave out all partners that still live: there is none;
- algorithm 5 compares the partners' expiries with the timestamp of the tuple that probes. Two partners, one of them
  new as well, may still have missed each other: all members are compared with the latest timestamp;
- a tuple that came and expired between two evaluations takes no part in algorithm 4, where the thesis removes only
  what was there at the last evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.changes.join import Int64s
from sash.changes.pipelined_join import _wider
from sash.core.changes import UpdatePattern
from sash.core.errors import SashError
from sash.plan.join_order import Number, Order, probing_order

Booleans = NDArray[np.bool_]
FOUND, PROBED, COMPARED = 0, 1, 2
_NEVER = np.iinfo(np.int64).max
Results = tuple[Int64s, Int64s]
# Streams, values, timestamps, expiries, places of tuples taken back; order of inputs and of probes; which are FIFO.
Arguments = tuple[Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Booleans]


@dataclass(frozen=True)
class Tuples:
    """The arriving tuples, in order of time and at one instant negative tuples first. Times are not negative.

    `back` is the place of the tuple that a negative one takes back, -1 for all others. A join value is a number.
    """

    stream: Int64s
    value: Int64s
    ts: Int64s
    exp: Int64s
    back: Int64s


@dataclass(frozen=True)
class JoinResults:
    """Results in the order in which they were found, and their cost.

    `members` are the places of a result's tuples by stream; `reported` is when it was found: at its own `ts`, or at an
    evaluation. `probed` are tuples that were looked at in other windows, `compared` those whose join value was.
    """

    members: Int64s
    reported: Int64s
    ts: Int64s
    exp: Int64s
    sign: Int64s
    found: int
    probed: int
    compared: int


def arguments(tuples: Tuples, order: Order, patterns: Sequence[UpdatePattern]) -> Arguments:
    """The arguments of the kernels of all algorithms."""
    orders = np.array([probing_order(order, place) for place in range(len(order))], dtype=np.int64)
    fifo = np.array([pattern <= UpdatePattern.WEAKEST for pattern in patterns])
    return tuples.stream, tuples.value, tuples.ts, tuples.exp, tuples.back, np.array(order), orders, fifo


def join_lazily(
    tuples: Tuples, order: Order, patterns: Sequence[UpdatePattern],
    *, interval: int, restore: bool = False, buckets: int = 1, keep: bool = True,
) -> JoinResults:  # fmt: skip
    """Evaluate the join of everything that arrives at the multiples of `interval`.

    `order` is the global order of the streams; one bucket is nested loops. With `restore` results are found that came
    and went between two evaluations. Without `keep` results are counted only.

    >>> each = np.array
    >>> tuples = Tuples(each([0, 1, 2]), each([7, 7, 7]), each([1, 2, 3]), each([9, 8, 9]), each([-1, -1, -1]))
    >>> found = join_lazily(tuples, (0, 1, 2), [UpdatePattern.WEAKEST] * 3, interval=5)
    >>> found.members.tolist(), found.reported.tolist(), found.ts.tolist(), found.exp.tolist()
    ([[0, 1, 2]], [5], [3], [8])
    """
    if interval <= 0:
        raise SashError(f"algorithm {5 if restore else 4} needs an interval")
    given = arguments(tuples, order, patterns)
    members, times, counts = kernel_lazy(*given, restore, interval, buckets, keep)
    return JoinResults(members, *times, *counts.tolist())


@njit(cache=True)
def insert(place: int, window: int, bucket: int, heads: Int64s, tails: Int64s, following: Int64s) -> None:
    following[place] = -1
    if heads[window, bucket] < 0:
        heads[window, bucket] = place
    else:
        following[tails[window, bucket]] = place
    tails[window, bucket] = place


@njit(cache=True)
def remove(
    gone: int, until: int, window: int, bucket: int, fifo: bool,
    exp: Int64s, heads: Int64s, tails: Int64s, following: Int64s,
) -> bool:  # fmt: skip
    """Remove tuple `gone` from a bucket (-1: none), and all whose `exp` is not after `until`; whether it was there."""
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
def clean(
    until: int, besides: int, fifo: Booleans, exp: Int64s, heads: Int64s, tails: Int64s, following: Int64s
) -> None:
    """Remove expired tuples from every window but one (-1: from all)."""
    for window in range(heads.shape[0]):
        for bucket in range(heads.shape[1]):
            if window != besides:
                remove(-1, until, window, bucket, fifo[window], exp, heads, tails, following)


@njit(cache=True)
def probe(
    group: Int64s, turn: Int64s, since: int, together: bool, now: int, sign: int, keep: bool,
    value: Int64s, ts: Int64s, exp: Int64s, heads: Int64s, following: Int64s,
    members: Int64s, times: Int64s, counts: Int64s,
) -> Results:  # fmt: skip
    """ComputeJoin: `group` are tuples of one stream with one join value, `turn` the order, their stream first.

    Tuples that expired by `since` are skipped. `together`: results whose members never lived at one time are left out.
    A result appears when its last member came; it is reported `now`.
    """
    inputs = len(turn)
    wanted, bucket = value[group[0]], value[group[0]] % heads.shape[1]
    at, picked = np.empty(inputs, np.int64), np.empty(inputs, np.int64)
    # For the tuples picked up to a depth: when all had come, when the first expires.
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
        counts[PROBED] += 1
        if exp[place] <= since:
            continue
        counts[COMPARED] += 1
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
            found = counts[FOUND]
            if keep and found == members.shape[1]:
                members, times = _wider(members, 2 * found), _wider(times, 2 * found)
            # Results that are not kept overwrite each other, and only their number counts.
            slot = found if keep else found % members.shape[1]
            picked[turn[0]] = each
            for stream in range(inputs):
                members[stream, slot] = picked[stream]
            times[0, slot], times[1, slot], times[2, slot], times[3, slot] = now, start, until, sign
            counts[FOUND] += 1
    return members, times


@njit(cache=True)
def kernel_lazy(
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
        clean(now - interval if timestamps else now, -1, fifo, exp, heads, tails, following)
        for place in range(first, last):
            gone = back[place]
            if gone < 0:
                continue
            window, results = stream[place], counts[FOUND]
            # Take back reported results; a tuple that came since the last evaluation is in none.
            if gone < first and (
                timestamps or remove(gone, -1, window, value[gone] % buckets, False, exp, heads, tails, following)
            ):
                group[0] = gone
                members, times = probe(
                    group, orders[window], ts[place] if timestamps else -1, False, now, -1, keep,
                    value, ts, exp, heads, following, members, times, counts,
                )  # fmt: skip
                if keep:
                    times[1, results : counts[FOUND]] = ts[place]
            exp[gone] = ts[place]
        for window in order:
            members, times = _evaluate(
                window, first, last, now, timestamps, keep, orders[window], stream, value, ts, exp, back,
                heads, tails, following, members, times, counts,
            )  # fmt: skip
        clean(now if timestamps else now + interval, -1, fifo, exp, heads, tails, following)
        first = last
    kept = counts[FOUND] if keep else 0
    return members[:, :kept].T.copy(), times[:, :kept], counts


@njit(cache=True)
def _evaluate(
    window: int, first: int, last: int, now: int, timestamps: bool, keep: bool, turn: Int64s,
    stream: Int64s, value: Int64s, ts: Int64s, exp: Int64s, back: Int64s,
    heads: Int64s, tails: Int64s, following: Int64s, members: Int64s, times: Int64s, counts: Int64s,
) -> Results:  # fmt: skip
    """Take the new tuples of one window, and let those of each join value probe the others once."""
    new, number = np.empty(last - first, np.int64), 0
    for place in range(first, last):
        if stream[place] == window and back[place] < 0 and (timestamps or exp[place] > now):
            insert(place, window, value[place] % heads.shape[1], heads, tails, following)
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
        members, times = probe(
            group, turn, since, timestamps, now, 1, keep,
            value, ts, exp, heads, following, members, times, counts,
        )  # fmt: skip
        begin = end
    return members, times


def lost_share(length: Number, interval: Number) -> Number:
    """The part of all results that no evaluation sees, where lifetimes are uniform up to `length` (5.2.3).

    A result that lives shorter than an interval is still seen if an evaluation falls into its life: half of those, so
    the thesis' figure for 60 and 10, 17 percent, is twice what is lost.

    >>> lost_share(Fraction(60), 10)
    Fraction(1, 12)
    """
    if interval <= length:
        return Fraction(interval) / (2 * Fraction(length))
    return 1 - Fraction(length) / (2 * Fraction(interval))
