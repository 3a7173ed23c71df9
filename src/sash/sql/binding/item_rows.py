"""SELECT TOP(k, x) and its like: one row per item, beside it only GROUP BY keys.

Project <- Items <- Aggregate(keys: the group's, then the item; calls: the item's count or weight)
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from sash.core.errors import CqlError
from sash.plan.expressions import Field
from sash.plan.nodes import Aggregate, Filter, Items, Output, Project, Windowed
from sash.sql.binding.groups import GroupingColumns
from sash.sql.binding.select_list import SelectEntry, distinct, entry, group_keys, output_name
from sash.sql.binding.shape import word_in
from sash.sql.expressions.aggregates import ESTIMATES, ItemCall, is_item_call, type_item_call
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import render
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.places import bounds_at, span_of, word_of
from sash.sql.reading.statements import Select

# The clauses that belong into a SELECT around it, and what they are there.
_REFUSED = {"having": ("HAVING", "WHERE"), "order": ("ORDER BY", "ORDER BY"), "limit": ("LIMIT", "LIMIT")}
_BOUNDS = ("lower", "upper")


def asks_for_items(tree: exp.Select) -> bool:
    return any(is_item_call(node.unalias()) for node in tree.expressions)


def bind_items(select: Select, tree: exp.Select, scope: Scope, source: Filter | Windowed) -> Project:
    node = _only_call(tree, scope)
    title = node.unalias().name.upper()
    _refuse_clauses(select, tree, title)
    call = type_item_call(node.unalias(), scope, type_expression)
    bounds = _bounds(tree, call, title, scope)
    beside = scope.without_aggregates(f"cannot stand beside {title}, only GROUP BY keys; JOIN two sub-queries in FROM")
    columns = [_item_entry(node, call) if part is node else entry(part, beside) for part in tree.expressions]
    groups = GroupingColumns(scope, reserved=_BOUNDS if bounds else ())
    for key in group_keys(tree, scope, columns):
        groups.add_key(key)
    if groups.has_key(call.item):
        reason = f"'{render(call.item)}' is in GROUP BY, so a group has one such item: leave it out there"
        raise scope.error(reason, span_of(call.item_node))
    outputs = _outputs(columns, call, groups, bounds, scope)
    items = Items(Aggregate(source, groups.keys, groups.calls), call.function, call.count, bounds)
    return Project(items, outputs)


def _outputs(
    columns: list[SelectEntry], call: ItemCall, groups: GroupingColumns, bounds: bool, scope: Scope
) -> tuple[Output, ...]:
    """The keys as they are; for the call the item, its count or weight, and their bounds."""
    item = next(column for column in columns if column.term is call.weight)
    keys = {column.name: Output(column.name, groups.translate(column.term)) for column in columns if column is not item}
    groups.add_key(call.item)
    own = [Output(item.name, groups.translate(call.item)), Output(call.weight_name, groups.translate(call.weight))]
    own += [Output(name, Field(name, pa.int64())) for name in _BOUNDS if bounds]
    _check_names(columns, item, [output.name.lower() for output in own], scope)
    return tuple(output for column in columns for output in (own if column is item else [keys[column.name]]))


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


def _bounds(tree: exp.Select, call: ItemCall, title: str, scope: Scope) -> bool:
    at = bounds_at(tree)
    if at is not None and call.function not in ESTIMATES:
        raise scope.error(f"WITH BOUNDS: the counts of {title} are exact; APPROX_TOP and FREQUENT have bounds", at)
    return at is not None


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
