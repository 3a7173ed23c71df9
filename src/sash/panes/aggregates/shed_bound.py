"""Error bars of SUM and COUNT over a stream that keeps one tuple in k while it is overloaded.

A kept tuple stands for k. Each is kept or not by itself, so the estimate k * (sum of x over the kept) has, as estimated
from the kept ones, the variance k (k - 1) * (sum of x * x over the kept) (Horvitz and Thompson, 1952, for independent
draws). Variances of different micro-batches add up, whatever part each kept; where nothing was shed they are 0, and the
bounds are the value itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.panes.aggregates.base import Merged, components, nullable
from sash.panes.aggregates.exact import Count, Sum
from sash.panes.partials import Partial
from sash.plan.expressions import RowExpression

# Of a normal distribution, 99 of 100 values lie within so many standard deviations.
DEVIATIONS = 2.576


@dataclass(frozen=True)
class ShedBound:
    """`function` is sum or count, `side` lower or upper. A double for a sum, a whole number for a count."""

    function: str
    side: str

    category = "algebraic"
    subtractable = False
    duplicate_sensitive = True
    exact = False

    @property
    def _estimate(self) -> Sum | Count:
        return Sum() if self.function == "sum" else Count()

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        self._estimate.result_type(argument)
        return pa.float64() if self.function == "sum" else pa.int64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        weighed = _ones(argument) if self.function == "count" else argument
        return (*self._estimate.lift(argument, predicate), Partial("shed", weighed, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: Merged) -> pa.Array:
        *estimated, shed = partials
        values = self._estimate.lower(tuple(estimated), merged)
        valid = np.asarray(values.is_valid())
        doubles = _as_doubles(values)
        (variance,) = components(merged, shed)
        deviation = DEVIATIONS * np.sqrt(np.maximum(np.asarray(variance, dtype=np.float64), 0.0))
        bound = doubles - deviation if self.side == "lower" else doubles + deviation
        if self.function == "sum":
            return nullable(bound, valid, pa.float64())
        whole = np.maximum(np.floor(bound), 0.0) if self.side == "lower" else np.ceil(bound)
        return pa.array(whole.astype(np.int64))


def _as_doubles(values: pa.Array) -> NDArray[np.float64]:
    doubles = values.cast(pa.float64(), safe=False) if not pt.is_floating(values.type) else values
    return np.asarray(doubles.fill_null(0.0), dtype=np.float64)


def _ones(argument: RowExpression | None) -> RowExpression:
    """What COUNT adds up: 1 for each tuple, or for each that has a value."""
    if argument is None:
        return RowExpression("1", pa.int32())
    return RowExpression(f"CASE WHEN {argument.sql} IS NULL THEN 0 ELSE 1 END", pa.int32(), argument.columns)
