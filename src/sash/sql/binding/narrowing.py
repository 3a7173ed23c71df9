"""Which rows of stored windows the conditions of one SELECT need.

The result only ever saves work: if the owner of a column's name is not certain, nothing is narrowed.

Constants that the rows of a window must have in some columns: `WHERE src = 42 AND port IN (80, 443)`. A condition of
WHERE that is not true drops a row whatever the row was joined with, and a row that a join fills with NULLs as well. So
rows of a window with other values there can be left out before anything else is done with the window.

Columns that must be equal to columns of other sources: `FROM a [..] x JOIN b [..] y ON x.k = y.k`. A row of y with a k
that no row of x has can be left out before anything else is done with y:

    WHERE x.k = y.k        whatever the joins: a result with that row, or with NULLs in its place, is dropped
    JOIN .. ON             the same: neither the row nor NULLs in its place get through this join
    x LEFT JOIN y ON       for y only, since every row of x gets through, with the rows of y that match or with NULLs
    x RIGHT JOIN y ON      for x only
    x FULL JOIN y ON       for neither

In each case the result does not change, whatever the rows of x are. So rows may be left out of x first, then of y by
the rest of x, and so on, in any order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import DeclaredArchive, Stream, Table


@dataclass(frozen=True)
class StoredSource:
    """A stream's window, a table or an archive, by the name of its view."""

    view: str
    relation: Stream | Table | DeclaredArchive


class StoredSources:
    """`known` has the source of each table node, by the node's id; sub-queries in FROM have none."""

    def __init__(self, query: exp.Expr, known: Mapping[int, StoredSource]) -> None:
        self.nodes = list(_nodes(query))
        self.views = [known[id(node)].view if id(node) in known else None for node in self.nodes]
        # By alias, in lower case; None for a source with unknown columns.
        self._named: dict[str, StoredSource | None] = {}
        for node in self.nodes:
            alias = node.alias_or_name.lower()
            is_plain = id(node) in known and alias not in self._named and not _is_renamed(node) and not _is_hidden(node)
            self._named[alias] = known[id(node)] if is_plain else None

    @property
    def only(self) -> StoredSource | None:
        """The only source; None if there are others."""
        return next(iter(self._named.values())) if len(self.nodes) == 1 else None

    def owner(self, node: exp.Expr) -> tuple[str, pa.Field] | None:
        """The view that owns a column, and the column there."""
        if not isinstance(node, exp.Column):
            return None
        among = [self._named.get(node.table.lower())] if node.table else list(self._named.values())
        found = [(each.view, each.relation.column(node.name)) for each in among if each is not None]
        owners = [(view, field) for view, field in found if field is not None]
        return owners[0] if None not in among and len(owners) == 1 else None


def _terms(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Conditions all of which must be true."""
    if isinstance(condition, exp.Paren):
        yield from _terms(condition.this)
    elif isinstance(condition, exp.And):
        yield from _terms(condition.left)
        yield from _terms(condition.right)
    else:
        yield condition


def _nodes(query: exp.Expr) -> Iterator[exp.Expr]:
    clause = query.args.get("from_") or query.args.get("from")
    yield from ([clause.this] if clause is not None else [])
    yield from (join.this for join in query.args.get("joins") or [])


def _is_renamed(node: exp.Expr) -> bool:
    alias = node.args.get("alias")
    return alias is not None and bool(alias.columns)


def _is_hidden(node: exp.Expr) -> bool:
    """Behind SEMI and ANTI JOIN: a name that exists only there may belong to a query around this one."""
    return isinstance(node.parent, exp.Join) and node.parent.kind in ("SEMI", "ANTI")


@dataclass(frozen=True)
class SoughtValues:
    """The values that a column may have, of the column's type."""

    column: str
    values: pa.Array

    def __str__(self) -> str:
        shown = [repr(value) for value in self.values.to_pylist()]
        return f"{self.column} = {shown[0]}" if len(shown) == 1 else f"{self.column} IN ({', '.join(shown)})"


def sought_in(query: exp.Expr, sources: StoredSources) -> dict[str, tuple[SoughtValues, ...]]:
    """The values that the WHERE of a SELECT requires of its sources' columns, by view."""
    where, found = query.args.get("where"), defaultdict[str, list[SoughtValues]](list)
    for condition in _terms(where.this) if where is not None else ():
        sought = _sought(condition, sources)
        if sought is not None:
            found[sought[0]].append(sought[1])
    return {view: tuple(each) for view, each in found.items()}


def _sought(condition: exp.Expr, sources: StoredSources) -> tuple[str, SoughtValues] | None:
    if isinstance(condition, exp.EQ):
        sides = (condition.left, condition.right)
        column, constants = sides if isinstance(sides[0], exp.Column) else sides[::-1]
        listed = [constants]
    elif isinstance(condition, exp.In) and condition.args.get("query") is None:
        column, listed = condition.this, condition.expressions
    else:
        return None
    owner = sources.owner(column)
    if owner is None:
        return None
    view, field = owner
    values = [_constant(each, field.type) for each in listed]
    return None if not values or None in values else (view, SoughtValues(field.name, pa.array(values, field.type)))


def _constant(node: exp.Expr, type: pa.DataType) -> Any:
    """A constant of the column's own type; None if Spark would cast one of the two."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        node = exp.Literal(this=f"-{node.this.name}", is_string=False)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return node.name if pt.is_string(type) else None
    text = node.name
    if not pt.is_integer(type) or not text.lstrip("-").isdigit():
        return None
    bits = type.bit_width - 1
    return int(text) if -(2**bits) <= int(text) < 2**bits else None


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
    """The views whose rows pass a join only with a match."""
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
    for term in _terms(condition):
        if isinstance(term, exp.EQ):
            left, right = sources.owner(term.left), sources.owner(term.right)
            if left is not None and right is not None:
                yield left, right


def _add(found: dict[str, list[Link]], left: _Place, right: _Place, optional: set[str]) -> None:
    # With different types, Spark compares after a cast.
    if left[0] == right[0] or left[1].type != right[1].type:
        return
    for (view, field), (other, its) in ((left, right), (right, left)):
        if view in optional:
            found[view].append(Link(field.name, other, its.name))
