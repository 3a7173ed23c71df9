"""Two streams, the results of their join pane by pane as Spark would put them together, and the slow obvious join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.panes.accumulator import Slot, counted
from sash.panes.joins import JoinRows, WindowPair
from sash.panes.partials import Combine, Component, Partial
from sash.plan.expressions import RowExpression
from tests.panes.raw import Row, column, lift_rows

# A result: the timestamps of its tuples, and its row.
Result = tuple[int, int, Row]
_FIRST, _SECOND = column("_first", pa.int64()), column("_second", pa.int64())


def lift_results(
    results: Iterable[Result], length: int, keys: Sequence[RowExpression], partials: Sequence[Partial]
) -> JoinRows:
    """One row per panes and group."""
    tuples = [
        (0, {**row, "_first": pane_end(first, length), "_second": pane_end(second, length)})
        for first, second, row in results
    ]
    lifted = lift_rows(tuples, 1, [*keys, _FIRST, _SECOND], list(partials))
    *columns, first, second = lifted.keys
    return JoinRows(length, _numbers(first), _numbers(second), columns, lifted_columns(lifted.lifted))


def pane_end(ts: int, length: int) -> int:
    return -(-ts // length) * length


def _numbers(column: pa.Array) -> Any:
    return np.asarray(pc.cast(column, pa.int64()), dtype=np.int64)


def joined(results: Iterable[Result], pair: WindowPair, length: int, now: int) -> list[Row]:
    """The join of two windows as of now, from all results so far."""
    return [
        row
        for first, second, row in results
        if now - pair.first * length < first <= now and now - pair.second * length < second <= now
    ]


def lifted_columns(lifted: Mapping[Partial, list[pa.Array]]) -> dict[Slot, Component | pa.Array]:
    """Columns as Spark's aggregate functions lift them."""
    found: dict[Slot, Component | pa.Array] = {}
    for partial, columns in lifted.items():
        if partial.ranked:
            found[partial, 0] = columns[0]
            continue
        counts = None
        if partial.combine is Combine.MOMENTS:
            counts = np.asarray(lifted[counted(partial)][0], dtype=np.int64)
        for i, stored in enumerate(partial.store(columns, counts)):
            found[partial, i] = stored
    return found
