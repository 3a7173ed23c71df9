"""Group-by over a stream that never forgets: a group is one set of partials, however many tuples it had.

    needs   an input without expiries and negative tuples (MONOTONIC)
    space   partials and a row per group

The partials of a group are one leaf of its tree, and the tuples of the epoch are the others; at the end of the epoch
the root takes the place of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.bucket_state import Working
from sash.changes.buffers import Fifo
from sash.changes.group_by import GroupByOp, Instants, MergedPartials, TupleLeaves, instants, ranks
from sash.changes.lifetimes import Lifetimes, in_sequence
from sash.changes.operator import Epoch
from sash.changes.stateless import columns_of
from sash.core.changes import NEVER, Changes
from sash.panes.partials import Partial


class GrowingGroupByOp(GroupByOp):
    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        name = f"{self._storing.name}.partials"
        new = inputs[0].with_rows(inputs[0].rows.select(self._needed))
        shown, begun = self._standing(new, state, epoch)
        if not len(new):
            return self._named(begun, state)
        kept = [part.rows for part in Fifo(state.chunks(name)).tuples()]
        partials = list(dict.fromkeys(p for call in self._calls for p in self._partials[call.name]))
        leaves = GrownLeaves(kept[0] if kept else None, new.rows, partials)
        keyed = self._keyed(kept, new.rows)
        alive = _alive(keyed, new, epoch)
        codes, standing = self._codes(keyed, shown.rows)
        happening = instants(codes, alive, epoch)
        rows, present, merged = self._rows(happening, keyed, leaves)
        found = in_sequence([begun, self._replaced(happening, rows, present, shown, standing, state)])
        self._store(name, keyed, codes, happening, _columns(partials, merged), kept, state)
        return self._named(found, state)

    def _keyed(self, kept: list[pa.Table], new: pa.Table) -> pa.Table:
        """The keys of all leaves; a table must have a column."""
        parts = [*kept, new]
        if not self._keys:
            return pa.table({"_": pa.nulls(sum(part.num_rows for part in parts), pa.int8())})
        return pa.concat_tables([part.select(self._keys) for part in parts])

    def _store(
        self,
        name: str,
        keyed: pa.Table,
        codes: NDArray[np.int64],
        happening: Instants,
        made: dict[str, pa.Array],
        kept: list[pa.Table],
        state: Working,
    ) -> None:
        """Groups that were touched have new partials, the others the ones that they had."""
        groups = happening.groups
        last = np.flatnonzero(np.append(groups[1:] != groups[:-1], True))
        one = happening.switched[happening.ends - 1][last]
        keys = {key: keyed[key].take(pa.array(one)) for key in self._keys}
        touched = pa.table({**keys, **{column: array.take(pa.array(last)) for column, array in made.items()}})
        parts = [touched]
        if kept:
            untouched = np.flatnonzero(~np.isin(codes[: kept[0].num_rows], groups))
            parts.insert(0, kept[0].take(pa.array(untouched)))
        rows = pa.concat_tables(parts)
        buffer = Fifo()
        buffer.add(_standing(rows))
        state.store(name, buffer.chunks)


class GrownLeaves:
    """The partials of groups, then the tuples of the epoch."""

    def __init__(self, kept: pa.Table | None, new: pa.Table, partials: list[Partial]) -> None:
        self._kept = {} if kept is None else columns_of(kept)
        self._new = TupleLeaves(new)
        self._places = {partial: place for place, partial in enumerate(partials)}

    def components(self, partial: Partial) -> list[NDArray[Any]]:
        if partial.ranked:
            return [ranks(partial, self.values(partial))]
        made = self._new.components(partial)
        if not self._kept:
            return made
        before = [np.asarray(self._kept[f"{self._places[partial]}.{i}"]) for i in range(len(made))]
        return [np.concatenate(pair) for pair in zip(before, made, strict=True)]

    def values(self, partial: Partial) -> pa.Array:
        new = self._new.values(partial)
        return pa.concat_arrays([self._kept[f"{self._places[partial]}.0"], new]) if self._kept else new


def _columns(partials: list[Partial], merged: MergedPartials) -> dict[str, pa.Array]:
    """Partials as columns, instant by instant."""
    found = {}
    for place, partial in enumerate(partials):
        made = merged[partial]
        for i, component in enumerate([made] if isinstance(made, pa.Array) else made):
            found[f"{place}.{i}"] = component if isinstance(component, pa.Array) else pa.array(component)
    return found


def _alive(keyed: pa.Table, new: Changes, epoch: Epoch) -> Lifetimes:
    """All leaves as tuples that never leave; the stored ones came before the epoch."""
    stored = keyed.num_rows - len(new)
    never = np.full(keyed.num_rows, NEVER, dtype=np.int64)
    ts = np.concatenate([np.full(stored, epoch.low - 1, dtype=np.int64), new.ts])
    ids = np.zeros((keyed.num_rows, 0), dtype=np.int64)
    return Lifetimes(Changes(keyed, ts, never, np.ones(len(ts), dtype=np.int8), ids), never, stored)


def _standing(rows: pa.Table) -> Changes:
    number = rows.num_rows
    zero, ids = np.zeros(number, dtype=np.int64), np.zeros((number, 0), dtype=np.int64)
    return Changes(rows, zero, np.full(number, NEVER, dtype=np.int64), np.ones(number, dtype=np.int8), ids)
