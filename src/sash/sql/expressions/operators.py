"""Operators and conditions over terms, with Spark's types.

Operators on numbers, dates and strings: arithmetic, INTERVALs, bits, ||.

Conditions: AND, OR, NOT, comparisons, LIKE, IN, BETWEEN, IS, and the conditions of CASE.
"""

from __future__ import annotations

from typing import NoReturn

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.sql.expressions import constants
from sash.sql.expressions.aggregates import is_item_call, split_filter
from sash.sql.expressions.calls import type_function
from sash.sql.expressions.coercion import (
    arithmetic_type,
    common_type,
    common_type_of,
    is_integer,
    is_moment,
)
from sash.sql.expressions.scope import Scope, Typer
from sash.sql.expressions.terms import SYMBOLS, AskedQuery, Term, cast_to, extent_of, render, shown
from sash.sql.reading.places import span_of, word_of
from sash.sql.types import DAY_TIME_INTERVAL, TIMESTAMP, is_interval, spark_name

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


def filtered(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    """`SUM(x) FILTER (WHERE c)`."""
    if is_item_call(node.this):
        what = f"FILTER behind {node.this.name.upper()}; write the condition into WHERE"
        raise scope.unsupported(what, word_of(node.this))
    called = typed(node.this, scope)
    if called.op not in ("aggregate", "filter"):
        raise scope.error(f"FILTER stands behind an aggregate, and {shown(called)} is none", called.span)
    inner = scope.without_aggregates("cannot stand inside FILTER (WHERE ..); HAVING tests aggregates")
    condition = require_boolean(typed(node.expression.this, inner), "FILTER", inner)
    aggregate, conditions = split_filter(called)
    return Term("filter", (aggregate, joined("and", [*conditions, condition])), called.type, called.span)


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
    if node.args.get("query") is not None:
        return _in_query(node, scope, typed)
    terms = tuple(_operand(part, scope, typed) for part in (node.this, *node.expressions))
    common = common_type_of(terms)
    if common is None or pt.is_nested(common):
        types = ", ".join(dict.fromkeys(spark_name(term.type) for term in terms))
        raise scope.error(f"IN needs values of one type, but got {types}", extent_of(*terms))
    return Term("in", terms, BOOLEAN, extent_of(*terms), coerced=(common,) * len(terms))


def _in_query(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    asked = asked_query(node, scope, "sub-queries (IN)")
    other = Term("field", (), _only_type(asked, "IN compares with", node, scope), span_of(node), asked.columns[0][0])
    value = _operand(node.this, scope, typed)
    compared = cast_to(value, compare("eq", value, other, scope).coerced[0])
    return Term("in_query", (compared,), BOOLEAN, span_of(node), asked)


def scalar_query(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    """`(SELECT ..)` as a value: of one row."""
    asked = asked_query(node, scope, "sub-queries in an expression")
    return Term("scalar_query", (), _only_type(asked, "a value is", node, scope), span_of(node), asked)


def exists_query(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    return Term("exists_query", (), BOOLEAN, word_of(node), asked_query(node, scope, "sub-queries (EXISTS)"))


def _only_type(asked: AskedQuery, what: str, node: exp.Expr, scope: Scope) -> pa.DataType:
    if len(asked.columns) != 1:
        reason = f"{what} a sub-query of one column, this one has {len(asked.columns)}"
        raise scope.error(reason, span_of(node))
    return asked.columns[0][1]


def asked_query(node: exp.Expr, scope: Scope, what: str) -> AskedQuery:
    if scope.ask is None:
        where = "HAVING, SELECT and ORDER BY over groups may have them, and WHERE over sub-queries in FROM"
        raise scope.unsupported(f"{what} here; {where}", (word_of if isinstance(node, exp.Exists) else span_of)(node))
    query: exp.Expr = node.args["query"] if isinstance(node, exp.In) else node.this
    return scope.ask(query.unnest() if isinstance(query, exp.Subquery) else query)


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
        constant = constants.literal(bool(right.this), BOOLEAN, span_of(right))
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


ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "modulo",
    exp.IntDiv: "int_divide",
}
BITS: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
    exp.BitwiseLeftShift: "shiftleft",
    exp.BitwiseRightShift: "shiftright",
}


def negate(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    operand = typed(node.this, scope)
    constant = constants.negative(operand, scope)
    if constant is not None:
        return constant
    if arithmetic_type("add", operand, operand) is None:
        raise scope.error(f"- needs a number, but got {spark_name(operand.type)}", operand.span)
    return Term("negate", (operand,), operand.type, operand.span, coerced=(operand.type,))


def arithmetic(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    op = ARITHMETIC[type(node)]
    left, right = typed(node.this, scope), typed(node.expression, scope)
    if is_interval(left.type) or is_interval(right.type):
        return _shift_moment(op, left, right, scope)
    typing = arithmetic_type(op, left, right)
    if typing is None:
        _refuse_arithmetic(op, left, right, scope)
    result, coerced = typing
    return Term(op, (left, right), result, extent_of(left, right), coerced=coerced)


def _refuse_arithmetic(op: str, left: Term, right: Term, scope: Scope) -> NoReturn:
    if is_moment(left.type) and is_moment(right.type):
        hint = "DATEDIFF counts days, UNIX_MICROS makes a number of a timestamp"
        raise scope.unsupported(f"differences of timestamps as intervals ({hint})", extent_of(left, right))
    wrong = next((term for term in (left, right) if arithmetic_type("add", term, term) is None), right)
    needs = "whole numbers" if op == "int_divide" else "numbers"
    hint = "; CAST it first" if pt.is_string(wrong.type) else ""
    raise scope.error(f"{SYMBOLS[op]} needs {needs}, but got {spark_name(wrong.type)}{hint}", wrong.span)


def _shift_moment(op: str, left: Term, right: Term, scope: Scope) -> Term:
    """A date or timestamp plus or minus an INTERVAL."""
    moment, interval = (right, left) if op == "add" and is_interval(left.type) else (left, right)
    span = extent_of(left, right)
    if op not in ("add", "subtract") or not is_moment(moment.type) or not is_interval(interval.type):
        types = f"{spark_name(left.type)} {SYMBOLS[op]} {spark_name(right.type)}"
        raise scope.error(f"an INTERVAL is added to or taken from a date or timestamp, not {types}", span)
    type = moment.type
    if pt.is_date(type) and interval.type == DAY_TIME_INTERVAL and not str(interval.value).endswith("DAY"):
        type = TIMESTAMP
    return Term(op, (left, right), type, span, coerced=(left.type, right.type))


def bits(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    op = BITS[type(node)]
    for child in (node.this, node.expression):
        if type(child) in (*BITS, exp.DPipe) and type(child) is not type(node):
            raise scope.error("put parentheses around a bit operator inside another", span_of(child))
    left, right = typed(node.this, scope), typed(node.expression, scope)
    for term in (left, right):
        if not is_integer(term.type):
            raise scope.error(f"a bit operator needs whole numbers, but got {spark_name(term.type)}", term.span)
    if op.startswith("shift"):
        return type_function(op, (left, right), scope, extent_of(left, right))
    common = common_type(left.type, right.type)
    assert common is not None
    return Term(op, (left, right), common, extent_of(left, right), coerced=(common, common))


def bit_not(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    operand = typed(node.this, scope)
    if not is_integer(operand.type):
        raise scope.error(f"~ needs a whole number, but got {spark_name(operand.type)}", operand.span)
    return Term("bit_not", (operand,), operand.type, operand.span, coerced=(operand.type,))


def concat(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    if isinstance(node.expression, exp.Add | exp.Sub) or type(node.expression) in BITS:
        raise scope.error("put parentheses around an operator inside ||", span_of(node.expression))
    args = (typed(node.this, scope), typed(node.expression, scope))
    return type_function("concat", args, scope, extent_of(*args))
