"""Which rows of stored windows the conditions of one SELECT need.

The result only ever saves work: if the owner of a column's name is not certain, nothing is narrowed.

Constants that the rows of a window must have in some columns: `WHERE src = 42 AND port IN (80, 443)`. A condition of
WHERE that is not true drops a row whatever the row was joined with, and a row that a join fills with NULLs as well. So
rows of a window with other values there can be left out before anything else is done with the window. The same holds
for ranges, `WHERE src BETWEEN 10 AND 19 AND src <> 12`, which the key of an archive serves.

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

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import DeclaredArchive, QueryResult, Stream, Table

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(_DATE.pattern + r" \d\d:\d\d:\d\d")


@dataclass(frozen=True)
class StoredSource:
    """A stream's window, a table, an archive or a query's result, by the name of its view."""

    view: str
    relation: Stream | Table | DeclaredArchive | QueryResult


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
class SoughtRange:
    """The least and the greatest value that a column may have, both included; None leaves an end open."""

    column: str
    low: Any
    high: Any

    def __str__(self) -> str:
        low, high = (repr(end) if isinstance(end, int | float | str) else f"'{end}'" for end in (self.low, self.high))
        if self.low is not None and self.high is not None:
            return f"{self.column} BETWEEN {low} AND {high}"
        return f"{self.column} <= {high}" if self.low is None else f"{self.column} >= {low}"


_Relation = type[exp.Binary]
# The same comparison with its sides exchanged.
_MIRRORED: dict[_Relation, _Relation] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


def range_in(query: exp.Expr, sources: StoredSources, view: str, column: str) -> SoughtRange | None:
    """The range that the WHERE of a SELECT requires of a column, by all its comparisons with constants."""
    where = query.args.get("where")
    lows, highs = list[Any](), list[Any]()
    for condition in _terms(where.this) if where is not None else ():
        for side, relation, constant in _comparisons(condition):
            owner = sources.owner(side)
            if owner is None or (owner[0], owner[1].name) != (view, column):
                continue
            end = _end(constant, relation, owner[1].type)
            if end is not None:
                (lows if relation in (exp.GT, exp.GTE) else highs).append(end)
    return SoughtRange(column, max(lows, default=None), min(highs, default=None)) if lows or highs else None


def _comparisons(condition: exp.Expr) -> Iterator[tuple[exp.Expr, _Relation, exp.Expr]]:
    """The order that a condition requires of two expressions, read from either side."""
    if isinstance(condition, exp.Between) and not condition.args.get("symmetric"):
        yield condition.this, exp.GTE, condition.args["low"]
        yield condition.this, exp.LTE, condition.args["high"]
    elif isinstance(condition, exp.Binary) and type(condition) in _MIRRORED:
        yield condition.left, type(condition), condition.right
        yield condition.right, _MIRRORED[type(condition)], condition.left


def _end(node: exp.Expr, relation: _Relation, type: pa.DataType) -> Any:
    """An end of a range, included, that leaves out no row for which the comparison is true; None if there is none.

    Spark compares floats with the constant as a double: rounding to the column's type keeps their order.
    """
    if pt.is_floating(type):
        number = node.this if isinstance(node, exp.Neg) else node
        is_number = isinstance(number, exp.Literal) and not number.is_string
        return float(number.name) * (-1 if number is not node else 1) if is_number else None
    if isinstance(node, exp.Cast):
        return _moment(node, type)
    value = _constant(node, type)
    if not isinstance(value, int):
        return value
    value += {exp.GT: 1, exp.LT: -1}.get(relation, 0)
    return value if abs(value) < 2 ** (type.bit_width - 1) else None


def _moment(node: exp.Cast, type: pa.DataType) -> date | datetime | None:
    """DATE '2024-02-29' or TIMESTAMP '2024-02-29 12:00:00', in UTC as Sash's sessions are."""
    text, to = node.this.name if isinstance(node.this, exp.Literal) else "", node.to.this
    if pt.is_date32(type) and to == exp.DataType.Type.DATE and _DATE.fullmatch(text):
        return _read(date.fromisoformat, text)
    if pt.is_timestamp(type) and type.tz and to == exp.DataType.Type.TIMESTAMPTZ and _TIMESTAMP.fullmatch(text):
        found = _read(datetime.fromisoformat, text)
        return None if found is None else found.replace(tzinfo=UTC)
    return None


_Moment = TypeVar("_Moment", date, datetime)


def _read(parse: Callable[[str], _Moment], text: str) -> _Moment | None:
    try:
        return parse(text)
    except ValueError:
        return None


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
