"""The count-min sketch of COUNT_MIN(x, value), as the keys of a pane table (Cormode and Muthukrishnan 2005).

    x of a tuple ─► hash ─┬─► row 1   | . | . | 1 | . | .. |     one key of the table is a counter, so Spark counts a
                          └─► row 2   | 1 | . | . | . | .. |     tuple once in each row of counters

    estimate of a value   the least of its counters: no other value takes anything from them

A table of counters is a table like any other: its counts are added, taken back, revised and scaled, and a group with
few values has few rows. It has at most ROWS x COUNTERS rows for each pane and group, however many values there are.
Spark's own `count_min_sketch` has 112 kB for each pane and group, however few values there are.

A counter has, on average, 1 / COUNTERS of the other values' tuples, so that it has more than EPSILON of them in at most
1 / (EPSILON x COUNTERS) of all cases, here one in ten; both rows do so in one of 100.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sash.panes.sketches import as_number
from sash.plan.expressions import RowExpression

EPSILON = 0.001
ROWS, COUNTERS = 2, 10_000
MOST_COUNTERS = ROWS * COUNTERS
# Python's own context rounds to 28 digits.
EXACTLY = Context(prec=76)


@dataclass(frozen=True)
class CounterKey(RowExpression):
    """The counters of an argument's values, as a key of a pane table; NULL has none. Its text is no SQL."""

    argument: RowExpression = field(kw_only=True)

    def of_row(self, row: int) -> RowExpression:
        """The counter of a tuple in one row."""
        bits = f"shiftright(xxhash64({_hashed(self.argument)}), {32 * row})"
        counter = f"CAST(pmod({bits}, {COUNTERS}) AS INT) + {row * COUNTERS}"
        return RowExpression(f"CASE WHEN ({self.argument.sql}) IS NOT NULL THEN {counter} END", self.type, self.columns)


def counter_key(argument: RowExpression) -> CounterKey:
    return CounterKey(f"{MOST_COUNTERS} counters of {argument.sql}", pa.int32(), argument.columns, argument=argument)


def keys_of_rows(keys: Sequence[RowExpression]) -> list[tuple[RowExpression, ...]]:
    """The keys under which a tuple is counted: one set of keys, or one for each row of counters."""
    if not any(isinstance(key, CounterKey) for key in keys):
        return [tuple(keys)]
    return [tuple(key.of_row(row) if isinstance(key, CounterKey) else key for key in keys) for row in range(ROWS)]


def counters_of(value: pa.Scalar) -> tuple[int, ...]:
    """The counters of a value, one in each row.

    >>> counters_of(pa.scalar(7)), counters_of(pa.scalar("seven"))
    ((337, 13779), (6130, 13361))
    """
    bits = xxhash64(_bytes(value))
    return tuple((bits >> 32 * row) % COUNTERS + row * COUNTERS for row in range(ROWS))


# -- one hash in two places --------------------------------------------------------------------------------


def _hashed(argument: RowExpression) -> str:
    """The SQL that Spark hashes: 8 bytes for numbers and times, the bytes of a text, the digits of a decimal.

    Two values have the same bytes exactly if Spark calls them equal: -0.0 is 0.0, and all NaN are one value.
    """
    number = as_number(argument)
    if number is not None:
        return number
    return f"CAST({argument.sql} AS DOUBLE) + 0D" if pt.is_floating(argument.type) else argument.sql


def _bytes(value: pa.Scalar) -> bytes:
    """The bytes that Spark hashes of such a value."""
    type, plain = value.type, value.as_py()
    if pt.is_floating(type):
        return struct.pack("<d", np.nan if plain != plain else plain + 0.0)
    if pt.is_decimal(type):
        digits = int(plain.scaleb(type.scale, EXACTLY))
        size = (digits if digits >= 0 else ~digits).bit_length() // 8 + 1
        return struct.pack("<q", digits) if type.precision <= 18 else digits.to_bytes(size, "big", signed=True)
    if pt.is_date32(type) or pt.is_timestamp(type):
        plain = value.cast(pa.int32() if pt.is_date32(type) else pa.int64()).as_py()
    if isinstance(plain, bytes):
        return plain
    return plain.encode() if isinstance(plain, str) else struct.pack("<q", plain)


_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_ALL = 2**64 - 1
# Spark's.
_SEED = 42


def xxhash64(data: bytes) -> int:
    """The function of Spark's name over bytes: xxHash by Yann Collet, with Spark's seed, as a signed number."""
    whole = len(data) - len(data) % 32
    found = _SEED + _P5
    if whole:
        lanes = [_SEED + _P1 + _P2, _SEED + _P2, _SEED, _SEED - _P1]
        for words in struct.iter_unpack("<4Q", data[:whole]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        found = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            found = (found ^ _round(0, lane)) * _P1 + _P4 & _ALL
    found, rest = found + len(data), data[whole:]
    for (word,) in struct.iter_unpack("<Q", rest[: len(rest) // 8 * 8]):
        found = _rotated(found ^ _round(0, word), 27) * _P1 + _P4
    rest = rest[len(rest) // 8 * 8 :]
    if len(rest) >= 4:
        found, rest = _rotated(found ^ int.from_bytes(rest[:4], "little") * _P1, 23) * _P2 + _P3, rest[4:]
    for byte in rest:
        found = _rotated(found ^ byte * _P5, 11) * _P1
    for shift, factor in ((33, _P2), (29, _P3), (32, 1)):
        found &= _ALL
        found = (found ^ found >> shift) * factor
    return found - (found >> 63 << 64)


def _rotated(bits: Any, by: int) -> int:
    bits &= _ALL
    return (bits << by | bits >> 64 - by) & _ALL


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * _P2, 31) * _P1 & _ALL
