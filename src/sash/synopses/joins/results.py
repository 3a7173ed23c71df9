"""Join results on their way into a synopsis: put together by the panes of their two tuples, and by group.

    result (ts 121, ts 135, group x, value 41)     panes of 10     ─►     (130, 140), x: count 1, max 41

Which pane each tuple came in is all that windows of whole panes ask. What is inserted per pane is few rows, however
many results the join has: Spark computes them in the job that joins, as it computes the partials of panes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.storage.keys import Codes
from sash.synopses.accumulator import RankedValues, Slot
from sash.synopses.partials import Combine, Component, Partial


@dataclass(frozen=True)
class JoinRows:
    """What one micro-batch brings: rows of (first tuple's pane, second tuple's pane, group), in no order.

    Panes are given by their ends. The younger of a row's panes is the one in which its results were generated.
    `columns` are the components of the partials; of ranked extremes, the values.
    """

    length: int
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    keys: list[pa.Array]
    columns: Mapping[Slot, Component | pa.Array]

    def __len__(self) -> int:
        return len(self.first)

    def to_table(self, partials: Sequence[Partial]) -> pa.Table:
        """As it travels and is logged."""
        columns: dict[str, pa.Array] = {"first": pa.array(self.first), "second": pa.array(self.second)}
        columns |= {f"key{i}": column for i, column in enumerate(self.keys)}
        for number, partial in enumerate(partials):
            for i in range(len(partial.dtypes)):
                columns[f"value{number}_{i}"] = _written(partial, self.columns[partial, i])
        return pa.table(columns)

    @classmethod
    def of_table(cls, table: pa.Table, keys: int, partials: Sequence[Partial], length: int) -> JoinRows:
        """The inverse of `to_table`; tables of several buckets may have been put one after the other."""
        table = table.combine_chunks()
        first, second = (np.array(table[name], dtype=np.int64) for name in ("first", "second"))
        columns = {
            (partial, i): _read(partial, _array(table[f"value{number}_{i}"]), dtype)
            for number, partial in enumerate(partials)
            for i, dtype in enumerate(partial.dtypes)
        }
        return cls(length, first, second, [_array(table[f"key{i}"]) for i in range(keys)], columns)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _written(partial: Partial, column: Component | pa.Array) -> pa.Array:
    return pa.array(column, pa.large_binary()) if partial.combine is Combine.UNION else pa.array(column)


def _read(partial: Partial, column: pa.Array, dtype: type) -> Component | pa.Array:
    if partial.ranked:
        return column
    if partial.combine is Combine.UNION:
        sketches: Component = np.full(len(column), None, dtype=np.object_)
        sketches[:] = column.to_pylist()
        return sketches
    return np.array(column, dtype=dtype)


@dataclass(frozen=True)
class Cells:
    """Rows with codes for groups and components of partials. Panes are numbered."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    codes: Codes
    columns: Mapping[Slot, Component]

    def take(self, places: NDArray[np.int64]) -> Cells:
        columns = {slot: column[places] for slot, column in self.columns.items()}
        return Cells(self.first[places], self.second[places], self.codes[places], columns)


def stored_columns(
    rows: JoinRows, partials: Sequence[Partial], ranked: Mapping[Partial, RankedValues]
) -> dict[Slot, Component]:
    """The components as a synopsis keeps them: values of ranked extremes have codes of its own."""
    found: dict[Slot, Component] = {}
    for partial in partials:
        if partial.ranked:
            found[partial, 0] = ranked[partial].store(rows.columns[partial, 0], int(partial.identity()))
            continue
        for i in range(len(partial.dtypes)):
            found[partial, i] = np.asarray(rows.columns[partial, i])
    return found
