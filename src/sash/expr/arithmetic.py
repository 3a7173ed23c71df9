"""Functions of numbers: checked on whole numbers, IEEE on floats, exact and rounded once on decimals.

ROUND: Spark rounds a half away from zero, and a double's half is that of its decimal spelling.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.expr.comparisons import plain
from sash.expr.decimals import from_unscaled, half_up, rescale, unscaled

# From two unscaled numbers of one scale, and that scale, to an unscaled number and its scale.
_Exact = Callable[[int, int, int], tuple[int, int]]


def _operator(
    machine: Callable[[pa.Array, pa.Array], pa.Array], exact: _Exact, type: pa.DataType, left: pa.Array, right: pa.Array
) -> pa.Array:
    if not pt.is_decimal(left.type):
        return machine(left, right)
    scale = max(left.type.scale, right.type.scale)
    numbers: list[int | None] = []
    for a, b in zip(unscaled(left), unscaled(right), strict=True):
        if a is None or b is None:
            numbers.append(None)
            continue
        n, n_scale = exact(rescale(a, left.type.scale, scale), rescale(b, right.type.scale, scale), scale)
        numbers.append(rescale(n, n_scale, type.scale))
    return from_unscaled(numbers, type)


def _refuse_zero(left: pa.Array, right: pa.Array) -> None:
    """Refuse a division by zero; NULL divided by zero is NULL."""
    zero = pc.and_(pc.equal(right, pa.scalar(0, right.type)), left.is_valid())
    if pc.any(zero).as_py():
        raise ZeroDivisionError("division by zero")


def _divide(type: pa.DataType, left: pa.Array, right: pa.Array) -> pa.Array:
    _refuse_zero(left, right)
    if not pt.is_decimal(left.type):
        return pc.divide(left, right)
    # a / b at the result's scale: one rounding, however many digits it takes
    shift = type.scale - left.type.scale + right.type.scale
    up, down = 10 ** max(shift, 0), 10 ** max(-shift, 0)
    pairs = zip(unscaled(left), unscaled(right), strict=True)
    return from_unscaled([None if a is None or b is None else half_up(a * up, b * down) for a, b in pairs], type)


def _int_divide(type: pa.DataType, left: pa.Array, right: pa.Array) -> pa.Array:
    _refuse_zero(left, right)
    if not pt.is_decimal(left.type):
        return pc.divide_checked(left, right)
    more, less = 10**right.type.scale, 10**left.type.scale
    quotients: list[int | None] = []
    for a, b in zip(unscaled(left), unscaled(right), strict=True):
        if a is None or b is None:
            quotients.append(None)
            continue
        size = (abs(a) * more) // (abs(b) * less)
        quotients.append(size if (a >= 0) == (b > 0) else -size)
    return pa.array(quotients, type)


def _modulo(type: pa.DataType, left: pa.Array, right: pa.Array) -> pa.Array:
    """The remainder, with the dividend's sign."""
    _refuse_zero(left, right)
    return _operator(_machine_modulo, _exact_modulo, type, left, right)


def _machine_modulo(left: pa.Array, right: pa.Array) -> pa.Array:
    missing = np.asarray(pc.or_(left.is_null(), right.is_null()))
    dividend, divisor = (np.where(missing, 1, np.asarray(side.fill_null(1))) for side in (left, right))
    with np.errstate(invalid="ignore"):
        return pa.array(np.fmod(dividend, divisor), left.type, mask=missing)


def _exact_modulo(a: int, b: int, scale: int) -> tuple[int, int]:
    size = abs(a) % abs(b)
    return (size if a >= 0 else -size), scale


# -- rounding ------------------------------------------------------------------------------------------


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
    """Exact if a float computation decides the side for certain; the decimal spelling decides the few others."""
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
    of_doubles: Callable[[NDArray[np.float64]], NDArray[np.float64]], direction: int, type: pa.DataType, value: pa.Array
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


# -- functions of doubles ------------------------------------------------------------------------------


def _logarithm(compute: Callable[[pa.Array], pa.Array], type: pa.DataType, value: pa.Array) -> pa.Array:
    """Spark: NULL where the logarithm does not exist, NaN of NaN."""
    return compute(pc.if_else(pc.less_equal(value, 0.0), pa.scalar(None, value.type), value))


def _power(type: pa.DataType, base: pa.Array, exponent: pa.Array) -> pa.Array:
    """Java's power: NaN whenever the exponent is NaN, and for ±1 to an infinite power, where C has 1."""
    undefined = pc.or_(pc.is_nan(exponent), pc.and_(pc.equal(pc.abs(base), 1.0), pc.is_inf(exponent)))
    return pc.if_else(undefined, pa.scalar(float("nan")), pc.power(base, exponent))


def _sign(type: pa.DataType, value: pa.Array) -> pa.Array:
    return pa.array(np.sign(np.asarray(value.fill_null(0.0))), type, mask=np.asarray(value.is_null()))


# -- NULL instead of an error --------------------------------------------------------------------------


def _attempt(compute: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """The function with NULL for the rows that fail, which are found by halves."""

    def attempt(type: pa.DataType, *arguments: pa.Array) -> pa.Array:
        rows = len(arguments[0])
        try:
            return compute(type, *arguments)
        except (ValueError, ArithmeticError):
            if rows == 1:
                return pa.nulls(1, type)
        half = rows // 2
        parts = ([argument[:half] for argument in arguments], [argument[half:] for argument in arguments])
        return pa.concat_arrays([attempt(type, *part).cast(type) for part in parts])

    return attempt


_CHECKED: dict[str, Callable[..., pa.Array]] = {
    "add": partial(_operator, pc.add_checked, lambda a, b, scale: (a + b, scale)),
    "subtract": partial(_operator, pc.subtract_checked, lambda a, b, scale: (a - b, scale)),
    "multiply": partial(_operator, pc.multiply_checked, lambda a, b, scale: (a * b, 2 * scale)),
    "divide": _divide,
    "int_divide": _int_divide,
    "modulo": _modulo,
}
FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    **_CHECKED,
    **{f"try_{name}": _attempt(_CHECKED[name]) for name in ("add", "subtract", "multiply", "divide", "modulo")},
    "negate": plain(pc.negate_checked),
    "abs": plain(pc.abs_checked),
    "round": _round,
    "ceil": partial(_whole, np.ceil, 1),
    "floor": partial(_whole, np.floor, -1),
    "sqrt": plain(pc.sqrt),
    "exp": plain(pc.exp),
    "ln": partial(_logarithm, pc.ln),
    "log10": partial(_logarithm, pc.log10),
    "log2": partial(_logarithm, pc.log2),
    "power": _power,
    "sign": _sign,
}
