"""Holistic aggregates: they read how often each item occurs, not a summary of fixed size.

COUNT(DISTINCT x)           the items that occur at least once; NULL is no value
MODE(x)                     the most frequent item, the least one among equals (Spark leaves that open)
QUANTILE(x, p)              the item at position max(1, floor(p N)) of the N sorted items (Arasu and Widom 3.3)
PERCENTILE_DISC(p)          the item at position ceil(p N), counted from either end
QUANTILE_CONT(x, p), MEDIAN between two neighbours by linear interpolation, as Spark's `percentile` does
COLLECT_SET(x)              the items that occur, in their order
COLLECT_LIST(x), LISTAGG    every value in an order: the items are pairs of what orders the values, and the value
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.panes.aggregates.exact import nullable, require_number, require_ordered
from sash.panes.items import Ints, ItemCounts


class Holistic(Protocol):
    """Needs per pane: the number of tuples of each (group, item), which all aggregates of the item share (rule SS1).

    Counts are subtractable, so every holistic aggregate is.
    """

    def bind(self, *parameters: object) -> Self:
        """The aggregate with its constants, for example the p of QUANTILE(x, p)."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        """The answer's type; ValueError with a reason if the argument does not fit."""

    def lower_items(self, items: ItemCounts) -> pa.Array:
        """One value per window and group, window after window; NULL over no items (a count is 0).

        OverflowError if a value would be too large.
        """

    @property
    def by_window(self) -> bool:
        """Whether each window is lowered by itself: values are large, or may be too large for some windows."""


class ExactHolistic:
    """The common part of the exact holistic aggregates."""

    by_window = False

    def bind(self, *parameters: object) -> Self:
        assert not parameters
        return self


class CountDistinct(ExactHolistic):
    """The thesis counts it among the duplicate-sensitive aggregates: its counters change with every duplicate."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_ordered("COUNT DISTINCT", argument)
        return pa.int64()

    def lower_items(self, items: ItemCounts) -> pa.Array:
        return pa.array(items.distinct().ravel())


class Mode(ExactHolistic):
    """NULL over no values."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        return require_ordered("MODE", argument)

    def lower_items(self, items: ItemCounts) -> pa.Array:
        return items.values(items.modes())


@dataclass(frozen=True)
class Quantile(ExactHolistic):
    """An element of the window, so it works on anything with an order. NULL over no values.

    The printed definition has position 0 for p < 1/N, which does not exist; the first item stands in for it. p N is
    computed exactly: 0.7 of 10 items is the 7th, whatever 0.7 is in binary.
    """

    p: Fraction = Fraction(1, 2)

    def bind(self, *parameters: object) -> Self:
        (p,) = parameters
        assert isinstance(p, Fraction)
        return type(self)(p)

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        return require_ordered("QUANTILE", argument)

    def lower_items(self, items: ItemCounts) -> pa.Array:
        return items.values(items.at(quantile_positions(items.totals, self.p)))


def quantile_positions(totals: Ints, p: Fraction, least: int = 1) -> Ints:
    """max(least, floor(p N)) for each N > 0, and 0 for none.

    >>> quantile_positions(np.array([10, 10, 1, 0]), Fraction(7, 10)).tolist()
    [7, 7, 1, 0]
    """
    most = int(totals.max(initial=0))
    exact = totals if most * p.numerator < 2**63 else totals.astype(object)
    positions = (exact * p.numerator // p.denominator).astype(np.int64)
    return np.where(totals > 0, np.maximum(positions, least), 0)


@dataclass(frozen=True)
class PercentileDisc(Quantile):
    """The first value, in ascending or descending order, up to which there are p N values: as SQL defines it."""

    descending: bool = False

    def bind(self, *parameters: object) -> Self:
        p, descending = parameters
        assert isinstance(p, Fraction)
        return type(self)(p, bool(descending))

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_number("PERCENTILE_DISC", argument)
        return pa.float64()

    def lower_items(self, items: ItemCounts) -> pa.Array:
        # ceil(p N) = N - floor((1 - p) N)
        before = quantile_positions(items.totals, 1 - self.p, least=0)
        positions = before + 1 if self.descending else items.totals - before
        inside = np.clip(positions, 1, np.maximum(items.totals, 1))
        # A DOUBLE, as Spark has it.
        return items.values(items.at(np.where(items.totals > 0, inside, 0))).cast(pa.float64(), safe=False)


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


# How many elements a list may have if the query gives no number.
MOST_ELEMENTS = 10_000
# How many the lists of all groups of a window may have: Arrow counts them so.
_MOST_OF_ALL = 2**31 - 1


@dataclass(frozen=True)
class Collect(ExactHolistic):
    """The values of each group as a list, in the order of the items; without values it is empty.

    With a number the list has the first values up to it; without one, too long a list is an error, not a shorter list.
    An item with several fields is ordered by the first ones, and its value is the last one.
    """

    once: bool = False
    most: int | None = None
    descending: bool = False

    by_window = True

    def bind(self, *parameters: object) -> Self:
        (most,) = parameters or (None,)
        assert most is None or isinstance(most, int)
        return replace(self, most=most)

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_ordered("COLLECT_LIST", argument)
        return pa.list_(argument)

    @property
    def bound(self) -> str:
        """How long a list may become, in words."""
        if self.most is not None:
            return f"the first {self.most:,} of a group"
        return f"all values of a group; more than {MOST_ELEMENTS:,} are an error of the query"

    def lower_items(self, items: ItemCounts) -> pa.Array:
        longest = int(items.lengths(self.once).max(initial=0))
        if self.most is None and longest > MOST_ELEMENTS:
            reason = (
                f"a group has {longest:,} values, and a list has at most {MOST_ELEMENTS:,} unless it gives a number"
            )
            raise OverflowError(f"{reason}: with {longest} as the last argument it has the first {longest:,}")
        pairs, sizes = items.lists(self.once, self.descending, self.most or MOST_ELEMENTS)
        if len(pairs) > _MOST_OF_ALL:
            raise OverflowError(f"the lists of all groups have {len(pairs):,} elements, at most {_MOST_OF_ALL:,} fit")
        values = items.values(pairs)
        if pa.types.is_struct(values.type):
            values = values.field(values.type.num_fields - 1)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), values)


@dataclass(frozen=True)
class ListAgg(Collect):
    """The values of each group as one string; NULL without values."""

    delimiter: str = ""

    def bind(self, *parameters: object) -> Self:
        delimiter, once, descending, *most = parameters
        bound = super().bind(*most)
        return replace(bound, delimiter=str(delimiter), once=bool(once), descending=bool(descending))

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument != pa.string():
            raise ValueError("LISTAGG needs a string")
        return argument

    def lower_items(self, items: ItemCounts) -> pa.Array:
        lists = super().lower_items(items)
        texts = pc.binary_join(lists, self.delimiter)
        return pc.if_else(pc.greater(pc.list_value_length(lists), 0), texts, pa.scalar(None, pa.string()))
