"""Aggregates that answer with one row per item: the item by its column's name, then its weight.

The pane table is grouped by the query's keys and the item, so an item's count or weight is a plain aggregate of its
pair; this module then chooses among the pairs of each group.

TOP(k, x), TOP(k, x, SUM(y))   the heaviest items of each group, ties broken by value
HISTOGRAM(x)                   every item of each group with its count, in the order of the items
FREQUENT(k, x)                 the items that are frequent for certain (thesis, algorithm 6; see `list_panes`)
APPROX_TOP(k, x)               from one frequent items sketch per pane and group: the item is no key of the table
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.expr.value_codes import KeyDictionary
from sash.panes.accumulator import Accumulator
from sash.panes.aggregates import AGGREGATES
from sash.panes.items import ItemOrder, item_order, pick_top
from sash.panes.partials import Partial
from sash.panes.readers import (
    Columns,
    LoweredAggregate,
    SharedGroups,
    SlicedColumns,
    lowered_column,
    places_of,
    shared_column,
    table_name,
)
from sash.panes.readings import Reading, ShortLists, WindowView, sub_window_of
from sash.panes.sketches import top_of
from sash.plan.periodic import ItemRule, PeriodicAggregate

__all__ = ["ITEM_LISTS"]


@dataclass(frozen=True)
class ApproxTop:
    """Estimated counts with their bounds; the error is at most 0.09% of the window's values."""

    query: PeriodicAggregate

    @cached_property
    def _by_group(self) -> PeriodicAggregate:
        """The query without its item: its groups alone."""
        return replace(self.query, keys=self.query.keys[:-1], items=None)

    @cached_property
    def reading(self) -> Reading:
        presence = Partial("rows", None, self.query.predicate)
        sketch = Partial("items", self.query.keys[-1].expression, self.query.predicate)
        return Reading(table_name(self._by_group), self.query.window, (presence, sketch))

    @property
    def group(self) -> tuple[int, ...]:
        return tuple(range(len(self.reading.table.keys)))

    def read(self, views: Sequence[WindowView], found: SharedGroups) -> Columns:
        (view,) = views
        rule, (presence, sketch) = self.query.items, self.reading.partials
        assert rule is not None and rule.count is not None
        *keys, item = self.query.keys
        accumulator = view.accumulator_for(self.reading.partials)
        groups = np.flatnonzero(accumulator.slots[presence, 0] > 0) if keys else np.zeros(1, dtype=np.int64)
        merged = accumulator.merged(sketch, groups)
        assert isinstance(merged, list)
        type = item.expression.type
        lists = [top_of(data, type, rule.count) for data in merged[0]]
        owners = np.repeat(groups, [len(each[0]) for each in lists])
        values, places = view.keys.decode(owners), places_of(self._by_group, self.reading.table)
        names = {key.name: values[place] for key, place in zip(keys, places, strict=True)}
        names[item.name] = pa.concat_arrays([each[0] for each in lists]) if lists else pa.array([], type)
        (call,) = self.query.calls
        wanted = (call.name, "lower", "upper") if rule.bounds else (call.name,)
        nothing = np.empty(0, dtype=np.int64)
        figures = [pa.array(np.concatenate([nothing, *(each[i] for each in lists)])) for i in (1, 2, 3)]
        return Columns(names, dict(zip(wanted, figures, strict=False)), len(owners))


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ItemList:
    """The common part of the readers of item lists: the last key of the query is the item.

    They are holistic aggregates of the item, by its counts (see `aggregates.holistic`).
    """

    query: PeriodicAggregate

    @property
    def rule(self) -> ItemRule:
        assert self.query.items is not None
        return self.query.items

    @cached_property
    def presence(self) -> Partial:
        return Partial("rows", None, self.query.predicate)

    @cached_property
    def _places(self) -> list[int]:
        return places_of(self.query, table_name(self.query))

    @cached_property
    def group(self) -> tuple[int, ...]:
        return tuple(sorted(set(self._places[:-1])))

    def _order(self, keys: KeyDictionary) -> ItemOrder:
        return item_order(keys, self._places[-1], self.group)

    def _rows(self, keys: KeyDictionary, pairs: Ints, fields: dict[str, pa.Array]) -> Columns:
        columns = keys.decode(pairs)
        names = {key.name: columns[place] for key, place in zip(self.query.keys, self._places, strict=True)}
        return Columns(names, fields, len(pairs))


def top_of_groups(weights: NDArray[Any], state: NDArray[np.int8], order: ItemOrder, k: int) -> Ints:
    """Up to k pairs of each window and group, the heaviest first; -1 where a group has fewer."""
    most = int((order.valid - order.starts[:-1]).max(initial=0))
    chosen: Ints = pick_top(weights, state, order.order, order.starts[:-1], order.valid, min(k, most))
    return chosen


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
    def _lowering(self) -> LoweredAggregate:
        return LoweredAggregate(AGGREGATES[self.query.calls[0].function], self.weights)

    def _lowered(self, accumulator: Accumulator) -> pa.Array:
        (call,) = self.query.calls
        return lowered_column(call, self._lowering, accumulator, None)


class Top(WeightedItems):
    """The heaviest first; a NULL weight after all others."""

    def read(self, views: Sequence[WindowView], found: SharedGroups) -> Columns:
        (view,) = views
        accumulator, order = view.accumulator_for(self.reading.partials), self._order(view.keys)
        block = accumulator.block
        column = None if block is None else shared_column(self._lowering, block)
        if block is None or column is None or accumulator.window * block.groups >= len(column):
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
        return [SlicedColumns(rows.keys, rows.fields, first, last - first) for first, last in pairwise(bounds.tolist())]


def _sortable(column: pa.Array) -> NDArray[Any]:
    """Numbers in the order of a column's values; the caller handles NULLs."""
    if pt.is_decimal(column.type):
        return np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense"), dtype=np.int64)
    return np.asarray(column.fill_null(0) if column.null_count else column)


class Histogram(WeightedItems):
    """NULL is no item."""

    def read(self, views: Sequence[WindowView], found: SharedGroups) -> Columns:
        (view,) = views
        accumulator = view.accumulator_for(self.reading.partials)
        pairs, _ = self._order(view.keys).valid_pairs
        pairs = pairs[accumulator.slots[self.presence, 0][pairs] > 0]
        (call,) = self.query.calls
        return self._rows(view.keys, pairs, {call.name: self._lowered(accumulator).take(pa.array(pairs))})


class Frequent(ItemList):
    """FREQUENT, from the top-k lists of the window's sub-windows.

    An item's count is the sum over the lists that name it, and is reported when it exceeds the threshold, the sum of
    the k-th counts: never a false positive. Sub-windows are gcd(WINDOW, SLIDE) of the query itself; if other queries
    have cut the panes finer, a sub-window's panes are merged before its list is made. Counts are lower bounds.

    The list of a list is the list itself, so panes with the lists of sub-windows (`list_panes`) give the same answers
    as panes with all counts. With a LAG between their ends, sub-windows are no panes.
    """

    @cached_property
    def reading(self) -> Reading:
        table, window, length = table_name(self.query), self.query.window, sub_window_of(self.query.window)
        assert self.rule.count is not None
        rule = ShortLists(self.rule.count, self._places[-1], self.group, length)
        lists = None if table.partition or window.lag % length else replace(table, lists=rule)
        return Reading(table, window, (self.presence,), length, lists=lists)

    def read(self, views: Sequence[WindowView], found: SharedGroups) -> Columns:
        assert self.rule.count is not None
        order = self._order(views[0].keys)
        totals = np.zeros(len(views[0].keys), dtype=np.int64)
        threshold = np.zeros(len(order.groups), dtype=np.int64)
        for view in views:
            counts = view.accumulator_for(self.reading.partials).slots[self.presence, 0]
            state = np.where(counts > 0, np.int8(2), np.int8(0))
            (listed,) = top_of_groups(counts[np.newaxis], state[np.newaxis], order, self.rule.count)
            named = listed[listed >= 0]
            totals[named] += counts[named]
            if listed.shape[1] == self.rule.count:
                # Fewer than k items: the k-th count is 0, and no item of the sub-window is off the list.
                last = listed[:, -1]
                threshold += np.where(last >= 0, counts[last], 0)
        pairs, limits = _over(totals, threshold, order)
        (call,) = self.query.calls
        fields = {call.name: pa.array(totals[pairs])}
        if self.rule.bounds:
            fields |= {"lower": pa.array(totals[pairs]), "upper": pa.array(totals[pairs] + limits)}
        return self._rows(views[0].keys, pairs, fields)


def _over(totals: Ints, threshold: Ints, order: ItemOrder) -> tuple[Ints, Ints]:
    """The pairs whose reported count exceeds their group's threshold, the most frequent first, and the thresholds."""
    pairs, owners = order.valid_pairs
    over = totals[pairs] > threshold[owners]
    pairs, owners = pairs[over], owners[over]
    ranked = np.lexsort((-totals[pairs], owners))
    return pairs[ranked], threshold[owners[ranked]]


ITEM_LISTS: dict[str, type[Top] | type[Histogram] | type[Frequent] | type[ApproxTop]] = {
    "top": Top,
    "histogram": Histogram,
    "frequent": Frequent,
    "approx_top": ApproxTop,
}
