"""Results that outlive their internal windows, and windows over results as they are generated (thesis 3.3.2, 3.3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sash.core.changes import Changes
from sash.operators.base import Epoch
from sash.operators.deltas import appended
from sash.operators.net import net
from sash.operators.row_window import RowWindowOp
from sash.plan.continuous import GroupBy, edges
from sash.plan.outputs import Outliving, Stamped
from sash.state.state import Working


class StampedOp:
    """Writes every row's expiry into a column."""

    def __init__(self, node: Stamped, width: int) -> None:
        self.schema = node.schema
        self.width = width
        self._column = node.column

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        (changes,) = inputs
        return changes.with_rows(changes.rows.append_column(self._column, pa.array(changes.exp)))


class OutlivingOp:
    """Results without what would take them back; the columns `by` say when each of them ends."""

    def __init__(self, node: Outliving, name: str, width: int) -> None:
        self.schema = node.schema
        self._replaced = any(isinstance(part, GroupBy) for _, part in edges(node))
        self.width = width
        self._by = list(node.by)
        self._name = name

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        # A group's row that is replaced by an equal one is none; a tuple that is like the one it pushes out is one.
        changes = net(inputs[0]) if self._replaced else inputs[0]
        changes = changes.where(changes.sign > 0)
        found = appended(changes.rows.select(self.schema.names), changes.ts, state, self._name, self.width)
        if not self._by:
            return found
        ends = [np.asarray(changes.rows[column], dtype=np.int64) for column in self._by]
        return replace(found, exp=np.minimum.reduce(ends))


class ResultRowsOp(RowWindowOp):
    """The last n results. Those of one instant have no order of their own: their values give it."""

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        return super().step([_by_value(inputs[0])], state, epoch)


def _by_value(changes: Changes) -> Changes:
    """In order of time, and at one instant of the rows' values."""
    if len(changes) < 2 or (np.diff(changes.ts) > 0).all():
        return changes
    columns = [column for column in changes.rows.columns if not pt.is_nested(column.type)]
    names = [str(place) for place in range(len(columns) + 1)]
    numbered = pa.table([pa.array(changes.ts), *columns], names)
    return changes.take(np.asarray(pc.sort_indices(numbered, sort_keys=[(name, "ascending") for name in names])))
