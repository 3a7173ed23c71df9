"""Window join of n inputs on one common attribute, fully pipelined (thesis 5.2).

    needs   equal values of an attribute of one or several columns; any update patterns: a negative tuple takes back
            all results that it is part of
    time    one pass over the buffers per epoch, and the combinations that are found
    space   the live tuples of the inputs; neither results nor intermediate results are stored

A result appears at the latest timestamp of its tuples and expires at their earliest expiry, all known from the tuples,
so an epoch's results are found at once, and are those of a tuple-at-a-time join. Tuples with one join value probe the
others together. In which order is decided anew in every epoch, by what is there (`plan.join_order`). Since a probe
finds exactly the tuples of its value, and values that some input does not have are passed over, no order makes more
combinations than there are results and combinations that were never alive together: the order matters less than to
the algorithms of the thesis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.changes import Changes, together
from sash.core.pattern import UpdatePattern
from sash.operators.base import Epoch
from sash.operators.join_kernels import Int64s
from sash.operators.lifetimes import Lifetimes, lifetimes
from sash.operators.multi_join.grouping import Groups, groups
from sash.operators.multi_join.kernels import _kernel_combinations
from sash.operators.multi_join.values import join_values
from sash.operators.storing import Storing
from sash.plan.join_costs import JoinInput
from sash.plan.join_order import augmented, probing_order
from sash.state.state import Working


class MultiJoinOp:
    """`keys` are the columns of the attribute, each by its name in every input; `width` is 0 where nobody asks."""

    def __init__(
        self, schema: pa.Schema, keys: tuple[tuple[str, ...], ...], sides: tuple[Storing, ...], width: int
    ) -> None:
        self.schema = schema
        self.width = width
        self._names = [list(columns) for columns in zip(*keys, strict=True)]
        self._sides = sides
        self._strict = any(side.pattern is UpdatePattern.STRICT for side in sides)

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        buffers = [side.open(state) for side in self._sides]
        alive = [lifetimes(buffer, arrived) for buffer, arrived in zip(buffers, inputs, strict=True)]
        found = self._changes(alive, epoch)
        for side, tuples, buffer in zip(self._sides, alive, buffers, strict=True):
            tuples.settle(buffer, epoch.high)
            side.close(state, buffer)
        return found

    def _changes(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Changes:
        codes, named = join_values([side.tuples.rows for side in alive], self._names)
        named = epoch.share.taken(codes, [side.touched for side in alive], named)
        by_value = groups(alive, codes, named, epoch.low)
        if not len(by_value):
            return Changes.none(self.schema, self.width)
        places, start, exp, end = _kernel_combinations(
            by_value.bounds, _orders(by_value), by_value.members, by_value.ts, by_value.exp, by_value.end, epoch.low
        )
        appears = self._result(alive, places, start, exp, 1, start >= epoch.low)
        if not self._strict:
            return appears.in_order()
        return together((appears, self._result(alive, places, end, exp, -1, end < exp))).in_order()

    def _result(
        self, alive: Sequence[Lifetimes], places: Int64s, ts: Int64s, exp: Int64s, sign: int, wanted: NDArray[np.bool_]
    ) -> Changes:
        if not wanted.all():
            places, ts, exp = places[:, wanted], ts[wanted], exp[wanted]
        parts = [side.tuples.rows.take(pa.array(own)) for side, own in zip(alive, places, strict=True)]
        rows = pa.table([column for part in parts for column in part.columns], schema=self.schema)
        ids = np.zeros((len(ts), 0), dtype=np.int64)
        if self.width:
            ids = np.concatenate([side.tuples.ids[own] for side, own in zip(alive, places, strict=True)], axis=1)
        return Changes(rows, ts, exp, np.full(len(ts), sign, dtype=np.int8), ids)


def _orders(by_value: Groups) -> Int64s:
    """For each input the order in which its touched tuples meet the others; an epoch is the unit of time."""
    present = (by_value.bounds[2] > by_value.bounds[0]).sum(axis=1)
    inputs = []
    for size, touched, values in zip(by_value.sizes.tolist(), by_value.touched.tolist(), present.tolist(), strict=True):
        rate = max(touched, 1)
        inputs.append(JoinInput(rate, size / rate, max(values, 1), max(values, 1)))
    order = augmented(inputs)
    return np.array([probing_order(order, place) for place in range(len(inputs))], dtype=np.int64)
