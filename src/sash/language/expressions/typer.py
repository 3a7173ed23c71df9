"""Types of expressions, over sqlglot's tree: each node becomes a Term, or an error at its word.

Only the nodes in `_RULES` exist for Sash; everything else that sqlglot can read is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from sqlglot import exp

from sash.language.expressions import forms, literals, names, operators, predicates
from sash.language.expressions.calls import type_call_node
from sash.language.expressions.scope import Scope, Typer
from sash.language.expressions.terms import Term
from sash.language.reading.places import span_of, word_of

NAMED: dict[type[exp.Expr], str] = {
    exp.Subquery: "sub-queries in an expression",
    exp.Select: "sub-queries in an expression",
    exp.Exists: "sub-queries (EXISTS)",
    exp.Window: "window functions (OVER)",
    exp.Filter: "FILTER on an aggregate",
    exp.WithinGroup: "WITHIN GROUP; write QUANTILE_CONT(x, p) for PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)",
    exp.Distinct: "DISTINCT in an aggregate",
    exp.Bracket: "elements of arrays and maps",
    exp.Dot: "fields of structs, and functions behind a dot",
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
        what = NAMED.get(type(node), f"{type(node).__name__.upper()} in an expression")
        raise scope.unsupported(what, word_of(node))
    extra = next((key for key, value in node.args.items() if value and key not in _UNDERSTOOD), None)
    if extra is not None:
        what = "fields of structs" if isinstance(node, exp.Column) else f"{extra.upper()} in an expression"
        raise scope.unsupported(what, span_of(node))
    term = rule(node, scope, type_expression)
    return predicates.negated(term) if node.args.get("negate") else term


def _paren(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    return typed(node.this, scope)


def _literal(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    span = span_of(node)
    return literals.literal(node.name, pa.string(), span) if node.is_string else literals.number(node.name, scope, span)


def _null(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    return literals.literal(None, pa.null(), span_of(node))


def _boolean(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    return literals.literal(bool(node.this), pa.bool_(), span_of(node))


def _interval(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    assert isinstance(node, exp.Interval)
    return literals.interval(node, scope, span_of(node))


_Rule = Callable[[exp.Expr, Scope, Typer], Term]


def _table(classes: Iterable[type[exp.Expr]], rule: _Rule) -> dict[type[exp.Expr], _Rule]:
    return dict.fromkeys(classes, rule)


_RULES: dict[type[exp.Expr], _Rule] = {
    **_table(predicates.COMPARISONS, predicates.comparison),
    **_table(predicates.LIKES, predicates.like),
    **_table((exp.And, exp.Or), predicates.logic),
    exp.Not: predicates.negation,
    exp.In: predicates.is_in,
    exp.Between: predicates.between,
    exp.Is: predicates.is_predicate,
    **_table(operators.ARITHMETIC, operators.arithmetic),
    **_table(operators.BITS, operators.bits),
    exp.Neg: operators.negate,
    exp.BitwiseNot: operators.bit_not,
    exp.DPipe: operators.concat,
    **_table((exp.Cast, exp.TryCast), forms.cast),
    exp.Case: forms.case,
    exp.Extract: forms.extract,
    exp.Paren: _paren,
    exp.Column: names.column,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Interval: _interval,
    exp.Anonymous: type_call_node,
}
