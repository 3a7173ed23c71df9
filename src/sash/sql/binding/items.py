"""SELECT TOP(k, x) and its like: one row per item, beside it only GROUP BY keys."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from sash.core.errors import CqlError
from sash.sql.binding.select_list import SelectEntry, distinct, entry, group_keys, output_name, refuse_star
from sash.sql.binding.shape import word_in
from sash.sql.expressions.aggregates import ESTIMATES, ItemCall, is_item_call, type_item_call
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, render, shown
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.places import bounds_at, span_of, word_of
from sash.sql.reading.statements import Select

# The clauses that belong into a SELECT around it, and their names there.
_REFUSED = {"having": ("HAVING", "WHERE"), "order": ("ORDER BY", "ORDER BY"), "limit": ("LIMIT", "LIMIT")}
_BOUNDS = ("lower", "upper")


@dataclass(frozen=True)
class ItemRows:
    """The rows of one call: `item` is its place in the SELECT list, the other entries are keys."""

    call: ItemCall
    entries: tuple[SelectEntry, ...]
    keys: tuple[Term, ...]
    item: int
    bounds: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The keys unchanged; for the call the item, its count or weight, and their bounds."""
        name, call = self.entries[self.item].name, self.call
        own = [
            (name, call.item.type),
            (call.weight_name, call.weight.type),
            *((each, pa.int64()) for each in self.bounds),
        ]
        listed = [own if place == self.item else [(e.name, e.term.type)] for place, e in enumerate(self.entries)]
        return tuple(column for columns in listed for column in columns)


def asks_for_items(tree: exp.Select) -> bool:
    return any(is_item_call(node.unalias()) for node in tree.expressions)


def bind_items(select: Select, tree: exp.Select, scope: Scope) -> ItemRows:
    node = _only_call(tree, scope)
    title = node.unalias().name.upper()
    _refuse_clauses(select, tree, title)
    call = type_item_call(node.unalias(), scope, type_expression)
    bounds = _bounds(tree, call, title, scope)
    beside = scope.without_aggregates(f"cannot stand beside {title}, only GROUP BY keys; JOIN two sub-queries in FROM")
    for part in tree.expressions:
        refuse_star(part, scope)
    columns = [_item_entry(node, call) if part is node else entry(part, beside) for part in tree.expressions]
    keys = group_keys(tree, scope, columns)
    if render(call.item) in [render(key) for key in keys]:
        reason = f"'{shown(call.item)}' is in GROUP BY, so a group has one such item: leave it out there"
        raise scope.error(reason, span_of(call.item_node))
    item = tree.expressions.index(node)
    own = [name.lower() for name in (columns[item].name, call.weight_name, *bounds)]
    _check_names(columns, columns[item], own, scope)
    return ItemRows(call, tuple(columns), tuple(keys), item, bounds)


def _only_call(tree: exp.Select, scope: Scope) -> exp.Expr:
    first, *others = [node for node in tree.expressions if is_item_call(node.unalias())]
    if others:
        reason = "a SELECT gives the rows of one TOP, FREQUENT, HISTOGRAM or APPROX_TOP: JOIN two sub-queries in FROM"
        raise scope.error(reason, word_of(others[0].unalias()))
    return first


def _refuse_clauses(select: Select, tree: exp.Select, title: str) -> None:
    for key, (clause, around) in _REFUSED.items():
        if tree.args.get(key) is not None:
            reason = f"{clause} cannot stand beside {title}: write SELECT .. FROM (SELECT {title}(..) ..) a {around} .."
            raise CqlError(reason, select.script, word_in(select, clause))


def _bounds(tree: exp.Select, call: ItemCall, title: str, scope: Scope) -> tuple[str, ...]:
    at = bounds_at(tree)
    if at is not None and call.function not in ESTIMATES:
        raise scope.error(f"WITH BOUNDS: the counts of {title} are exact; APPROX_TOP and FREQUENT have bounds", at)
    return _BOUNDS if at is not None else ()


def _item_entry(node: exp.Expr, call: ItemCall) -> SelectEntry:
    """The entry's term is the weight: an aggregate, which GROUP BY refuses."""
    if isinstance(node, exp.Alias):
        return SelectEntry(node.alias, call.weight, span_of(node.args["alias"]))
    return SelectEntry(output_name(call.item_node, call.item), call.weight, span_of(node))


def _check_names(columns: list[SelectEntry], item: SelectEntry, own: list[str], scope: Scope) -> None:
    if item.name.lower() in own[1:]:
        reason = f"the item's column would be named '{item.name}' like the one beside it: give it an alias with AS"
        raise scope.error(reason, item.span)
    for column in distinct(columns, scope):
        if column is not item and column.name.lower() in own:
            reason = f"two columns of the answer are named '{column.name}': give the key an alias with AS"
            raise scope.error(reason, column.span)
