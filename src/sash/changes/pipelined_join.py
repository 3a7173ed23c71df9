"""Window join of n inputs on one common attribute, fully pipelined (thesis 5.2).

    needs   equal values of an attribute of one or several columns; any update patterns: a negative tuple takes back
            all results that it is part of
    time    one pass over the buffers per epoch, and the combinations that are found
    space   the live tuples of the inputs; neither results nor intermediate results are stored

Tuples with one join value probe the others together, in an order that `plan.join_order` decides in every epoch. A probe
finds exactly the tuples of its value, so the order matters less than in the algorithms of the thesis. Under lazy
evaluation (plan/lazy_joins.py) the new tuples of a value are many: the other inputs are gone through once, and each
combination that is found there meets all new tuples (LazyComputeJoin, thesis 5.2.2).

The rule of deltas finds each combination with a touched tuple once. With T the touched tuples of an input, U the others
and A all of them, the changes are T0 A1 A2 + U0 T1 A2 + U0 U1 T2. A combination grows by one input at a time; as soon
as its members were never alive together, nothing is added to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numba import njit

from sash.changes.join import Combinations, Int64s, PipelinedJoin
from sash.changes.join_values import MemberGroups, groups
from sash.changes.key_numbers import join_values
from sash.changes.lifetimes import Lifetimes
from sash.changes.operator import Epoch, StoredInput
from sash.plan.join_order import EAGER, JoinExecution, JoinInput, augmented, probing_order

_LATEST = np.iinfo(np.int64).max


@njit(cache=True)
def kernel_combinations(
    bounds: Int64s, orders: Int64s, members: Int64s, ts: Int64s, exp: Int64s, end: Int64s, low: int
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """`bounds` are those of `Groups`; `orders[i]` is the order in which touched tuples of input i meet the others.

    Returns the members' places by input, and when each combination appears, expires, and is taken back. Combinations
    that were there before `low` and are not taken back are left out.
    """
    inputs, keys = bounds.shape[1], bounds.shape[2]
    begin, stop, at = np.empty(inputs, np.int64), np.empty(inputs, np.int64), np.empty(inputs, np.int64)
    picked = np.empty(inputs, np.int64)
    # For the tuples picked before a depth: when all had come, when the first expires, when the first is taken back.
    came, expires, ends = np.empty(inputs, np.int64), np.empty(inputs, np.int64), np.empty(inputs, np.int64)
    came[0], expires[0], ends[0] = -_LATEST, _LATEST, _LATEST
    size, found = 64, 0
    places = np.empty((inputs, size), np.int64)
    times = np.empty((3, size), np.int64)
    for turn in range(inputs):
        for key in range(keys):
            every = True
            for depth in range(inputs):
                side = orders[turn, depth]
                begin[depth] = bounds[1, side, key] if side < turn else bounds[0, side, key]
                stop[depth] = bounds[1, side, key] if side == turn else bounds[2, side, key]
                every = every and begin[depth] < stop[depth]
            if not every:
                continue
            depth = 0
            at[0] = begin[0]
            while depth >= 0:
                if at[depth] == stop[depth]:
                    depth -= 1
                    continue
                member = at[depth]
                at[depth] += 1
                start = max(came[depth], ts[member])
                until, taken = min(expires[depth], exp[member]), min(ends[depth], end[member])
                if start >= min(until, taken):
                    continue
                picked[orders[turn, depth]] = members[member]
                if depth + 1 < inputs:
                    depth += 1
                    came[depth], expires[depth], ends[depth] = start, until, taken
                    at[depth] = begin[depth]
                elif start >= low or taken < until:
                    if found == size:
                        size *= 2
                        places, times = _wider(places, size), _wider(times, size)
                    for side in range(inputs):
                        places[side, found] = picked[side]
                    times[0, found], times[1, found], times[2, found] = start, until, taken
                    found += 1
    return places[:, :found], times[0, :found], times[1, :found], times[2, :found]


@njit(cache=True)
def _wider(rows: Int64s, size: int) -> Int64s:
    found = np.empty((rows.shape[0], size), np.int64)
    found[:, : rows.shape[1]] = rows
    return found


class MultiJoinOp(PipelinedJoin):
    """`attribute` has the names of its columns in every input; an epoch is the unit of time of `execution`."""

    def __init__(
        self, schema: pa.Schema, attribute: Sequence[Sequence[str]], sides: tuple[StoredInput, ...], width: int,
        execution: JoinExecution = EAGER,
    ) -> None:  # fmt: skip
        super().__init__(schema, sides, width)
        self._names = [list(columns) for columns in attribute]
        self._execution = execution

    def _combinations(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Combinations | None:
        codes, named = join_values([side.tuples.rows for side in alive], self._names)
        named = epoch.share.taken(codes, [side.touched for side in alive], named)
        by_value = groups(alive, codes, named, epoch.low)
        if not len(by_value):
            return None
        orders = _orders(by_value, self._execution)
        found = kernel_combinations(
            by_value.bounds, orders, by_value.members, by_value.ts, by_value.exp, by_value.end, epoch.low
        )
        return Combinations(*found)


def _orders(by_value: MemberGroups, execution: JoinExecution) -> Int64s:
    """For each input the order in which its touched tuples meet the others; lazily the touched tuples are met last."""
    present = (by_value.bounds[2] > by_value.bounds[0]).sum(axis=1)
    inputs = []
    for size, touched, values in zip(by_value.sizes.tolist(), by_value.touched.tolist(), present.tolist(), strict=True):
        rate = max(touched, 1)
        inputs.append(JoinInput(rate, size / rate, max(values, 1), max(values, 1)))
    order = augmented(inputs, execution=execution)
    orders = np.array([probing_order(order, place) for place in range(len(inputs))], dtype=np.int64)
    return np.roll(orders, -1, axis=1) if execution.lazy else orders
