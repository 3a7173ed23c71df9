"""The interface of an aggregate, and the exact ones that merge summaries of fixed size.

COUNT              rows, or rows whose argument is not NULL
SUM                exact over integers and decimals, never by subtraction over floats
AVG                SUM / COUNT: an algebraic aggregate reads the synopses of distributive ones (thesis 2.3.4)
MIN, MAX           over anything with an order; NaN is the greatest number, as Spark has it
BOOL_AND, BOOL_OR  the least and the greatest of conditions: FALSE is less than TRUE
ANY_VALUE          the least value, the same one whatever the order of the tuples
MIN_BY, MAX_BY,    the value of the least or the greatest pair (key, value); the key of FIRST and LAST is the event time
FIRST, LAST
BIT_AND, ..        bit by bit
VARIANCE, CORR ..  formulas over moments: numbers, means, sums of powers and products of deviations. Two panes combine
                   by the rules of Chan, Golub and LeVeque (1979) and Pebay (2008), which do not cancel the way
                   differences of sums of powers do
UserDefined        a program's own functions (`core.user_aggregate`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.core.user_aggregate import UserAggregate
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


def require_ordered(name: str, argument: pa.DataType | None) -> pa.DataType:
    if argument is None:
        raise ValueError(f"{name}(*) has no meaning: {name} needs a column")
    if pt.is_nested(argument):
        raise ValueError(f"{name} needs values with an order")
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


@dataclass(frozen=True)
class Extreme:
    """NULL over no values. Not subtractable: a running synopsis must refuse it.

    `needs` names what else than values with an order it takes. `of_pairs`: the argument is (key, value), and the answer
    is the value of the least or the greatest pair; pairs with equal keys are compared by their values, NULL first.
    """

    kind: str
    name: str
    needs: str = ""
    of_pairs: bool = False

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        if self.of_pairs and argument is not None and pt.is_struct(argument):
            return argument.field(1).type
        argument = require_ordered(self.name, argument)
        if self.needs and not _KINDS_OF_TYPES[self.needs](argument):
            raise ValueError(f"{self.name} needs a {self.needs}")
        return argument

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial(self.kind, argument, predicate), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        extreme, count = partials
        column = merged[extreme]
        if isinstance(column, pa.Array):
            return column.flatten()[1] if self.of_pairs else column
        return nullable(column[0], counts(merged, count) > 0, extreme.type)


_KINDS_OF_TYPES = {"condition": pt.is_boolean, "whole number": pt.is_integer}


# Values, and where they are defined.
Defined = tuple[Component, NDArray[np.bool_]]


@dataclass(frozen=True)
class Statistic:
    """A formula over the number of values and their moments (of `co_moments`: of pairs without a NULL).

    NULL over fewer values than `least`, and where the formula is not defined, as Spark has it.
    """

    name: str
    kind: str
    formula: Callable[..., Defined]
    least: int = 1

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not pt.is_struct(argument):
            require_number(self.name, argument)
        return pa.float64()

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial(self.kind, argument, predicate), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        moments, count = partials
        n = counts(merged, count)
        with np.errstate(all="ignore"):
            values, defined = self.formula(n, *map(np.asarray, components(merged, moments)))
        return nullable(values, defined & (n >= self.least), pa.float64())


def _over(numerator: Component, denominator: Component) -> Defined:
    defined = denominator != 0
    return numerator / np.where(defined, denominator, 1), defined


def _root(found: Defined) -> Defined:
    return np.sqrt(found[0]), found[1]


def _correlation(n: Component, my: Component, mx: Component, syy: Component, sxx: Component, sxy: Component) -> Defined:
    found, _ = _over(sxy, np.sqrt(sxx) * np.sqrt(syy))
    return found, (sxx != 0) & (syy != 0)


def _fit(n: Component, my: Component, mx: Component, syy: Component, sxx: Component, sxy: Component) -> Defined:
    """The share of the variance of y that a line through the pairs explains."""
    explained, defined = _over(sxy * sxy, sxx * syy)
    return np.where(syy == 0, 1.0, explained), defined | ((syy == 0) & (sxx != 0))


def _intercept(n: Component, my: Component, mx: Component, syy: Component, sxx: Component, sxy: Component) -> Defined:
    slope, defined = _over(sxy, sxx)
    return my - slope * mx, defined


# Moments of x: n, mean, and the sums of squared (, cubed, fourth powers of) deviations.
# Co-moments of (y, x), or of (x, y): n, the two means, the two sums of squared deviations, the sum of their products.
STATISTICS = {
    "variance": Statistic("VARIANCE", "moments", lambda n, mean, m2: _over(m2, n - 1), least=2),
    "var_pop": Statistic("VARIANCE", "moments", lambda n, mean, m2: _over(m2, n)),
    "stddev": Statistic("STDDEV", "moments", lambda n, mean, m2: _root(_over(m2, n - 1)), least=2),
    "stddev_pop": Statistic("STDDEV", "moments", lambda n, mean, m2: _root(_over(m2, n))),
    "skewness": Statistic("SKEWNESS", "high_moments", lambda n, mean, m2, m3, m4: _over(np.sqrt(n) * m3, m2**1.5)),
    "kurtosis": Statistic("KURTOSIS", "high_moments", lambda n, mean, m2, m3, m4: _over(n * m4 - 3 * m2**2, m2**2)),
    "covar_pop": Statistic("COVAR_POP", "co_moments", lambda n, my, mx, syy, sxx, sxy: _over(sxy, n)),
    "covar_samp": Statistic("COVAR_SAMP", "co_moments", lambda n, my, mx, syy, sxx, sxy: _over(sxy, n - 1), least=2),
    "corr": Statistic("CORR", "co_moments", _correlation, least=2),
    "regr_slope": Statistic("REGR_SLOPE", "co_moments", lambda n, my, mx, syy, sxx, sxy: _over(sxy, sxx)),
    "regr_intercept": Statistic("REGR_INTERCEPT", "co_moments", _intercept),
    "regr_r2": Statistic("REGR_R2", "co_moments", _fit),
    "regr_avgy": Statistic("REGR_AVGY", "co_moments", lambda n, my, *_: (my, n > 0)),
    "regr_avgx": Statistic("REGR_AVGX", "co_moments", lambda n, my, mx, *_: (mx, n > 0)),
    "regr_syy": Statistic("REGR_SYY", "co_moments", lambda n, my, mx, syy, sxx, sxy: (syy, n > 0)),
    "regr_sxx": Statistic("REGR_SXX", "co_moments", lambda n, my, mx, syy, sxx, sxy: (sxx, n > 0)),
    "regr_sxy": Statistic("REGR_SXY", "co_moments", lambda n, my, mx, syy, sxx, sxy: (sxy, n > 0)),
}


@dataclass(frozen=True)
class UserDefined:
    """An aggregate of a program's own functions: NULL over no values."""

    user: UserAggregate

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        return self.user.returns

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial(self.user.name, argument, predicate, self.user), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        own, count = partials
        valid = counts(merged, count) > 0
        lowered = self.user.lowered(own.signature, np.stack(components(merged, own))[:, valid])
        if valid.all():
            return lowered
        return lowered.take(pa.array(np.cumsum(valid) - 1, mask=~valid))
