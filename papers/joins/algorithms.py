"""The multi-way join algorithms of the thesis (5.2), a tuple or an evaluation at a time, with counts of their work.

    eager               2  a new tuple probes all other windows, after what has expired is removed from them
    eager-lazy-expiry   3  .. which are cleaned once per interval; expired tuples are recognised by their timestamps
    lazy                4  lazy_join.py: the tuples of an interval probe together
    lazy-restore        5  .. and results are found that came and went between two evaluations

The lists of tuples, and where the printed algorithms must be read differently, are described there.

Inputs that take tuples back (STRICT) give negative tuples, which the join answers by negative results. Algorithm 3 is
refused then: the expiries of such tuples are not known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numba import njit

from papers.joins.lazy_join import (
    FOUND,
    Booleans,
    JoinResults,
    Tuples,
    arguments,
    clean,
    insert,
    join_lazily,
    probe,
    remove,
)
from sash.changes.join import Int64s
from sash.core.changes import UpdatePattern
from sash.core.errors import SashError
from sash.plan.join_order import Order


@dataclass(frozen=True)
class Algorithm:
    """A variant under its number in the thesis."""

    number: int
    lazy: bool
    timestamps: bool
    """Whether windows may hold expired tuples, which are then recognised by their timestamps."""


ALGORITHMS = MappingProxyType(
    {
        "eager": Algorithm(2, lazy=False, timestamps=False),
        "eager-lazy-expiry": Algorithm(3, lazy=False, timestamps=True),
        "lazy": Algorithm(4, lazy=True, timestamps=False),
        "lazy-restore": Algorithm(5, lazy=True, timestamps=True),
    }
)


def join(
    algorithm: str, tuples: Tuples, order: Order, patterns: Sequence[UpdatePattern],
    *, interval: int = 0, buckets: int = 1, keep: bool = True,
) -> JoinResults:  # fmt: skip
    """Run an algorithm over everything that arrives.

    `order` is the global order of the streams; `interval` is that of expiry or evaluation, whose times are its
    multiples; one bucket is nested loops. Without `keep` results are counted only.

    >>> each = np.array
    >>> tuples = Tuples(each([0, 1, 2]), each([7, 7, 7]), each([1, 2, 3]), each([9, 8, 9]), each([-1, -1, -1]))
    >>> found = join("eager", tuples, (0, 1, 2), [UpdatePattern.WEAKEST] * 3)
    >>> found.members.tolist(), found.ts.tolist(), found.exp.tolist(), found.compared
    ([[0, 1, 2]], [3], [8], 3)
    """
    chosen = ALGORITHMS[algorithm]
    if chosen.lazy:
        return join_lazily(
            tuples, order, patterns, interval=interval, restore=chosen.timestamps, buckets=buckets, keep=keep
        )
    check(algorithm, patterns, interval)
    given = arguments(tuples, order, patterns)
    members, times, counts = kernel_eager(*given, chosen.timestamps, interval, buckets, keep)
    return JoinResults(members, *times, *counts.tolist())


def check(algorithm: str, patterns: Sequence[UpdatePattern], interval: int) -> None:
    """Refuse what an eager algorithm cannot do."""
    chosen = ALGORITHMS[algorithm]
    if chosen.number == 3 and UpdatePattern.STRICT in patterns:
        raise SashError(
            "algorithm 3 (eager evaluation, lazy expiry) cannot join inputs that take tuples back: their expiries are "
            "not known beforehand. Algorithm 2 expires eagerly"
        )
    if chosen.number != 2 and interval <= 0:
        raise SashError(f"algorithm {chosen.number} needs an interval")


@njit(cache=True)
def kernel_eager(
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
            remove(back[place], -1, window, bucket, False, exp, heads, tails, following)
        else:
            insert(place, window, bucket, heads, tails, following)
        if not timestamps:
            clean(now, window, fifo, exp, heads, tails, following)
        elif now // interval > cleaned:
            clean(now, -1, fifo, exp, heads, tails, following)
            cleaned = now // interval
        group[0] = back[place] if negative else place
        first, since = counts[FOUND], now if timestamps else -1
        members, times = probe(
            group, orders[window], since, False, now, -1 if negative else 1, keep,
            value, ts, exp, heads, following, members, times, counts,
        )  # fmt: skip
        if negative and keep:
            times[1, first : counts[FOUND]] = now
    kept = counts[FOUND] if keep else 0
    return members[:, :kept].T.copy(), times[:, :kept], counts
