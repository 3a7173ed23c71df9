"""COUNT_MIN(x, value): how often a value occurs, from a count-min sketch of the window's item counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.synopses.items import ItemCounts
from sash.synopses.sketches.base import require_value
from sash.synopses.sketches.count_min import CountMin as Sketch
from sash.synopses.sketches.count_min import names


@dataclass(frozen=True)
class CountMin:
    """Never below the true count; above it by more than 0.1% of the window's values in at most one of 100 cases.

    It reads item counts, as holistic aggregates do, because Spark's count-min sketch has a format of its own.
    """

    value: object = None
    form: str = "estimate"

    category = "holistic"
    subtractable = True
    duplicate_sensitive = True
    exact = False

    def bind(self, *parameters: object) -> Self:
        (value,) = parameters
        return replace(self, value=value)

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_value("COUNT_MIN", argument)
        return pa.int64()

    def estimate(self, items: pa.Array, counts: NDArray[np.int64]) -> tuple[int, int, int]:
        """The estimate and its bounds, from each item of a window and how often it occurs.

        >>> CountMin("b").estimate(pa.array(["a", "b"]), np.array([3, 5]))
        (5, 5, 5)
        """
        sketch = Sketch.of_counts(items, counts)
        (name,) = names(pa.array([_of_type(self.value, items.type)], items.type))
        return sketch.estimate(name), *sketch.bounds(name)

    def lower_items(self, items: ItemCounts) -> pa.Array:
        pairs, owners = items.order.valid_pairs
        values = items.order.values(pairs)
        bounds = np.searchsorted(owners, np.arange(items.groups + 1))
        place = {"estimate": 0, "lower": 1, "upper": 2}[self.form]
        answers = []
        for window in range(items.windows):
            counts = items.counts[window][pairs]
            for first, last in pairwise(bounds.tolist()):
                answers.append(self.estimate(values.slice(first, last - first), counts[first:last])[place])
        return pa.array(answers, pa.int64())


def _of_type(value: object, type: pa.DataType) -> object:
    """A constant of the query as a value of the argument's type."""
    if isinstance(value, Fraction):
        value = Decimal(value.numerator) / Decimal(value.denominator)
    if isinstance(value, Decimal | int) and not isinstance(value, bool) and pt.is_floating(type):
        return float(value)
    if isinstance(value, Decimal) and pt.is_integer(type) and value == int(value):
        return int(value)
    return Decimal(value) if isinstance(value, int) and pt.is_decimal(type) else value
