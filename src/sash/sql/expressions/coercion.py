"""Spark's rules for two types (ANSI mode): the common type of values, the result of arithmetic.

Where two decimals meet, precision and scale follow Spark's DecimalPrecision (SQL Server's rules, cut to 38
digits with at least six behind the point kept).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from sash.sql.expressions.terms import Term
from sash.sql.types import TIMESTAMP

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_INTEGER_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
_WIDEST, _LEAST_SCALE = 38, 6
DOUBLE, BIGINT = pa.float64(), pa.int64()


def is_number(type: pa.DataType) -> bool:
    return type in _INTEGERS or pt.is_floating(type) or pt.is_decimal(type)


def is_integer(type: pa.DataType) -> bool:
    return type in _INTEGERS


def is_moment(type: pa.DataType) -> bool:
    return pt.is_timestamp(type) or pt.is_date(type)


def as_decimal(type: pa.DataType, term: Term | None = None) -> pa.DataType:
    """An integer's decimal; a literal's is only as wide as its digits."""
    if pt.is_decimal(type):
        return type
    if term is not None and term.op == "literal" and isinstance(term.value, int):
        return pa.decimal128(len(str(abs(term.value))), 0)
    return pa.decimal128(_INTEGER_DIGITS[type], 0)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The common type of both, or None if Spark would refuse."""
    if left == right or pt.is_null(right):
        return left
    if pt.is_null(left):
        return right
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if pt.is_string(left) or pt.is_string(right):
        return _common_with_string(right if pt.is_string(left) else left)
    if is_moment(left) and is_moment(right):
        timestamps = [type for type in (left, right) if pt.is_timestamp(type)]
        return TIMESTAMP if TIMESTAMP in timestamps else timestamps[0]
    return None


def common_type_of(terms: Sequence[Term]) -> pa.DataType | None:
    """The common type of several values."""
    common: pa.DataType | None = pa.null()
    for term in terms:
        common = common if common is None else common_type(common, term.type)
    return common


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if is_integer(left) and is_integer(right):
        return max(left, right, key=_INTEGERS.index)
    if pt.is_floating(left) or pt.is_floating(right):
        both_float = left == right == pa.float32()
        return pa.float32() if both_float else DOUBLE
    return wider_decimal(as_decimal(left), as_decimal(right))


def wider_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return adjusted(whole + scale, scale, keep_whole=True)


def _common_with_string(other: pa.DataType) -> pa.DataType | None:
    if is_integer(other):
        return BIGINT
    if is_number(other):
        return DOUBLE
    return other if is_moment(other) or pt.is_boolean(other) or pt.is_binary(other) else None


def adjusted(precision: int, scale: int, *, keep_whole: bool = False) -> pa.DataType:
    """A decimal cut to 38 digits: digits behind the point go first, down to six of them."""
    if precision <= _WIDEST:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    least = 0 if keep_whole else min(scale, _LEAST_SCALE)
    return pa.decimal128(_WIDEST, max(_WIDEST - whole, least))


def arithmetic_type(op: str, left: Term, right: Term) -> tuple[pa.DataType, tuple[pa.DataType, pa.DataType]] | None:
    """The result's type and those of the operands; None unless both sides are numbers."""
    types = [
        DOUBLE if pt.is_null(t) and pt.is_null(u) else u if pt.is_null(t) else t
        for t, u in ((left.type, right.type), (right.type, left.type))
    ]
    if not all(is_number(type) for type in types):
        return None
    if op == "divide" and pt.is_null(left.type):
        return DOUBLE, (DOUBLE, DOUBLE)
    if any(pt.is_decimal(type) for type in types) and not any(pt.is_floating(type) for type in types):
        a, b = as_decimal(types[0], left), as_decimal(types[1], right)
        return decimal_result(op, a, b), (a, b)
    common = _common_number(types[0], types[1])
    if op == "divide":
        return DOUBLE, (DOUBLE, DOUBLE)
    if op == "int_divide":
        return (BIGINT, (BIGINT, BIGINT)) if is_integer(common) else None
    return common, (common, common)


def decimal_result(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if op in ("add", "subtract"):
        scale = max(s1, s2)
        return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if op == "multiply":
        return adjusted(p1 + p2 + 1, s1 + s2)
    if op == "divide":
        scale = max(_LEAST_SCALE, s1 + p2 + 1)
        return adjusted(p1 - s1 + s2 + scale, scale)
    if op == "int_divide":
        return BIGINT
    scale = max(s1, s2)
    return adjusted(min(p1 - s1, p2 - s2) + scale, scale)


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether Spark's analysis accepts an ANSI cast."""
    if source == target or pt.is_null(source) or pt.is_string(source) or pt.is_string(target):
        return True
    if pt.is_binary(source) or pt.is_binary(target):
        return False
    if is_moment(source) and is_moment(target):
        return True
    if pt.is_date(source) or pt.is_date(target):
        return False
    if is_moment(source) or is_moment(target):
        zoned = TIMESTAMP in (source, target)
        return zoned and not (pt.is_boolean(source) or pt.is_boolean(target))
    return True
