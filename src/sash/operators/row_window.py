"""Row-based windows (thesis 2.3.2): the last n tuples, of the stream or of each value of PARTITION BY.

    time    one pass over the stored tuples and the new ones
    space   n tuples, per value

A tuple leaves when the n-th after it comes, which nobody knows beforehand: its expiry is unknown, and a negative tuple
takes it back. One that comes and is pushed out at the same instant is never seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.core.changes import NEVER, Changes, together
from sash.operators.base import Epoch
from sash.operators.keys import dense_codes
from sash.operators.lifetimes import in_sequence
from sash.state import Fifo
from sash.state.state import Working


class RowWindowOp:
    def __init__(self, schema: pa.Schema, name: str, rows: int, partition: tuple[str, ...], width: int) -> None:
        self.schema = schema
        self.width = width
        self._name = name
        self._rows = rows
        self._partition = partition

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        buffer = Fifo(state.chunks(self._name))
        (arrived,) = inputs
        if not len(arrived):
            return arrived
        every = in_sequence([*buffer.tuples(), arrived])
        stored = len(every) - len(arrived)
        out = self._out(every)
        appears = every.where((np.arange(len(every)) >= stored) & (every.ts < out))
        leaves = (out != NEVER) & (every.ts < out)
        gone = every.where(leaves)
        buffer.drop(out[:stored] != NEVER)
        stays = out == NEVER
        stays[:stored] = False
        buffer.add(every.where(stays))
        state.store(self._name, buffer.chunks)
        return together((self._changes(appears, appears.ts, 1), self._changes(gone, out[leaves], -1)))

    def _changes(self, tuples: Changes, ts: np.ndarray[tuple[int], np.dtype[np.int64]], sign: int) -> Changes:
        exp = np.full(len(ts), NEVER, dtype=np.int64)
        return Changes(tuples.rows, ts, exp, np.full(len(ts), sign, dtype=np.int8), tuples.ids)

    def _out(self, every: Changes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """When each tuple is pushed out: the time of the n-th after it."""
        codes = np.zeros(len(every), dtype=np.int64)
        if self._partition:
            (codes,) = dense_codes([every.rows], [list(self._partition)], null_safe=True)
        order = np.argsort(codes, kind="stable")
        grouped, out = codes[order], np.full(len(every), NEVER, dtype=np.int64)
        if len(every) > self._rows:
            same = grouped[: -self._rows] == grouped[self._rows :]
            out[order[: -self._rows][same]] = every.ts[order[self._rows :][same]]
        return out
