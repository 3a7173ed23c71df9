"""Bit operators. A shift goes by the last five bits of its distance, or six for a BIGINT, as in Java."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.expr.comparisons import plain

_Integers = NDArray[np.int64]


def _shift(unsigned: bool, compute: Callable[[_Integers, _Integers], _Integers]) -> Callable[..., pa.Array]:
    def shift(type: pa.DataType, value: pa.Array, distance: pa.Array) -> pa.Array:
        missing = np.asarray(pc.or_(value.is_null(), distance.is_null()))
        numbers = np.asarray(value.fill_null(0))
        places = np.asarray(distance.fill_null(0)).astype(numbers.dtype) & (type.bit_width - 1)
        if unsigned:
            numbers, places = (part.view(f"u{numbers.dtype.itemsize}") for part in (numbers, places))
        return pa.array(compute(numbers, places).view(f"i{numbers.dtype.itemsize}"), type, mask=missing)

    return shift


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "bit_and": plain(pc.bit_wise_and),
    "bit_or": plain(pc.bit_wise_or),
    "bit_xor": plain(pc.bit_wise_xor),
    "bit_not": plain(pc.bit_wise_not),
    "shiftleft": _shift(False, np.left_shift),
    "shiftright": _shift(False, np.right_shift),
    "shiftrightunsigned": _shift(True, np.right_shift),
}
