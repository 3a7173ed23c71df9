"""The first rows of a window in the order of a column: `FROM packets [WINDOW 10 min] ORDER BY length LIMIT 5`.

Where each row of the window is one row of the answer, the answer is made of the first rows by that column, and of
those that have the same value as the last of them: which of these, the other columns of ORDER BY say. Spark puts them
in order, as it does with all.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sash.language.functions import FUNCTIONS
from sash.language.sources import Source, Sources

_CLAUSES = ("expressions", "from_", "from", "order", "limit", "offset")


@dataclass(frozen=True)
class Leading:
    """Only the first `count` rows by a column matter, and those that are equal to the last of them."""

    column: str
    count: int
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        direction = " DESC" if self.descending else ""
        nulls = "" if self.nulls_first != self.descending else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"ORDER BY {self.column}{direction}{nulls}"


def leading_in(query: exp.Expr, sources: Sources) -> Leading | None:
    """What ORDER BY and LIMIT leave of the only source of a SELECT."""
    source, order, limit = sources.only, query.args.get("order"), query.args.get("limit")
    if source is None or order is None or not isinstance(limit, exp.Limit):
        return None
    others = [name for name, given in query.args.items() if given and name not in _CLAUSES]
    if others or not all(_is_of_a_row(node) for node in [*query.expressions, *order.expressions]):
        return None
    offset = query.args.get("offset")
    counts = [_whole(limit.expression), 0 if offset is None else _whole(offset.expression)]
    first = order.expressions[0]
    column = _ordering_column(first.this, query, sources, source)
    if column is None or None in counts:
        return None
    total = sum(count for count in counts if count is not None)
    return Leading(column, total, bool(first.args.get("desc")), bool(first.args.get("nulls_first")))


def _is_of_a_row(node: exp.Expr) -> bool:
    """Whether an expression looks at one row: no aggregate, no OVER, no sub-query."""
    return not any(
        isinstance(part, exp.AggFunc | exp.Window | exp.Query | exp.Exists)
        or (isinstance(part, exp.Anonymous) and part.name.lower() not in FUNCTIONS)
        for part in node.walk()
    )


def _whole(node: exp.Expr | None) -> int | None:
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return int(node.name) if is_number and node is not None else None


def _ordering_column(key: exp.Expr, query: exp.Expr, sources: Sources, source: Source) -> str | None:
    """The column of the source that a name in ORDER BY means: a name that the SELECT list gives goes first."""
    if not isinstance(key, exp.Column):
        return None
    given = [each for each in query.expressions if each.alias_or_name.lower() == key.name.lower()]
    if given and not key.table:
        # One name for several things is Spark's to judge.
        key = given[0].unalias() if len(given) == 1 else exp.null()
    owner = sources.owner(key)
    return owner[1].name if owner is not None and owner[0] == source.view else None
