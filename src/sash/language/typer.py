"""Types of expressions, over sqlglot's tree: each node becomes a Term, or an error at its word.

Only the nodes in `_RULES` exist for Sash; everything else that sqlglot can read is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NoReturn

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import Span, nearest
from sash.language import literals
from sash.language.calls import type_call_node, type_function
from sash.language.coercion import arithmetic_type, common_type, common_type_of, is_integer, is_interval, is_moment
from sash.language.dialect import span_of, word_of
from sash.language.functions import REFUSED
from sash.language.scope import Scope
from sash.language.terms import SYMBOLS, Term
from sash.language.types import DAY_TIME_INTERVAL, TIMESTAMP, arrow_type, spark_name

_BOOLEAN = pa.bool_()
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "null_safe_eq",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "modulo",
    exp.IntDiv: "int_divide",
}
_BITS: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
    exp.BitwiseLeftShift: "shiftleft",
    exp.BitwiseRightShift: "shiftright",
}
_LIKES: dict[type[exp.Expr], str] = {exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike"}
_PREDICATES = (*_COMPARISONS, *_LIKES, exp.In, exp.Between, exp.Is)
_NAMED: dict[type[exp.Expr], str] = {
    exp.Subquery: "sub-queries",
    exp.Select: "sub-queries",
    exp.Exists: "sub-queries (EXISTS)",
    exp.Window: "window functions (OVER)",
    exp.Filter: "FILTER on an aggregate",
    exp.Distinct: "DISTINCT in an aggregate",
    exp.Bracket: "elements of arrays and maps",
    exp.Dot: "fields of structs",
    exp.Escape: "LIKE with ESCAPE",
    exp.Lambda: "lambda functions",
    exp.IgnoreNulls: "IGNORE NULLS",
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


def type_expression(node: exp.Expr, scope: Scope) -> Term:
    """The node as a term; CqlError at the word that is wrong."""
    rule = _RULES.get(type(node))
    if rule is None:
        what = _NAMED.get(type(node), f"{type(node).__name__.upper()} in an expression")
        raise scope.unsupported(what, word_of(node))
    extra = next((key for key, value in node.args.items() if value and key not in _UNDERSTOOD), None)
    if extra is not None:
        raise scope.unsupported(f"{extra.upper()} in an expression", span_of(node))
    term = rule(node, scope)
    return _negated(term) if node.args.get("negate") else term


def require_boolean(term: Term, what: str, scope: Scope) -> Term:
    if not (pt.is_boolean(term.type) or pt.is_null(term.type)):
        raise scope.error(f"{what} needs a condition, but got {spark_name(term.type)}", term.span)
    return term


def _paren(node: exp.Expr, scope: Scope) -> Term:
    return type_expression(node.this, scope)


def _column(node: exp.Expr, scope: Scope) -> Term:
    if isinstance(node.this, exp.Star):
        raise scope.error("* cannot stand here: name the columns", span_of(node))
    name, table, span = node.name, node.args.get("table"), span_of(node.this)
    if table is not None and table.name.lower() not in (scope.alias.lower(), scope.stream.name.lower()):
        raise scope.error(f"unknown stream '{table.name}'{nearest(table.name, [scope.alias])}", span_of(table))
    alias = scope.aliases.get(name.lower()) if table is None else None
    if alias is not None and scope.aliases_first:
        return replace(alias, span=span)
    column = scope.stream.column(name)
    if column is not None:
        return Term("column", (), column.type, span, column.name)
    return replace(alias, span=span) if alias is not None else _unknown_column(node, scope, span)


def _unknown_column(node: exp.Expr, scope: Scope, span: Span) -> Term:
    if node.name.lower() in REFUSED and not node.this.args.get("quoted"):
        raise scope.error(f"{node.name.upper()} is refused: {REFUSED[node.name.lower()]}", span)
    known = [*scope.stream.schema.names, *scope.aliases]
    raise scope.error(f"unknown column '{node.name}'{nearest(node.name, known)}", span)


def _literal(node: exp.Expr, scope: Scope) -> Term:
    span = span_of(node)
    return literals.literal(node.name, pa.string(), span) if node.is_string else literals.number(node.name, scope, span)


def _null(node: exp.Expr, scope: Scope) -> Term:
    return literals.literal(None, pa.null(), span_of(node))


def _boolean(node: exp.Expr, scope: Scope) -> Term:
    return literals.literal(bool(node.this), _BOOLEAN, span_of(node))


def _interval(node: exp.Expr, scope: Scope) -> Term:
    assert isinstance(node, exp.Interval)
    return literals.interval(node, scope, span_of(node))


def _negate(node: exp.Expr, scope: Scope) -> Term:
    operand = type_expression(node.this, scope)
    constant = literals.negative(operand, scope)
    if constant is not None:
        return constant
    typing = arithmetic_type("add", operand, operand)
    if typing is None:
        raise scope.error(f"- needs a number, but got {spark_name(operand.type)}", operand.span)
    return Term("negate", (operand,), operand.type, operand.span, coerced=(operand.type,))


def _logic(node: exp.Expr, scope: Scope) -> Term:
    """A chain of AND or OR as one term, because generated conditions are long and the stack is not deep."""
    op = "and" if isinstance(node, exp.And) else "or"
    operands: list[exp.Expr] = []
    while isinstance(node, exp.And | exp.Or) and type(node) is (exp.And if op == "and" else exp.Or):
        operands.append(node.expression)
        node = node.this
    terms = [require_boolean(type_expression(part, scope), op.upper(), scope) for part in (node, *reversed(operands))]
    flat = tuple(part for term in terms for part in (term.args if term.op == op else (term,)))
    return Term(op, flat, _BOOLEAN, _join(*flat), coerced=(_BOOLEAN,) * len(flat))


def _not(node: exp.Expr, scope: Scope) -> Term:
    return _negated(require_boolean(type_expression(node.this, scope), "NOT", scope))


def _negated(operand: Term) -> Term:
    if operand.op == "is_null":
        return Term("is_not_null", operand.args, _BOOLEAN, operand.span, coerced=operand.coerced)
    return Term("not", (operand,), _BOOLEAN, operand.span, coerced=(_BOOLEAN,))


def _comparison(node: exp.Expr, scope: Scope) -> Term:
    return _compare(_COMPARISONS[type(node)], _operand(node.this, scope), _operand(node.expression, scope), scope)


def _operand(node: exp.Expr, scope: Scope) -> Term:
    """An operand of a predicate. Spark and sqlglot read `a = b < c` differently, so it must have parentheses."""
    if isinstance(node, _PREDICATES):
        raise scope.error("put parentheses around a comparison inside another", span_of(node))
    return type_expression(node, scope)


def _compare(op: str, left: Term, right: Term, scope: Scope) -> Term:
    type = common_type(left.type, right.type)
    if type is None or pt.is_nested(type) or is_interval(type):
        types = f"{spark_name(left.type)} with {spark_name(right.type)}"
        raise scope.error(f"{SYMBOLS[op]} cannot compare {types}", _join(left, right))
    return Term(op, (left, right), _BOOLEAN, _join(left, right), coerced=(type, type))


def _arithmetic(node: exp.Expr, scope: Scope) -> Term:
    op = _ARITHMETIC[type(node)]
    left, right = type_expression(node.this, scope), type_expression(node.expression, scope)
    if is_interval(left.type) or is_interval(right.type):
        return _shift_moment(op, left, right, scope)
    typing = arithmetic_type(op, left, right)
    if typing is None:
        _refuse_arithmetic(op, left, right, scope)
    result, coerced = typing
    return Term(op, (left, right), result, _join(left, right), coerced=coerced)


def _refuse_arithmetic(op: str, left: Term, right: Term, scope: Scope) -> NoReturn:
    if is_moment(left.type) and is_moment(right.type):
        hint = "DATEDIFF counts days, UNIX_MICROS makes a number of a timestamp"
        raise scope.unsupported(f"differences of timestamps as intervals ({hint})", _join(left, right))
    wrong = next((term for term in (left, right) if arithmetic_type("add", term, term) is None), right)
    needs = "whole numbers" if op == "int_divide" else "numbers"
    hint = "; CAST it first" if pt.is_string(wrong.type) else ""
    raise scope.error(f"{SYMBOLS[op]} needs {needs}, but got {spark_name(wrong.type)}{hint}", wrong.span)


def _shift_moment(op: str, left: Term, right: Term, scope: Scope) -> Term:
    """A date or timestamp plus or minus an INTERVAL."""
    moment, interval = (right, left) if op == "add" and is_interval(left.type) else (left, right)
    if op not in ("add", "subtract") or not is_moment(moment.type) or not is_interval(interval.type):
        types = f"{spark_name(left.type)} {SYMBOLS[op]} {spark_name(right.type)}"
        raise scope.error(f"an INTERVAL is added to or taken from a date or timestamp, not {types}", _join(left, right))
    type = moment.type
    if pt.is_date(type) and interval.type == DAY_TIME_INTERVAL and not str(interval.value).endswith("DAY"):
        type = TIMESTAMP
    return Term(op, (left, right), type, _join(left, right), coerced=(left.type, right.type))


def _bits(node: exp.Expr, scope: Scope) -> Term:
    op = _BITS[type(node)]
    for child in (node.this, node.expression):
        if type(child) in (*_BITS, exp.DPipe) and type(child) is not type(node):
            raise scope.error("put parentheses around a bit operator inside another", span_of(child))
    left, right = type_expression(node.this, scope), type_expression(node.expression, scope)
    for term in (left, right):
        if not is_integer(term.type):
            raise scope.error(f"a bit operator needs whole numbers, but got {spark_name(term.type)}", term.span)
    if op.startswith("shift"):
        return type_function(op, (left, right), scope, _join(left, right))
    common = common_type(left.type, right.type)
    assert common is not None
    return Term(op, (left, right), common, _join(left, right), coerced=(common, common))


def _bit_not(node: exp.Expr, scope: Scope) -> Term:
    operand = type_expression(node.this, scope)
    if not is_integer(operand.type):
        raise scope.error(f"~ needs a whole number, but got {spark_name(operand.type)}", operand.span)
    return Term("bit_not", (operand,), operand.type, operand.span, coerced=(operand.type,))


def _concat(node: exp.Expr, scope: Scope) -> Term:
    if isinstance(node.expression, exp.Add | exp.Sub) or type(node.expression) in _BITS:
        raise scope.error("put parentheses around an operator inside ||", span_of(node.expression))
    args = (type_expression(node.this, scope), type_expression(node.expression, scope))
    return type_function("concat", args, scope, _join(*args))


def _like(node: exp.Expr, scope: Scope) -> Term:
    op = _LIKES[type(node)]
    value, pattern = _operand(node.this, scope), _operand(node.expression, scope)
    for term in (value, pattern):
        if not (pt.is_string(term.type) or pt.is_null(term.type)):
            raise scope.error(f"{op.upper()} needs STRINGs, but got {spark_name(term.type)}", term.span)
    return Term(op, (value, pattern), _BOOLEAN, _join(value, pattern), coerced=(pa.string(), pa.string()))


def _in(node: exp.Expr, scope: Scope) -> Term:
    if not node.expressions:
        raise scope.unsupported("sub-queries (IN)", span_of(node))
    terms = tuple(_operand(part, scope) for part in (node.this, *node.expressions))
    common = common_type_of(terms)
    if common is None or pt.is_nested(common):
        types = ", ".join(dict.fromkeys(spark_name(term.type) for term in terms))
        raise scope.error(f"IN needs values of one type, but got {types}", _join(*terms))
    return Term("in", terms, _BOOLEAN, _join(*terms), coerced=(common,) * len(terms))


def _between(node: exp.Expr, scope: Scope) -> Term:
    terms = tuple(_operand(part, scope) for part in (node.this, node.args["low"], node.args["high"]))
    for bound in terms[1:]:
        _compare("ge", terms[0], bound, scope)
    return Term("between", terms, _BOOLEAN, _join(*terms))


def _is(node: exp.Expr, scope: Scope) -> Term:
    operand, right = _operand(node.this, scope), node.expression
    if isinstance(right, exp.Null):
        return Term("is_null", (operand,), _BOOLEAN, operand.span, coerced=(operand.type,))
    if isinstance(right, exp.Boolean):
        return _compare("null_safe_eq", require_boolean(operand, "IS", scope), _boolean(right, scope), scope)
    raise scope.error("expected NULL, NOT NULL, TRUE or FALSE after IS", span_of(right))


def _cast(node: exp.Expr, scope: Scope) -> Term:
    operand = type_expression(node.this, scope)
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


def _case(node: exp.Expr, scope: Scope) -> Term:
    subject = type_expression(node.this, scope) if node.this else None
    conditions, values = [], []
    for branch in node.args["ifs"]:
        conditions.append(_case_condition(type_expression(branch.this, scope), subject, scope))
        values.append(type_expression(branch.args["true"], scope))
    default = node.args.get("default")
    end = values[-1].span
    values.append(type_expression(default, scope) if default else literals.literal(None, pa.null(), end))
    common = common_type_of(values)
    if common is None:
        types = ", ".join(dict.fromkeys(spark_name(value.type) for value in values))
        raise scope.error(f"CASE needs values of one type, but got {types}", _join(*values))
    pairs = [part for pair in zip(conditions, values, strict=False) for part in pair]
    coerced = (*(_BOOLEAN, common) * len(conditions), common)
    return Term("case", (*pairs, values[-1]), common, _join(*conditions, *values), coerced=coerced)


def _case_condition(term: Term, subject: Term | None, scope: Scope) -> Term:
    if subject is None:
        return require_boolean(term, "WHEN", scope)
    return _compare("eq", subject, term, scope)


_EXTRACTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOW", "DOY", "HOUR", "MINUTE", "SECOND")


def _extract(node: exp.Expr, scope: Scope) -> Term:
    field, moment = node.this.name.upper(), type_expression(node.expression, scope)
    if field not in _EXTRACTS:
        raise scope.error(f"EXTRACT knows {', '.join(_EXTRACTS)}, not {field}", moment.span)
    if not is_moment(moment.type):
        raise scope.error(f"EXTRACT needs a date or timestamp, but got {spark_name(moment.type)}", moment.span)
    type = pa.decimal128(8, 6) if field == "SECOND" else pa.int32()
    return Term("extract", (moment,), type, moment.span, field)


def _call(node: exp.Expr, scope: Scope) -> Term:
    return type_call_node(node, scope, type_expression)


def _join(*terms: Term) -> Span:
    return Span(min(term.span.start for term in terms), max(term.span.end for term in terms))


def _table(classes: Iterable[type[exp.Expr]], rule: _Rule) -> dict[type[exp.Expr], _Rule]:
    return dict.fromkeys(classes, rule)


_Rule = Callable[[exp.Expr, Scope], Term]
_RULES: dict[type[exp.Expr], _Rule] = {
    **_table(_COMPARISONS, _comparison),
    **_table(_ARITHMETIC, _arithmetic),
    **_table(_BITS, _bits),
    **_table(_LIKES, _like),
    **_table((exp.And, exp.Or), _logic),
    **_table((exp.Cast, exp.TryCast), _cast),
    exp.Paren: _paren,
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Interval: _interval,
    exp.Neg: _negate,
    exp.Not: _not,
    exp.BitwiseNot: _bit_not,
    exp.DPipe: _concat,
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.Case: _case,
    exp.Extract: _extract,
    exp.Anonymous: _call,
}
