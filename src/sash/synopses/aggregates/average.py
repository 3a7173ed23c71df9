"""AVG = SUM / COUNT (thesis 2.3.4: an algebraic aggregate reads the synopses of distributive ones)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sash.plan.expressions import RowExpression
from sash.synopses.aggregates.base import Merged, components, counts, nullable, require_number
from sash.synopses.decimals import from_unscaled, half_up
from sash.synopses.limbs import carry
from sash.synopses.partials import Partial


class Average:
    """A double over numbers, a decimal with four more digits over decimals; NULL over no values."""

    category = "algebraic"
    subtractable = True
    duplicate_sensitive = True
    exact = True

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        argument = require_number("AVG", argument)
        if not pt.is_decimal(argument):
            return pa.float64()
        return pa.decimal128(min(38, argument.precision + 4), min(38, argument.scale + 4))

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("sum", argument, predicate), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: Merged) -> pa.Array:
        total, count = partials
        limbs, n = components(merged, total), counts(merged, count)
        valid = n > 0
        divisor = np.where(valid, n, 1)
        if pt.is_decimal(total.type):
            return _decimal_quotient(limbs, divisor, valid, total.type, self.result_type(total.type))
        sums = sum(
            limb.astype(np.float64) * 2.0 ** (32 * i)
            for i, limb in enumerate(carry(limbs) if len(limbs) > 1 else limbs)
        )
        return nullable(np.asarray(sums) / divisor, valid, pa.float64())


def _decimal_quotient(
    limbs: list[np.ndarray],
    divisor: np.ndarray,
    valid: np.ndarray,
    argument: pa.Decimal128Type,
    type: pa.Decimal128Type,
) -> pa.Array:
    """Exact division of unscaled values, half up, as Spark rounds it."""
    sums = sum(limb.astype(object) << (32 * i) for i, limb in enumerate(carry(limbs)))
    more = 10 ** (type.scale - argument.scale)
    rows = zip(np.asarray(sums).tolist(), divisor.tolist(), valid.tolist(), strict=True)
    return from_unscaled([half_up(total * more, n) if there else None for total, n, there in rows], type)
