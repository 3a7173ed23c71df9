"""VARIANCE and STDDEV from count, mean and the sum of squared deviations.

Two panes combine by the rule of Chan, Golub and LeVeque (1979), which does not cancel the way
the difference of sums of squares does.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.plan.expressions import RowExpression
from sash.synopses.aggregates.base import Merged, components, counts, nullable, require_number
from sash.synopses.partials import Component, Partial


class Variance:
    """Sample variance by default: NULL for fewer than two values, as Spark has it."""

    category = "algebraic"
    subtractable = False
    duplicate_sensitive = True
    exact = True

    def __init__(self, root: bool = False, population: bool = False) -> None:
        self._root = root
        self._population = population

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_number("STDDEV" if self._root else "VARIANCE", argument)
        return pa.float64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("moments", argument, predicate), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: Merged) -> pa.Array:
        moments, count = partials
        n = counts(merged, count)
        deviations = np.asarray(components(merged, moments)[1])
        degrees = n if self._population else n - 1
        valid = degrees > 0
        values: Component = deviations / np.where(valid, degrees, 1)
        return nullable(np.sqrt(values) if self._root else values, valid, pa.float64())
