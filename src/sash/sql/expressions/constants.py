"""Constants: how Spark types a literal, and constants as arguments of functions.

Constants as arguments: a whole number, a fraction from 0 to 1, a value of a column's type.

Constants as Spark types them: 1 INT, 3000000000 BIGINT, 1.5 DECIMAL(2,1), 1e3 DOUBLE, 'x' STRING; INTERVALs.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import Span
from sash.plan.expressions import Literal
from sash.sql.expressions.coercion import is_number
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, shown
from sash.sql.reading.places import span_of
from sash.sql.types import DAY_TIME_INTERVAL, TIMESTAMP, YEAR_MONTH_INTERVAL, spark_name

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
    """A constant in another type if that loses nothing: then no cast runs for each answer."""
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


# More items than any user reads, and few enough for an array.
MOST_ITEMS = 1_000_000
# The most digits of a DECIMAL.
MOST_DIGITS = 38


def positive_whole(node: exp.Expr, name: str, scope: Scope) -> int:
    """The k of TOP(k, x)."""
    if isinstance(node, exp.Literal) and node.is_int and 0 < int(node.name) <= MOST_ITEMS:
        return int(node.name)
    if isinstance(node, exp.Literal) and node.is_int and int(node.name) > MOST_ITEMS:
        raise scope.error(f"{name} lists at most {MOST_ITEMS:,} items; HISTOGRAM lists all", span_of(node))
    example = f"{name}(10, {node.sql() if isinstance(node, exp.Column) else 'x'})"
    raise scope.error(f"{name} needs a positive whole constant first, for example {example}", span_of(node))


def fraction(node: exp.Expr, name: str, scope: Scope) -> Term:
    """The p of QUANTILE(x, p): exact as it was written, in one spelling (0.90 is 0.9)."""
    negative = isinstance(node, exp.Neg)
    digits = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(digits, exp.Literal) or digits.is_string:
        raise scope.error(f"{name} needs a constant from 0 to 1 as its second argument", span_of(node))
    value = Decimal(digits.name)
    if -value.adjusted() > MOST_DIGITS or len(value.as_tuple().digits) > MOST_DIGITS:
        raise scope.error(f"{name} needs a constant of at most {MOST_DIGITS} digits", span_of(node))
    if (negative and value) or value > 1:
        hint = f"; {digits.name} percent is {_plain(value / 100)}" if not negative and value <= 100 else ""
        raise scope.error(f"{name} needs a constant from 0 to 1, got {node.sql()}{hint}", span_of(node))
    return number(_plain(value), scope, span_of(node))


def _plain(value: Decimal) -> str:
    """Without an exponent and without needless zeros."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def of_type(constant: Term, type: pa.DataType, name: str, scope: Scope) -> Term:
    """A constant brought to a column's type, if that loses nothing."""
    value = constant_of(constant, type)
    if value is None:
        wanted = f"a constant of type {spark_name(type)}"
        raise scope.error(f"{name} needs {wanted} as its second argument, not {shown(constant)}", constant.span)
    return Term("literal", (), type, constant.span, value)


def constant_of(term: Term, type: pa.DataType) -> object:
    """The constant as a Python value of the type, or None if it is no constant."""
    if term.op == "cast" and term.args[0].op == "literal" and isinstance(term.args[0].value, str):
        return _from_text(term.args[0].value, type) if term.type == type else None
    if term.op == "cast" and pt.is_integer(term.type) and pt.is_integer(term.args[0].type):
        return constant_of(term.args[0], type)  # 10L
    value = term.value
    if term.op != "literal" or value is None:
        return None
    if isinstance(value, str):
        return value if pt.is_string(type) else _from_text(value, type)
    if isinstance(value, bool) or pt.is_boolean(type):
        return value if isinstance(value, bool) and pt.is_boolean(type) else None
    return _number(value, type) if is_number(type) and isinstance(value, int | float | Decimal) else None


def _from_text(text: str, type: pa.DataType) -> object:
    """The value of DATE '..', TIMESTAMP '..' and CAST('..' AS BINARY), and of a string in place of one of these."""
    if pt.is_binary(type):
        return text.encode()
    try:
        if pt.is_date(type):
            return date.fromisoformat(text)
        if pt.is_timestamp(type):
            return _moment(datetime.fromisoformat(text), type)
    except (ValueError, OverflowError):
        # Or a moment outside of Python's years, in UTC.
        pass
    return None


def _moment(moment: datetime, type: pa.DataType) -> datetime | None:
    if type == TIMESTAMP:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment if moment.tzinfo is None else None


def _number(value: int | float | Decimal, type: pa.DataType) -> object:
    if pt.is_floating(type):
        return pa.scalar(float(value), type).as_py()
    exact = Decimal(value)
    if pt.is_integer(type) and exact == exact.to_integral_value():
        return int(exact) if -(2 ** (type.bit_width - 1)) <= exact < 2 ** (type.bit_width - 1) else None
    constant = recast(Literal(exact, type), type) if pt.is_decimal(type) else None
    return constant.value if constant is not None else None
