"""Aggregates that give one row per item: TOP(k, x [, weight]), FREQUENT(k, x), HISTOGRAM(x), APPROX_TOP(k, x)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.language.expressions import constants
from sash.language.expressions.aggregates import type_aggregate
from sash.language.expressions.coercion import is_interval
from sash.language.expressions.scope import Scope, Typer
from sash.language.expressions.terms import Term, render
from sash.language.reading.places import span_of, word_of
from sash.language.types import spark_name

# Whether the first argument is k, and whether there may be a weight.
ITEM_FUNCTIONS: dict[str, tuple[bool, bool]] = {
    "top": (True, True),
    "frequent": (True, False),
    "histogram": (False, False),
    "approx_top": (True, False),
}
# Those whose counts are estimates with bounds.
ESTIMATES = ("frequent", "approx_top")


@dataclass(frozen=True)
class ItemCall:
    """`weight` is the aggregate by which items are ranked: their count, or a sum."""

    function: str
    count: int | None
    item: Term
    item_node: exp.Expr
    weight: Term

    @property
    def weight_name(self) -> str:
        return "count" if self.weight.value == "count" else "weight"


def is_item_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in ITEM_FUNCTIONS


def type_item_call(node: exp.Expr, scope: Scope, typed: Typer) -> ItemCall:
    function, title = node.name.lower(), node.name.upper()
    takes_count, takes_weight = ITEM_FUNCTIONS[function]
    scope.check_aggregate(title, word_of(node))
    wanted = ["a count k"] * takes_count + ["an item"]
    if not len(wanted) <= len(node.expressions) <= len(wanted) + takes_weight:
        optional = ", and a weight such as SUM(y)" if takes_weight else ""
        got = f"got {len(node.expressions)} argument{'s' * (len(node.expressions) != 1)}"
        raise scope.error(f"{title} takes {' and '.join(wanted)}{optional}; {got}", word_of(node))
    arguments = list(node.expressions)
    count = constants.positive_whole(arguments.pop(0), title, scope) if takes_count else None
    item = _item(arguments[0], title, scope, typed)
    by_count = Term("aggregate", (item,), pa.int64(), word_of(node), "count")
    weight = _weight(arguments[1], by_count, title, scope, typed) if len(arguments) == 2 else by_count
    return ItemCall(function, count, item, arguments[0], weight)


def _item(node: exp.Expr, title: str, scope: Scope, typed: Typer) -> Term:
    if isinstance(node, exp.Star):
        raise scope.error(f"{title} needs a column or an expression as its item", span_of(node))
    item = typed(node, scope.without_aggregates(f"cannot stand inside {title}"))
    if pt.is_nested(item.type) or pt.is_null(item.type) or is_interval(item.type):
        raise scope.unsupported(f"{title} of {spark_name(item.type)}", span_of(node))
    return item


def _weight(node: exp.Expr, by_count: Term, title: str, scope: Scope, typed: Typer) -> Term:
    """SUM(y); COUNT(*) and COUNT of the item say what is meant without a weight."""
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("sum", "count"):
        weight = type_aggregate(node, scope, typed)
        if weight.value == "sum":
            return weight
        if weight.value == "count" and (not weight.args or render(weight) == render(by_count)):
            return by_count
    raise scope.unsupported(f"{title} by another weight than SUM(..) or COUNT(*)", word_of(node))
