"""Spark's xxhash64 of a column, in the Sash process: a tuple's bucket is the same wherever it is computed.

Spark's generated code spreads the tuples of windows, this module the changes between stages. The hash is XXH64 with the
seed 42, of a number's four or eight bytes, of a text's bytes, of a decimal's unscaled value (as a long up to 18
digits, else as the bytes of a BigInteger). NULL is the seed itself; -0.0 is 0.0, and all NaNs are one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numba import njit
from numpy.typing import NDArray

SEED = 42
# Any number of this many digits fits into a long.
LONG_DIGITS = 18
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_SEED = np.uint64(SEED)
_LOW = np.uint64(0xFFFFFFFF)

Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]


def buckets_of(column: pa.ChunkedArray, buckets: int) -> Int64s:
    """The bucket of each value."""
    if buckets == 1:
        return np.zeros(len(column), dtype=np.int64)
    return hashes(column) % buckets


def hashes(column: pa.ChunkedArray) -> Int64s:
    """xxhash64 of each value."""
    if not len(column):
        return np.zeros(0, dtype=np.int64)
    array = pa.concat_arrays(column.chunks)
    found = _hashed(array).view(np.int64)
    return np.where(np.asarray(array.is_null()), SEED, found) if array.null_count else found


def _hashed(array: pa.Array) -> UInt64s:
    type = array.type
    if pt.is_string(type) or pt.is_binary(type) or pt.is_large_string(type) or pt.is_large_binary(type):
        return kernel_hash_bytes(*_bytes_of(array))
    if pt.is_decimal128(type):
        low, high = _halves(array)
        return _hash_longs(low) if type.precision <= LONG_DIGITS else kernel_hash_bytes(*_big_integers(low, high))
    if pt.is_floating(type):
        return _hash_floats(np.asarray(array.fill_null(0.0)))
    if pt.is_int64(type) or pt.is_timestamp(type):
        values = array.cast(pa.timestamp("us", type.tz)) if pt.is_timestamp(type) else array
        return _hash_longs(np.asarray(values.cast(pa.int64()).fill_null(0)).view(np.uint64))
    return _hash_ints(np.asarray(array.cast(pa.int32()).fill_null(0)))


def _hash_ints(values: NDArray[np.int32]) -> UInt64s:
    mixed = (_SEED + _P5 + np.uint64(4)) ^ ((values.astype(np.int64).view(np.uint64) & _LOW) * _P1)
    return _finished(_rotated(mixed, 23) * _P2 + _P3)


def _hash_longs(values: UInt64s) -> UInt64s:
    mixed = (_SEED + _P5 + np.uint64(8)) ^ (_rotated(values * _P2, 31) * _P1)
    return _finished(_rotated(mixed, 27) * _P1 + _P4)


def _hash_floats(values: NDArray[Any]) -> UInt64s:
    """Hash the bits; adding 0.0 makes -0.0 equal to 0.0."""
    plain = np.where(np.isnan(values), np.array(np.nan, values.dtype), values + values.dtype.type(0))
    if values.dtype == np.float32:
        return _hash_ints(plain.view(np.int32))
    return _hash_longs(plain.view(np.uint64))


def _rotated(values: UInt64s, by: int) -> UInt64s:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _finished(values: UInt64s) -> UInt64s:
    values = (values ^ (values >> np.uint64(33))) * _P2
    values = (values ^ (values >> np.uint64(29))) * _P3
    return values ^ (values >> np.uint64(32))


# -- bytes ----------------------------------------------------------------------------------------------


def _bytes_of(array: pa.Array) -> tuple[NDArray[np.uint8], Int64s]:
    """The bytes of all values, and where each begins; the last entry is their end."""
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(data if data is not None else b"", dtype=np.uint8), starts


def _halves(decimals: pa.Array) -> tuple[UInt64s, UInt64s]:
    """The unscaled values, 128 bits each: the lower and the upper half. NULL may have any value."""
    words = np.frombuffer(decimals.buffers()[1], dtype=np.uint64)
    words = words[2 * decimals.offset : 2 * (decimals.offset + len(decimals))]
    return words[0::2].copy(), words[1::2].copy()


def _big_integers(low: UInt64s, high: UInt64s) -> tuple[NDArray[np.uint8], Int64s]:
    """The bytes of Java's BigInteger.toByteArray: two's complement, the highest byte first, no more than needed."""
    written = np.stack([high, low], axis=1).astype(">u8").view(np.uint8)
    sign = np.where(written[:, :1] >= 128, np.uint8(255), np.uint8(0))
    # A leading byte goes while it only repeats the sign of the byte after it.
    repeats = (written[:, :-1] == sign) & ((written[:, 1:] >= 128) == (sign >= 128))
    first = np.cumprod(repeats, axis=1).sum(axis=1)
    kept = np.arange(16) >= first[:, None]
    return written[kept], np.append(0, np.cumsum(16 - first)).astype(np.int64)


@njit(cache=True, inline="always")
def _rotate(value: Any, by: int) -> Any:
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


@njit(cache=True, inline="always")
def _word(data: NDArray[np.uint8], at: int, size: int) -> Any:
    """Bytes as a number, the lowest first."""
    found = np.uint64(0)
    for i in range(size):
        found |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return found


@njit(cache=True, inline="always")
def _round(lane: Any, word: Any) -> Any:
    return _rotate(lane + word * _P2, 31) * _P1


@njit(cache=True)
def kernel_hash_bytes(data: NDArray[np.uint8], starts: Int64s) -> UInt64s:
    """XXH64 of the bytes between each two entries of `starts`."""
    found = np.empty(len(starts) - 1, np.uint64)
    for place in range(len(found)):
        at, end = starts[place], starts[place + 1]
        length = np.uint64(end - at)
        if end - at >= 32:
            v1, v2, v3, v4 = _SEED + _P1 + _P2, _SEED + _P2, _SEED, _SEED - _P1
            while at + 32 <= end:
                v1, v2 = _round(v1, _word(data, at, 8)), _round(v2, _word(data, at + 8, 8))
                v3, v4 = _round(v3, _word(data, at + 16, 8)), _round(v4, _word(data, at + 24, 8))
                at += 32
            mixed = _rotate(v1, 1) + _rotate(v2, 7) + _rotate(v3, 12) + _rotate(v4, 18)
            for lane in (v1, v2, v3, v4):
                mixed = (mixed ^ _round(np.uint64(0), lane)) * _P1 + _P4
        else:
            mixed = _SEED + _P5
        mixed += length
        while at + 8 <= end:
            mixed = _rotate(mixed ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
            at += 8
        if at + 4 <= end:
            mixed = _rotate(mixed ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
            at += 4
        while at < end:
            mixed = _rotate(mixed ^ (np.uint64(data[at]) * _P5), 11) * _P1
            at += 1
        mixed = (mixed ^ (mixed >> np.uint64(33))) * _P2
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _P3
        found[place] = mixed ^ (mixed >> np.uint64(32))
    return found
