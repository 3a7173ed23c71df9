"""Numbers as text, with commas: FORMAT_NUMBER.

A half goes to the even digit; a double has its exact value. Behind the fifteenth digit of a double, versions of Java
differ: such a double is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

import pyarrow as pa
import pyarrow.types as pt

# More digits than any double or decimal has, and those of a double on which all agree.
_DIGITS, _SURE_DIGITS = 1500, 15


def _format_number(type: pa.DataType, numbers: pa.Array, places: pa.Array) -> pa.Array:
    if pt.is_float32(numbers.type):
        numbers = numbers.cast(pa.float64())
    rows = zip(numbers.to_pylist(), places.to_pylist(), strict=True)
    return pa.array([None if x is None or d is None or d < 0 else _written(x, d) for x, d in rows], type)


def _written(number: float | Decimal, places: int) -> str:
    """
    >>> _written(12332.5, 0), _written(-0.001, 2)
    ('12,332', '-0.00')
    """
    if isinstance(number, float) and not math.isfinite(number):
        return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
    with localcontext() as context:
        context.prec = _DIGITS
        exact = Decimal(number)
        if isinstance(number, float) and max(exact.adjusted() + 1, 1) + places > _SURE_DIGITS:
            raise ValueError(f"{number} has more than {_SURE_DIGITS} digits so; CAST it to a DECIMAL first")
        return f"{exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN):,f}"


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {"format_number": _format_number}
