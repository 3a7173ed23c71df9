"""The window of the negative tuple approach (thesis 2.3.3): every expiry is announced.

    space   the tuples of the window: they are needed again when they leave

Results have no expiry of their own under this approach: each tuple is processed twice, when it comes and when it goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.core.changes import NEVER, Changes, together
from sash.operators.base import Epoch
from sash.operators.lifetimes import in_sequence
from sash.state import Fifo, Working


class NegativeWindowOp:
    def __init__(self, schema: pa.Schema, name: str, length: int, width: int) -> None:
        self.schema = schema
        self.width = width
        self._name = name
        self._length = length

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        (arrived,) = inputs
        buffer = Fifo(state.chunks(self._name))
        buffer.add(Changes(arrived.rows, arrived.ts, arrived.ts + self._length, arrived.sign, arrived.ids))
        leaving = [chunk for chunk in buffer.chunks if chunk.tuples.exp.min() < epoch.high]
        gone = in_sequence([Changes.none(self.schema, self.width), *(chunk.tuples for chunk in leaving)])
        gone = gone.where(gone.exp < epoch.high)
        if leaving:
            buffer.drop(np.concatenate([chunk.tuples.exp for chunk in buffer.chunks]) < epoch.high)
        state.store(self._name, buffer.chunks)
        return together((_unknown(arrived, arrived.ts, 1), _unknown(gone, gone.exp, -1)))


def _unknown(tuples: Changes, ts: np.ndarray[tuple[int], np.dtype[np.int64]], sign: int) -> Changes:
    exp = np.full(len(ts), NEVER, dtype=np.int64)
    return Changes(tuples.rows, ts, exp, np.full(len(ts), sign, dtype=np.int8), tuples.ids)
