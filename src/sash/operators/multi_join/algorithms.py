"""The multi-way join algorithms of the thesis (5.2), a tuple or an evaluation at a time, with counts of their work.

    eager               2  a new tuple probes all other windows, after what has expired is removed from them
    eager-lazy-expiry   3  .. which are cleaned once per interval; expired tuples are recognised by their timestamps
    lazy                4  once per interval the tuples that came since probe together, each join value once; what would
                           expire before the next evaluation is removed at the end of this one
    lazy-restore        5  .. what expired since the last evaluation takes part: results are found that came and went

Plans run `operator.MultiJoinOp`, which needs none of these. They are here to be compared, and to check the cost model:
each walks through lists of tuples, one per window (nested loops) or one per bucket of a hash table.

Inputs that take tuples back (STRICT) give negative tuples, which the join answers by negative results. Algorithm 3 is
refused then, algorithm 4 removes the tuple at once, algorithm 5 sets its expiry to the negative tuple's time.

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
from types import MappingProxyType

import numpy as np

from sash.core.errors import SashError
from sash.core.pattern import UpdatePattern
from sash.operators.join_kernels import Int64s
from sash.operators.multi_join.algorithm_kernels import _kernel_eager, _kernel_lazy
from sash.plan.join_order import Order, probing_order


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


@dataclass(frozen=True)
class Tuples:
    """What arrives, in order of time and at one instant negative tuples first. Times are not negative.

    `back` is the place of the tuple that a negative one takes back, -1 for all others. A join value is a number.
    """

    stream: Int64s
    value: Int64s
    ts: Int64s
    exp: Int64s
    back: Int64s


@dataclass(frozen=True)
class Joined:
    """Results in the order in which they were found, and what they cost.

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


def join(
    algorithm: str, tuples: Tuples, order: Order, patterns: Sequence[UpdatePattern],
    *, interval: int = 0, buckets: int = 1, keep: bool = True,
) -> Joined:  # fmt: skip
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
    check(algorithm, patterns, interval)
    orders = np.array([probing_order(order, place) for place in range(len(order))], dtype=np.int64)
    fifo = np.array([pattern <= UpdatePattern.WEAKEST for pattern in patterns])
    given = (tuples.stream, tuples.value, tuples.ts, tuples.exp, tuples.back)
    kernel = _kernel_lazy if chosen.lazy else _kernel_eager
    members, times, counts = kernel(*given, np.array(order), orders, fifo, chosen.timestamps, interval, buckets, keep)
    return Joined(members, *times, *counts.tolist())


def check(algorithm: str, patterns: Sequence[UpdatePattern], interval: int) -> None:
    """Refuse what an algorithm cannot do."""
    chosen = ALGORITHMS[algorithm]
    if chosen.number == 3 and UpdatePattern.STRICT in patterns:
        raise SashError(
            "algorithm 3 (eager evaluation, lazy expiry) cannot join inputs that take tuples back: their expiries are "
            "not known beforehand. Algorithm 2 expires eagerly"
        )
    if chosen.number != 2 and interval <= 0:
        raise SashError(f"algorithm {chosen.number} needs an interval")
