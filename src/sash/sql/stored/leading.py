"""The first rows of a window in the order of a column: `FROM packets [WINDOW 10 min] ORDER BY length LIMIT 5`.

Where each row of the window is one row of the answer, the answer is made of the first rows by that column, and of
those that have the same value as the last of them: which of these, the other columns of ORDER BY say. Spark puts them
in order, as it does with all.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sash.sql.stored.ordering import ROW_CLAUSES, OrderTerm, is_row_by_row, order_term
from sash.sql.stored.sources import StoredSources

_CLAUSES = (*ROW_CLAUSES, "limit", "offset")


@dataclass(frozen=True)
class Leading:
    """Only the first `count` rows by a column matter, and those that are equal to the last of them."""

    column: str
    count: int
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        return f"ORDER BY {OrderTerm(self.column, self.descending, self.nulls_first)}"


def leading_in(query: exp.Expr, sources: StoredSources) -> Leading | None:
    """What ORDER BY and LIMIT leave of the only source of a SELECT."""
    order, limit = query.args.get("order"), query.args.get("limit")
    if order is None or not isinstance(limit, exp.Limit) or not is_row_by_row(query, _CLAUSES):
        return None
    offset = query.args.get("offset")
    counts = [_whole(limit.expression), 0 if offset is None else _whole(offset.expression)]
    first = order_term(order.expressions[0], query, sources)
    if first is None or None in counts:
        return None
    total = sum(count for count in counts if count is not None)
    return Leading(first.column, total, first.descending, first.nulls_first)


def _whole(node: exp.Expr | None) -> int | None:
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return int(node.name) if is_number and node is not None else None
