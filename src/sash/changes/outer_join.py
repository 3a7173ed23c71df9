"""Outer joins of two inputs: the pairs of a window join, and tuples without a match, with NULLs for the other side.

    S left join T       pairs of S and T           while both tuples live
                        s, NULL ..                 while s lives and no match of s does

    needs   equal keys; any update patterns on both sides
    time    a window join's, and for each kept side a negation's: a pass over both buffers per epoch
    space   the live tuples of both inputs, once

The two parts are those of the window join (`join`) and of the negation (`matching`), over the same lifetimes: which
matches a tuple has follows from the live tuples, so nothing is counted from epoch to epoch. The first id of a row says
which part it is from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sash.changes.join import WindowJoinOp
from sash.changes.lifetimes import Lifetimes
from sash.changes.matching import WITHOUT_MATCH, matched
from sash.changes.operator import Epoch, StoredInput
from sash.core.changes import Changes, together


class OuterJoinOp(WindowJoinOp):
    """`kept` says of each side whether its tuples without a match are in the answer."""

    def __init__(
        self, schema: pa.Schema, keys: tuple[tuple[str, str], ...], sides: tuple[StoredInput, StoredInput], width: int,
        kept: tuple[bool, bool],
    ) -> None:  # fmt: skip
        super().__init__(schema, keys, sides, width)
        self._kept = kept

    def _changes(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Changes:
        pairs = super()._changes(alive, epoch)
        return together((self._part(0, 0, pairs), *self._without_match(alive, epoch))).in_order()

    def _without_match(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Iterator[Changes]:
        left, right = alive
        first = left.tuples.rows.num_columns
        if self._kept[0]:
            found = matched(WITHOUT_MATCH, self._keys, left, right, epoch, null_safe=False)
            yield self._part(1, 0, found.with_rows(self._padded(found.rows, 0)))
        if self._kept[1]:
            mirrored = tuple((other, one) for one, other in self._keys)
            found = matched(WITHOUT_MATCH, mirrored, right, left, epoch, null_safe=False)
            yield self._part(2, left.tuples.ids.shape[1], found.with_rows(self._padded(found.rows, first)))

    def _padded(self, rows: pa.Table, first: int) -> pa.Table:
        """The rows from column `first` on, with NULLs in all other columns."""
        columns = [pa.nulls(rows.num_rows, field.type) for field in self.schema]
        columns[first : first + rows.num_columns] = rows.columns
        return pa.table(columns, schema=self.schema)

    def _part(self, number: int, first: int, found: Changes) -> Changes:
        """The changes with ids of this operator; `first` is the place of their own ones."""
        ids = np.zeros((len(found), self.width), dtype=np.int64)
        if self.width:
            ids[:, 0] = number
            ids[:, 1 + first : 1 + first + found.ids.shape[1]] = found.ids
        return Changes(found.rows, found.ts, found.exp, found.sign, ids)
