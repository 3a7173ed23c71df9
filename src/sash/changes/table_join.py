"""Joins with tables (thesis 3.3.1): the table is the right input, its rows known by their key.

A join with a relation is a window join (`join.py`) whose right input are the insertions and deletions of the epoch. A
join with a non-retroactive relation looks up, for each tuple, the version of the row that was there when it arrived.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.bucket_state import Working
from sash.changes.key_numbers import NO_KEY, join_codes
from sash.changes.operator import Epoch
from sash.core.changes import Changes
from sash.core.versions import RowVersions
from sash.plan.continuous import NrrJoin, TableJoin

Int64s = NDArray[np.int64]


class NrrJoinOp:
    """Lookup of (key, timestamp) in the versions of a table's rows.

    needs   an input without negative tuples: the row that a tuple found may be gone when it is taken back
    time    one sort of the epoch's tuples and the versions that they may find
    space   nothing: updates of the table never look at tuples that came before
    """

    def __init__(self, node: NrrJoin, width: int) -> None:
        self.schema = node.schema
        self.width = width
        self._keys = node.keys

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        tuples, versions = inputs
        one, other, nulls = join_codes(tuples.rows, versions.rows, self._keys)
        found = _last_before(one, tuples.ts, other, versions.ts)
        hit = (found >= 0) & (one != NO_KEY if nulls else True)
        hit[hit] &= tuples.ts[hit] <= versions.exp[found[hit]]
        matched = tuples.where(hit)
        columns = [*matched.rows.columns, *versions.rows.take(pa.array(found[hit])).columns]
        return matched.with_rows(pa.table(columns, schema=self.schema))


def table_input(node: TableJoin, versions: RowVersions | None, epoch: Epoch) -> Changes:
    """The right input of a join with a table: its changes of the epoch, or the versions that tuples may find."""
    columns = [column for _, column in node.columns]
    found = (versions if versions is not None else RowVersions.none(node.table.schema)).select(columns)
    changes = found.as_tuples() if isinstance(node, NrrJoin) else found.as_changes(epoch.low, epoch.high)
    return changes.with_rows(changes.rows.rename_columns([name for name, _ in node.columns]))


def _last_before(codes: Int64s, ts: Int64s, others: Int64s, begins: Int64s) -> Int64s:
    """For each (code, ts) the place of the last version with that code that begins before ts, or -1."""
    every = np.concatenate([codes, others])
    times = np.concatenate([ts, begins])
    is_version = np.arange(len(every)) >= len(codes)
    # A tuple stands before a version that begins at its own instant.
    order = np.lexsort((is_version, times, every))
    last = np.maximum.accumulate(np.where(is_version[order], np.arange(len(order)), -1))
    before = order[last]
    same = (last >= 0) & (every[before] == every[order])
    found = np.full(len(every), -1, dtype=np.int64)
    found[order] = np.where(same, before - len(codes), -1)
    return found[: len(codes)]
