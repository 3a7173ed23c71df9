"""ORDER BY over the rows of one window: which columns of the stream it goes by, and whether each row stays one row.

Said only where it is plain; what is not (expressions, ordinals, one name for several things) is Spark's to judge.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from sash.sql.expressions.functions import FUNCTIONS
from sash.sql.stored.sources import StoredSources

# What a SELECT may have whose answer has one row for each row of its window.
ROW_CLAUSES = ("expressions", "from_", "from", "order")


@dataclass(frozen=True)
class OrderTerm:
    """A column of a window in ORDER BY."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        direction = " DESC" if self.descending else ""
        nulls = "" if self.nulls_first != self.descending else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"{self.column}{direction}{nulls}"


def is_row_by_row(query: exp.Expr, clauses: Collection[str]) -> bool:
    """Whether a SELECT has these clauses only, and all that it computes it computes from one row at a time."""
    order, where = query.args.get("order"), query.args.get("where")
    nodes = [*query.expressions, *(order.expressions if order is not None else []), *([where] if where else [])]
    others = [name for name, given in query.args.items() if given and name not in clauses]
    return not others and all(_is_of_a_row(node) for node in nodes)


def _is_of_a_row(node: exp.Expr) -> bool:
    """Whether an expression looks at one row: no aggregate, no OVER, no sub-query."""
    return not any(
        isinstance(part, exp.AggFunc | exp.Window | exp.Query | exp.Exists)
        or (isinstance(part, exp.Anonymous) and part.name.lower() not in FUNCTIONS)
        for part in node.walk()
    )


def order_term(ordered: exp.Expr, query: exp.Expr, sources: StoredSources) -> OrderTerm | None:
    """What a term of ORDER BY says of the only source: a name that the SELECT list gives goes first."""
    key, source = ordered.this, sources.only
    if source is None or not isinstance(key, exp.Column):
        return None
    if not key.table:
        given = [each for each in query.expressions if _gives(each, key.name, sources)]
        if len(given) > 1:
            return None
        if given and not given[0].is_star:
            key = given[0].unalias()
    owner = sources.owner(key)
    if owner is None or owner[0] != source.view:
        return None
    return OrderTerm(owner[1].name, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))


def _gives(item: exp.Expr, name: str, sources: StoredSources) -> bool:
    """Whether an item of a SELECT list is, or has, a column of this name."""
    if item.is_star:
        return sources.only is not None and sources.only.relation.column(name) is not None
    return item.alias_or_name.lower() == name.lower()
