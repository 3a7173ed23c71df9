"""Types of expressions, over sqlglot's tree: each node becomes a Term, or an error at its word.

Only the nodes in `_RULES` exist for Sash; everything else that sqlglot can read is refused by name.

Expressions with a grammar of their own: CAST, CASE, EXTRACT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.sql.expressions import aggregates, constants, operators
from sash.sql.expressions.calls import type_call_node
from sash.sql.expressions.coercion import castable, common_type_of, is_moment
from sash.sql.expressions.functions import DATE_PARTS
from sash.sql.expressions.operators import BOOLEAN, compare, require_boolean
from sash.sql.expressions.over import over
from sash.sql.expressions.scope import Scope, Typer, column
from sash.sql.expressions.terms import Term, extent_of
from sash.sql.reading.places import span_of, word_of
from sash.sql.types import arrow_type, is_interval, spark_name


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
    if not castable(operand.type, type):
        raise scope.error(f"cannot cast {spark_name(operand.type)} to {spark_name(type)}", operand.span)
    op = "try_cast" if isinstance(node, exp.TryCast) else "cast"
    return Term(op, (operand,), type, operand.span, coerced=(operand.type,))


def case(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    subject = typed(node.this, scope) if node.this else None
    conditions, values = [], []
    for branch in node.args["ifs"]:
        conditions.append(_condition(typed(branch.this, scope), subject, scope))
        values.append(typed(branch.args["true"], scope))
    default = node.args.get("default")
    end = values[-1].span
    values.append(typed(default, scope) if default else constants.literal(None, pa.null(), end))
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
    if field not in DATE_PARTS:
        raise scope.error(f"EXTRACT knows {', '.join(DATE_PARTS)}, not {field}", moment.span)
    if not is_moment(moment.type):
        raise scope.error(f"EXTRACT needs a date or timestamp, but got {spark_name(moment.type)}", moment.span)
    return Term("extract", (moment,), DATE_PARTS[field][1], moment.span, field)


NAMED: dict[type[exp.Expr], str] = {
    exp.Select: "sub-queries in an expression",
    exp.Qualify: "QUALIFY over rows; write SELECT .. FROM (SELECT .., RANK() OVER (..) AS r ..) a WHERE r <= 3",
    exp.Distinct: "DISTINCT in an aggregate",
    exp.Bracket: "elements of arrays and maps",
    exp.Dot: "fields of structs, and functions behind a dot",
    exp.Escape: "LIKE with ESCAPE",
    exp.Lambda: "lambda functions",
    exp.Placeholder: "parameters",
    exp.Parameter: "parameters",
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS",
    exp.Tuple: "rows in parentheses",
}
# The parts of sqlglot's nodes that the rules read, or that change nothing here (typed, safe).
_UNDERSTOOD_ARGS = (
    "this expression expressions ifs true default to low high table is_string unit query negate typed safe"
)
_UNDERSTOOD = frozenset((*_UNDERSTOOD_ARGS.split(), "fraction_in_string"))
_OF_WINDOWS = _UNDERSTOOD | {"partition_by", "order", "spec", "over", "alias"}


def type_expression(node: exp.Expr, scope: Scope) -> Term:
    """The node as a term; CqlError at the word that is wrong."""
    rule = _RULES.get(type(node))
    if rule is None:
        what = NAMED.get(type(node), f"{type(node).__name__.upper()} in an expression")
        raise scope.unsupported(what, word_of(node))
    understood = _OF_WINDOWS if isinstance(node, exp.Window) else _UNDERSTOOD
    extra = next((key for key, value in node.args.items() if value and key not in understood), None)
    if extra is not None:
        what = "fields of structs" if isinstance(node, exp.Column) else f"{extra.upper()} in an expression"
        raise scope.unsupported(what, span_of(node))
    term = rule(node, scope, type_expression)
    return operators.negated(term) if node.args.get("negate") else term


def _paren(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    return typed(node.this, scope)


def _literal(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    span = span_of(node)
    return (
        constants.literal(node.name, pa.string(), span) if node.is_string else constants.number(node.name, scope, span)
    )


def _null(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    return constants.literal(None, pa.null(), span_of(node))


def _boolean(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    return constants.literal(bool(node.this), pa.bool_(), span_of(node))


def _interval(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    assert isinstance(node, exp.Interval)
    return constants.interval(node, scope, span_of(node))


_Rule = Callable[[exp.Expr, Scope, Typer], Term]


def _table(classes: Iterable[type[exp.Expr]], rule: _Rule) -> dict[type[exp.Expr], _Rule]:
    return dict.fromkeys(classes, rule)


_RULES: dict[type[exp.Expr], _Rule] = {
    **_table(operators.COMPARISONS, operators.comparison),
    **_table(operators.LIKES, operators.like),
    **_table((exp.And, exp.Or), operators.logic),
    exp.Not: operators.negation,
    exp.In: operators.is_in,
    exp.Between: operators.between,
    exp.Is: operators.is_predicate,
    **_table(operators.ARITHMETIC, operators.arithmetic),
    **_table(operators.BITS, operators.bits),
    exp.Neg: operators.negate,
    exp.BitwiseNot: operators.bit_not,
    exp.DPipe: operators.concat,
    **_table((exp.Cast, exp.TryCast), cast),
    exp.Subquery: operators.scalar_query,
    exp.Exists: operators.exists_query,
    exp.Case: case,
    exp.Extract: extract,
    exp.Paren: _paren,
    exp.Column: column,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Interval: _interval,
    exp.Anonymous: type_call_node,
    exp.Filter: operators.filtered,
    exp.Window: over,
    exp.WithinGroup: aggregates.within_group,
    **_table((exp.IgnoreNulls, exp.RespectNulls), aggregates.ignoring_nulls),
}
