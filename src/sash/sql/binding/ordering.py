"""ORDER BY over the rows of one stored window: the stream's columns in it, and whether each row stays one row. Only for
plain cases; Spark handles the others (expressions, ordinals, ambiguous names).

A whole window in the order of some columns: `SELECT .. FROM packets [WINDOW 10 min] WHERE .. ORDER BY src, ts DESC`. If
each row of the answer is made of one row of the window, and ORDER BY names columns of the window, the order is known
before Spark has read the rows. So rows get places, and Spark a statement without ORDER BY:

    SELECT upper(g) AS g FROM _window_0 AS s WHERE v > 3 ORDER BY k
    SELECT upper(g) AS g, _place FROM _window_0 AS s WHERE v > 3

The result, in any order, is sorted by its places.

The first rows of a window: `FROM packets [WINDOW 10 min] ORDER BY length LIMIT 5`. The answer is made of the first rows
by that column, and of the rows that are equal to the last of them: the other columns of ORDER BY decide which of these.
Spark sorts them, as it sorts all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlglot import exp

from sash.sql.binding.narrowing import StoredSources
from sash.sql.expressions.functions import FUNCTIONS

# The clauses of a SELECT whose answer has one row for each row of its window.
_ROW_CLAUSES = ("expressions", "from_", "from", "order")


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


def _is_row_by_row(query: exp.Expr, clauses: Collection[str]) -> bool:
    """Whether a SELECT has only these clauses, and computes everything from one row at a time."""
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


def _order_term(ordered: exp.Expr, query: exp.Expr, sources: StoredSources) -> OrderTerm | None:
    """A term of ORDER BY as a column of the only source: a name in the SELECT list goes first."""
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


@dataclass(frozen=True)
class LeadingRows:
    """Only the first `count` rows by a column matter, and the rows that are equal to the last of them."""

    column: str
    count: int
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        return f"ORDER BY {OrderTerm(self.column, self.descending, self.nulls_first)}"


def leading_in(query: exp.Expr, sources: StoredSources) -> LeadingRows | None:
    """The rows that ORDER BY and LIMIT need of the only source of a SELECT."""
    order, limit = query.args.get("order"), query.args.get("limit")
    if (
        order is None
        or not isinstance(limit, exp.Limit)
        or not _is_row_by_row(query, (*_ROW_CLAUSES, "limit", "offset"))
    ):
        return None
    offset = query.args.get("offset")
    counts = [_whole(limit.expression), 0 if offset is None else _whole(offset.expression)]
    first = _order_term(order.expressions[0], query, sources)
    if first is None or None in counts:
        return None
    total = sum(count for count in counts if count is not None)
    return LeadingRows(first.column, total, first.descending, first.nulls_first)


def _whole(node: exp.Expr | None) -> int | None:
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return int(node.name) if is_number and node is not None else None


@dataclass(frozen=True)
class WindowOrder:
    """The order of a question's answer by columns of its window, and the question without it.

    `sql` gives the view's column `place` as its last column. SELECT * gives it once more.
    """

    terms: tuple[OrderTerm, ...]
    place: str
    sql: str
    has_condition: bool = False

    def __str__(self) -> str:
        return f"ORDER BY {', '.join(map(str, self.terms))}"


def sorting_in(
    query: exp.Expr, sources: StoredSources, place: str, write: Callable[[exp.Expr], str]
) -> WindowOrder | None:
    """The order of the only source of a SELECT, if nothing else decides about the answer's order."""
    order = query.args.get("order")
    if not isinstance(query, exp.Select) or order is None or not _is_row_by_row(query, (*_ROW_CLAUSES, "where")):
        return None
    terms = [_order_term(each, query, sources) for each in order.expressions]
    known = tuple(term for term in terms if term is not None)
    if len(known) < len(terms):
        return None
    unsorted = query.copy()
    unsorted.set("order", None)
    unsorted.append("expressions", exp.column(place))
    return WindowOrder(known, place, write(unsorted), query.args.get("where") is not None)
