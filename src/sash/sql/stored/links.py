"""Columns that must be equal to columns of other sources: `FROM a [..] x JOIN b [..] y ON x.k = y.k`.

A row of y with a k that no row of x has can be left out before anything else is done with y:

    WHERE x.k = y.k        whatever the joins: a result with that row, or with NULLs in its place, is dropped
    JOIN .. ON             the same: neither the row nor NULLs in its place get through this join
    x LEFT JOIN y ON       for y only, since every row of x gets through, with the rows of y that match or with NULLs
    x RIGHT JOIN y ON      for x only
    x FULL JOIN y ON       for neither

Each time the result is what it was, whatever the rows of x are. So rows may be left out of x first, then of y by what
is left of x, and so on, in any order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from sash.sql.stored.sources import StoredSources, terms


@dataclass(frozen=True)
class Link:
    """Rows matter only if their `column` has a value that `other_column` has in a row of the view `other`."""

    column: str
    other: str
    other_column: str


_Place = tuple[str, pa.Field]


def links_in(query: exp.Expr, sources: StoredSources) -> dict[str, tuple[Link, ...]]:
    """The links of the sources of a SELECT, by the view whose rows may be left out."""
    where = query.args.get("where")
    views = {view for view in sources.views if view is not None}
    found = defaultdict[str, list[Link]](list)
    for left, right in _equalities(where.this, sources) if where is not None else ():
        _add(found, left, right, views)
    for place, join in enumerate(query.args.get("joins") or []):
        before = {view for view in sources.views[: place + 1] if view is not None}
        own = sources.views[place + 1]
        optional = _optional(join, before, own)
        for left, right in _joined(join, sources, place):
            _add(found, left, right, optional)
    return {view: tuple(dict.fromkeys(links)) for view, links in found.items()}


def _optional(join: exp.Join, before: set[str], own: str | None) -> set[str]:
    """The views whose rows get through a join only where they match."""
    itself = set() if own is None else {own}
    match join.side, join.kind:
        case "", "" | "INNER" | "CROSS":
            return before | itself
        case "LEFT", "" | "OUTER":
            return itself
        case "RIGHT", "" | "OUTER":
            return before
    return set()


def _joined(join: exp.Join, sources: StoredSources, place: int) -> Iterator[tuple[_Place, _Place]]:
    if (condition := join.args.get("on")) is not None:
        yield from _equalities(condition, sources)
    # Behind another join, a name in USING may be a column of either side.
    for name in (join.args.get("using") or []) if place == 0 else []:
        sides = [sources.owner(exp.column(name.name, node.alias_or_name)) for node in sources.nodes[:2]]
        if sides[0] is not None and sides[1] is not None:
            yield sides[0], sides[1]


def _equalities(condition: exp.Expr, sources: StoredSources) -> Iterator[tuple[_Place, _Place]]:
    for term in terms(condition):
        if isinstance(term, exp.EQ):
            left, right = sources.owner(term.left), sources.owner(term.right)
            if left is not None and right is not None:
                yield left, right


def _add(found: dict[str, list[Link]], left: _Place, right: _Place, optional: set[str]) -> None:
    # Where types differ, Spark compares what it casts them to.
    if left[0] == right[0] or left[1].type != right[1].type:
        return
    for (view, field), (other, its) in ((left, right), (right, left)):
        if view in optional:
            found[view].append(Link(field.name, other, its.name))
