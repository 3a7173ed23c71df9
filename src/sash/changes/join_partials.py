"""The results of a join, combined before they leave the bucket in which they were found.

    rows with the expiries of both tuples  ──►  (pane of the first tuple, pane of the second, group): partials

A result is inserted into a synopsis once, when it comes; the synopsis knows when it expires. So no change takes a
result back, and one row travels per pair of panes and group, not one per result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.group_by import lifted
from sash.changes.key_numbers import dense_codes
from sash.changes.stateless import columns_of
from sash.core.changes import Changes
from sash.panes.accumulator import Accumulator, RankedValues, Slot
from sash.panes.joins import JoinRows
from sash.panes.partials import Component, Partial
from sash.plan.shared_joins import FIRST, SECOND


@dataclass(frozen=True)
class PaneCut:
    """How tuples are cut into panes: the windows of the running join, whose expiries tuples carry, and the panes."""

    windows: tuple[int, int]
    length: int
    offset: int = 0

    def ends(self, expiries: NDArray[np.int64], side: int) -> NDArray[np.int64]:
        """The ends of the panes in which tuples came that expire at some instants."""
        stamps = expiries - self.windows[side]
        return self.offset - (self.offset - stamps) // self.length * self.length


@dataclass(frozen=True)
class ResultSummary:
    """The partials of the results for one set of keys."""

    keys: tuple[str, ...]
    partials: tuple[Partial, ...]


@dataclass(frozen=True)
class Fold:
    """Everything that executors need to combine results: the summaries, and the cut into panes."""

    kept: tuple[ResultSummary, ...]
    cut: PaneCut

    def tables(self, changes: Changes) -> list[pa.Table]:
        """The results of an epoch, or of a bucket: a table for each set of keys."""
        return [join_rows(changes, kept.keys, kept.partials, self.cut).to_table(kept.partials) for kept in self.kept]

    def read(self, tables: Sequence[pa.Table]) -> list[JoinRows]:
        """The rows for synopses."""
        return [
            JoinRows.of_table(table, len(kept.keys), kept.partials, self.cut.length)
            for kept, table in zip(self.kept, tables, strict=True)
        ]


def together(parts: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
    """The tables of several buckets, concatenated table by table."""
    return [pa.concat_tables(tables) for tables in zip(*parts, strict=True)]


def join_rows(changes: Changes, keys: Sequence[str], partials: Sequence[Partial], cut: PaneCut) -> JoinRows:
    """The rows of an epoch's results for a synopsis."""
    if (changes.sign < 0).any():
        raise ValueError("results of a join of windows are never taken back")
    columns = columns_of(changes.rows)
    first, second = (cut.ends(np.asarray(columns[name]), side) for side, name in enumerate((FIRST, SECOND)))
    names = ["first", "second", *(f"key {place}" for place in range(len(keys)))]
    table = pa.table([pa.array(first), pa.array(second), *(columns[key] for key in keys)], names=names)
    (codes,) = dense_codes([table], [names], null_safe=True) if len(changes) else [np.empty(0, dtype=np.int64)]
    groups, representative, places = np.unique(codes, return_index=True, return_inverse=True)
    one = pa.array(representative)
    made = _folded(partials, columns, places.astype(np.int32), len(groups))
    return JoinRows(
        cut.length, first[representative], second[representative], [columns[key].take(one) for key in keys], made
    )


def _folded(
    partials: Sequence[Partial], columns: dict[str, pa.Array], places: NDArray[np.int32], groups: int
) -> dict[Slot, Component | pa.Array]:
    ranked = {partial: RankedValues(partial.type) for partial in partials if partial.ranked}
    single: dict[Slot, Component] = {}
    for partial in partials:
        column = None if partial.argument is None else columns[partial.argument.sql]
        if partial.ranked:
            single[partial, 0] = ranked[partial].store(column, int(partial.identity()))
            continue
        for i, component in enumerate(lifted(partial, column, len(places))):
            single[partial, i] = component
    folded = Accumulator(groups, partials, ranked)
    folded.fold(partials, places, single.__getitem__)
    found: dict[Slot, Component | pa.Array] = {}
    for partial in partials:
        merged = folded.merged(partial, None)
        for i, part in enumerate([merged] if isinstance(merged, pa.Array) else merged):
            found[partial, i] = part
    return found
