"""From a parsed SELECT to a logical plan: names resolved, types checked, aggregates collected.

    SELECT outputs FROM stream [window] WHERE predicate GROUP BY keys HAVING .. ORDER BY .. LIMIT ..

Every clause is one function below; `bind` shows their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Catalog, Stream
from sash.core.errors import CqlError, NotSupportedError, Span, nearest
from sash.language.answers import Groups, row_expression
from sash.language.coercion import is_interval
from sash.language.dialect import span_of
from sash.language.scope import Scope
from sash.language.shape import check_shape
from sash.language.statements import Select
from sash.language.terms import Term, render
from sash.language.typer import require_boolean, type_expression
from sash.language.types import spark_name
from sash.language.windows import bind_window
from sash.plan.nodes import Aggregate, Filter, Having, Limit, Output, Project, Sort, SortKey, StreamScan, Windowed


@dataclass(frozen=True)
class _Item:
    """One entry of the SELECT list."""

    name: str
    term: Term
    span: Span


def bind(select: Select, catalog: Catalog, *, periodic: bool) -> Project:
    """The plan of a periodic (or one-time) aggregate; CqlError at the word that is wrong."""
    try:
        return _bind(select, catalog, periodic)
    except RecursionError:
        raise CqlError("nested too deeply", select.script, Span(select.span.start, select.span.start + 6)) from None


def _bind(select: Select, catalog: Catalog, periodic: bool) -> Project:
    tree = check_shape(select)
    table = tree.args["from_"].this
    stream = _stream(table, catalog, select.script)
    window = bind_window(table, stream, select.script, periodic=periodic)
    scope = Scope(select.script, stream, table.alias or table.name)
    items = _items(tree, scope)
    source = _filter(tree, scope, Windowed(StreamScan(stream.name), window))
    groups = Groups(scope)
    for key in _keys(tree, scope, items):
        groups.add_key(key)
    having = _having(tree, scope, items, {key.name.lower() for key in groups.keys})
    order = _order(tree, scope, items)
    asked = [item.term for item in items] + [term for term, _, _ in order] + ([having] if having is not None else [])
    if tree.args.get("group") is None and not any(has_aggregate(term) for term in asked):
        raise NotSupportedError("a SELECT without aggregates", select.script, span_of(tree.expressions[0]))
    outputs = tuple(Output(item.name, groups.translate(item.term)) for item in items)
    condition = groups.translate(having) if having is not None else None
    sort_keys = tuple(SortKey(groups.translate(term), descending, first) for term, descending, first in order)
    aggregate = Aggregate(source, groups.keys, groups.calls)
    filtered = Having(aggregate, condition) if condition is not None else aggregate
    ordered = Sort(filtered, sort_keys) if sort_keys else filtered
    count = _limit(tree, scope)
    return Project(Limit(ordered, count) if count is not None else ordered, outputs)


def has_aggregate(term: Term) -> bool:
    return any(part.op == "aggregate" for part in term.walk())


def _stream(table: exp.Expr, catalog: Catalog, script: str) -> Stream:
    for stream in catalog.streams:
        if stream.name.lower() == table.name.lower():
            return stream
    hint = nearest(table.name, (stream.name for stream in catalog.streams)) or "; CREATE STREAM makes one"
    raise CqlError(f"unknown stream '{table.name}'{hint}", script, span_of(table.this))


def _items(tree: exp.Select, scope: Scope) -> list[_Item]:
    items: dict[str, _Item] = {}
    for node in tree.expressions:
        item = _item(node, scope)
        other = items.get(item.name.lower())
        if other is not None:
            reason = f"two columns of the answer are named '{item.name}' and '{other.name}': give one an alias with AS"
            raise scope.error(reason, item.span)
        items[item.name.lower()] = item
    return list(items.values())


def _item(node: exp.Expr, scope: Scope) -> _Item:
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        raise scope.error("SELECT * has no meaning over groups: name keys and aggregates", span_of(node))
    inner = node.this if isinstance(node, exp.Alias) else node
    term = type_expression(inner, scope)
    if is_interval(term.type):
        raise scope.unsupported("intervals in an answer", term.span)
    if isinstance(node, exp.Alias):
        return _Item(node.alias, term, span_of(node.args["alias"]))
    return _Item(_output_name(inner, term), term, span_of(inner))


def _output_name(node: exp.Expr, term: Term) -> str:
    """A column as it was written, anything else as Spark would name it."""
    return node.name if isinstance(node, exp.Column) else render(term, str.lower)


def _filter(tree: exp.Select, scope: Scope, input: Windowed) -> Filter | Windowed:
    where = tree.args.get("where")
    if where is None:
        return input
    inner = scope.without_aggregates("cannot stand in WHERE; HAVING tests aggregates")
    predicate = require_boolean(type_expression(where.this, inner), "WHERE", scope)
    return Filter(input, row_expression(predicate))


def _keys(tree: exp.Select, scope: Scope, items: list[_Item]) -> list[Term]:
    group = tree.args.get("group")
    if group is None:
        return []
    aliases = {item.name.lower(): item.term for item in items}
    inner = scope.with_aliases(aliases, no_aggregates="cannot stand in GROUP BY")
    keys = []
    for node in group.expressions:
        term = _ordinal(node, scope, items, "GROUP BY") or type_expression(node, inner)
        keys.append(_checked_key(term, span_of(node), scope))
    return keys


def _checked_key(term: Term, at: Span, scope: Scope) -> Term:
    if has_aggregate(term):
        raise scope.error("an aggregate cannot stand in GROUP BY", at)
    if pt.is_nested(term.type) or pt.is_null(term.type) or is_interval(term.type):
        raise scope.unsupported(f"GROUP BY of {spark_name(term.type)}", at)
    return term


def _ordinal(node: exp.Expr, scope: Scope, items: list[_Item], clause: str) -> Term | None:
    """`GROUP BY 1` and `ORDER BY 2` mean a place in the SELECT list."""
    if not (isinstance(node, exp.Literal) and node.is_int):
        return None
    place = int(node.name)
    if not 1 <= place <= len(items):
        raise scope.error(f"{clause} {place}: the SELECT list has {len(items)} entries", span_of(node))
    return items[place - 1].term


def _having(tree: exp.Select, scope: Scope, items: list[_Item], keys: set[str]) -> Term | None:
    """In HAVING an alias hides a column that is not grouped, as in Spark."""
    having = tree.args.get("having")
    if having is None:
        return None
    aliases = {item.name.lower(): item.term for item in items if item.name.lower() not in keys}
    inner = scope.with_aliases(aliases, first=True)
    return require_boolean(type_expression(having.this, inner), "HAVING", scope)


def _order(tree: exp.Select, scope: Scope, items: list[_Item]) -> list[tuple[Term, bool, bool]]:
    """Terms with whether they descend and whether NULLs come first."""
    order = tree.args.get("order")
    if order is None:
        return []
    inner = scope.with_aliases({item.name.lower(): item.term for item in items}, first=True)
    keys = []
    for node in order.expressions:
        term = _ordinal(node.this, scope, items, "ORDER BY") or type_expression(node.this, inner)
        keys.append((term, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
    return keys


def _limit(tree: exp.Select, scope: Scope) -> int | None:
    limit = tree.args.get("limit")
    if limit is None:
        return None
    node = limit.expression if isinstance(limit, exp.Limit) else None
    if not (isinstance(node, exp.Literal) and node.is_int):
        raise scope.error("LIMIT needs a whole number", span_of(limit))
    return int(node.name)
