"""Aggregates that answer with an estimate and its bounds, from sketches (see `sketches`) or from shed streams.

APPROX_COUNT_DISTINCT(x)   from a HyperLogLog sketch per pane
APPROX_QUANTILE(x, p)      from a KLL sketch per pane: an element of the window, like QUANTILE's
COUNT_MIN(x, value)        how often a value occurs, from a pane table of counters, a count-min sketch
SUM, COUNT under SHED      the bounds of an estimate from one tuple in k
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.panes.aggregates.exact import Count, MergedPartials, Sum, components, nullable, require_number
from sash.panes.counters import EPSILON, EXACTLY, ROWS, counters_of
from sash.panes.items import ItemCounts
from sash.panes.pane_ring import Column
from sash.panes.partials import Partial
from sash.panes.sketches import Hll, Kll, require_value
from sash.plan.expressions import RowExpression


@dataclass(frozen=True)
class ApproxCountDistinct:
    """0 over no values, as Spark has it; NULL is no value. Not subtractable: nothing leaves a union again.

    The bounds are three standard deviations away: about 5% of the count, less when there are few values.
    """

    form: str = "estimate"

    def bind(self, *parameters: object) -> Self:
        assert not parameters
        return self

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_value("APPROX_COUNT_DISTINCT", argument)
        return pa.int64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("hll", argument, predicate),)

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        (sketches,) = components(merged, partials[0])
        return pa.array(np.array(_read(sketches, self._number, 0), dtype=np.int64))

    def _number(self, data: bytes) -> int:
        sketch = Hll.from_bytes(data)
        if self.form == "estimate":
            return round(sketch.estimate())
        lower, upper = sketch.bounds()
        return math.floor(lower) if self.form == "lower" else math.ceil(upper)


@dataclass(frozen=True)
class ApproxQuantile:
    """A double, because that is what the sketch holds; NULL over no values. Not subtractable.

    The bounds are the values whose ranks are 1.33% of the window's values away; the same value as long as the sketch
    is exact.
    """

    p: Fraction = Fraction(1, 2)
    form: str = "estimate"

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

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        (sketches,) = components(merged, partials[0])
        return pa.array(_read(sketches, self._value, None), pa.float64())

    def _value(self, data: bytes) -> float:
        sketch = Kll.from_bytes(data)
        if self.form == "estimate":
            return sketch.estimate(self.p)
        lower, upper = sketch.bounds(self.p)
        return lower if self.form == "lower" else upper


T = TypeVar("T")
N = TypeVar("N")


def _read(sketches: Column, value: Callable[[bytes], T], missing: N) -> list[T | N]:
    """Each sketch's value, or `missing` for none. Groups that share their bytes are read once."""
    known: dict[int, T] = {}
    found: list[T | N] = []
    for data in sketches.tolist():
        if data is not None and id(data) not in known:
            known[id(data)] = value(data)
        found.append(missing if data is None else known[id(data)])
    return found


@dataclass(frozen=True)
class CountMin:
    """From counters (see `counters`): never below the true count, and above it by more than 0.1% of the window's values
    in at most one of 100 cases. From the counts of all values, which other aggregates need, it is exact.
    """

    value: object = None
    form: str = "estimate"
    counters: tuple[int, ...] = ()

    by_window = False

    def bind(self, *parameters: object) -> Self:
        (value,) = parameters
        return replace(self, value=value)

    def by_counters(self, argument: pa.DataType) -> Self:
        """The aggregate over counters instead of values."""
        return replace(self, counters=counters_of(_of_type(self.value, argument)))

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_value("COUNT_MIN", argument)
        return pa.int64()

    def lower_items(self, items: ItemCounts) -> pa.Array:
        if not self.counters:
            return pa.array(items.count_of(_of_type(self.value, items.order.type)).ravel())
        counts = np.min([items.count_of(pa.scalar(counter, pa.int32())) for counter in self.counters], axis=0)
        if self.form == "lower":
            counts = np.maximum(0, counts - (items.totals // ROWS * EPSILON).astype(np.int64))
        return pa.array(counts.ravel())


def _of_type(value: Any, type: pa.DataType) -> pa.Scalar:
    """A constant of the query as a value of the argument's type."""
    if isinstance(value, Fraction):
        value = EXACTLY.divide(Decimal(value.numerator), Decimal(value.denominator))
    if isinstance(value, Decimal | int) and not isinstance(value, bool) and pt.is_floating(type):
        value = float(value)
    elif isinstance(value, Decimal) and pt.is_integer(type) and value == int(value):
        value = int(value)
    elif isinstance(value, int) and pt.is_decimal(type):
        value = Decimal(value)
    return pa.scalar(value, type)


# 99 of 100 values of a normal distribution lie within this many standard deviations.
DEVIATIONS = 2.576


@dataclass(frozen=True)
class ShedBound:
    """Error bars of SUM and COUNT over a stream that keeps one tuple in k while it is overloaded.

    A kept tuple stands for k. Each is kept or not by itself, so the estimate k * (sum of x over the kept) has, as
    estimated from the kept ones, the variance k (k - 1) * (sum of x * x over the kept) (Horvitz and Thompson, 1952, for
    independent draws). Variances of different micro-batches add up, whatever part each kept; where nothing was shed
    they are 0, and the bounds are the value itself.

    `function` is sum or count, `side` lower or upper. A double for a sum, a whole number for a count.
    """

    function: str
    side: str

    @property
    def _estimate(self) -> Sum | Count:
        return Sum() if self.function == "sum" else Count()

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        self._estimate.result_type(argument)
        return pa.float64() if self.function == "sum" else pa.int64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        weighed = _ones(argument) if self.function == "count" else argument
        return (*self._estimate.lift(argument, predicate), Partial("shed", weighed, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
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
    """The argument of COUNT's sum: 1 for each tuple, or for each tuple with a value."""
    if argument is None:
        return RowExpression("1", pa.int32())
    return RowExpression(f"CASE WHEN {argument.sql} IS NULL THEN 0 ELSE 1 END", pa.int32(), argument.columns)
