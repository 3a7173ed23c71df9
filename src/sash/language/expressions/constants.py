"""Constants as arguments: a whole number, a fraction from 0 to 1, a value of a column's type."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.language.expressions import literals
from sash.language.expressions.coercion import is_number
from sash.language.expressions.scope import Scope
from sash.language.expressions.terms import Term, render
from sash.language.reading.places import span_of
from sash.language.types import TIMESTAMP, spark_name
from sash.plan.expressions import Literal

# More items than any list is read for, and small enough for an array of them.
MOST_ITEMS = 1_000_000
# Of a DECIMAL.
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
    number = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(number, exp.Literal) or number.is_string:
        raise scope.error(f"{name} needs a constant from 0 to 1 as its second argument", span_of(node))
    value = Decimal(number.name)
    if -value.adjusted() > MOST_DIGITS or len(value.as_tuple().digits) > MOST_DIGITS:
        raise scope.error(f"{name} needs a constant of at most {MOST_DIGITS} digits", span_of(node))
    if (negative and value) or value > 1:
        hint = f"; {number.name} percent is {_plain(value / 100)}" if not negative and value <= 100 else ""
        raise scope.error(f"{name} needs a constant from 0 to 1, got {node.sql()}{hint}", span_of(node))
    return literals.number(_plain(value), scope, span_of(node))


def _plain(value: Decimal) -> str:
    """Without an exponent and without needless zeros."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def of_type(constant: Term, type: pa.DataType, name: str, scope: Scope) -> Term:
    """A constant brought to a column's type, if that loses nothing."""
    value = constant_of(constant, type)
    if value is None:
        wanted = f"a constant of type {spark_name(type)}"
        raise scope.error(f"{name} needs {wanted} as its second argument, not {render(constant)}", constant.span)
    return Term("literal", (), type, constant.span, value)


def constant_of(term: Term, type: pa.DataType) -> object:
    """The constant as a Python value of the type, or None where it is none."""
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
    """What DATE '..', TIMESTAMP '..' and CAST('..' AS BINARY) say, and a string where one of these is wanted."""
    if pt.is_binary(type):
        return text.encode()
    try:
        if pt.is_date(type):
            return date.fromisoformat(text)
        if pt.is_timestamp(type):
            return _moment(datetime.fromisoformat(text), type)
    except (ValueError, OverflowError):
        # Or a moment that is in no year that Python knows, in UTC.
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
    constant = literals.recast(Literal(exact, type), type) if pt.is_decimal(type) else None
    return constant.value if constant is not None else None
