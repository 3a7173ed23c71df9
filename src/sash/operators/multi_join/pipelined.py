"""What joins of n inputs without stored intermediate results have in common: all but how they find combinations.

A result appears at the latest timestamp of its tuples and expires at their earliest expiry, all known from the tuples,
so an epoch's results are found at once, and are those of a tuple-at-a-time join. A negative tuple takes back all
results that it is part of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.changes import Changes, together
from sash.core.pattern import UpdatePattern
from sash.operators.base import Epoch
from sash.operators.join_kernels import Int64s
from sash.operators.lifetimes import Lifetimes, lifetimes
from sash.operators.storing import Storing
from sash.state.state import Working


class Combinations(NamedTuple):
    """Places of the members by input; when each combination appears, expires, and is taken back."""

    places: Int64s
    start: Int64s
    exp: Int64s
    end: Int64s


class PipelinedJoin(ABC):
    """`width` is 0 where nobody asks who the results are."""

    def __init__(self, schema: pa.Schema, sides: tuple[Storing, ...], width: int) -> None:
        self.schema = schema
        self.width = width
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

    @abstractmethod
    def _combinations(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Combinations | None:
        """Those with a touched member, each once, that appear in the epoch or are taken back in it."""

    def _changes(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Changes:
        found = self._combinations(alive, epoch)
        if found is None:
            return Changes.none(self.schema, self.width)
        places, start, exp, end = found
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
