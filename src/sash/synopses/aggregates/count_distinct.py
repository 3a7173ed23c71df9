"""COUNT(DISTINCT x), exact: the items that occur at least once. NULL is no value."""

from __future__ import annotations

import pyarrow as pa

from sash.synopses.aggregates.holistic import ExactHolistic, require_ordered
from sash.synopses.items import ItemCounts


class CountDistinct(ExactHolistic):
    """The thesis counts it among the duplicate-sensitive aggregates: its counters change with every duplicate."""

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        require_ordered("COUNT DISTINCT", argument)
        return pa.int64()

    def lower_items(self, items: ItemCounts) -> pa.Array:
        return pa.array(items.distinct().ravel())
