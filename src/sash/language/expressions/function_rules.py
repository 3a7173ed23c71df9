"""How a function's arguments are checked and its result typed, where one fixed type does not say it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.types as pt

from sash.core.errors import Span
from sash.language.expressions.coercion import (
    BIGINT,
    DOUBLE,
    arithmetic_type,
    common_type_of,
    is_integer,
    is_moment,
    is_number,
)
from sash.language.expressions.terms import Term
from sash.language.types import TIMESTAMP, spark_name


class MisfitError(Exception):
    """An argument that will not do; the typer turns it into a CqlError at the argument."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.span = span


Typing = tuple[pa.DataType, tuple[pa.DataType, ...]]
Rule = Callable[[str, Sequence[Term]], Typing]


def _is_atomic(type: pa.DataType) -> bool:
    return is_number(type) or is_moment(type) or pt.is_boolean(type) or pt.is_string(type)


def _small(type: pa.DataType) -> bool:
    return is_integer(type) and type != BIGINT


# A kind's letter: what to call it, which types it takes, and the type that Spark makes of them (None: as it is).
KINDS: dict[str, tuple[str, Callable[[pa.DataType], bool], pa.DataType | None]] = {
    "a": ("a value", lambda type: True, None),
    "s": ("a STRING", _is_atomic, pa.string()),
    "x": ("a STRING", pt.is_string, pa.string()),
    "i": ("an INT", _small, pa.int32()),
    "l": ("a whole number", is_integer, pa.int64()),
    "d": ("a number", is_number, DOUBLE),
    "n": ("a number", is_number, None),
    "b": ("a BOOLEAN", pt.is_boolean, pa.bool_()),
    "D": ("a DATE", lambda type: is_moment(type) or pt.is_string(type), pa.date32()),
    "E": ("a DATE", pt.is_date, pa.date32()),
    "t": ("a TIMESTAMP", lambda type: is_moment(type) or pt.is_string(type), TIMESTAMP),
    "T": ("a TIMESTAMP", lambda type: is_moment(type) or pt.is_string(type), TIMESTAMP),
    "y": ("a STRING or BINARY", lambda type: pt.is_string(type) or pt.is_binary(type), pa.binary()),
    "h": ("a whole number, STRING or BINARY", lambda t: is_integer(t) or pt.is_string(t) or pt.is_binary(t), None),
}
_KINDS = re.compile(r"(\w*?)(?:(\w)\*)?(?:\[(\w+)\])?")


def type_call(name: str, kinds: str, result: pa.DataType | Rule, args: Sequence[Term]) -> Typing:
    """Checks the arguments against their kinds, then asks the rule."""
    fitted = tuple(
        _fit(name, i, arg, kind) for i, (arg, kind) in enumerate(zip(args, _spread(name, kinds, args), strict=True))
    )
    if callable(result):
        return result(name, args)
    return result, fitted


def _spread(name: str, kinds: str, args: Sequence[Term]) -> str:
    """One kind per argument, or a MisfitError that says how many there may be."""
    match = _KINDS.fullmatch(kinds)
    assert match is not None, kinds
    required, repeated, optional = match[1], match[2] or "", match[3] or ""
    most = required + optional
    if len(required) <= len(args) and (repeated or len(args) <= len(most)):
        return (most + repeated * len(args))[: len(args)]
    least = len(required)
    wanted = f"at least {least}" if repeated else str(least) if not optional else f"{least} to {len(most)}"
    plural = "" if wanted == "1" else "s"
    raise MisfitError(f"{name.upper()} takes {wanted} argument{plural}, got {len(args)}")


def _fit(name: str, position: int, arg: Term, kind: str) -> pa.DataType:
    what, accepts, becomes = KINDS[kind]
    if not (pt.is_null(arg.type) or accepts(arg.type)):
        ordinal = ("first", "second", "third", "fourth", "fifth")[min(position, 4)]
        raise MisfitError(
            f"{name.upper()} needs {what} as its {ordinal} argument, but got {spark_name(arg.type)}", arg.span
        )
    return arg.type if becomes is None else becomes


def common(name: str, args: Sequence[Term]) -> Typing:
    type = common_type_of(args)
    if type is None:
        types = ", ".join(dict.fromkeys(spark_name(arg.type) for arg in args))
        raise MisfitError(f"{name.upper()} needs values of one type, but got {types}", args[-1].span)
    return type, (type,) * len(args)


def alike(name: str, args: Sequence[Term]) -> Typing:
    """As `common`, but Spark does not make numbers of strings here."""
    strings = [arg for arg in args if pt.is_string(arg.type)]
    if strings and not all(pt.is_string(arg.type) or pt.is_null(arg.type) for arg in args):
        raise MisfitError(f"{name.upper()} needs values of one type, but got a STRING among others", strings[0].span)
    return common(name, args)


def null_if(name: str, args: Sequence[Term]) -> Typing:
    type, _ = common(name, args)
    return args[0].type, (type, type)


def if_else(name: str, args: Sequence[Term]) -> Typing:
    type, _ = common(name, args[1:])
    return type, (pa.bool_(), type, type)


def null_or(name: str, args: Sequence[Term]) -> Typing:
    type, _ = common(name, args[1:])
    return type, (args[0].type, type, type)


def first_type(name: str, args: Sequence[Term]) -> Typing:
    type = DOUBLE if pt.is_null(args[0].type) else args[0].type
    return type, (type, *(arg.type for arg in args[1:]))


absolute = first_type


def shifted(name: str, args: Sequence[Term]) -> Typing:
    type = args[0].type if args[0].type == BIGINT else pa.int32()
    return type, (type, pa.int32())


def logarithm(name: str, args: Sequence[Term]) -> Typing:
    return DOUBLE, (DOUBLE,) * len(args)


def ceiling(name: str, args: Sequence[Term]) -> Typing:
    type = args[0].type
    if not pt.is_decimal(type):
        return BIGINT, (type if is_number(type) else DOUBLE,)
    return pa.decimal128(min(38, type.precision - type.scale + 1), 0), (type,)


def rounded(name: str, args: Sequence[Term]) -> Typing:
    type, _ = first_type(name, args[:1])
    digits = args[1].value if len(args) == 2 else 0
    if not isinstance(digits, int) or (len(args) == 2 and args[1].op != "literal"):
        raise MisfitError(f"{name.upper()} needs a constant number of digits", args[1].span)
    coerced = (type, pa.int32())[: len(args)]
    if not pt.is_decimal(type):
        return type, coerced
    whole = type.precision - type.scale + 1
    if digits < 0:
        return pa.decimal128(min(38, max(whole, 1 - digits)), 0), coerced
    scale = min(type.scale, digits)
    return pa.decimal128(min(38, whole + scale), scale), coerced


def arithmetic(op: str) -> Rule:
    """A function that is an operator by another name."""

    def rule(name: str, args: Sequence[Term]) -> Typing:
        typing = arithmetic_type(op, args[0], args[1])
        if typing is None:
            raise MisfitError(f"{name.upper()} needs numbers", args[0].span)
        return typing

    return rule
