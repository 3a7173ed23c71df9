"""Values as int64 keys: directories hold whole numbers only.

    type of the column                                       key                              keeps the order
    integers, booleans, dates, times, timestamps             the value                        yes
    unsigned 64-bit integers                                 value - 2**63                    yes
    floating point                                           its bits, reflected below zero   yes
    decimals of up to 18 digits                              the unscaled value               yes
    text, bytes, longer decimals                             a code from a dictionary         no

If keys do not keep the order of the values, ordered lists are sorted by value when they are read. NaN is one value,
greater than all others, and 0.0 and -0.0 are one, as in Spark. NULL has no key: indexes keep it apart. A dictionary
forgets values that have left the index once they are more than the values in the index.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.expr.value_codes import ValueDictionary
from sash.rows.directory import Directory

Ints = NDArray[np.int64]

_MOST_DIGITS = 18
# A dictionary of values is rebuilt when it exceeds twice the needed length by this much.
_SLACK = 1024


class Keys(Protocol):
    """How the values of one column become keys and come back. Columns have no NULLs here."""

    ordered: bool

    def encode(self, column: pa.Array) -> Ints: ...

    def find(self, column: pa.Array) -> tuple[Ints, NDArray[np.bool_]]:
        """Existing keys, and which values have one."""
        ...

    def decode(self, keys: Ints) -> pa.Array: ...


class _OrderedValues(ABC):
    ordered = True

    def __init__(self, type: pa.DataType) -> None:
        self.type = type

    def find(self, column: pa.Array) -> tuple[Ints, NDArray[np.bool_]]:
        keys = self.encode(column)
        return keys, np.ones(len(keys), dtype=bool)

    @abstractmethod
    def encode(self, column: pa.Array) -> Ints: ...


class WholeKeys(_OrderedValues):
    """The value itself; the fast path.

    >>> WholeKeys(pa.date32()).encode(pa.array([3, -1], pa.date32())).tolist()
    [3, -1]
    """

    def encode(self, column: pa.Array) -> Ints:
        if pa.types.is_uint64(self.type):
            return (np.array(column) ^ np.uint64(2**63)).view(np.int64)
        if pa.types.is_boolean(self.type):
            column = column.cast(pa.int8())
        elif not pa.types.is_integer(self.type):
            column = column.view(_storage(self.type))
        # A copy: arrays that may be written to are the only kind that kernels are compiled for.
        return np.array(column).astype(np.int64, copy=False)

    def decode(self, keys: Ints) -> pa.Array:
        if pa.types.is_uint64(self.type):
            return pa.array(keys.view(np.uint64) ^ np.uint64(2**63))
        if pa.types.is_boolean(self.type):
            return pa.array(keys.astype(bool))
        if pa.types.is_integer(self.type):
            return pa.array(keys).cast(self.type)
        return pa.array(keys).cast(_storage(self.type)).view(self.type)


class FloatKeys(_OrderedValues):
    """Bits in the order of the numbers: the bits of negative numbers descend, and are inverted.

    >>> keys = FloatKeys(pa.float64())
    >>> bool((np.diff(keys.encode(pa.array([float("-inf"), -1.5, 0.0, 2.0, float("nan")]))) > 0).all())
    True
    """

    def encode(self, column: pa.Array) -> Ints:
        # Adding a zero makes both zeros one.
        numbers = np.array(column) + self.type.to_pandas_dtype()(0.0)
        numbers[np.isnan(numbers)] = np.nan
        bits = numbers.view(self._whole)
        return np.where(bits < 0, bits ^ self._reflect, bits).astype(np.int64)

    def decode(self, keys: Ints) -> pa.Array:
        bits = keys.astype(self._whole)
        return pa.array(np.where(bits < 0, bits ^ self._reflect, bits).view(self.type.to_pandas_dtype()), self.type)

    @property
    def _whole(self) -> np.dtype[Any]:
        """Whole numbers of the same width."""
        return np.dtype(f"i{self.type.bit_width // 8}")

    @property
    def _reflect(self) -> Any:
        return np.iinfo(self._whole).max


class DecimalKeys(_OrderedValues):
    """The unscaled value: 12.50 is 1250.

    >>> from decimal import Decimal
    >>> keys = DecimalKeys(pa.decimal128(5, 2))
    >>> keys.encode(pa.array([Decimal("12.50"), Decimal("-0.01")], keys.type)).tolist()
    [1250, -1]
    """

    def encode(self, column: pa.Array) -> Ints:
        wide = column.cast(pa.decimal128(38, self.type.scale))
        words = np.frombuffer(wide.buffers()[1], dtype=np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide))]
        return np.ascontiguousarray(words[::2])

    def decode(self, keys: Ints) -> pa.Array:
        words = np.stack([keys, keys >> 63], axis=1)
        wide = pa.Array.from_buffers(pa.decimal128(38, self.type.scale), len(keys), [None, pa.py_buffer(words)])
        return wide.cast(self.type)


class DictionaryKeys:
    """A code per value, in no particular order.

    >>> keys = DictionaryKeys(pa.string())
    >>> keys.encode(pa.array(["b", "a", "b"])).tolist()
    [1, 0, 1]
    """

    ordered = False

    def __init__(self, type: pa.DataType) -> None:
        self.type = type
        self._dictionary = ValueDictionary(type)

    def __len__(self) -> int:
        return len(self._dictionary)

    def encode(self, column: pa.Array) -> Ints:
        return self._dictionary.encode(column).astype(np.int64)

    def find(self, column: pa.Array) -> tuple[Ints, NDArray[np.bool_]]:
        found = pc.index_in(column, value_set=self._dictionary.values)
        return np.array(found.fill_null(-1), dtype=np.int64), np.array(found.is_valid())

    def decode(self, keys: Ints) -> pa.Array:
        return self._dictionary.decode(keys)

    def forget_all_but(self, keys: Ints) -> Ints:
        """Keep only the values of these keys; returns their new keys."""
        kept = self.decode(keys)
        self._dictionary = ValueDictionary(self.type)
        return self.encode(kept)


def keys_of(type: pa.DataType) -> Keys:
    """How values of a type become keys; a type without an order is refused.

    >>> keys_of(pa.list_(pa.int64()))
    Traceback (most recent call last):
    TypeError: a column of list<item: int64> cannot be indexed: its values have no order
    """
    if pa.types.is_dictionary(type):
        return keys_of(type.value_type)
    if pa.types.is_integer(type) or pa.types.is_boolean(type) or pa.types.is_temporal(type):
        return WholeKeys(type)
    if pa.types.is_floating(type):
        return FloatKeys(type)
    if pa.types.is_decimal128(type) and type.precision <= _MOST_DIGITS:
        return DecimalKeys(type)
    if pa.types.is_decimal(type) or _is_text(type):
        return DictionaryKeys(type)
    raise TypeError(f"a column of {type} cannot be indexed: its values have no order")


def forget_values(keys: Keys, directory: Directory) -> None:
    """Rebuild a dictionary that has many more values than the directory has entries."""
    if isinstance(keys, DictionaryKeys) and len(keys) > 2 * len(directory) + _SLACK:
        entries = directory.ordered()
        directory.rekey(entries, keys.forget_all_but(directory.keys[entries]))


def can_be_indexed(type: pa.DataType) -> bool:
    """Whether values of a type have keys.

    >>> can_be_indexed(pa.string()), can_be_indexed(pa.null())
    (True, False)
    """
    try:
        keys_of(type)
    except TypeError:
        return False
    return True


def _is_text(type: pa.DataType) -> bool:
    types = pa.types
    return any(test(type) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary))


def _storage(type: pa.DataType) -> pa.DataType:
    return pa.int32() if type.bit_width == 32 else pa.int64()


def without_nulls(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The values of a column in one piece, not as dictionary codes, and which rows have one."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not column.null_count:
        return column, np.ones(len(column), dtype=bool)
    return column.drop_null(), np.array(column.is_valid())
