"""Expressions with a grammar of their own: CAST, CASE, EXTRACT."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.language.expressions import literals
from sash.language.expressions.coercion import common_type_of, is_interval, is_moment
from sash.language.expressions.predicates import BOOLEAN, compare, require_boolean
from sash.language.expressions.scope import Scope, Typer
from sash.language.expressions.terms import Term, extent_of
from sash.language.types import TIMESTAMP, arrow_type, spark_name

_EXTRACTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOW", "DOY", "HOUR", "MINUTE", "SECOND")


def cast(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    operand = typed(node.this, scope)
    if node.args.get("default"):
        raise scope.unsupported("DEFAULT in a CAST", operand.span)
    try:
        type = arrow_type(node.args["to"])
    except ValueError as reason:
        raise scope.error(str(reason), operand.span) from None
    if pt.is_nested(operand.type) or pt.is_nested(type) or is_interval(operand.type):
        raise scope.unsupported("casts of arrays, maps, structs and intervals", operand.span)
    if not _castable(operand.type, type):
        raise scope.error(f"cannot cast {spark_name(operand.type)} to {spark_name(type)}", operand.span)
    op = "try_cast" if isinstance(node, exp.TryCast) else "cast"
    return Term(op, (operand,), type, operand.span, coerced=(operand.type,))


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """ANSI casts that Spark refuses when it analyses a query."""
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


def case(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    subject = typed(node.this, scope) if node.this else None
    conditions, values = [], []
    for branch in node.args["ifs"]:
        conditions.append(_condition(typed(branch.this, scope), subject, scope))
        values.append(typed(branch.args["true"], scope))
    default = node.args.get("default")
    end = values[-1].span
    values.append(typed(default, scope) if default else literals.literal(None, pa.null(), end))
    common = common_type_of(values)
    if common is None:
        types = ", ".join(dict.fromkeys(spark_name(value.type) for value in values))
        raise scope.error(f"CASE needs values of one type, but got {types}", extent_of(*values))
    pairs = [part for pair in zip(conditions, values, strict=False) for part in pair]
    coerced = (*(BOOLEAN, common) * len(conditions), common)
    return Term("case", (*pairs, values[-1]), common, extent_of(*conditions, *values), coerced=coerced)


def _condition(term: Term, subject: Term | None, scope: Scope) -> Term:
    if subject is None:
        return require_boolean(term, "WHEN", scope)
    return compare("eq", subject, term, scope)


def extract(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    field, moment = node.this.name.upper(), typed(node.expression, scope)
    if field not in _EXTRACTS:
        raise scope.error(f"EXTRACT knows {', '.join(_EXTRACTS)}, not {field}", moment.span)
    if not is_moment(moment.type):
        raise scope.error(f"EXTRACT needs a date or timestamp, but got {spark_name(moment.type)}", moment.span)
    type = pa.decimal128(8, 6) if field == "SECOND" else pa.int32()
    return Term("extract", (moment,), type, moment.span, field)
