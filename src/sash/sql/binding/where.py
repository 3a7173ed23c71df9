"""WHERE: conditions on the rows themselves, and tests against sub-queries.

    WHERE a.x > 1 AND NOT EXISTS (SELECT ..) AND b.y IN (SELECT ..)

The parts are those that AND joins at the top: a test inside of OR or NOT would not be a join.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sash.core.errors import Span
from sash.sql.expressions.operators import conjuncts, require_boolean
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.places import span_of


@dataclass(frozen=True)
class WrittenTest:
    """A condition against a sub-query that is not bound yet; `value` is the x of `x IN (..)`, None for EXISTS."""

    query: exp.Expr
    node: exp.Expr
    negated: bool
    value: Term | None
    at: Span


def split_where(tree: exp.Select, scope: Scope) -> tuple[list[Term], list[WrittenTest]]:
    """The conditions of WHERE, and its tests; aggregates stand in neither."""
    where = tree.args.get("where")
    inner = scope.without_aggregates("cannot stand in WHERE; HAVING tests aggregates")
    conditions: list[Term] = []
    tests: list[WrittenTest] = []
    for part in conjuncts(where.this) if where is not None else []:
        test = _test(part, inner)
        if test is not None:
            tests.append(test)
            continue
        _refuse_inside(part, scope)
        condition = require_boolean(type_expression(part, inner), "WHERE", inner)
        conditions.extend(condition.args if condition.op == "and" else (condition,))
    return conditions, tests


def own_scope(scope: Scope) -> Scope:
    """The scope without the query around it: only WHERE, and the SELECT list of EXISTS, may refer to that."""
    return replace(scope, columns=replace(scope.columns, outer=None))


def _test(node: exp.Expr, scope: Scope) -> WrittenTest | None:
    inner, negated = node, False
    while isinstance(inner, exp.Not):
        inner, negated = inner.this.unnest(), not negated
    query = _query_of(inner)
    if query is None:
        return None
    negated ^= bool(inner.args.get("negate"))
    value = type_expression(inner.this, own_scope(scope)) if isinstance(inner, exp.In) else None
    return WrittenTest(query, inner, negated, value, _word(inner, query, scope))


def _query_of(node: exp.Expr) -> exp.Expr | None:
    """The sub-query of EXISTS or IN, without its parentheses."""
    query = node.args.get("query") if isinstance(node, exp.In) else node.this if isinstance(node, exp.Exists) else None
    return query.unnest() if isinstance(query, exp.Subquery) else query


def _refuse_inside(node: exp.Expr, scope: Scope) -> None:
    for part in node.find_all(exp.Exists, exp.In):
        query = _query_of(part)
        if query is not None:
            word = "IN" if isinstance(part, exp.In) else "EXISTS"
            reason = f"{word} (SELECT ..) is a condition of its own, joined to the others of WHERE by AND"
            raise scope.error(reason, _word(part, query, scope))


def _word(node: exp.Expr, query: exp.Expr, scope: Scope) -> Span:
    """The word IN or EXISTS, which sqlglot does not remember: the last one before the sub-query."""
    word = "IN" if isinstance(node, exp.In) else "EXISTS"
    start = scope.script.upper().rfind(word, 0, span_of(query).start)
    return Span(start, start + len(word))
