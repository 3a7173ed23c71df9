"""ROUND, CEIL and FLOOR. Spark rounds a half away from zero, and a double's half is that of its decimal spelling."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.expr.decimals import from_unscaled, half_up, rescale, unscaled

_DOUBLE_DIGITS = 700  # more than any double has before and behind its point
# Below this, scaling a double and spelling it in decimals are each off by less than half of 1e-6.
_SURE = 2.0**32


def _round(type: pa.DataType, value: pa.Array, digits: pa.Array | None = None) -> pa.Array:
    places = digits[0].as_py() if digits is not None and len(digits) else 0
    if pt.is_decimal(value.type):
        return _round_decimals(value, places, type)
    if pt.is_floating(value.type):
        numbers = np.asarray(value.fill_null(0.0), dtype=np.float64)
        with np.errstate(over="ignore"):
            rounded = _round_doubles(numbers, places).astype(value.type.to_pandas_dtype())
        return pa.array(rounded, type, mask=np.asarray(value.is_null()))
    if places >= 0:
        return value
    step = 10**-places
    return pa.array([None if n is None else half_up(n, step) * step for n in value.to_pylist()], type)


def _round_decimals(value: pa.Array, places: int, type: pa.Decimal128Type) -> pa.Array:
    scale = value.type.scale
    kept = min(places, scale)
    numbers = [None if n is None else rescale(rescale(n, scale, kept), kept, type.scale) for n in unscaled(value)]
    return from_unscaled(numbers, type)


def _round_doubles(numbers: NDArray[np.float64], places: int) -> NDArray[np.float64]:
    """Exact where a float computation is sure of the side; the decimal spelling decides the few others."""
    sure = np.zeros(len(numbers), dtype=bool)
    result = numbers.copy()
    if 0 <= places <= 15:
        power = 10.0**places
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.abs(numbers) * power
            sure = (scaled < _SURE) & (np.abs(scaled - np.floor(scaled) - 0.5) > 1e-6)
            result = np.where(sure, np.copysign(np.floor(scaled + 0.5) / power, numbers) + 0.0, numbers)
    for place in np.flatnonzero(~sure & np.isfinite(numbers)):
        result[place] = _round_double(float(numbers[place]), places)
    return result


def _round_double(number: float, places: int) -> float:
    with localcontext() as context:
        context.prec = _DOUBLE_DIGITS
        spelt = Decimal(repr(number))
        if -spelt.as_tuple().exponent <= places:  # type: ignore[operator]
            return number
        if spelt.adjusted() < -places - 1:
            return 0.0
        return float(spelt.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def _whole(
    of_doubles: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    direction: int,
    type: pa.DataType,
    value: pa.Array,
) -> pa.Array:
    """CEIL (direction 1) or FLOOR (-1)."""
    if pt.is_decimal(value.type):
        step = 10**value.type.scale
        return from_unscaled([n if n is None else direction * -(-direction * n // step) for n in unscaled(value)], type)
    if not pt.is_floating(value.type):
        return value.cast(type)
    # Spark makes 0 of NaN here, and takes 2^63 for the greatest BIGINT.
    numbers = np.nan_to_num(
        of_doubles(np.asarray(value.fill_null(0.0), dtype=np.float64)), posinf=np.inf, neginf=-np.inf
    )
    if np.any(np.abs(numbers) > 2.0**63):
        raise OverflowError("a value does not fit into BIGINT")
    whole = np.where(numbers >= 2.0**63, 0.0, numbers).astype(np.int64)
    return pa.array(np.where(numbers >= 2.0**63, np.iinfo(np.int64).max, whole), mask=np.asarray(value.is_null()))


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "round": _round,
    "ceil": partial(_whole, np.ceil, 1),
    "floor": partial(_whole, np.floor, -1),
}
