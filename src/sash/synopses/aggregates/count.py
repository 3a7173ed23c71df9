"""COUNT(*) and COUNT(x)."""

from __future__ import annotations

import pyarrow as pa

from sash.plan.expressions import RowExpression
from sash.synopses.aggregates.base import Merged, counts
from sash.synopses.partials import Partial


class Count:
    """Rows, or rows whose argument is not NULL; never NULL itself."""

    category = "distributive"
    subtractable = True
    duplicate_sensitive = True
    exact = True

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        return pa.int64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("rows" if argument is None else "count", argument, predicate),)

    def lower(self, partials: tuple[Partial, ...], merged: Merged) -> pa.Array:
        return pa.array(counts(merged, partials[0]))
