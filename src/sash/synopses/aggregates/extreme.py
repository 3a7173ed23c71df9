"""MIN and MAX over anything with an order. NaN is the greatest number, as Spark has it."""

from __future__ import annotations

import pyarrow as pa

from sash.plan.expressions import RowExpression
from sash.synopses.aggregates.base import Merged, counts, nullable
from sash.synopses.partials import Partial


class Extreme:
    """NULL over no values. Not subtractable: a running synopsis must refuse it."""

    category = "distributive"
    subtractable = False
    duplicate_sensitive = False
    exact = True

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None:
            raise ValueError(f"{self._kind.upper()}(*) has no meaning: {self._kind.upper()} needs a column")
        if pa.types.is_nested(argument):
            raise ValueError(f"{self._kind.upper()} needs values with an order")
        return argument

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial(self._kind, argument, predicate), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: Merged) -> pa.Array:
        extreme, count = partials
        column = merged[extreme]
        if isinstance(column, pa.Array):
            return column
        return nullable(column[0], counts(merged, count) > 0, extreme.type)
