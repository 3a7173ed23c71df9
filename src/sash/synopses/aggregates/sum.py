"""SUM: exact over integers and decimals, never by subtraction over floats."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from sash.plan.expressions import RowExpression
from sash.synopses.aggregates.base import Merged, components, counts, nullable, require_number
from sash.synopses.limbs import join_decimal, join_int64
from sash.synopses.partials import Partial


class Sum:
    """NULL over no values; an overflow is an error of the query."""

    category = "distributive"
    subtractable = True
    duplicate_sensitive = True
    exact = True

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        argument = require_number("SUM", argument)
        if pt.is_decimal(argument):
            return pa.decimal128(min(38, argument.precision + 10), argument.scale)
        return pa.float64() if pt.is_floating(argument) else pa.int64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("sum", argument, predicate), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: Merged) -> pa.Array:
        total, count = partials
        limbs, valid = components(merged, total), counts(merged, count) > 0
        if pt.is_decimal(total.type):
            return join_decimal(limbs, self.result_type(total.type), valid)
        return nullable(join_int64(limbs) if len(limbs) == 2 else limbs[0], valid, self.result_type(total.type))
