"""Rows of panes from a pass over a micro-batch; panes as one Arrow table and back, for checkpoints.

Rows carry their key values and, for ranked extremes, the values themselves, because codes and ranks have a meaning in
memory only. Everything else is stored as in the panes, sketches as their bytes. A pane's rows follow each other and
share a number in `part`, because an open pane may consist of several contributions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.expr.value_codes import KeyDictionary, one_array
from sash.panes.accumulator import RankedValues
from sash.panes.pane_ring import Pane
from sash.panes.partials import Combine, Component, Partial

Ranked = Mapping[Partial, RankedValues]


def panes_to_table(
    closed: list[Pane], opened: list[Pane], keys: KeyDictionary, partials: Sequence[Partial], ranked: Ranked
) -> pa.Table:
    panes = closed + opened
    sizes = [len(pane.codes) for pane in panes]
    codes = np.concatenate([pane.codes for pane in panes]) if panes else np.empty(0, dtype=np.int32)
    columns: dict[str, pa.Array] = {
        "start": pa.array(np.repeat(np.array([pane.start for pane in panes], dtype=np.int64), sizes)),
        "end": pa.array(np.repeat(np.array([pane.end for pane in panes], dtype=np.int64), sizes)),
        "part": pa.array(np.repeat(np.arange(len(panes), dtype=np.int64), sizes)),
        "closed": pa.array(np.repeat(np.arange(len(panes)) < len(closed), sizes)),
    }
    columns |= {f"key{i}": column for i, column in enumerate(keys.decode(codes))}
    for number, partial in enumerate(partials):
        for i in range(len(partial.dtypes)):
            stored = _stored(partial, i, panes)
            columns[f"value{number}_{i}"] = to_column(partial, stored, ranked)
    return pa.table(columns)


def _stored(partial: Partial, component: int, panes: list[Pane]) -> Component:
    dtype, identity = partial.dtypes[component], partial.identity(component)
    parts = [pane.columns.get((partial, component), np.full(len(pane.codes), identity, dtype=dtype)) for pane in panes]
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def to_column(partial: Partial, stored: Component, ranked: Ranked) -> pa.Array:
    """A component in a checkpoint's form: values for ranked extremes, bytes for sketches."""
    if partial.combine is Combine.UNION:
        # The sketches of a large synopsis may take more than the 2 GB that a plain binary column holds.
        return pa.array(stored, pa.large_binary())
    if not partial.ranked:
        return pa.array(stored)
    identity = int(partial.identity())
    return ranked[partial].values(ranked[partial].ranks(stored, identity), identity)


def table_to_panes(
    table: pa.Table, keys: KeyDictionary, numbers: Mapping[Partial, int], ranked: Ranked
) -> Iterator[tuple[Pane, bool]]:
    """The panes, oldest first, and whether each is closed; `numbers` says which columns hold a partial."""
    table = table.combine_chunks()
    codes = keys.encode([one_array(table[f"key{i}"]) for i in range(len(keys.types))], len(table))
    columns = {
        (partial, i): from_column(partial, one_array(table[f"value{number}_{i}"]), ranked)
        for partial, number in numbers.items()
        for i in range(len(partial.dtypes))
    }
    starts, ends, closed, part = (np.asarray(table[name]) for name in ("start", "end", "closed", "part"))
    if not len(table):
        return
    for rows in np.split(np.arange(len(table)), np.flatnonzero(np.diff(part)) + 1):
        values = {slot: column[rows] for slot, column in columns.items()}
        yield Pane(int(starts[rows[0]]), int(ends[rows[0]]), codes[rows], values), bool(closed[rows[0]])


def from_column(partial: Partial, column: pa.Array, ranked: Ranked) -> Component:
    """The inverse of `to_column`: a fresh array."""
    if partial.ranked:
        return ranked[partial].store(column, int(partial.identity()))
    return np.array(column.to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class PaneRows:
    """The rows of one micro-batch: (pane, group), in no order, as Arrow columns.

    `latest` is the greatest timestamp behind each row.
    """

    length: int
    ends: NDArray[np.int64]
    keys: list[pa.Array]
    lifted: dict[Partial, list[pa.Array]]
    latest: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def only(self, keep: NDArray[np.bool_]) -> PaneRows:
        """Some of the rows."""
        mask = pa.array(keep)
        keys = [column.filter(mask) for column in self.keys]
        lifted = {partial: [column.filter(mask) for column in parts] for partial, parts in self.lifted.items()}
        return PaneRows(self.length, self.ends[keep], keys, lifted, self.latest[keep])


@dataclass(frozen=True)
class BatchFacts:
    """The result of one pass over a micro-batch: counts, and rows of partials with the tuples behind each row.

    The first tuple came by `earliest`, the end of its pane.
    """

    rows: int
    latest: Micros | None
    null_timestamps: int
    unparsable: int
    lanes: list[tuple[int, PaneRows, np.ndarray]]
    earliest: Micros | None = None
