"""The SELECT list, and the clauses that may refer to it: GROUP BY, HAVING, ORDER BY, and LIMIT behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import Span
from sash.sql.expressions.coercion import is_interval
from sash.sql.expressions.operators import require_boolean
from sash.sql.expressions.scope import AnswerColumns, Scope, check_qualifier
from sash.sql.expressions.terms import Term, render
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.places import span_of
from sash.sql.types import spark_name


@dataclass(frozen=True)
class SelectEntry:
    """One column of the answer: its name, what it means, and where it was asked for."""

    name: str
    term: Term
    span: Span


@dataclass(frozen=True)
class Order:
    """One key of ORDER BY."""

    term: Term
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Starred:
    """A column that `*` or `a.*` stands for; `alias` is that of its table, None for a column of USING."""

    entry: SelectEntry
    alias: str | None


def entries(tree: exp.Select, scope: Scope) -> list[SelectEntry]:
    found: list[SelectEntry | Starred] = []
    for node in tree.expressions:
        if _is_star(node) and isinstance(scope.columns, AnswerColumns):
            found.extend(_expanded(node, scope.columns, scope))
        else:
            found.append(entry(node, scope))
    return distinct(_prefixed(found), scope)


def _prefixed(found: Sequence[SelectEntry | Starred]) -> Iterator[SelectEntry]:
    """The entries; columns of one name that stars stand for get the aliases of their tables as prefixes."""
    names = Counter(each.entry.name.lower() for each in found if isinstance(each, Starred))
    for each in found:
        if isinstance(each, SelectEntry):
            yield each
        elif each.alias is None or names[each.entry.name.lower()] == 1:
            yield each.entry
        else:
            yield replace(each.entry, name=f"{each.alias}_{each.entry.name}")


def distinct(found: Iterable[SelectEntry], scope: Scope) -> list[SelectEntry]:
    """The entries, if no two of them have one name."""
    by_name: dict[str, SelectEntry] = {}
    for column in found:
        other = by_name.get(column.name.lower())
        if other is not None:
            names = f"'{column.name}' and '{other.name}'"
            raise scope.error(f"two columns of the answer are named {names}: give one an alias with AS", column.span)
        by_name[column.name.lower()] = column
    return list(by_name.values())


def entry(node: exp.Expr, scope: Scope) -> SelectEntry:
    if _is_star(node):
        raise scope.error("SELECT * has no meaning over groups: name keys and aggregates", span_of(node))
    inner = node.this if isinstance(node, exp.Alias) else node
    term = type_expression(inner, scope)
    if is_interval(term.type):
        raise scope.unsupported("intervals in an answer", term.span)
    if isinstance(node, exp.Alias):
        return SelectEntry(node.alias, term, span_of(node.args["alias"]))
    return SelectEntry(output_name(inner, term), term, span_of(inner))


def output_name(node: exp.Expr, term: Term) -> str:
    """A column as it was written, anything else as Spark would name it."""
    return node.name if isinstance(node, exp.Column) else render(term, str.lower)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _expanded(node: exp.Expr, columns: AnswerColumns, scope: Scope) -> list[Starred]:
    """`*` and `a.*` over sub-queries and joins."""
    span = span_of(node)
    star = node.this if isinstance(node, exp.Column) else node
    if any(star.args.values()):
        raise scope.unsupported("EXCEPT, REPLACE and RENAME after *", span)
    qualifier = node.args.get("table")
    if qualifier is not None:
        check_qualifier(node, scope)
    expanded = columns.starred(qualifier.name if qualifier is not None else None)
    return [Starred(SelectEntry(name, replace(term, span=span), span), alias) for name, alias, term in expanded]


def aliases(columns: Iterable[SelectEntry]) -> dict[str, Term]:
    return {column.name.lower(): column.term for column in columns}


def ordinal(node: exp.Expr, scope: Scope, columns: list[SelectEntry], clause: str) -> Term | None:
    """`GROUP BY 1` and `ORDER BY 2` mean a place in the SELECT list."""
    if not (isinstance(node, exp.Literal) and node.is_int):
        return None
    place = int(node.name)
    if not 1 <= place <= len(columns):
        raise scope.error(f"{clause} {place}: the SELECT list has {len(columns)} entries", span_of(node))
    return columns[place - 1].term


def group_keys(tree: exp.Select, scope: Scope, columns: list[SelectEntry]) -> list[Term]:
    group = tree.args.get("group")
    if group is None:
        return []
    inner = scope.with_aliases(aliases(columns), no_aggregates="cannot stand in GROUP BY")
    keys = []
    for node in group.expressions:
        term = ordinal(node, scope, columns, "GROUP BY") or type_expression(node, inner)
        keys.append(_checked_key(term, span_of(node), scope))
    return keys


def having(tree: exp.Select, scope: Scope, columns: list[SelectEntry], keys: set[str]) -> Term | None:
    """In HAVING an alias hides a column that is not grouped, as in Spark."""
    clause = tree.args.get("having")
    if clause is None:
        return None
    named = {name: term for name, term in aliases(columns).items() if name not in keys}
    inner = scope.with_aliases(named, first=True)
    return require_boolean(type_expression(clause.this, inner), "HAVING", scope)


def _checked_key(term: Term, at: Span, scope: Scope) -> Term:
    if term.has_aggregate:
        raise scope.error("an aggregate cannot stand in GROUP BY", at)
    if pt.is_nested(term.type) or pt.is_null(term.type) or is_interval(term.type):
        raise scope.unsupported(f"GROUP BY of {spark_name(term.type)}", at)
    return term


def order(tree: exp.Select, scope: Scope, columns: list[SelectEntry], named: dict[str, Term]) -> list[Order]:
    """The keys of ORDER BY; `columns` are counted by places, `named` are the aliases."""
    clause = tree.args.get("order")
    if clause is None:
        return []
    inner = scope.with_aliases(named, first=True)
    keys = []
    for node in clause.expressions:
        term = ordinal(node.this, scope, columns, "ORDER BY") or type_expression(node.this, inner)
        keys.append(Order(term, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
    return keys


def limit(tree: exp.Select, scope: Scope) -> int | None:
    clause = tree.args.get("limit")
    if clause is None:
        return None
    node = clause.expression if isinstance(clause, exp.Limit) else None
    if not (isinstance(node, exp.Literal) and node.is_int):
        raise scope.error("LIMIT needs a whole number", span_of(clause))
    return int(node.name)
