"""What a SELECT of a continuous query may consist of; every other clause is refused at its word, with the way out."""

from __future__ import annotations

from sqlglot import exp

from sash.core.errors import CqlError, NotSupportedError
from sash.sql.binding.select_list import SelectEntry
from sash.sql.binding.shape import check_shape, word_in
from sash.sql.binding.windows import has_slide
from sash.sql.continuous.slides import without_panes
from sash.sql.expressions.aggregates import is_item_call
from sash.sql.expressions.scope import Scope
from sash.sql.reading.places import bounds_at, is_approximate, word_of
from sash.sql.reading.statements import Select

_UNORDERED = {"order": "ORDER BY", "limit": "LIMIT"}
# The columns that every change has beside those of the answer.
_RESERVED = ("_ts", "_exp", "_sign")


def unwrapped(tree: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it, unless they carry clauses of their own."""
    while isinstance(tree, exp.Subquery) and {key for key, value in tree.args.items() if value} == {"this"}:
        tree = tree.this
    return tree


def check_select(select: Select) -> exp.Select:
    tree = check_shape(select, continuous=True)
    check_unordered(select)
    distinct = tree.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise NotSupportedError("DISTINCT ON", select.script, word_in(select, "DISTINCT"))
    item = next((node.unalias() for node in tree.expressions if is_item_call(node.unalias())), None)
    if item is not None:
        what = f"{item.name.upper()} {without_panes(slides=has_slide(select))}"
        raise NotSupportedError(what, select.script, word_of(item))
    _check_exact(select, tree)
    return tree


def check_unordered(select: Select) -> None:
    for key, clause in _UNORDERED.items():
        if select.tree.args.get(key) is not None:
            reason = f"a change stream has no order: leave out {clause}; query.view() is a table that can be sorted"
            if has_slide(select):
                ways = "answer.table can be sorted (sort_by) and cut (slice)"
                reason = f"there is no {clause} {without_panes(slides=True)}: leave it out; {ways}"
            raise CqlError(reason, select.script, word_in(select, clause))


def _check_exact(select: Select, tree: exp.Select) -> None:
    bounds, having = bounds_at(tree), tree.args.get("having")
    if bounds is not None:
        raise NotSupportedError(f"WITH BOUNDS {without_panes(slides=has_slide(select))}", select.script, bounds)
    if having is not None and is_approximate(having):
        what = f"HAVING APPROX {without_panes(slides=has_slide(select))}"
        raise NotSupportedError(what, select.script, word_in(select, "APPROX"))


def check_names(columns: list[SelectEntry], scope: Scope) -> None:
    for column in columns:
        if column.name.lower() in _RESERVED:
            reason = f"'{column.name}' is a column that every change has: give this one another name (AS ..)"
            raise scope.error(reason, column.span)
