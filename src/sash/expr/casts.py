"""CAST and TRY_CAST as Spark does them in ANSI mode: a value that does not fit is an error, or NULL for TRY_CAST.

A caster makes NULL of a value that it cannot cast; only `cast` decides whether that is an error. Timestamps and dates
are compared in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sash.expr import parsing, time_formats
from sash.expr.decimals import fits, from_unscaled, rescale, unscaled

_DAY, _SECOND = 86_400_000_000, 1_000_000
_NAMES = {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT", pa.bool_(): "BOOLEAN"}


def cast(array: pa.Array, type: pa.DataType, *, strict: bool = True) -> pa.Array:
    """The array in another type; a value that cannot be cast is a ValueError (strict) or NULL."""
    if array.type == type:
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), type)
    if pt.is_floating(array.type) and pt.is_decimal(type):
        # Spark has NULL for these, not an error.
        array = pc.if_else(pc.is_finite(array), array, pa.scalar(None, array.type))
    done = _caster(array.type, type)(array, type)
    lost = pc.and_(array.is_valid(), done.is_null())
    if strict and pc.any(lost).as_py():
        value = array.filter(lost)[0].as_py()
        shown = f"'{value}'" if isinstance(value, str) else value
        raise ValueError(f"{shown} cannot be cast to {_NAMES.get(type, str(type).upper())}")
    return done


def _caster(source: pa.DataType, target: pa.DataType) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    for is_target, casters in _CASTERS:
        if is_target(target):
            for is_source, caster in casters:
                if is_source(source):
                    return caster
    raise ValueError(f"no cast from {source} to {target}")


def _each(convert: Callable[[Any, pa.DataType], Any]) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    """A caster from the conversion of one value, which gives None for a value that it cannot convert."""

    def caster(array: pa.Array, type: pa.DataType) -> pa.Array:
        return pa.array([None if value is None else convert(value, type) for value in array.to_pylist()], type)

    return caster


# -- whole numbers ------------------------------------------------------------------------------------


def _bounds(type: pa.DataType) -> tuple[int, int]:
    return -(2 ** (type.bit_width - 1)), 2 ** (type.bit_width - 1) - 1


def _fitting(number: int, type: pa.DataType) -> int | None:
    low, high = _bounds(type)
    return number if low <= number <= high else None


def _integers_from_integers(array: pa.Array, type: pa.DataType) -> pa.Array:
    if array.type.bit_width < type.bit_width:
        return array.cast(type)
    low, high = _bounds(type)
    inside = pc.and_(pc.greater_equal(array, low), pc.less_equal(array, high))
    return pc.if_else(inside, array, pa.scalar(None, array.type)).cast(type)


def _integers_from_floats(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Towards zero. The greatest BIGINT is 2^63 as a double, and Spark lets that pass."""
    low, high = _bounds(type)
    numbers = np.asarray(array.fill_null(0.0), dtype=np.float64)
    with np.errstate(invalid="ignore"):
        inside = (np.floor(numbers) <= float(high)) & (np.ceil(numbers) >= float(low))
        whole = np.where(numbers >= 2.0**63, np.int64(high), np.where(numbers < 2.0**63, numbers, 0).astype(np.int64))
    return pa.array(whole, mask=~inside | np.asarray(array.is_null())).cast(type)


def _integers_from_decimals(array: pa.Array, type: pa.DataType) -> pa.Array:
    step = 10**array.type.scale
    wholes = [None if n is None else _fitting(abs(n) // step * (1 if n >= 0 else -1), type) for n in unscaled(array)]
    return pa.array(wholes, type)


def _integers_from_timestamps(array: pa.Array, type: pa.DataType) -> pa.Array:
    seconds = np.asarray(array.view(pa.int64()).fill_null(0)) // _SECOND
    return cast(pa.array(seconds, mask=np.asarray(array.is_null())), type, strict=False)


def _integer_from_text(text: str, type: pa.DataType) -> int | None:
    number = parsing.whole(text)
    return None if number is None else _fitting(number, type)


def _from_booleans(array: pa.Array, type: pa.DataType) -> pa.Array:
    return array.cast(pa.int8()).cast(type)


# -- doubles ------------------------------------------------------------------------------------------


def _floats_from_numbers(array: pa.Array, type: pa.DataType) -> pa.Array:
    with np.errstate(over="ignore"):
        numbers = np.asarray(array.fill_null(0)).astype(type.to_pandas_dtype())
    return pa.array(numbers, type, mask=np.asarray(array.is_null()))


def _floats_from_timestamps(array: pa.Array, type: pa.DataType) -> pa.Array:
    seconds = np.asarray(array.view(pa.int64()).fill_null(0)) / _SECOND
    return pa.array(seconds.astype(type.to_pandas_dtype()), type, mask=np.asarray(array.is_null()))


# -- decimals -----------------------------------------------------------------------------------------


def _decimals(numbers: list[int | None], scale: int, type: pa.Decimal128Type) -> pa.Array:
    """From unscaled numbers of some scale."""
    scaled = [None if n is None else rescale(n, scale, type.scale) for n in numbers]
    return from_unscaled([n if n is not None and fits(n, type) else None for n in scaled], type)


def _decimals_from_decimals(array: pa.Array, type: pa.DataType) -> pa.Array:
    return _decimals(unscaled(array), array.type.scale, type)


def _decimals_from_integers(array: pa.Array, type: pa.DataType) -> pa.Array:
    return _decimals(array.cast(pa.int64()).to_pylist(), 0, type)


def _decimals_from_timestamps(array: pa.Array, type: pa.DataType) -> pa.Array:
    return _decimals(array.view(pa.int64()).to_pylist(), 6, type)


def _decimals_from_floats(array: pa.Array, type: pa.DataType) -> pa.Array:
    """A double has the value of its decimal spelling."""
    spelt = [None if x is None else Decimal(repr(x)) for x in array.cast(pa.float64()).to_pylist()]
    return from_unscaled([None if x is None else _unscaled_of(x, type) for x in spelt], type)


def _decimals_from_texts(array: pa.Array, type: pa.DataType) -> pa.Array:
    spelt = [None if text is None else parsing.decimal(text) for text in array.to_pylist()]
    return from_unscaled([None if x is None else _unscaled_of(x, type) for x in spelt], type)


def _unscaled_of(number: Decimal, type: pa.Decimal128Type) -> int | None:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if not any(digits) or len(digits) + exponent < -type.scale:
        return 0
    if len(digits) + exponent > type.precision:
        return None
    whole = int("".join(map(str, digits)))
    scaled = rescale(-whole if sign else whole, -exponent, type.scale)
    return scaled if fits(scaled, type) else None


# -- booleans, strings, moments -----------------------------------------------------------------------


def _booleans_from_numbers(array: pa.Array, type: pa.DataType) -> pa.Array:
    return pc.not_equal(array, pa.scalar(0, array.type))


def _texts_from_decimals(array: pa.Array, type: pa.DataType) -> pa.Array:
    return pa.array([None if number is None else f"{number:f}" for number in array.to_pylist()], type)


def _plainly(array: pa.Array, type: pa.DataType) -> pa.Array:
    return array.cast(type)


def _dates_from_timestamps(array: pa.Array, type: pa.DataType) -> pa.Array:
    days = np.asarray(array.view(pa.int64()).fill_null(0)) // _DAY
    return pa.array(days.astype(np.int32), mask=np.asarray(array.is_null())).view(type)


def _dates_from_texts(array: pa.Array, type: pa.DataType) -> pa.Array:
    days = [None if text is None else parsing.date(text) for text in array.to_pylist()]
    return pa.array(days, pa.int32()).view(type)


def _timestamps(micros: list[int | None], type: pa.DataType) -> pa.Array:
    known = [None if n is None else _fitting(n, pa.int64()) for n in micros]
    return pa.array(known, pa.int64()).view(type)


def _timestamps_from_texts(array: pa.Array, type: pa.DataType) -> pa.Array:
    zoned = type.tz is not None
    return _timestamps([None if t is None else parsing.timestamp(t, zoned=zoned) for t in array.to_pylist()], type)


def _timestamps_from_dates(array: pa.Array, type: pa.DataType) -> pa.Array:
    return _timestamps([None if n is None else n * _DAY for n in array.view(pa.int32()).to_pylist()], type)


def _timestamps_from_timestamps(array: pa.Array, type: pa.DataType) -> pa.Array:
    return array.view(pa.int64()).view(type)


def _timestamps_from_integers(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Seconds; Spark stops at the last timestamp there is."""
    low, high = _bounds(pa.int64())
    return _timestamps([None if n is None else min(max(n * _SECOND, low), high) for n in array.to_pylist()], type)


def _timestamps_from_floats(array: pa.Array, type: pa.DataType) -> pa.Array:
    numbers = array.cast(pa.float64()).to_pylist()
    micros = [None if x is None or not np.isfinite(x) else int(x * _SECOND) for x in numbers]
    low, high = _bounds(pa.int64())
    return _timestamps([None if n is None else min(max(n, low), high) for n in micros], type)


def _timestamps_from_decimals(array: pa.Array, type: pa.DataType) -> pa.Array:
    step = 10**array.type.scale
    return _timestamps(
        [None if n is None else abs(n) * _SECOND // step * (1 if n >= 0 else -1) for n in unscaled(array)], type
    )


_Is = Callable[[pa.DataType], bool]
_Caster = Callable[[pa.Array, pa.DataType], pa.Array]
_CASTERS: tuple[tuple[_Is, tuple[tuple[_Is, _Caster], ...]], ...] = (
    (
        pt.is_integer,
        (
            (pt.is_integer, _integers_from_integers),
            (pt.is_floating, _integers_from_floats),
            (pt.is_decimal, _integers_from_decimals),
            (pt.is_string, _each(_integer_from_text)),
            (pt.is_boolean, _from_booleans),
            (pt.is_timestamp, _integers_from_timestamps),
        ),
    ),
    (
        pt.is_floating,
        (
            (pt.is_integer, _floats_from_numbers),
            (pt.is_floating, _floats_from_numbers),
            (pt.is_decimal, _each(lambda number, type: float(number))),
            (pt.is_string, _each(lambda text, type: parsing.double(text))),
            (pt.is_boolean, _from_booleans),
            (pt.is_timestamp, _floats_from_timestamps),
        ),
    ),
    (
        pt.is_decimal,
        (
            (pt.is_decimal, _decimals_from_decimals),
            (pt.is_integer, _decimals_from_integers),
            (pt.is_floating, _decimals_from_floats),
            (pt.is_string, _decimals_from_texts),
            (pt.is_boolean, _decimals_from_integers),
            (pt.is_timestamp, _decimals_from_timestamps),
        ),
    ),
    (
        pt.is_boolean,
        (
            (lambda type: pt.is_integer(type) or pt.is_floating(type) or pt.is_decimal(type), _booleans_from_numbers),
            (pt.is_string, _each(lambda text, type: parsing.boolean(text))),
        ),
    ),
    (
        pt.is_string,
        (
            (lambda type: pt.is_integer(type) or pt.is_boolean(type) or pt.is_date(type), _plainly),
            (pt.is_decimal, _texts_from_decimals),
            (pt.is_timestamp, lambda array, type: time_formats.cast_to_text(array)),
        ),
    ),
    (pt.is_binary, ((pt.is_string, _plainly),)),
    (pt.is_date, ((pt.is_timestamp, _dates_from_timestamps), (pt.is_string, _dates_from_texts))),
    (
        pt.is_timestamp,
        (
            (pt.is_timestamp, _timestamps_from_timestamps),
            (pt.is_date, _timestamps_from_dates),
            (pt.is_string, _timestamps_from_texts),
            (pt.is_integer, _timestamps_from_integers),
            (pt.is_floating, _timestamps_from_floats),
            (pt.is_decimal, _timestamps_from_decimals),
        ),
    ),
)
