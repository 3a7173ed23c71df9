"""Sub-queries in FROM and their joins: answers as of one time, joined left to right.

    (SELECT ..) a JOIN (SELECT ..) b USING (k) LEFT JOIN (SELECT ..) c ON b.x = c.x

Names above are `alias.column`. Equalities between the sides become the join's keys; what else ON says of an inner
join becomes a condition on the joined rows. Outer joins keep rows by their keys alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, NotSupportedError, Span
from sash.plan.nodes import AnswerJoin, Derived, Project
from sash.sql.expressions.operators import require_boolean
from sash.sql.expressions.scope import AnswerColumns, AnswerTable, Scope
from sash.sql.expressions.terms import Term
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.places import extent, span_of, word_of
from sash.sql.reading.statements import Select
from sash.sql.types import spark_name

_SIDES = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}
_KINDS = ("", "INNER", "OUTER", "CROSS")
Binder = Callable[[Select], Project]


@dataclass(frozen=True)
class Sources:
    """FROM while it is read: the joined answers, their columns, and conditions that inner joins left over."""

    plan: AnswerJoin | Derived
    columns: AnswerColumns
    conditions: tuple[Term, ...] = ()


def bind_sources(tree: exp.Select, script: str, bind_query: Binder) -> Sources:
    derived, table = _sub_query(tree.args["from_"].this, script, bind_query)
    sources = Sources(derived, _columns(table))
    for join in tree.args.get("joins") or []:
        sources = _joined(sources, join, script, bind_query)
    return sources


def _sub_query(node: exp.Expr, script: str, bind_query: Binder) -> tuple[Derived, AnswerTable]:
    query, alias = node.this, node.args.get("alias")
    if alias is None:
        raise CqlError("a sub-query needs an alias: (SELECT ..) a", script, word_of(node))
    if alias.args.get("columns"):
        raise NotSupportedError("names for the columns of a sub-query behind its alias", script, span_of(alias))
    if "." in alias.name:
        raise CqlError("the alias of a sub-query has no dot", script, span_of(alias))
    if node.args.get("joins"):
        raise NotSupportedError("a join inside of a join; write one JOIN .. ON after the other", script, word_of(node))
    while isinstance(query, exp.Subquery) and query.args.get("alias") is None:
        query = query.this
    plan = bind_query(Select(query, script, extent(query)))
    columns = tuple((output.name, output.expression.type) for output in plan.outputs)
    return Derived(alias.name, plan), AnswerTable(alias.name, columns)


def _columns(table: AnswerTable) -> AnswerColumns:
    return AnswerColumns((table,), tuple(table.fields))


def _joined(left: Sources, join: exp.Expr, script: str, bind_query: Binder) -> Sources:
    right, table = _sub_query(join.this, script, bind_query)
    if left.columns.has(table.alias):
        alias_at = span_of(join.this.args["alias"])
        raise CqlError(f"two sub-queries are named '{table.alias}': give each its own alias", script, alias_at)
    at = word_of(join)
    kind, using, on = join_kind(join, script), join.args.get("using"), join.args.get("on")
    if kind in ("right", "full") and left.conditions:
        what = f"a {kind.upper()} JOIN behind a JOIN whose ON is more than equalities between its sides"
        raise NotSupportedError(what, script, at)
    if kind != "cross" and not using and on is None:
        raise CqlError("JOIN needs USING (..) or ON ..; CROSS JOIN pairs every row with every row", script, at)
    if using:
        return _joined_using(left, right, table, kind, using, script)
    columns = AnswerColumns((*left.columns.tables, table), (*left.columns.visible, *table.fields))
    keys, others = _conditions(on, kind, table, Scope(script, columns)) if on is not None else ((), ())
    plan = AnswerJoin(left.plan, right, kind if keys else "cross", keys)
    return Sources(plan, columns, (*left.conditions, *others))


def join_kind(join: exp.Expr, script: str) -> str:
    """inner, left, right, full or cross; other joins are refused by name."""
    at = word_of(join)
    side, kind, method = (str(join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
    if method or kind not in _KINDS or side not in _SIDES:
        raise NotSupportedError(f"{' '.join(filter(None, (method, side, kind)))} JOIN", script, at)
    if kind == "CROSS" and (join.args.get("on") or join.args.get("using")):
        raise CqlError("CROSS JOIN has no condition: write JOIN", script, at)
    if kind == "OUTER" and not side:
        raise CqlError("OUTER JOIN: write LEFT, RIGHT or FULL before it", script, at)
    return "cross" if kind == "CROSS" else _SIDES[side]


def _joined_using(
    left: Sources, right: Derived, table: AnswerTable, kind: str, using: list[exp.Expr], script: str
) -> Sources:
    """A column of USING stands once, before the others; it is the one of the side that is never missing."""
    keys: dict[str, tuple[Term, Term]] = {}
    for node in using:
        column = exp.Column(this=node.copy())
        one, other = (type_expression(column, Scope(script, side)) for side in (left.columns, _columns(table)))
        if one.op != "field":
            what = f"JOIN by a column that USING of a FULL JOIN made; write ON {_choice(one, other)}"
            raise NotSupportedError(what, script, span_of(node))
        _check_key(one, other, script, span_of(node))
        keys[str(one.value).partition(".")[2]] = (one, other)
    merged = {term.value for pair in keys.values() for term in pair}
    rest = ((name, term) for name, term in (*left.columns.visible, *table.fields) if term.value not in merged)
    shared = ((name, _shared(kind, one, other)) for name, (one, other) in keys.items())
    plan = AnswerJoin(left.plan, right, kind, tuple((str(one.value), str(other.value)) for one, other in keys.values()))
    return Sources(plan, AnswerColumns((*left.columns.tables, table), (*shared, *rest)), left.conditions)


def _choice(made: Term, other: Term) -> str:
    return f"{made.args[0].value} = {other.value}"


def _shared(kind: str, left: Term, right: Term) -> Term:
    if kind == "full":
        return Term("coalesce", (left, right), left.type, left.span, coerced=(left.type, left.type))
    return right if kind == "right" else left


def _conditions(
    on: exp.Expr, kind: str, table: AnswerTable, scope: Scope
) -> tuple[tuple[tuple[str, str], ...], tuple[Term, ...]]:
    """The equalities of ON between the sides, and what else it says."""
    condition = require_boolean(type_expression(on, scope), "ON", scope)
    keys: list[tuple[str, str]] = []
    others: list[Term] = []
    for part in condition.args if condition.op == "and" else (condition,):
        sides = _sides(part, table)
        if sides is None:
            others.append(part)
            continue
        _check_key(*sides, scope.script, part.span)
        keys.append((str(sides[0].value), str(sides[1].value)))
    if others and kind != "inner":
        raise scope.unsupported(f"{kind.upper()} JOIN ON anything but equalities between its sides", others[0].span)
    return tuple(dict.fromkeys(keys)), tuple(others)


def _sides(condition: Term, table: AnswerTable) -> tuple[Term, Term] | None:
    """`a.x = b.y` as (left, right), whichever way around it was written; None for any other condition."""
    if condition.op != "eq" or any(term.op != "field" for term in condition.args):
        return None
    one, other = condition.args
    is_right = [str(term.value).startswith(f"{table.alias}.") for term in (one, other)]
    return (one, other) if is_right == [False, True] else (other, one) if is_right == [True, False] else None


def _check_key(left: Term, right: Term, script: str, at: Span) -> None:
    if left.type != right.type:
        types = f"{left.value} is {spark_name(left.type)} and {right.value} is {spark_name(right.type)}"
        raise CqlError(f"JOIN needs equal types, but {types}: CAST one inside its sub-query", script, at)
    if pt.is_null(left.type):
        raise CqlError(f"JOIN needs a type: write CAST(NULL AS ..) for {left.value}", script, at)
