"""Constants that the rows of a window must have in some columns: `WHERE src = 42 AND port IN (80, 443)`.

A condition of WHERE that is not true drops a row whatever it was joined with, and a row that a join fills with NULLs as
well. So rows of a window with other values there can be left out before anything else is done with it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.sql.stored.sources import StoredSources, terms


@dataclass(frozen=True)
class Sought:
    """The values that a column may have, of the column's type."""

    column: str
    values: pa.Array

    def __str__(self) -> str:
        shown = [repr(value) for value in self.values.to_pylist()]
        return f"{self.column} = {shown[0]}" if len(shown) == 1 else f"{self.column} IN ({', '.join(shown)})"


def sought_in(query: exp.Expr, sources: StoredSources) -> dict[str, tuple[Sought, ...]]:
    """What the WHERE of a SELECT asks of the columns of its sources, by view."""
    where, found = query.args.get("where"), defaultdict[str, list[Sought]](list)
    for condition in terms(where.this) if where is not None else ():
        sought = _sought(condition, sources)
        if sought is not None:
            found[sought[0]].append(sought[1])
    return {view: tuple(each) for view, each in found.items()}


def _sought(condition: exp.Expr, sources: StoredSources) -> tuple[str, Sought] | None:
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
    return None if not values or None in values else (view, Sought(field.name, pa.array(values, field.type)))


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
