"""APPROX_QUANTILE(x, p) from a KLL sketch per pane (see `sketches.kll`): an element of the window, like QUANTILE's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import pyarrow as pa

from sash.plan.expressions import RowExpression
from sash.synopses.aggregates.base import Merged, components, require_number
from sash.synopses.partials import Partial
from sash.synopses.sketches.kll import Kll
from sash.synopses.sketches.reading import read


@dataclass(frozen=True)
class ApproxQuantile:
    """A double, because that is what the sketch holds; NULL over no values. Not subtractable.

    The bounds are the values whose ranks are 1.33% of the window's values away; the same value as long as the sketch
    is exact.
    """

    p: Fraction = Fraction(1, 2)
    form: str = "estimate"

    category = "algebraic"
    subtractable = False
    duplicate_sensitive = True
    exact = False

    def bind(self, *parameters: object) -> Self:
        (p,) = parameters
        assert isinstance(p, Fraction)
        if not 0 <= p <= 1:
            raise ValueError(f"APPROX_QUANTILE needs a fraction between 0 and 1, not {p}")
        return replace(self, p=p)

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_number("APPROX_QUANTILE", argument)
        return pa.float64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("kll", argument, predicate),)

    def lower(self, partials: tuple[Partial, ...], merged: Merged) -> pa.Array:
        (sketches,) = components(merged, partials[0])
        return pa.array(read(sketches, self._value, None), pa.float64())

    def _value(self, data: bytes) -> float:
        sketch = Kll.from_bytes(data)
        if self.form == "estimate":
            return sketch.estimate(self.p)
        lower, upper = sketch.bounds(self.p)
        return lower if self.form == "lower" else upper
