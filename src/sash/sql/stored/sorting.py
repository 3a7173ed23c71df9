"""A whole window in the order of some columns: `SELECT .. FROM packets [WINDOW 10 min] WHERE .. ORDER BY src, ts DESC`.

Where each row of the answer is made of one row of the window, and ORDER BY names columns of it, the order is known
before Spark has seen the rows. So they may be given their places, and Spark a statement without ORDER BY:

    SELECT upper(g) AS g FROM _window_0 AS s WHERE v > 3 ORDER BY k
    SELECT upper(g) AS g, _place FROM _window_0 AS s WHERE v > 3

What comes back, in any order, is put where the places say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from sash.sql.stored.ordering import ROW_CLAUSES, OrderTerm, is_row_by_row, order_term
from sash.sql.stored.sources import StoredSources

_CLAUSES = (*ROW_CLAUSES, "where")


@dataclass(frozen=True)
class Sorting:
    """The order of a question's answer by columns of its window, and the question without it.

    `sql` gives the column `place`, which the view has then, as the last one. SELECT * has it once more.
    """

    terms: tuple[OrderTerm, ...]
    place: str
    sql: str
    has_condition: bool = False

    def __str__(self) -> str:
        return f"ORDER BY {', '.join(map(str, self.terms))}"


def sorting_in(query: exp.Expr, sources: StoredSources, place: str, write: Callable[[exp.Expr], str]) -> Sorting | None:
    """What ORDER BY says of the only source of a SELECT, if nothing else decides about the answer's order."""
    order = query.args.get("order")
    if not isinstance(query, exp.Select) or order is None or not is_row_by_row(query, _CLAUSES):
        return None
    terms = [order_term(each, query, sources) for each in order.expressions]
    known = tuple(term for term in terms if term is not None)
    if len(known) < len(terms):
        return None
    unsorted = query.copy()
    unsorted.set("order", None)
    unsorted.append("expressions", exp.column(place))
    return Sorting(known, place, write(unsorted), query.args.get("where") is not None)
