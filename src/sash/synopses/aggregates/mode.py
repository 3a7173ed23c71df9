"""MODE(x): the most frequent item, the least one among equals (Spark leaves that open)."""

from __future__ import annotations

import pyarrow as pa

from sash.synopses.aggregates.holistic import ExactHolistic, require_ordered
from sash.synopses.items import ItemCounts


class Mode(ExactHolistic):
    """NULL over no values."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        return require_ordered("MODE", argument)

    def lower_items(self, items: ItemCounts) -> pa.Array:
        return items.values(items.modes())
