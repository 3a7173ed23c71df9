"""The SELECT list, and the clauses that may refer to it: GROUP BY, HAVING, QUALIFY, ORDER BY, LIMIT and WITH BOUNDS.

SELECT TOP(k, x) and its like give a row per item: beside the call stand only GROUP BY keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, Span
from sash.sql.binding.grouping import Grouping, grouping_of, grouping_sets
from sash.sql.binding.shape import word_in
from sash.sql.expressions.aggregates import ESTIMATES, ItemCall, is_item_call, type_item_call
from sash.sql.expressions.operators import require_boolean
from sash.sql.expressions.scope import WINDOW_FUNCTIONS, Scope, check_qualifier
from sash.sql.expressions.terms import Term, asked_in, column_of, render, shown
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.places import bounds_at, span_of, word_of
from sash.sql.reading.statements import Select
from sash.sql.types import is_interval, spark_name

# TOP and its like: the clauses that belong into a SELECT around it, and their names there.
_REFUSED = {
    "having": ("HAVING", "WHERE"),
    **{word.split()[0].lower(): (word, word) for word in ("QUALIFY", "ORDER BY", "LIMIT")},
}
_BOUNDS = ("lower", "upper")


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


def entries(tree: exp.Select, scope: Scope) -> list[SelectEntry]:
    found: list[SelectEntry | StarColumn] = []
    for node in tree.expressions:
        if _is_star(node):
            found.extend(_expanded(node, scope))
        else:
            found.append(_entry(node, scope))
    return _distinct(_prefixed(found), scope)


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


def _distinct(found: Iterable[SelectEntry], scope: Scope) -> list[SelectEntry]:
    """The entries; an error if two of them have one name."""
    by_name: dict[str, SelectEntry] = {}
    for column in found:
        other = by_name.get(column.name.lower())
        if other is not None:
            names = f"'{column.name}' and '{other.name}'"
            raise scope.error(f"two columns of the answer are named {names}: give one an alias with AS", column.span)
        by_name[column.name.lower()] = column
    return list(by_name.values())


def _entry(node: exp.Expr, scope: Scope) -> SelectEntry:
    inner = node.this if isinstance(node, exp.Alias) else node
    term = type_expression(inner, scope)
    if is_interval(term.type):
        raise scope.unsupported("intervals in an answer", term.span)
    if isinstance(node, exp.Alias):
        return SelectEntry(node.alias, term, span_of(node.args["alias"]))
    return SelectEntry(_output_name(inner, term), term, span_of(inner))


def _output_name(node: exp.Expr, term: Term) -> str:
    """A column as it was written, anything else as Spark would name it."""
    is_column = isinstance(node, exp.Column) or node.name.lower() in WINDOW_FUNCTIONS
    return node.name if is_column else render(term, str.lower)


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


def group_keys(tree: exp.Select, scope: Scope, columns: list[SelectEntry]) -> Grouping:
    group = tree.args.get("group")
    if group is None:
        return Grouping()
    inner = scope.with_aliases(aliases(columns), no_aggregates="cannot stand in GROUP BY")

    def key(node: exp.Expr) -> Term:
        term = ordinal(node, scope, columns, "GROUP BY") or type_expression(node, inner)
        return _checked_key(term, span_of(node), scope)

    sets = grouping_sets(group, scope)
    return (
        grouping_of([[key(node) for node in each] for each in sets])
        if sets
        else Grouping(tuple(key(node) for node in group.expressions))
    )


def having(tree: exp.Select, scope: Scope, columns: list[SelectEntry], keys: Sequence[Term]) -> Term | None:
    """In HAVING an alias hides a column that is not grouped, as in Spark."""
    clause = tree.args.get("having")
    if clause is None:
        return None
    grouped = {column_of(key).lower() for key in keys if key.op == "field"}
    named = {name: term for name, term in aliases(columns).items() if name not in grouped}
    inner = scope.with_aliases(named, first=True)
    condition = require_boolean(type_expression(clause.this, inner), "HAVING", scope)
    for part in condition.walk():
        if part.op == "over":
            raise scope.error("HAVING comes before OVER: write the condition into QUALIFY, behind HAVING", part.span)
    return condition


def qualify(tree: exp.Select, scope: Scope, columns: list[SelectEntry]) -> Term | None:
    """QUALIFY tests window functions, its own and those of the SELECT list by their aliases."""
    clause = tree.args.get("qualify")
    if clause is None:
        return None
    inner = scope.with_aliases(aliases(columns), first=True)
    condition = require_boolean(type_expression(clause.this, inner), "QUALIFY", scope)
    if not any(part.op == "over" for part in condition.walk()):
        reason = "QUALIFY tests window functions, ROW_NUMBER() OVER (..) <= 3; HAVING tests groups, WHERE rows"
        raise scope.error(reason, condition.span)
    return condition


def _checked_key(term: Term, at: Span, scope: Scope) -> Term:
    if term.has_aggregate:
        raise scope.error("an aggregate cannot stand in GROUP BY", at)
    if asked_in(term):
        raise scope.error("a sub-query cannot stand in GROUP BY", at)
    if pt.is_nested(term.type) or pt.is_null(term.type) or is_interval(term.type):
        raise scope.unsupported(f"GROUP BY of {spark_name(term.type)}", at)
    return term


def order(tree: exp.Expr, scope: Scope, columns: list[SelectEntry], named: dict[str, Term]) -> list[Order]:
    """The keys of ORDER BY; `columns` are counted by places, `named` are the aliases."""
    clause = tree.args.get("order")
    if clause is None:
        return []
    inner = scope.with_aliases(named, first=True)
    keys = []
    for node in clause.expressions:
        term = ordinal(node.this, scope, columns, "ORDER BY") or type_expression(node.this, inner)
        if pt.is_nested(term.type):
            raise scope.unsupported(f"ORDER BY of {spark_name(term.type)}", span_of(node.this))
        keys.append(Order(term, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
    return keys


def limit(tree: exp.Expr, scope: Scope) -> int | None:
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
    return _distinct(found, scope)


def _bounds(column: SelectEntry, estimates: Sequence[str]) -> list[SelectEntry]:
    term = column.term.args[0] if column.term.op == "filter" else column.term
    if term.op != "aggregate" or term.value not in estimates:
        return []
    type = pa.float64() if term.value == "sum" else term.type
    bounds = [(side, replace(term, value=f"{term.value}_{side}", type=type)) for side in ("lower", "upper")]
    if column.term.op == "filter":
        condition = column.term.args[1]
        bounds = [(side, Term("filter", (bound, condition), type, term.span)) for side, bound in bounds]
    return [SelectEntry(f"{column.name}_{side}", bound, column.span) for side, bound in bounds]


def asks_for_items(tree: exp.Select) -> bool:
    return any(is_item_call(node.unalias()) for node in tree.expressions)


def bind_items(select: Select, tree: exp.Select, scope: Scope) -> ItemRows:
    node = _only_call(tree, scope)
    title = node.unalias().name.upper()
    _refuse_clauses(select, tree, title)
    call = type_item_call(node.unalias(), scope, type_expression)
    bounds = _item_bounds(tree, call, title, scope)
    beside = scope.without_aggregates(f"cannot stand beside {title}, only GROUP BY keys; JOIN two sub-queries in FROM")
    for part in tree.expressions:
        refuse_star(part, scope)
    columns = [_item_entry(node, call) if part is node else _entry(part, beside) for part in tree.expressions]
    grouping = group_keys(tree, scope, columns)
    keys = grouping.keys
    if grouping.sets:
        what = f"GROUPING SETS beside {title}; give each set its own query"
        raise scope.unsupported(what, word_in(select, "GROUP BY"))
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


def _item_bounds(tree: exp.Select, call: ItemCall, title: str, scope: Scope) -> tuple[str, ...]:
    at = bounds_at(tree)
    if at is not None and call.function not in ESTIMATES:
        raise scope.error(f"WITH BOUNDS: the counts of {title} are exact; APPROX_TOP and FREQUENT have bounds", at)
    return _BOUNDS if at is not None else ()


def _item_entry(node: exp.Expr, call: ItemCall) -> SelectEntry:
    """The entry's term is the weight: an aggregate, which GROUP BY refuses."""
    if isinstance(node, exp.Alias):
        return SelectEntry(node.alias, call.weight, span_of(node.args["alias"]))
    return SelectEntry(_output_name(call.item_node, call.item), call.weight, span_of(node))


def _check_names(columns: list[SelectEntry], item: SelectEntry, own: list[str], scope: Scope) -> None:
    if item.name.lower() in own[1:]:
        reason = f"the item's column would be named '{item.name}' like the one beside it: give it an alias with AS"
        raise scope.error(reason, item.span)
    for column in _distinct(columns, scope):
        if column is not item and column.name.lower() in own:
            reason = f"two columns of the answer are named '{column.name}': give the key an alias with AS"
            raise scope.error(reason, column.span)
