"""APPROX_COUNT_DISTINCT(x) from a HyperLogLog sketch per pane (see `sketches.hll`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from sash.plan.expressions import RowExpression
from sash.synopses.aggregates.base import Merged, components
from sash.synopses.partials import Partial
from sash.synopses.sketches.base import require_value
from sash.synopses.sketches.hll import Hll
from sash.synopses.sketches.reading import read


@dataclass(frozen=True)
class ApproxCountDistinct:
    """0 over no values, as Spark has it; NULL is no value. Not subtractable: nothing leaves a union again.

    The bounds are three standard deviations away: about 5% of the count, less when there are few values.
    """

    form: str = "estimate"

    category = "algebraic"
    subtractable = False
    duplicate_sensitive = False
    exact = False

    def bind(self, *parameters: object) -> Self:
        assert not parameters
        return self

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_value("APPROX_COUNT_DISTINCT", argument)
        return pa.int64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("hll", argument, predicate),)

    def lower(self, partials: tuple[Partial, ...], merged: Merged) -> pa.Array:
        (sketches,) = components(merged, partials[0])
        return pa.array(np.array(read(sketches, self._number, 0), dtype=np.int64))

    def _number(self, data: bytes) -> int:
        sketch = Hll.from_bytes(data)
        if self.form == "estimate":
            return round(sketch.estimate())
        lower, upper = sketch.bounds()
        return math.floor(lower) if self.form == "lower" else math.ceil(upper)
