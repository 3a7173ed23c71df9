"""Keys as integers: equal numbers mean equal keys, within one call. Exact: nothing is hashed away.

Whole numbers, dates and timestamps are their own numbers. Other columns, and several, are numbered by Arrow's
dictionaries over everything that is compared. As in Spark, NaN equals NaN and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.storage.keys import canonical

Codes = NDArray[np.int64]
# The key of a row with a NULL that equals nothing.
NO_KEY = -1


def dense_codes(tables: Sequence[pa.Table], columns: Sequence[Sequence[str]], *, null_safe: bool) -> list[Codes]:
    """Numbers 0, 1, .. for the keys of several tables; `columns` names each table's key columns.

    Where NULL equals nothing, a row with a NULL key has the number `NO_KEY`.
    """
    lengths = [table.num_rows for table in tables]
    combined, nulls = np.zeros(sum(lengths), dtype=np.int64), np.zeros(sum(lengths), dtype=np.bool_)
    for place in range(len(columns[0])):
        parts = [table[names[place]] for table, names in zip(tables, columns, strict=True)]
        numbers, null = _numbered(_chunked(parts))
        nulls |= null
        if place:
            numbers, _ = _numbered(pa.chunked_array([pa.array(combined * (int(numbers.max(initial=0)) + 1) + numbers)]))
        combined = numbers
    if not null_safe:
        combined = np.where(nulls, NO_KEY, combined)
    return np.split(combined, np.cumsum(lengths)[:-1])


def join_codes(left: pa.Table, right: pa.Table, keys: Sequence[tuple[str, str]]) -> tuple[Codes, Codes, bool]:
    """Numbers for an equi-join, NULL keys apart; the flag says whether they are the dense ones of `dense_codes`."""
    names = ([one for one, _ in keys], [other for _, other in keys])
    if len(keys) == 1 and is_whole(left.schema.field(names[0][0]).type):
        parts = (left[names[0][0]], right[names[1][0]])
        if not any(part.null_count for part in parts):
            one, other = (whole(part) for part in parts)
            return one, other, False
    one, other = dense_codes((left, right), names, null_safe=False)
    return one, other, True


def _chunked(parts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], type=parts[0].type)


def _numbered(column: pa.ChunkedArray) -> tuple[Codes, NDArray[np.bool_]]:
    """A column's values numbered from 0; NULL is a value, too, and marked."""
    if pt.is_nested(column.type):
        # Arrow numbers no lists and structs. They are never keys, but rows that hold them are compared now and then.
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    elif pt.is_floating(column.type):
        column = _canonical(column)
    null = np.asarray(column.is_null(), dtype=np.bool_)
    if not len(column):
        return np.zeros(0, dtype=np.int64), null
    encoded = pa.concat_arrays(column.chunks).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices, dtype=np.int64), null


def _canonical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([canonical(chunk) for chunk in column.chunks], type=column.type)


def with_canonical(rows: pa.Table, keys: Iterable[str]) -> pa.Table:
    """The rows with one zero, 0.0, and one NaN in their key columns of floating-point numbers."""
    for name in keys:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), _canonical(rows[name]))
    return rows


def is_whole(type: pa.DataType) -> bool:
    return pt.is_integer(type) or pt.is_date32(type) or pt.is_timestamp(type)


def whole(column: pa.ChunkedArray) -> Codes:
    if pt.is_date32(column.type):
        column = column.cast(pa.int32())
    return np.asarray(column.cast(pa.int64()), dtype=np.int64)
