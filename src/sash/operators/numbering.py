"""Values numbered 0, 1, .. as they come, and found again later: what `dense_codes` does within one call, over many.

    row ──► one whole number per column ──► hash table ──► the number of the row
            (strings and the like are numbered column by column)

Exact: rows that meet in the hash table are compared. To find a row costs the same however many are known. A column that
is no whole number costs as much as it has different values: Arrow's dictionaries are made anew in each call.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from sash.operators.keys import dense_codes, is_whole, whole
from sash.operators.numbering_kernels import Int64s, _kernel_numbers

# NULLs of so many columns are the bits of one more number.
_BITS = 62


class _Column(Protocol):
    def numbers(self, column: pa.ChunkedArray) -> Int64s: ...


class Numbering:
    """NULL is a value like any other.

    >>> numbering = Numbering(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    >>> numbering.numbers(pa.table({"a": [5, 5, None], "b": ["x", "y", "x"]})).tolist()
    [0, 1, 2]
    >>> numbering.numbers(pa.table({"a": [7, 5], "b": ["x", "y"]})).tolist(), len(numbering)
    ([3, 1], 4)
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._columns: list[_Column] = [_Whole() if is_whole(field.type) else _Dictionary(field) for field in schema]
        width = len(self._columns) + -(-len(self._columns) // _BITS)
        self._known = np.empty((0, width), dtype=np.int64)
        self._slots = np.full(16, -1, dtype=np.int64)
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def numbers(self, rows: pa.Table) -> Int64s:
        keys = self._keys(rows)
        self._make_room(self._number + len(keys))
        found, self._number = _kernel_numbers(keys, self._known, self._number, self._slots)
        return found

    def _keys(self, rows: pa.Table) -> Int64s:
        keys = np.zeros((rows.num_rows, self._known.shape[1]), dtype=np.int64)
        for place, (numbered, column) in enumerate(zip(self._columns, rows.columns, strict=True)):
            if column.null_count:
                nulls = np.asarray(column.is_null(), dtype=np.int64)
                keys[:, len(self._columns) + place // _BITS] |= nulls << (place % _BITS)
            keys[:, place] = numbered.numbers(column)
        return keys

    def _make_room(self, number: int) -> None:
        """Twice as much each time: every row is moved but a few times."""
        if number > len(self._known):
            larger = np.empty((max(number, 2 * len(self._known)), self._known.shape[1]), dtype=np.int64)
            larger[: self._number] = self._known[: self._number]
            self._known = larger
        if 2 * number > len(self._slots):
            self._slots = np.full(1 << (4 * number).bit_length(), -1, dtype=np.int64)
            known = self._known[: self._number]
            _kernel_numbers(known, np.empty_like(known), 0, self._slots)


class _Whole:
    """A column that is its own numbers."""

    def numbers(self, column: pa.ChunkedArray) -> Int64s:
        return whole(column.fill_null(0) if column.null_count else column)


class _Dictionary:
    """Any other column: `_values` are its values by their numbers."""

    def __init__(self, field: pa.Field) -> None:
        self._values = pa.schema([field]).empty_table()

    def numbers(self, column: pa.ChunkedArray) -> Int64s:
        given = pa.table([column], schema=self._values.schema)
        known, codes = dense_codes([self._values, given], [self._values.schema.names] * 2, null_safe=True)
        # They are numbered in the order of their first places: known values keep their numbers.
        assert (known == np.arange(len(known))).all()
        first = np.empty(int(codes.max(initial=-1)) + 1, dtype=np.int64)
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        new = first[len(known) :]
        if len(new):
            self._values = pa.concat_tables([self._values, given.take(pa.array(new))]).combine_chunks()
        return codes
