"""The interface of a holistic aggregate: it reads how often each item occurs, not a summary of fixed size."""

from __future__ import annotations

from typing import Protocol, Self

import pyarrow as pa
import pyarrow.types as pt

from sash.synopses.items import ItemCounts


class Holistic(Protocol):
    """Needs per pane: the number of tuples of each (group, item), which all aggregates of the item share (rule SS1).

    Counts are subtractable, so every holistic aggregate is.
    """

    category: str
    subtractable: bool
    duplicate_sensitive: bool
    exact: bool

    def bind(self, *parameters: object) -> Self:
        """The aggregate with its constants, for example the p of QUANTILE(x, p)."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        """The answer's type; ValueError with a reason where the argument will not do."""

    def lower_items(self, items: ItemCounts) -> pa.Array:
        """One value per window and group, window after window; NULL over no items (a count is 0)."""


class ExactHolistic:
    """What the exact ones have in common."""

    category = "holistic"
    subtractable = True
    duplicate_sensitive = True
    exact = True

    def bind(self, *parameters: object) -> Self:
        assert not parameters
        return self


def require_ordered(name: str, argument: pa.DataType | None) -> pa.DataType:
    if argument is None:
        raise ValueError(f"{name}(*) has no meaning: {name} needs a column")
    if pt.is_nested(argument):
        raise ValueError(f"{name} needs values with an order")
    return argument
