"""QUANTILE(x, p): the item at position max(1, floor(p N)) of the N sorted items (Arasu and Widom 3.3).

The printed definition has position 0 for p < 1/N, which does not exist; the first item stands in for it. p N is
computed exactly: 0.7 of 10 items is the 7th, whatever 0.7 is in binary.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
import pyarrow as pa

from sash.synopses.aggregates.holistic import ExactHolistic, require_ordered
from sash.synopses.items import Ints, ItemCounts


@dataclass(frozen=True)
class Quantile(ExactHolistic):
    """An element of the window, so it works on anything with an order. NULL over no values."""

    p: Fraction = Fraction(1, 2)

    def bind(self, *parameters: object) -> Self:
        (p,) = parameters
        assert isinstance(p, Fraction)
        return type(self)(p)

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        return require_ordered("QUANTILE", argument)

    def lower_items(self, items: ItemCounts) -> pa.Array:
        return items.values(items.at(quantile_positions(items.totals, self.p)))


def quantile_positions(totals: Ints, p: Fraction) -> Ints:
    """max(1, floor(p N)) for each N > 0, and 0 for none.

    >>> quantile_positions(np.array([10, 10, 1, 0]), Fraction(7, 10)).tolist()
    [7, 7, 1, 0]
    """
    most = int(totals.max(initial=0))
    exact = totals if most * p.numerator < 2**63 else totals.astype(object)
    positions = (exact * p.numerator // p.denominator).astype(np.int64)
    return np.where(totals > 0, np.maximum(positions, 1), 0)
