"""Window join of n inputs on one common attribute, fully pipelined (thesis 5.2).

    needs   equal values of an attribute of one or several columns; any update patterns: a negative tuple takes back
            all results that it is part of
    time    one pass over the buffers per epoch, and the combinations that are found
    space   the live tuples of the inputs; neither results nor intermediate results are stored

Tuples with one join value probe the others together. In which order is decided anew in every epoch, by what is there
(`plan.join_order`). Since a probe finds exactly the tuples of its value, and values that some input does not have are
passed over, no order makes more combinations than there are results and combinations that were never alive together:
the order matters less than to the algorithms of the thesis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.operators.base import Epoch
from sash.operators.join_kernels import Int64s
from sash.operators.lifetimes import Lifetimes
from sash.operators.multi_join.grouping import MemberGroups, groups
from sash.operators.multi_join.kernels import _kernel_combinations
from sash.operators.multi_join.pipelined import Combinations, PipelinedJoin
from sash.operators.multi_join.values import join_values
from sash.operators.storing import Storing
from sash.plan.join_costs import JoinInput
from sash.plan.join_order import augmented, probing_order


class MultiJoinOp(PipelinedJoin):
    """`attribute` has the names of its columns in every input."""

    def __init__(
        self, schema: pa.Schema, attribute: Sequence[Sequence[str]], sides: tuple[Storing, ...], width: int
    ) -> None:
        super().__init__(schema, sides, width)
        self._names = [list(columns) for columns in attribute]

    def _combinations(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Combinations | None:
        codes, named = join_values([side.tuples.rows for side in alive], self._names)
        named = epoch.share.taken(codes, [side.touched for side in alive], named)
        by_value = groups(alive, codes, named, epoch.low)
        if not len(by_value):
            return None
        found = _kernel_combinations(
            by_value.bounds, _orders(by_value), by_value.members, by_value.ts, by_value.exp, by_value.end, epoch.low
        )
        return Combinations(*found)


def _orders(by_value: MemberGroups) -> Int64s:
    """For each input the order in which its touched tuples meet the others; an epoch is the unit of time."""
    present = (by_value.bounds[2] > by_value.bounds[0]).sum(axis=1)
    inputs = []
    for size, touched, values in zip(by_value.sizes.tolist(), by_value.touched.tolist(), present.tolist(), strict=True):
        rate = max(touched, 1)
        inputs.append(JoinInput(rate, size / rate, max(values, 1), max(values, 1)))
    order = augmented(inputs)
    return np.array([probing_order(order, place) for place in range(len(inputs))], dtype=np.int64)
