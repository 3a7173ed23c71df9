"""Constants that the rows of a window must have in some columns: `WHERE src = 42 AND port IN (80, 443)`.

A condition of WHERE that is not true drops a row whatever it was joined with, and a row that a join fills with NULLs as
well. So rows of a window with other values there can be left out before anything else is done with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Stream


@dataclass(frozen=True)
class Sought:
    """The values that a column may have, of the column's type."""

    column: str
    values: pa.Array

    def __str__(self) -> str:
        shown = [repr(value) for value in self.values.to_pylist()]
        return f"{self.column} = {shown[0]}" if len(shown) == 1 else f"{self.column} IN ({', '.join(shown)})"


def sought_in(table: exp.Expr, stream: Stream) -> tuple[Sought, ...]:
    """What the WHERE beside a stream's name asks of its columns."""
    query = table.find_ancestor(exp.Select)
    where = query.args.get("where") if query is not None else None
    renamed = table.args.get("alias") is not None and table.args["alias"].columns
    if query is None or where is None or renamed:
        return ()
    alone = len(list(_sources(query))) == 1
    found = (_sought(condition, table.alias_or_name, alone, stream) for condition in _terms(where.this))
    return tuple(each for each in found if each is not None)


def _sources(query: exp.Expr) -> Iterator[exp.Expr]:
    clause = query.args.get("from_") or query.args.get("from")
    yield from ([clause.this] if clause is not None else [])
    yield from (join.this for join in query.args.get("joins") or [])


def _terms(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.Paren):
        yield from _terms(condition.this)
    elif isinstance(condition, exp.And):
        yield from _terms(condition.left)
        yield from _terms(condition.right)
    else:
        yield condition


def _sought(condition: exp.Expr, alias: str, alone: bool, stream: Stream) -> Sought | None:
    if isinstance(condition, exp.EQ):
        sides = (condition.left, condition.right)
        column, constants = sides if isinstance(sides[0], exp.Column) else sides[::-1]
        listed = [constants]
    elif isinstance(condition, exp.In) and condition.args.get("query") is None:
        column, listed = condition.this, condition.expressions
    else:
        return None
    if not isinstance(column, exp.Column) or not (column.table.lower() == alias.lower() if column.table else alone):
        return None
    field = stream.column(column.name)
    values = [] if field is None else [_constant(each, field.type) for each in listed]
    if field is None or not values or None in values:
        return None
    return Sought(field.name, pa.array(values, field.type))


def _constant(node: exp.Expr, type: pa.DataType) -> Any:
    """A constant of the column's own type; None where Spark would cast one of the two."""
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
