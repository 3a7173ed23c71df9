"""Items with a weight: their number of tuples, or the SUM of another argument over them."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from sash.synopses.accumulator import Accumulator
from sash.synopses.aggregates import AGGREGATES
from sash.synopses.item_lists.base import ItemList
from sash.synopses.partials import Partial
from sash.synopses.readers import Lowering, lowered_column, table_name
from sash.synopses.readings import Reading


class WeightedItems(ItemList):
    """Reads one pane table: that of `SUM(y) .. GROUP BY x` (rule SS1)."""

    @cached_property
    def weights(self) -> tuple[Partial, ...]:
        """Among tuples of one item that is not NULL, COUNT(item) is the number of rows."""
        (call,) = self.query.calls
        if call.function == "count":
            return (self.presence,)
        return AGGREGATES[call.function].lift(call.argument, self.query.predicate)

    @cached_property
    def reading(self) -> Reading:
        partials = tuple(dict.fromkeys([self.presence, *self.weights]))
        return Reading(table_name(self.query), self.query.window, partials)

    @cached_property
    def _lowering(self) -> Lowering:
        return Lowering(AGGREGATES[self.query.calls[0].function], self.weights)

    def _lowered(self, accumulator: Accumulator) -> pa.Array:
        (call,) = self.query.calls
        return lowered_column(call, self._lowering, accumulator, None)
