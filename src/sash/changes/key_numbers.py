"""Keys as integers: equal numbers mean equal keys. Exact: nothing is hashed away.

Whole numbers, dates and timestamps are their own numbers. Arrow's dictionaries number other columns, and several
columns together, over all compared rows. As in Spark, NaN equals NaN and -0.0 equals 0.0.

`dense_codes` numbers the rows of one call. `KeyNumbers` finds values again over many calls, by a hash table with open
addressing: finding a row costs the same however many are known. A column that is no whole number costs as much as it
has different values, because Arrow's dictionaries are made anew in each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numba import njit
from numpy.typing import NDArray

from sash.expr.value_codes import canonical

Int64s = NDArray[np.int64]


@njit(cache=True, inline="always")
def _first_slot(row: Int64s, size: int) -> Any:
    mixed = np.uint64(0)
    for place in range(len(row)):
        mixed = (mixed ^ np.uint64(row[place])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(size - 1))


@njit(cache=True, inline="always")
def _is_same(one: Int64s, other: Int64s) -> bool:
    same = True
    for place in range(len(one)):
        same &= one[place] == other[place]
    return same


@njit(cache=True)
def kernel_numbers(rows: Int64s, known: Int64s, number: int, slots: Int64s) -> tuple[Int64s, int]:
    """The numbers of rows, and how many are known after them: new rows get the next numbers.

    `known` has the numbered rows, by their numbers, and room for all new ones; so has `slots`, whose length is a power
    of two. Both are changed in place.
    """
    found = np.empty(len(rows), np.int64)
    for at in range(len(rows)):
        slot = _first_slot(rows[at], len(slots))
        while slots[slot] >= 0 and not _is_same(known[slots[slot]], rows[at]):
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] < 0:
            slots[slot] = number
            known[number] = rows[at]
            number += 1
        found[at] = slots[slot]
    return found, number


Codes = NDArray[np.int64]
# The key of a row with a NULL that equals nothing.
NO_KEY = -1


def dense_codes(tables: Sequence[pa.Table], columns: Sequence[Sequence[str]], *, null_safe: bool) -> list[Codes]:
    """Numbers 0, 1, .. for the keys of several tables; `columns` names each table's key columns.

    If NULL equals nothing, a row with a NULL key has the number `NO_KEY`.
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


def join_values(
    tables: Sequence[pa.Table], names: Sequence[Sequence[str]]
) -> tuple[list[Codes], list[NDArray[np.bool_]]]:
    """Join values of several tables as numbers, and which rows have a value at all: NULL equals nothing.

    `names` has each table's columns. Whole numbers stand for themselves.

    >>> tables = [pa.table({"a": [7, 8]}), pa.table({"b": [8]})]
    >>> join_values(tables, [["a"], ["b"]])[0]
    [array([7, 8]), array([8])]
    """
    columns = [table[own[0]] for table, own in zip(tables, names, strict=True)]
    if len(names[0]) == 1 and all(is_whole(column.type) and not column.null_count for column in columns):
        numbers = [whole(column) for column in columns]
        return numbers, [np.ones(len(codes), dtype=np.bool_) for codes in numbers]
    dense = dense_codes(tables, names, null_safe=False)
    return dense, [codes != NO_KEY for codes in dense]


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


# The NULLs of this many columns are the bits of one more number.
_BITS = 62


class _Column(Protocol):
    def numbers(self, column: pa.ChunkedArray) -> Int64s: ...


class KeyNumbers:
    """NULL is a value like any other.

    >>> numbering = KeyNumbers(pa.schema([("a", pa.int64()), ("b", pa.string())]))
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

    @property
    def nbytes(self) -> int:
        return self._known.nbytes + self._slots.nbytes

    def numbers(self, rows: pa.Table) -> Int64s:
        keys = self._keys(rows)
        self._make_room(self._number + len(keys))
        found, self._number = kernel_numbers(keys, self._known, self._number, self._slots)
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
        """Double the room each time: every row is moved a few times only."""
        if number > len(self._known):
            larger = np.empty((max(number, 2 * len(self._known)), self._known.shape[1]), dtype=np.int64)
            larger[: self._number] = self._known[: self._number]
            self._known = larger
        if 2 * number > len(self._slots):
            self._slots = np.full(1 << (4 * number).bit_length(), -1, dtype=np.int64)
            known = self._known[: self._number]
            kernel_numbers(known, np.empty_like(known), 0, self._slots)


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
