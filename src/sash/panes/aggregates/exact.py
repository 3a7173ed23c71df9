"""The interface of an aggregate, and the exact ones that merge summaries of fixed size.

COUNT              rows, or rows whose argument is not NULL
SUM                exact over integers and decimals, never by subtraction over floats
AVG                SUM / COUNT: an algebraic aggregate reads the synopses of distributive ones (thesis 2.3.4)
MIN, MAX           over anything with an order; NaN is the greatest number, as Spark has it
VARIANCE, STDDEV   from count, mean and the sum of squared deviations; two panes combine by the rule of Chan, Golub
                   and LeVeque (1979), which does not cancel the way the difference of sums of squares does
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.expr.decimals import from_unscaled, half_up
from sash.panes.limbs import carry, join_decimal, join_int64
from sash.panes.partials import Component, Partial
from sash.plan.expressions import RowExpression

# A merged partial: its components, one entry per group of the answer. Ranked extremes arrive as an Arrow array.
MergedPartials = Mapping[Partial, list[Component] | pa.Array]


class AggregateFunction(Protocol):
    """The interface of every aggregate of fixed-size partials. The partials combine by their own kernels."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        """The answer's type, as in Spark; ValueError with a reason if the argument does not fit."""

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        """The partials that the aggregate needs for each pane and group."""

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        """The answer's column from merged partials; OverflowError where a sum does not fit."""


def counts(merged: MergedPartials, partial: Partial) -> NDArray[np.int64]:
    column = merged[partial]
    assert isinstance(column, list)
    return np.asarray(column[0], dtype=np.int64)


def components(merged: MergedPartials, partial: Partial) -> list[Component]:
    column = merged[partial]
    assert isinstance(column, list)
    return column


def nullable(values: Component, valid: NDArray[np.bool_], type: pa.DataType) -> pa.Array:
    """An Arrow column with NULL where there was no value."""
    array = pa.array(values, mask=None if valid.all() else ~valid)
    if array.type == type:
        return array
    if pt.is_date32(type):
        return array.cast(pa.int32()).view(type)
    if pt.is_timestamp(type) or pt.is_duration(type):
        return array.view(type)
    return array.cast(type)


def require_number(name: str, argument: pa.DataType | None) -> pa.DataType:
    if argument is None:
        raise ValueError(f"{name}(*) has no meaning: {name} needs a column")
    if not (pt.is_integer(argument) or pt.is_floating(argument) or pt.is_decimal(argument)):
        raise ValueError(f"{name} needs a number")
    return argument


class Count:
    """Rows, or rows whose argument is not NULL; never NULL itself."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        return pa.int64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("rows" if argument is None else "count", argument, predicate),)

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        return pa.array(counts(merged, partials[0]))


class Sum:
    """NULL over no values; an overflow is an error of the query."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        argument = require_number("SUM", argument)
        if pt.is_decimal(argument):
            return pa.decimal128(min(38, argument.precision + 10), argument.scale)
        return pa.float64() if pt.is_floating(argument) else pa.int64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("sum", argument, predicate), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        total, count = partials
        limbs, valid = components(merged, total), counts(merged, count) > 0
        if pt.is_decimal(total.type):
            return join_decimal(limbs, self.result_type(total.type), valid)
        return nullable(join_int64(limbs) if len(limbs) == 2 else limbs[0], valid, self.result_type(total.type))


class Average:
    """A double over numbers, a decimal with four more digits over decimals; NULL over no values."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        argument = require_number("AVG", argument)
        if not pt.is_decimal(argument):
            return pa.float64()
        return pa.decimal128(min(38, argument.precision + 4), min(38, argument.scale + 4))

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("sum", argument, predicate), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
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


class Extreme:
    """NULL over no values. Not subtractable: a running synopsis must refuse it."""

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

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        extreme, count = partials
        column = merged[extreme]
        if isinstance(column, pa.Array):
            return column
        return nullable(column[0], counts(merged, count) > 0, extreme.type)


class Variance:
    """Sample variance by default: NULL for fewer than two values, as Spark has it."""

    def __init__(self, root: bool = False, population: bool = False) -> None:
        self._root = root
        self._population = population

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_number("STDDEV" if self._root else "VARIANCE", argument)
        return pa.float64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial("moments", argument, predicate), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        moments, count = partials
        n = counts(merged, count)
        deviations = np.asarray(components(merged, moments)[1])
        degrees = n if self._population else n - 1
        valid = degrees > 0
        values: Component = deviations / np.where(valid, degrees, 1)
        return nullable(np.sqrt(values) if self._root else values, valid, pa.float64())
