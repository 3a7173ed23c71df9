"""Partials of single tuples: what Spark would compute for a pane that has one tuple."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.plan.continuous import Aggregated
from sash.plan.expressions import RowExpression
from sash.synopses.aggregates import AGGREGATES
from sash.synopses.partials import Partial


def partials_of(call: Aggregated, schema: pa.Schema) -> tuple[Partial, ...]:
    argument = None
    if call.argument is not None:
        argument = RowExpression(call.argument, schema.field(call.argument).type, (call.argument,))
    return AGGREGATES[call.function].lift(argument, None)


def lifted(partial: Partial, column: pa.Array | None, number: int) -> list[NDArray[Any]]:
    """The components of a partial, one entry per tuple; ranked extremes as places among the sorted values."""
    if column is None:
        return [np.ones(number, dtype=np.int64)]
    valid = np.asarray(column.is_valid(), dtype=np.int64)
    if partial.kind == "count":
        return [valid]
    if partial.ranked:
        return [ranks(partial, column)]
    return partial.store(_columns(partial, column), valid)


def _columns(partial: Partial, column: pa.Array) -> list[pa.Array]:
    if partial.kind == "moments":
        return [column.cast(pa.float64()), pa.array(np.zeros(len(column)))]
    if partial.kind == "sum" and pt.is_decimal(column.type):
        return [column.cast(pa.decimal128(38, column.type.scale))]
    if partial.kind == "sum" and pt.is_int64(column.type):
        return [pc.bit_wise_and(column, 0xFFFFFFFF), pc.shift_right(column, 32)]
    return [column]


def ranks(partial: Partial, column: pa.Array) -> NDArray[np.int64]:
    """Each value's place among the sorted ones; a missing one as the partial's identity."""
    places = pc.index_in(column, value_set=ranked_values(column))
    absent = int(partial.identity())
    return np.asarray(places.cast(pa.int64()).fill_null(absent), dtype=np.int64)


def ranked_values(column: pa.Array) -> pa.Array:
    """The values of a column, each once and in order."""
    values = column.drop_null().unique()
    return values.take(pc.array_sort_indices(values))
