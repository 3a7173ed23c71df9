"""Constants as Spark types them: 1 INT, 3000000000 BIGINT, 1.5 DECIMAL(2,1), 1e3 DOUBLE, 'x' STRING; INTERVALs."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import Span
from sash.language.expressions.scope import Scope
from sash.language.expressions.terms import Term
from sash.language.types import DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL
from sash.plan.expressions import Literal

_DAY_TIME = ("DAY", "HOUR", "MINUTE", "SECOND", "WEEK")
_YEAR_MONTH = ("MONTH", "YEAR")
# The tokenizer takes `1e` for a number, too.
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def literal(value: object, type: pa.DataType, span: Span) -> Term:
    return Term("literal", (), type, span, value)


def number(text: str, scope: Scope, span: Span) -> Term:
    if not _NUMBER.fullmatch(text):
        raise scope.error(f"{text} is no number", span)
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise scope.error(f"{text} does not fit into a DOUBLE", span)
        return literal(value, pa.float64(), span)
    if "." in text:
        return _decimal(Decimal(text), scope, span)
    return whole(int(text), scope, span)


def whole(value: int, scope: Scope, span: Span) -> Term:
    if -(2**31) <= value < 2**31:
        return literal(value, pa.int32(), span)
    if -(2**63) <= value < 2**63:
        return literal(value, pa.int64(), span)
    return _decimal(Decimal(value), scope, span)


def _decimal(value: Decimal, scope: Scope, span: Span) -> Term:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = -exponent
    precision = max(len(digits), scale)
    if precision > 38:
        raise scope.error("a number of more than 38 digits", span)
    return literal(value, pa.decimal128(precision, scale), span)


def negative(term: Term, scope: Scope) -> Term | None:
    """-1 is one constant in Spark, not the negation of 1."""
    value = term.value
    if term.op != "literal" or isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, Decimal) and value == 2**63 and term.type.scale == 0):
        return whole(-int(value), scope, term.span)
    return literal(-value, term.type, term.span) if isinstance(value, float | Decimal) else None


def recast(constant: Literal, type: pa.DataType) -> Literal | None:
    """A constant in another type where that loses nothing, so that no cast runs for each answer."""
    value = constant.value
    if value is None:
        return Literal(None, type)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if pt.is_integer(type) and isinstance(value, int) and abs(value) < 2 ** (type.bit_width - 1):
        return Literal(value, type)
    if pt.is_float64(type):
        return Literal(float(value), type)
    if pt.is_decimal(type) and Decimal(value).as_tuple().exponent >= -type.scale:
        return _rescaled(Decimal(value), type)
    return None


def _rescaled(value: Decimal, type: pa.DataType) -> Literal | None:
    with localcontext() as context:
        context.prec = 76
        scaled = value.quantize(Decimal(1).scaleb(-type.scale))
    return Literal(scaled, type) if len(scaled.as_tuple().digits) <= type.precision else None


def interval(node: exp.Interval, scope: Scope, span: Span) -> Term:
    """`INTERVAL 5 MINUTES`, `INTERVAL '5' MINUTE`; one unit."""
    amount, unit = node.this, node.args.get("unit")
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    if name not in _DAY_TIME + _YEAR_MONTH or not isinstance(amount, exp.Literal) or not _whole(amount.name):
        units = ", ".join(_DAY_TIME + _YEAR_MONTH)
        raise scope.error(f"expected INTERVAL with a whole number and one unit ({units})", span)
    count = int(amount.name) * (7 if name == "WEEK" else 1)
    name = "DAY" if name == "WEEK" else name
    type = YEAR_MONTH_INTERVAL if name in _YEAR_MONTH else DAY_TIME_INTERVAL
    return Term("interval", (), type, span, f"'{count}' {name}")


def _whole(text: str) -> bool:
    """As many digits as a BIGINT has for certain."""
    return re.fullmatch(r"-?[0-9]{1,18}", text) is not None
