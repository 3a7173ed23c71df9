"""QUANTILE_CONT(x, p) and MEDIAN(x): between two neighbours by linear interpolation, as Spark's `percentile` does."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.synopses.aggregates.base import nullable, require_number
from sash.synopses.aggregates.holistic import ExactHolistic
from sash.synopses.items import Ints, ItemCounts


@dataclass(frozen=True)
class QuantileCont(ExactHolistic):
    """The value at position p (N - 1), counted from 0, of the sorted numbers; a double. NULL over no values."""

    p: Fraction = Fraction(1, 2)
    name: str = "QUANTILE_CONT"

    def bind(self, *parameters: object) -> Self:
        if not parameters:
            return self
        (p,) = parameters
        assert isinstance(p, Fraction)
        return type(self)(p, self.name)

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_number(self.name, argument)
        return pa.float64()

    def lower_items(self, items: ItemCounts) -> pa.Array:
        there = items.totals > 0
        position = np.where(there, items.totals - 1, 0) * float(self.p)
        below, above = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
        low = _numbers(items, np.where(there, below + 1, 0))
        high = _numbers(items, np.where(there, above + 1, 0))
        share = (position - below).ravel()
        # Two equal neighbours are their own value: infinities and NaN would not survive the arithmetic.
        with np.errstate(invalid="ignore"):
            between = (1.0 - share) * low + share * high
        alone = (share == 0.0) | (low == high)
        return nullable(np.where(alone, low, between), there.ravel(), pa.float64())


def _numbers(items: ItemCounts, ranks: Ints) -> NDArray[np.float64]:
    # As Spark converts them: a BIGINT beyond 2^53 to the nearest double.
    values = items.values(items.at(ranks)).cast(pa.float64(), safe=False)
    return np.asarray(values.fill_null(0.0) if values.null_count else values, dtype=np.float64)
