"""Decimals as whole numbers: exact arithmetic of any width, rounded half up once, at the end.

Arrow's own decimal kernels refuse a result of more than 38 digits even where Spark gives it fewer places behind
the point, and Python's Decimal rounds to 28 digits unless told otherwise; whole numbers do neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def unscaled(array: pa.Array) -> list[int | None]:
    """The whole numbers behind a decimal128 array: 1.50 is 150.

    >>> from decimal import Decimal
    >>> unscaled(pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(38, 2)))
    [150, None, -1]
    """
    words = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset * 2 : (array.offset + len(array)) * 2]
    lows, highs = words[::2].view(np.uint64).tolist(), words[1::2].tolist()
    numbers: list[int | None] = [(high << 64) + low for low, high in zip(lows, highs, strict=True)]
    if array.null_count:
        numbers = [n if valid else None for n, valid in zip(numbers, array.is_valid().to_pylist(), strict=True)]
    return numbers


def from_unscaled(numbers: Sequence[int | None], type: pa.Decimal128Type) -> pa.Array:
    """The inverse; OverflowError when a number has more digits than the type.

    >>> from_unscaled([150, None, -1], pa.decimal128(3, 2)).to_pylist()
    [Decimal('1.50'), None, Decimal('-0.01')]
    """
    if not all(n is None or fits(n, type) for n in numbers):
        raise OverflowError(f"a value does not fit into DECIMAL({type.precision},{type.scale})")
    data = b"".join((n or 0).to_bytes(16, "little", signed=True) for n in numbers)
    valid = np.array([n is not None for n in numbers], dtype=bool)
    mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type, len(numbers), [mask, pa.py_buffer(data)])


def fits(number: int, type: pa.Decimal128Type) -> bool:
    return abs(number) < 10**type.precision


def half_up(numerator: int, denominator: int) -> int:
    """The nearest whole number, a half away from zero, as Spark rounds.

    >>> half_up(5, 2), half_up(-5, 2), half_up(7, -3)
    (3, -3, -2)
    """
    size = (2 * abs(numerator) + abs(denominator)) // (2 * abs(denominator))
    return size if (numerator >= 0) == (denominator > 0) else -size


def rescale(number: int, scale: int, target: int) -> int:
    """The same value with another number of places behind the point, rounded half up.

    >>> rescale(150, 2, 4), rescale(155, 2, 1)
    (15000, 16)
    """
    return number * 10 ** (target - scale) if target >= scale else half_up(number, 10 ** (scale - target))
