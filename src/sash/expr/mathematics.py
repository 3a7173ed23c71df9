"""Functions of doubles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def _function(compute: Callable[[pa.Array], pa.Array], type: pa.DataType, value: pa.Array) -> pa.Array:
    return compute(value)


def _logarithm(compute: Callable[[pa.Array], pa.Array], type: pa.DataType, value: pa.Array) -> pa.Array:
    """Spark: NULL where the logarithm does not exist, NaN of NaN."""
    return compute(pc.if_else(pc.less_equal(value, 0.0), pa.scalar(None, value.type), value))


def _power(type: pa.DataType, base: pa.Array, exponent: pa.Array) -> pa.Array:
    """Java's: NaN wherever the exponent is NaN, and for ±1 to an infinite power, where C says 1."""
    undefined = pc.or_(pc.is_nan(exponent), pc.and_(pc.equal(pc.abs(base), 1.0), pc.is_inf(exponent)))
    return pc.if_else(undefined, pa.scalar(float("nan")), pc.power(base, exponent))


def _sign(type: pa.DataType, value: pa.Array) -> pa.Array:
    return pa.array(np.sign(np.asarray(value.fill_null(0.0))), type, mask=np.asarray(value.is_null()))


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "sqrt": partial(_function, pc.sqrt),
    "exp": partial(_function, pc.exp),
    "ln": partial(_logarithm, pc.ln),
    "log10": partial(_logarithm, pc.log10),
    "log2": partial(_logarithm, pc.log2),
    "power": _power,
    "sign": _sign,
}
