"""Outer joins of two inputs: the pairs of a window join, and tuples without a match, with NULLs for the other side.

    S left join T       pairs of S and T           while both tuples live
                        s, NULL ..                 while s lives and no match of s does

    needs   equal keys; any update patterns on both sides
    time    a window join's, and for each kept side a negation's: a pass over both buffers per epoch; with a condition
            beside the keys, all live pairs per epoch
    space   the live tuples of both inputs, once

The two parts are those of the window join (`join`) and of the negation (`matching`), over the same lifetimes: which
matches a tuple has follows from the live tuples, so nothing is counted from epoch to epoch. The first id of a row says
which part it is from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from sash.changes.join import Combinations, WindowJoinOp, every_pair
from sash.changes.lifetimes import Lifetimes
from sash.changes.matching import WITHOUT_MATCH, matched, matched_by_codes
from sash.changes.operator import Epoch, StoredInput
from sash.changes.stateless import columns_of
from sash.core.changes import Changes, together
from sash.expr.evaluate import evaluate
from sash.plan.expressions import Expression, columns_in


class OuterJoinOp(WindowJoinOp):
    """`kept` says of each side whether its tuples without a match are in the answer; pairs fulfil the `condition`."""

    def __init__(
        self, schema: pa.Schema, keys: tuple[tuple[str, str], ...], sides: tuple[StoredInput, StoredInput], width: int,
        kept: tuple[bool, bool], condition: Expression | None = None,
    ) -> None:  # fmt: skip
        super().__init__(schema, keys, sides, width)
        self._kept, self._condition = kept, condition

    def _needed_after(self, epoch: Epoch) -> int:
        """A tuple that expires at the next epoch's first instant is needed there: its match may have no other match."""
        return epoch.high - 1

    def _changes(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Changes:
        if self._condition is None:
            pairs, alone = super()._changes(alive, epoch), self._without_match(alive, epoch)
        else:
            every = self._fulfilling(alive, self._condition)
            pairs, alone = self._announced(alive, _touched(alive, every), epoch), _unmatched(alive, every, epoch)
        parts = [self._part(0, 0, pairs)]
        firsts = ((0, 0), (alive[0].tuples.rows.num_columns, alive[0].tuples.ids.shape[1]))
        for place, (column, name) in enumerate(firsts):
            if self._kept[place]:
                found = alone(place)
                parts.append(self._part(1 + place, name, found.with_rows(self._padded(found.rows, column))))
        return together(parts).in_order()

    def _without_match(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Callable[[int], Changes]:
        """The changes of a side's tuples without a match, by their keys."""

        def of(place: int) -> Changes:
            keys = tuple((pair[place], pair[1 - place]) for pair in self._keys)
            return matched(WITHOUT_MATCH, keys, alive[place], alive[1 - place], epoch, null_safe=False)

        return of

    def _fulfilling(self, alive: Sequence[Lifetimes], condition: Expression) -> Combinations:
        """All pairs of live tuples that fulfil the condition: it is not known which of them were pairs before."""
        left, right = alive
        pairs = every_pair(left, right, self._keys, in_time=self._in_time)
        read, columns = columns_in(condition), dict[str, pa.Array]()
        for side, places in zip(alive, pairs, strict=True):
            names = [name for name in side.tuples.rows.schema.names if name in read]
            columns |= columns_of(side.tuples.rows.select(names).take(pa.array(places)))
        kept = np.asarray(evaluate(condition, columns, len(pairs[0])).fill_null(False), dtype=np.bool_)
        return self._living(left, right, (pairs[0][kept], pairs[1][kept]))

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


def _touched(alive: Sequence[Lifetimes], every: Combinations) -> Combinations:
    """The pairs with a tuple that came or was taken back in this epoch."""
    changed = np.logical_or(*(side.touched[own] for side, own in zip(alive, every.places, strict=True)))
    return Combinations(every.places[:, changed], *(times[changed] for times in every[1:]))


def _unmatched(alive: Sequence[Lifetimes], every: Combinations, epoch: Epoch) -> Callable[[int], Changes]:
    """The changes of a side's tuples without a match: each tuple has a key of its own, and its pairs have that key."""
    out = np.minimum(every.exp, every.end)
    there = out >= epoch.low

    def of(place: int) -> Changes:
        side = alive[place]
        times = every.places[place][there], every.start[there], out[there]
        return matched_by_codes(WITHOUT_MATCH, side, np.arange(len(side)), times, epoch)

    return of
