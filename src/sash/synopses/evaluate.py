"""Expressions over an answer's groups, evaluated on Arrow arrays with Spark's meaning (NULL, NaN, ANSI errors).

`FUNCTIONS` is the closed vocabulary: the binder produces no other names. Operands of arithmetic and
comparisons have equal types already; each result is cast to the type that the binder gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sash.core.errors import QueryFailedError
from sash.plan.expressions import Call, Expression, Field, Literal

Array = pa.Array


def evaluate(expression: Expression, fields: Mapping[str, Array], rows: int) -> Array:
    """The expression's column over `rows` groups; QueryFailedError where Spark would raise."""
    if isinstance(expression, Field):
        return fields[expression.name]
    if isinstance(expression, Literal):
        return pa.repeat(pa.scalar(expression.value, expression.type), rows)
    if expression.function in LAZY:
        return _as(LAZY[expression.function](expression, fields, rows), expression.type)
    arguments = [evaluate(argument, fields, rows) for argument in expression.arguments]
    try:
        return _as(FUNCTIONS[expression.function](*arguments), expression.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise QueryFailedError(f"{expression}: {str(error).splitlines()[0]}") from None


def _as(array: Array | pa.ChunkedArray, type: pa.DataType) -> Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == type else array.cast(type)


def _comparison(
    function: Callable[[Array, Array], Array], nan_like: Callable[[Array, Array], Array]
) -> Callable[[Array, Array], Array]:
    """Spark compares NaN as equal to itself and greater than any number; IEEE does not."""

    def compare(left: Array, right: Array) -> Array:
        if not pt.is_floating(left.type):
            return function(left, right)
        ranks = [pc.is_nan(side).cast(pa.int8()) for side in (left, right)]
        return pc.if_else(pc.equal(pc.add(*ranks), 0), function(left, right), nan_like(*ranks))

    return compare


def _divide(left: Array, right: Array) -> Array:
    _refuse_zero(left, right)
    return pc.divide(left, right) if pt.is_decimal(left.type) else pc.divide_checked(left, right)


def _refuse_zero(left: Array, right: Array) -> None:
    zero = pc.and_kleene(pc.equal(right, pa.scalar(0).cast(right.type)), left.is_valid())
    if pc.any(zero).as_py():
        raise pa.ArrowInvalid("division by zero")


def _int_divide(left: Array, right: Array) -> Array:
    _refuse_zero(left, right)
    quotient = pc.divide(left, right)
    return pc.trunc(quotient).cast(pa.int64()) if not pt.is_integer(left.type) else quotient


def _modulo(left: Array, right: Array) -> Array:
    _refuse_zero(left, right)
    if pt.is_decimal(left.type):
        whole = pc.trunc(pc.divide(left, right))
        return pc.subtract(left, pc.multiply(whole.cast(pa.decimal128(38, 0)), right))
    valid = pc.and_(left.is_valid(), right.is_valid())
    filled = [np.asarray(side.fill_null(1)) for side in (left, right)]
    return pa.array(np.fmod(*filled), left.type, mask=~np.asarray(valid))


def _null_safe_eq(left: Array, right: Array) -> Array:
    both = pc.and_(left.is_null(), right.is_null())
    return pc.or_(both, FUNCTIONS["eq"](left, right).fill_null(False))


def _is_in(value: Array, *items: Array) -> Array:
    return reduce(pc.or_kleene, [FUNCTIONS["eq"](value, item) for item in items])


def _like(value: Array, pattern: Array) -> Array:
    return pc.match_like(value, pattern[0].as_py()) if len(pattern) else pa.array([], pa.bool_())


def _round(value: Array, digits: Array | None = None) -> Array:
    places = digits[0].as_py() if digits is not None and len(digits) else 0
    return pc.round(value, ndigits=places, round_mode="half_towards_infinity")


def _nullif(value: Array, other: Array) -> Array:
    return pc.if_else(FUNCTIONS["eq"](value, other).fill_null(False), pa.scalar(None, value.type), value)


def _extreme(pick: str) -> Callable[..., Array]:
    def choose(*arguments: Array) -> Array:
        return reduce(lambda a, b: _pick(FUNCTIONS[pick], a, b), arguments)

    return choose


def _pick(better: Callable[[Array, Array], Array], left: Array, right: Array) -> Array:
    """GREATEST and LEAST skip NULLs."""
    chosen = pc.if_else(better(left, right).fill_null(False), left, right)
    return pc.coalesce(
        pc.if_else(pc.and_(left.is_valid(), right.is_valid()), chosen, pa.scalar(None, left.type)), left, right
    )


def _substring(value: Array, start: Array, length: Array | None = None) -> Array:
    if not len(value):
        return value
    first = start[0].as_py()
    begin = first - 1 if first > 0 else first
    stop = None if length is None else begin + max(0, length[0].as_py())
    return pc.utf8_slice_codeunits(value, begin, None if stop == 0 and begin < 0 else stop)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "divide": _divide,
    "int_divide": _int_divide,
    "modulo": _modulo,
    "negate": pc.negate_checked,
    "eq": _comparison(pc.equal, pc.equal),
    "ne": _comparison(pc.not_equal, pc.not_equal),
    "lt": _comparison(pc.less, pc.less),
    "le": _comparison(pc.less_equal, pc.less_equal),
    "gt": _comparison(pc.greater, pc.greater),
    "ge": _comparison(pc.greater_equal, pc.greater_equal),
    "null_safe_eq": _null_safe_eq,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "is_null": lambda value: value.is_null(),
    "is_not_null": lambda value: value.is_valid(),
    "is_nan": lambda value: pc.is_nan(value).fill_null(False),
    "in": _is_in,
    "like": _like,
    "cast": lambda value: value,
    "nullif": _nullif,
    "greatest": _extreme("gt"),
    "least": _extreme("lt"),
    "abs": pc.abs_checked,
    "ceil": pc.ceil,
    "floor": pc.floor,
    "round": _round,
    "sqrt": pc.sqrt,
    "exp": pc.exp,
    "ln": lambda value: _logarithm(pc.ln, value),
    "log10": lambda value: _logarithm(pc.log10, value),
    "log2": lambda value: _logarithm(pc.log2, value),
    "power": pc.power,
    "sign": pc.sign,
    "upper": pc.utf8_upper,
    "lower": pc.utf8_lower,
    "length": pc.utf8_length,
    "trim": lambda value: pc.utf8_trim(value, " "),
    "concat": lambda *parts: pc.binary_join_element_wise(*parts, ""),
    "substring": _substring,
}


def _logarithm(function: Callable[[Array], Array], value: Array) -> Array:
    """Spark: NULL where the logarithm does not exist."""
    return function(pc.if_else(pc.greater(value, 0.0), value, pa.scalar(None, value.type)))


# -- forms that must not evaluate every branch for every row ------------------------------------------


def _case(call: Call, fields: Mapping[str, Array], rows: int) -> Array:
    """CASE: each value is computed only over the rows that reach it, so that a guarded division cannot fail."""
    *pairs, default = call.arguments
    result = pa.nulls(rows, call.type)
    undecided = np.ones(rows, dtype=bool)
    for condition, value in [*zip(pairs[::2], pairs[1::2], strict=True), (None, default)]:
        places = np.flatnonzero(undecided)
        there = {name: column.take(pa.array(places)) for name, column in fields.items()}
        if condition is not None:
            hit = np.asarray(evaluate(condition, there, len(places)).fill_null(False), dtype=bool)
            there = {name: column.filter(pa.array(hit)) for name, column in there.items()}
            places = places[hit]
        chosen = _as(evaluate(value, there, len(places)), call.type)
        mask = np.zeros(rows, dtype=bool)
        mask[places] = True
        result = pc.replace_with_mask(result, pa.array(mask), chosen)
        undecided[places] = False
    return result


def _if(call: Call, fields: Mapping[str, Array], rows: int) -> Array:
    return _case(call, fields, rows)


def _coalesce(call: Call, fields: Mapping[str, Array], rows: int) -> Array:
    first, *rest = call.arguments
    if not rest:
        return evaluate(first, fields, rows)
    again = Call("coalesce", tuple(rest), call.type)
    return _case(Call("case", (Call("is_not_null", (first,), pa.bool_()), first, again), call.type), fields, rows)


def _try_cast(call: Call, fields: Mapping[str, Array], rows: int) -> Array:
    array = evaluate(call.arguments[0], fields, rows)
    try:
        return _as(array, call.type)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_cast_or_null(array.slice(i, 1), call.type) for i in range(rows)])


def _cast_or_null(one: Array, type: pa.DataType) -> Array:
    try:
        return one.cast(type)
    except pa.ArrowInvalid:
        return pa.nulls(1, type)


LAZY: dict[str, Callable[[Call, Mapping[str, Array], int], Array]] = {
    "case": _case,
    "if": _if,
    "coalesce": _coalesce,
    "try_cast": _try_cast,
}
