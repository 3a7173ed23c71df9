"""Items with a weight: their number of tuples, or the SUM of another argument over them.

TOP(k, x), TOP(k, x, SUM(y))   the heaviest items of each group, ties broken by value
HISTOGRAM(x)                   every item of each group with its count, in the order of the items
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.storage.keys import KeyDictionary
from sash.synopses.accumulator import Accumulator
from sash.synopses.aggregates import AGGREGATES
from sash.synopses.item_lists.base import Ints, ItemList, top_of_groups
from sash.synopses.items import ItemOrder
from sash.synopses.partials import Partial
from sash.synopses.readers import Columns, Found, Lowering, lowered_column, shared_column, table_name
from sash.synopses.readings import Reading
from sash.synopses.window_view import WindowView


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


class Top(WeightedItems):
    """The heaviest first; a NULL weight after all others."""

    def read(self, views: Sequence[WindowView], found: Found) -> Columns:
        (view,) = views
        accumulator, order = view.accumulator_for(self.reading.partials), self._order(view.keys)
        block = accumulator.block
        column = None if block is None else shared_column(self._lowering, accumulator, all_windows=True)
        if block is None or column is None:
            there = accumulator.slots[self.presence, 0][np.newaxis, :]
            return self._heaviest(self._lowered(accumulator), there, view.keys, order)[0]
        key = (self.presence, self.weights, self.query.keys, self.rule)
        if key not in block.memo:
            # All windows that were scanned together are ranked together: an answer is then a slice.
            there = block.slots[self.presence, 0][: len(column) // max(1, block.groups)]
            block.memo[key] = self._heaviest(column, there, view.keys, order)
        return block.memo[key][accumulator.window]

    def _heaviest(self, column: pa.Array, there: Ints, keys: KeyDictionary, order: ItemOrder) -> list[Columns]:
        """The rows of each window; `column` has the weights of all windows, one after the other."""
        assert self.rule.count is not None
        state = (there > 0).astype(np.int8)
        state[(state > 0) & np.asarray(column.is_valid()).reshape(there.shape)] = 2
        listed = top_of_groups(_sortable(column).reshape(there.shape), state, order, self.rule.count)
        flat = listed.reshape(len(there), -1)
        window, place = np.nonzero(flat >= 0)
        pairs = flat[window, place]
        (call,) = self.query.calls
        weights = column.take(pa.array(pairs + window * there.shape[1]))
        rows, bounds = self._rows(keys, pairs, {call.name: weights}), np.searchsorted(window, np.arange(len(there) + 1))
        return [_slice(rows, int(first), int(last)) for first, last in pairwise(bounds)]


def _slice(rows: Columns, first: int, last: int) -> Columns:
    keys = {name: column.slice(first, last - first) for name, column in rows.keys.items()}
    fields = {name: column.slice(first, last - first) for name, column in rows.fields.items()}
    return Columns(keys, fields, last - first)


def _sortable(column: pa.Array) -> NDArray[Any]:
    """Numbers in the order of a column's values; NULLs are told apart by the caller."""
    if pt.is_decimal(column.type):
        return np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense"), dtype=np.int64)
    return np.asarray(column.fill_null(0) if column.null_count else column)


class Histogram(WeightedItems):
    """NULL is no item."""

    def read(self, views: Sequence[WindowView], found: Found) -> Columns:
        (view,) = views
        accumulator = view.accumulator_for(self.reading.partials)
        pairs, _ = self._order(view.keys).valid_pairs
        pairs = pairs[accumulator.slots[self.presence, 0][pairs] > 0]
        (call,) = self.query.calls
        return self._rows(view.keys, pairs, {call.name: self._lowered(accumulator).take(pa.array(pairs))})
