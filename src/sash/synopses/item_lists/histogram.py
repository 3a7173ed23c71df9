"""HISTOGRAM(x): every item of each group with its count, in the order of the items."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sash.synopses.item_lists.weighted import WeightedItems
from sash.synopses.readers import Columns, Found
from sash.synopses.window_view import WindowView


class Histogram(WeightedItems):
    """NULL is no item."""

    def read(self, views: Sequence[WindowView], found: Found) -> Columns:
        (view,) = views
        accumulator = view.accumulator_for(self.reading.partials)
        pairs, _ = self._order(view.keys).valid_pairs
        pairs = pairs[accumulator.slots[self.presence, 0][pairs] > 0]
        (call,) = self.query.calls
        return self._rows(view.keys, pairs, {call.name: self._lowered(accumulator).take(pa.array(pairs))})
