"""A join synopsis as one Arrow table and back, for checkpoints.

Rows carry their key values and, for ranked extremes, the values themselves: codes and ranks mean something only in
memory. What a row is, `part`, `x` and `y` say: the synopsis that wrote it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.storage.keys import Codes, KeyDictionary
from sash.synopses.accumulator import RankedValues, Slot
from sash.synopses.partials import Combine, Component, Partial

Ranked = Mapping[Partial, RankedValues]


@dataclass(frozen=True)
class Saved:
    """Rows of one part: two numbers that place each of them, its group, its components."""

    part: int
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    codes: Codes
    columns: Mapping[Slot, Component]


def to_table(parts: Iterable[Saved], keys: KeyDictionary, partials: Sequence[Partial], ranked: Ranked) -> pa.Table:
    every = list(parts)
    codes = _joined([part.codes for part in every], np.int32)
    columns: dict[str, pa.Array] = {
        "part": pa.array(np.repeat([part.part for part in every], [len(part.codes) for part in every]), pa.int64()),
        "x": pa.array(_joined([part.x for part in every], np.int64)),
        "y": pa.array(_joined([part.y for part in every], np.int64)),
    }
    columns |= {f"key{i}": column for i, column in enumerate(keys.decode(codes))}
    for number, partial in enumerate(partials):
        for i, dtype in enumerate(partial.dtypes):
            stored = _joined([part.columns[partial, i] for part in every], dtype)
            columns[f"value{number}_{i}"] = _written(partial, stored, ranked)
    return pa.table(columns)


def from_table(table: pa.Table, keys: KeyDictionary, partials: Sequence[Partial], ranked: Ranked) -> Iterator[Saved]:
    """The inverse of `to_table`, part by part; groups get codes as they come."""
    table = table.combine_chunks()
    part, x, y = (np.array(table[name], dtype=np.int64) for name in ("part", "x", "y"))
    codes = keys.encode([_array(table[f"key{i}"]) for i in range(len(keys.types))], len(table))
    columns: dict[Slot, Component] = {
        (partial, i): _read(partial, _array(table[f"value{number}_{i}"]), dtype, ranked)
        for number, partial in enumerate(partials)
        for i, dtype in enumerate(partial.dtypes)
    }
    for number in np.unique(part).tolist():
        rows = np.flatnonzero(part == number)
        yield Saved(number, x[rows], y[rows], codes[rows], {slot: column[rows] for slot, column in columns.items()})


def _joined(parts: list[NDArray[np.generic]], dtype: type) -> Component:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _written(partial: Partial, stored: Component, ranked: Ranked) -> pa.Array:
    if partial.combine is Combine.UNION:
        # The sketches of a large synopsis may take more than the 2 GB that a plain binary column holds.
        return pa.array(stored, pa.large_binary())
    if not partial.ranked:
        return pa.array(stored)
    identity = int(partial.identity())
    return ranked[partial].values(ranked[partial].ranks(stored, identity), identity)


def _read(partial: Partial, column: pa.Array, dtype: type, ranked: Ranked) -> Component:
    if partial.ranked:
        return ranked[partial].store(column, int(partial.identity()))
    if partial.combine is Combine.UNION:
        sketches: Component = np.full(len(column), None, dtype=np.object_)
        sketches[:] = column.to_pylist()
        return sketches
    return np.array(column, dtype=dtype)
