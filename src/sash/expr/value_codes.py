"""Dictionary codes for groups: the key values of a pane table become small integers.

One column is a `ValueDictionary`: code = position in an Arrow array of the values seen. Several columns are chained by
pairs, so that every look-up is one hash probe of Arrow's, whatever the types are. `KeyDictionary.compacted` frees the
codes of groups that have vanished from every pane. NULL is a value like any other here: SQL groups it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

T = TypeVar("T")

Codes = NDArray[np.int32]


class ValueDictionary:
    """Values of one type by code.

    >>> words = ValueDictionary(pa.string())
    >>> words.encode(pa.array(["b", "a", None, "b"])).tolist()
    [1, 0, 2, 1]
    >>> words.decode(np.array([2, 0])).to_pylist()
    [None, 'a']
    """

    def __init__(self, type: pa.DataType) -> None:
        self.values: pa.Array = pa.array([], type)

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, column: pa.Array) -> Codes:
        """The codes of a column's values; new values get new codes, in their sorted order (the same order twice)."""
        column = canonical(column)
        found = pc.index_in(column, value_set=self.values)
        if found.null_count:
            fresh = column.filter(found.is_null()).unique()
            fresh = fresh.take(pc.sort_indices(fresh))
            self.values = pa.concat_arrays([self.values, fresh])
            found = pc.index_in(column, value_set=self.values)
        codes: Codes = np.asarray(found, dtype=np.int32)
        return codes

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        return self.values.take(pa.array(codes))

    def frozen(self) -> ValueDictionary:
        """The current values, for another thread: Arrow's arrays are replaced, never changed."""
        other = ValueDictionary(self.values.type)
        other.values = self.values
        return other


class StructDictionary:
    """Structs by code: the codes of their fields, chained. A struct is NULL if all of its fields are.

    >>> pairs = StructDictionary(pa.struct([("_0", pa.int32()), ("_1", pa.string())]))
    >>> pairs.encode(pa.array([{"_0": 2, "_1": "b"}, {"_0": 1, "_1": None}, {"_0": 2, "_1": "b"}], pairs.type)).tolist()
    [1, 0, 1]
    >>> pairs.values.to_pylist()
    [{'_0': 1, '_1': None}, {'_0': 2, '_1': 'b'}]
    """

    def __init__(self, type: pa.DataType) -> None:
        self.type = type
        self._rows = KeyDictionary([field.type for field in type])

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def values(self) -> pa.Array:
        return self._rows.derived(StructDictionary, lambda: self._structs(self._rows.decode_all()))

    def _structs(self, columns: list[pa.Array]) -> pa.Array:
        nothing = reduce(pc.and_, (column.is_null() for column in columns))
        return pa.StructArray.from_arrays(columns, fields=list(self.type), mask=nothing)

    def encode(self, column: pa.Array) -> Codes:
        fields = zip(column.flatten(), self._rows.types, strict=True)
        return self._rows.encode([each.cast(type) for each, type in fields], len(column))

    def decode(self, codes: NDArray[np.integer]) -> pa.Array:
        return self._structs(self._rows.decode(codes))

    def frozen(self) -> StructDictionary:
        other = StructDictionary(self.type)
        other._rows = self._rows.frozen()
        return other


def dictionary_of(type: pa.DataType) -> ValueDictionary | StructDictionary:
    return StructDictionary(type) if pa.types.is_struct(type) else ValueDictionary(type)


def value_ranks(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Each value's place among the distinct ones, NaN after every number, NULL last; and whether it is NULL.

    Structs are compared field by field, as Spark compares them: inside of a struct NULL is the least value.
    """
    is_null = np.asarray(column.is_null())
    if pa.types.is_struct(column.type):
        fields = [np.where(null, -1, ranks) for ranks, null in map(value_ranks, column.flatten())]
        order = np.lexsort(fields[::-1])
        stacked = np.stack(fields)[:, order]
        rank = np.zeros(len(column), dtype=np.int64)
        rank[order] = np.cumsum(np.append([False], (stacked[:, 1:] != stacked[:, :-1]).any(axis=0))[: len(column)])
        # All fields of a NULL are NULL, so it came first.
        return np.where(is_null, rank.max(initial=0) + 1, rank) - is_null.any(), is_null
    encoded = column.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)) if column.null_count else encoded.indices
    order = np.asarray(pc.sort_indices(encoded.dictionary), dtype=np.int64)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = len(order)
    return rank[np.asarray(codes, dtype=np.int64)], is_null


def canonical(column: pa.Array) -> pa.Array:
    """One NaN and one zero, as in Spark's keys; Arrow distinguishes their bit patterns.

    >>> canonical(pa.array([-0.0, 0.0, None, 1.5])).to_pylist()
    [0.0, 0.0, None, 1.5]
    """
    if not pa.types.is_floating(column.type):
        return column
    numbers = np.asarray(column.fill_null(0.0)) + column.type.to_pandas_dtype()(0.0)
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers, column.type, mask=np.asarray(column.is_null()))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A chunked column as one array, without a copy where it has one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def encode_alone(columns: list[pa.Array], rows: int) -> tuple[Codes, list[pa.Array]]:
    """The codes of rows among themselves, and the key values by code: a dictionary for this call only.

    >>> codes, values = encode_alone([pa.array(["x", "y", "x"]), pa.array([1, None, 1])], 3)
    >>> codes.tolist(), [column.to_pylist() for column in values]
    ([0, 1, 0], [['x', 'y'], [1, None]])
    """
    if not columns:
        return np.zeros(rows, dtype=np.int32), []
    first, *others = (canonical(column).dictionary_encode(null_encoding="encode") for column in columns)
    codes, values = first.indices, [first.dictionary]
    for other in others:
        size = max(1, len(other.dictionary))
        joined = np.asarray(codes, dtype=np.int64) * size + np.asarray(other.indices)
        pairs = pa.array(joined).dictionary_encode()
        known = np.asarray(pairs.dictionary)
        before, here = pa.array(known // size), pa.array(known % size)
        codes, values = pairs.indices, [*(column.take(before) for column in values), other.dictionary.take(here)]
    return np.asarray(codes, dtype=np.int32), values


class KeyDictionary:
    """Rows of key values by code; with no key columns there is one group, code 0.

    >>> keys = KeyDictionary([pa.string(), pa.int32()])
    >>> keys.encode([pa.array(["x", "y", "x"]), pa.array([1, 1, 1], pa.int32())]).tolist()
    [0, 1, 0]
    >>> [column.to_pylist() for column in keys.decode(np.array([1]))]
    [['y'], [1]]
    """

    def __init__(self, types: list[pa.DataType]) -> None:
        self.types = types
        self._columns = [dictionary_of(type) for type in types]
        self._pairs = [ValueDictionary(pa.int64()) for _ in types[1:]]
        self._all: list[pa.Array] | None = None
        self._derived: dict[Hashable, Any] = {}
        self._frozen: KeyDictionary | None = None

    def __len__(self) -> int:
        if not self.types:
            return 1
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0])

    def encode(self, columns: list[pa.Array], rows: int = 0) -> Codes:
        if not columns:
            return np.zeros(rows, dtype=np.int32)
        before = len(self)
        codes = self._columns[0].encode(columns[0])
        for dictionary, pair, column in zip(self._columns[1:], self._pairs, columns[1:], strict=True):
            joined = (codes.astype(np.int64) << 32) | dictionary.encode(column).astype(np.int64)
            codes = pair.encode(pa.array(joined))
        if len(self) != before:
            self._all = None
            self._derived.clear()
            self._frozen = None
        return codes

    def derived(self, name: Hashable, make: Callable[[], T]) -> T:
        """A value made from all groups, cached until a group is added."""
        if name not in self._derived:
            self._derived[name] = make()
        found: T = self._derived[name]
        return found

    def decode(self, codes: NDArray[np.integer]) -> list[pa.Array]:
        columns: list[pa.Array] = []
        for dictionary, pair in zip(reversed(self._columns[1:]), reversed(self._pairs), strict=True):
            joined = np.asarray(pair.decode(codes))
            columns.append(dictionary.decode(joined & 0xFFFFFFFF))
            codes = joined >> 32
        if self._columns:
            columns.append(self._columns[0].decode(codes))
        return columns[::-1]

    def decode_all(self) -> list[pa.Array]:
        """Every group's key values, in the order of codes; cached until a group is added."""
        if self._all is None:
            self._all = self.decode(np.arange(len(self)))
        return self._all

    def frozen(self) -> KeyDictionary:
        """The current groups, for other threads; the same object until a group is added, so they derive things once.

        It is an error to encode with it.
        """
        if self._frozen is None:
            other = KeyDictionary(self.types)
            other._columns = [values.frozen() for values in self._columns]
            other._pairs = [pairs.frozen() for pairs in self._pairs]
            other._all, other._derived = self._all, self._derived.copy()
            self._frozen = other
        return self._frozen

    def compacted(self, live: NDArray[np.bool_]) -> tuple[KeyDictionary, Codes]:
        """A dictionary of the live groups alone, and each old code's new one (-1 for the dead)."""
        fresh = KeyDictionary(self.types)
        kept = np.flatnonzero(live)
        remap = np.full(len(self), -1, dtype=np.int32)
        remap[kept] = fresh.encode(self.decode(kept), len(kept))
        return fresh, remap
