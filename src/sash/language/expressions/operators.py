"""Operators on numbers, dates and strings: arithmetic, INTERVALs, bits, ||."""

from __future__ import annotations

from typing import NoReturn

import pyarrow.types as pt
from sqlglot import exp

from sash.language.expressions import literals
from sash.language.expressions.calls import type_function
from sash.language.expressions.coercion import arithmetic_type, common_type, is_integer, is_interval, is_moment
from sash.language.expressions.scope import Scope, Typer
from sash.language.expressions.terms import SYMBOLS, Term, extent_of
from sash.language.reading.places import span_of
from sash.language.types import DAY_TIME_INTERVAL, TIMESTAMP, spark_name

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
    constant = literals.negative(operand, scope)
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
