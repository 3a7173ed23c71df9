"""Windows that keep tuples.

RowWindowOp        the last n tuples, of the stream or of each value of PARTITION BY (thesis 2.3.2). A tuple leaves when
                   the n-th after it comes, at an unknown time: a negative tuple takes it back. A tuple that
                   comes and is pushed out at the same instant is never seen. Space: n tuples, per value.
NegativeWindowOp   the window of the negative tuple approach (2.3.3): every expiry is announced, so each tuple is
                   processed twice. Space: the tuples of the window.
OutlivingOp, ResultRowsOp, StampedOp   results that outlive their internal windows, and windows over results in the
                   order of generation (3.3.2, 3.3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sash.changes.bucket_state import WorkingState
from sash.changes.buffers import Fifo
from sash.changes.deltas import appended, net
from sash.changes.key_numbers import dense_codes
from sash.changes.lifetimes import in_sequence
from sash.changes.operator import Epoch
from sash.core.changes import NEVER, Changes, together
from sash.plan.continuous import GroupBy, edges
from sash.plan.outputs import Outliving, Stamped


@dataclass
class NegativeWindowOp:
    schema: pa.Schema
    name: str
    length: int
    width: int

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        (arrived,) = inputs
        buffer = Fifo(state.chunks(self.name))
        buffer.add(Changes(arrived.rows, arrived.ts, arrived.ts + self.length, arrived.sign, arrived.ids))
        leaving = [chunk for chunk in buffer.chunks if chunk.tuples.exp.min() < epoch.high]
        gone = in_sequence([Changes.none(self.schema, self.width), *(chunk.tuples for chunk in leaving)])
        gone = gone.where(gone.exp < epoch.high)
        if leaving:
            buffer.drop(np.concatenate([chunk.tuples.exp for chunk in buffer.chunks]) < epoch.high)
        state.store(self.name, buffer.chunks)
        return together((_unknown(arrived, arrived.ts, 1), _unknown(gone, gone.exp, -1)))


def _unknown(tuples: Changes, ts: np.ndarray[tuple[int], np.dtype[np.int64]], sign: int) -> Changes:
    exp = np.full(len(ts), NEVER, dtype=np.int64)
    return Changes(tuples.rows, ts, exp, np.full(len(ts), sign, dtype=np.int8), tuples.ids)


@dataclass
class RowWindowOp:
    schema: pa.Schema
    name: str
    rows: int
    partition: tuple[str, ...]
    width: int

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        buffer = Fifo(state.chunks(self.name))
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
        state.store(self.name, buffer.chunks)
        return together((_unknown(appears, appears.ts, 1), _unknown(gone, out[leaves], -1)))

    def _out(self, every: Changes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """When each tuple is pushed out: the time of the n-th after it."""
        codes = np.zeros(len(every), dtype=np.int64)
        if self.partition:
            (codes,) = dense_codes([every.rows], [list(self.partition)], null_safe=True)
        order = np.argsort(codes, kind="stable")
        grouped, out = codes[order], np.full(len(every), NEVER, dtype=np.int64)
        if len(every) > self.rows:
            same = grouped[: -self.rows] == grouped[self.rows :]
            out[order[: -self.rows][same]] = every.ts[order[self.rows :][same]]
        return out


class StampedOp:
    """Writes every row's expiry into a column."""

    def __init__(self, node: Stamped, width: int) -> None:
        self.schema = node.schema
        self.width = width
        self._column = node.column

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        (changes,) = inputs
        return changes.with_rows(changes.rows.append_column(self._column, pa.array(changes.exp)))


class OutlivingOp:
    """Results without their negative tuples; the columns `by` say when each result ends."""

    def __init__(self, node: Outliving, name: str, width: int) -> None:
        self.schema = node.schema
        self._replaced = any(isinstance(part, GroupBy) for _, part in edges(node))
        self.width = width
        self._by = list(node.by)
        self._name = name

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        # A group's row that is replaced by an equal row is no new result; a tuple that pushes out an equal one is.
        changes = net(inputs[0]) if self._replaced else inputs[0]
        changes = changes.where(changes.sign > 0)
        found = appended(changes.rows.select(self.schema.names), changes.ts, state, self._name, self.width)
        if not self._by:
            return found
        ends = [np.asarray(changes.rows[column], dtype=np.int64) for column in self._by]
        return replace(found, exp=np.minimum.reduce(ends))


class ResultRowsOp(RowWindowOp):
    """The last n results. Results of one instant are ordered by their values."""

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        return super().step([_by_value(inputs[0])], state, epoch)


def _by_value(changes: Changes) -> Changes:
    """In order of time, and at one instant of the rows' values."""
    if len(changes) < 2 or (np.diff(changes.ts) > 0).all():
        return changes
    columns = [column for column in changes.rows.columns if not pt.is_nested(column.type)]
    names = [str(place) for place in range(len(columns) + 1)]
    numbered = pa.table([pa.array(changes.ts), *columns], names)
    return changes.take(np.asarray(pc.sort_indices(numbered, sort_keys=[(name, "ascending") for name in names])))
