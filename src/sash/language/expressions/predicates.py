"""Conditions: AND, OR, NOT, comparisons, LIKE, IN, BETWEEN, IS, and the conditions of CASE."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.language.expressions import literals
from sash.language.expressions.coercion import common_type, common_type_of, is_interval
from sash.language.expressions.scope import Scope, Typer
from sash.language.expressions.terms import SYMBOLS, Term, extent_of, render
from sash.language.reading.places import span_of
from sash.language.types import spark_name

BOOLEAN = pa.bool_()
COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "null_safe_eq",
}
LIKES: dict[type[exp.Expr], str] = {exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike"}
_PREDICATES = (*COMPARISONS, *LIKES, exp.In, exp.Between, exp.Is)


def require_boolean(term: Term, what: str, scope: Scope) -> Term:
    if not (pt.is_boolean(term.type) or pt.is_null(term.type)):
        raise scope.error(f"{what} needs a condition, but got {spark_name(term.type)}", term.span)
    return term


def logic(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    """A chain of AND or OR as one term, because generated conditions are long and the stack is not deep."""
    op = "and" if isinstance(node, exp.And) else "or"
    operands: list[exp.Expr] = []
    while isinstance(node, exp.And | exp.Or) and type(node) is (exp.And if op == "and" else exp.Or):
        operands.append(node.expression)
        node = node.this
    return joined(op, [require_boolean(typed(part, scope), op.upper(), scope) for part in (node, *reversed(operands))])


def joined(op: str, terms: list[Term]) -> Term:
    """Conditions joined by AND or OR, flat; one that is written twice stands once."""
    flat = tuple(part for term in terms for part in (term.args if term.op == op else (term,)))
    distinct = tuple({render(part): part for part in flat}.values())
    if len(distinct) == 1 and pt.is_null(distinct[0].type):
        distinct = flat  # NULL OR NULL is a BOOLEAN, NULL is not
    if len(distinct) == 1:
        return distinct[0]
    return Term(op, distinct, BOOLEAN, extent_of(*flat), coerced=(BOOLEAN,) * len(distinct))


def negation(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    return negated(require_boolean(typed(node.this, scope), "NOT", scope))


def negated(operand: Term) -> Term:
    if operand.op == "is_null":
        return Term("is_not_null", operand.args, BOOLEAN, operand.span, coerced=operand.coerced)
    return Term("not", (operand,), BOOLEAN, operand.span, coerced=(BOOLEAN,))


def comparison(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    left, right = _operand(node.this, scope, typed), _operand(node.expression, scope, typed)
    return compare(COMPARISONS[type(node)], left, right, scope)


def _operand(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    """An operand of a predicate. Spark and sqlglot read `a = b < c` differently, so it must have parentheses."""
    if isinstance(node, _PREDICATES):
        raise scope.error("put parentheses around a comparison inside another", span_of(node))
    return typed(node, scope)


def compare(op: str, left: Term, right: Term, scope: Scope) -> Term:
    type = common_type(left.type, right.type)
    if type is None or pt.is_nested(type) or is_interval(type):
        types = f"{spark_name(left.type)} with {spark_name(right.type)}"
        raise scope.error(f"{SYMBOLS[op]} cannot compare {types}", extent_of(left, right))
    return Term(op, (left, right), BOOLEAN, extent_of(left, right), coerced=(type, type))


def like(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    op = LIKES[type(node)]
    value, pattern = _operand(node.this, scope, typed), _operand(node.expression, scope, typed)
    for term in (value, pattern):
        if not (pt.is_string(term.type) or pt.is_null(term.type)):
            raise scope.error(f"{op.upper()} needs STRINGs, but got {spark_name(term.type)}", term.span)
    return Term(op, (value, pattern), BOOLEAN, extent_of(value, pattern), coerced=(pa.string(), pa.string()))


def is_in(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    if not node.expressions:
        raise scope.unsupported("sub-queries (IN)", span_of(node))
    terms = tuple(_operand(part, scope, typed) for part in (node.this, *node.expressions))
    common = common_type_of(terms)
    if common is None or pt.is_nested(common):
        types = ", ".join(dict.fromkeys(spark_name(term.type) for term in terms))
        raise scope.error(f"IN needs values of one type, but got {types}", extent_of(*terms))
    return Term("in", terms, BOOLEAN, extent_of(*terms), coerced=(common,) * len(terms))


def between(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    terms = tuple(_operand(part, scope, typed) for part in (node.this, node.args["low"], node.args["high"]))
    for bound in terms[1:]:
        compare("ge", terms[0], bound, scope)
    return Term("between", terms, BOOLEAN, extent_of(*terms))


def is_predicate(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    """IS [NOT] NULL, TRUE, FALSE."""
    operand, right = _operand(node.this, scope, typed), node.expression
    if isinstance(right, exp.Null):
        return Term("is_null", (operand,), BOOLEAN, operand.span, coerced=(operand.type,))
    if isinstance(right, exp.Boolean):
        constant = literals.literal(bool(right.this), BOOLEAN, span_of(right))
        return compare("null_safe_eq", require_boolean(operand, "IS", scope), constant, scope)
    raise scope.error("expected NULL, NOT NULL, TRUE or FALSE after IS", span_of(right))


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a chain of AND, as they were written; the chain may be long."""
    found, waiting = list[exp.Expr](), [node]
    while waiting:
        part = waiting.pop().unnest()
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found
