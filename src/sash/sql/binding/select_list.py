"""The SELECT list, and the clauses that may refer to it: GROUP BY, HAVING, ORDER BY, LIMIT and WITH BOUNDS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import Span
from sash.sql.expressions.coercion import is_interval
from sash.sql.expressions.operators import require_boolean
from sash.sql.expressions.scope import Scope, check_qualifier
from sash.sql.expressions.terms import Term, column_of, render
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.places import bounds_at, span_of
from sash.sql.types import spark_name


@dataclass(frozen=True)
class SelectEntry:
    """One column of the answer: its name, its meaning, and its place in the text."""

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
class StarColumn:
    """A column of `*` or `a.*`; `alias` is that of its table, None for a column of USING."""

    entry: SelectEntry
    alias: str | None


def entries(tree: exp.Select, scope: Scope) -> list[SelectEntry]:
    found: list[SelectEntry | StarColumn] = []
    for node in tree.expressions:
        if _is_star(node):
            found.extend(_expanded(node, scope))
        else:
            found.append(entry(node, scope))
    return distinct(_prefixed(found), scope)


def _prefixed(found: Sequence[SelectEntry | StarColumn]) -> Iterator[SelectEntry]:
    """The entries; columns of stars with the same name get the aliases of their tables as prefixes."""
    names = Counter(each.entry.name.lower() for each in found if isinstance(each, StarColumn))
    for each in found:
        if isinstance(each, SelectEntry):
            yield each
        elif each.alias is None or names[each.entry.name.lower()] == 1:
            yield each.entry
        else:
            yield replace(each.entry, name=f"{each.alias}_{each.entry.name}")


def distinct(found: Iterable[SelectEntry], scope: Scope) -> list[SelectEntry]:
    """The entries; an error if two of them have one name."""
    by_name: dict[str, SelectEntry] = {}
    for column in found:
        other = by_name.get(column.name.lower())
        if other is not None:
            names = f"'{column.name}' and '{other.name}'"
            raise scope.error(f"two columns of the answer are named {names}: give one an alias with AS", column.span)
        by_name[column.name.lower()] = column
    return list(by_name.values())


def entry(node: exp.Expr, scope: Scope) -> SelectEntry:
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


def refuse_star(node: exp.Expr, scope: Scope) -> None:
    if _is_star(node):
        raise scope.error("SELECT * has no meaning over groups: name keys and aggregates", span_of(node))


def _expanded(node: exp.Expr, scope: Scope) -> list[StarColumn]:
    span = span_of(node)
    star = node.this if isinstance(node, exp.Column) else node
    if any(star.args.values()):
        raise scope.unsupported("EXCEPT, REPLACE and RENAME after *", span)
    qualifier = node.args.get("table")
    if qualifier is not None:
        check_qualifier(node, scope)
    expanded = scope.columns.starred(qualifier.name if qualifier is not None else None)
    return [StarColumn(SelectEntry(name, replace(term, span=span), span), alias) for name, alias, term in expanded]


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


def having(tree: exp.Select, scope: Scope, columns: list[SelectEntry], keys: list[Term]) -> Term | None:
    """In HAVING an alias hides a column that is not grouped, as in Spark."""
    clause = tree.args.get("having")
    if clause is None:
        return None
    grouped = {column_of(key).lower() for key in keys if key.op == "field"}
    named = {name: term for name, term in aliases(columns).items() if name not in grouped}
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


def with_bounds(
    tree: exp.Select, columns: list[SelectEntry], scope: Scope, estimates: Sequence[str]
) -> list[SelectEntry]:
    """WITH BOUNDS: the columns, with `<name>_lower` and `<name>_upper` behind each column that is an estimate."""
    at = bounds_at(tree)
    if at is None:
        return columns
    found = [part for column in columns for part in (column, *_bounds(column, estimates))]
    if len(found) == len(columns):
        known = ", ".join(name.upper() for name in (*estimates, "approx_top", "frequent"))
        raise scope.error(f"WITH BOUNDS needs a column that is one approximate aggregate ({known})", at)
    return distinct(found, scope)


def _bounds(column: SelectEntry, estimates: Sequence[str]) -> list[SelectEntry]:
    term = column.term
    if term.op != "aggregate" or term.value not in estimates:
        return []
    type = pa.float64() if term.value == "sum" else term.type
    return [
        SelectEntry(f"{column.name}_{side}", replace(term, value=f"{term.value}_{side}", type=type), column.span)
        for side in ("lower", "upper")
    ]
