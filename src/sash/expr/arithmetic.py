"""+ - * / DIV % and signs: checked on whole numbers, IEEE on floats, exact and rounded once on decimals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sash.expr.decimals import from_unscaled, half_up, rescale, unscaled

# From two unscaled numbers of one scale, and that scale, to an unscaled number and its scale.
_Exact = Callable[[int, int, int], tuple[int, int]]


def _operator(
    machine: Callable[[pa.Array, pa.Array], pa.Array],
    exact: _Exact,
    type: pa.DataType,
    left: pa.Array,
    right: pa.Array,
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
    """NULL divided by zero is NULL; any other value is an error."""
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
    """The sign is the dividend's."""
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


def _negate(type: pa.DataType, value: pa.Array) -> pa.Array:
    return pc.negate_checked(value)


def _abs(type: pa.DataType, value: pa.Array) -> pa.Array:
    return pc.abs_checked(value)


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "add": partial(_operator, pc.add_checked, lambda a, b, scale: (a + b, scale)),
    "subtract": partial(_operator, pc.subtract_checked, lambda a, b, scale: (a - b, scale)),
    "multiply": partial(_operator, pc.multiply_checked, lambda a, b, scale: (a * b, 2 * scale)),
    "divide": _divide,
    "int_divide": _int_divide,
    "modulo": _modulo,
    "negate": _negate,
    "abs": _abs,
}
