"""Functions of an answer's columns, with Spark's meaning (NULL, NaN, ANSI errors).

`FUNCTIONS` is the closed vocabulary of calls whose arguments are computed first; `evaluate.LAZY` has the others. Each
function takes the type of its result, then its arguments as Arrow arrays of one length. Operands of comparisons and of
arithmetic on machine numbers have equal types already; decimals keep their own. A ValueError or ArithmeticError is an
error of the query.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sash.expr import (
    arithmetic,
    bits,
    comparisons,
    number_formats,
    regular_expressions,
    string_functions,
    time_formats,
    time_functions,
)
from sash.expr.casts import cast

Function = Callable[..., pa.Array]


def _cast(type: pa.DataType, value: pa.Array) -> pa.Array:
    return cast(value, type)


def _try_cast(type: pa.DataType, value: pa.Array) -> pa.Array:
    return cast(value, type, strict=False)


FUNCTIONS: dict[str, Function] = {
    **arithmetic.FUNCTIONS,
    **bits.FUNCTIONS,
    **comparisons.FUNCTIONS,
    **number_formats.FUNCTIONS,
    **regular_expressions.FUNCTIONS,
    **string_functions.FUNCTIONS,
    **time_formats.FUNCTIONS,
    **time_functions.FUNCTIONS,
    "cast": _cast,
    "try_cast": _try_cast,
}
