"""TOP, HISTOGRAM, FREQUENT and APPROX_TOP: one row per item, the item by its column's name, then its count or weight.

The pane table is grouped by the query's keys and the item, so an item's count or weight is a plain aggregate of its
pair; what is left is to choose among the pairs of each group.
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

from sash.plan.periodic import ItemRule, PeriodicAggregate
from sash.storage.keys import KeyDictionary
from sash.synopses.accumulator import Accumulator
from sash.synopses.aggregates import AGGREGATES
from sash.synopses.basic_interval import WindowView
from sash.synopses.item_kernels import pick_top
from sash.synopses.items import ItemOrder, item_order
from sash.synopses.partials import Partial
from sash.synopses.readers import (
    Columns,
    Found,
    Lowering,
    PlainReader,
    Reader,
    lowered_column,
    places_of,
    shared_column,
    table_name,
)
from sash.synopses.readings import Reading, sub_window_of
from sash.synopses.sketches.items import top_of

Ints = NDArray[np.int64]


def item_list_reader(query: PeriodicAggregate) -> Reader:
    assert query.items is not None
    kinds: dict[str, type[FrequentReader | ApproxTopReader | RankedReader]] = {
        "frequent": FrequentReader,
        "approx_top": ApproxTopReader,
    }
    return kinds.get(query.items.function, RankedReader)(query)


@dataclass(frozen=True)
class _ItemList:
    """What the readers of item lists have in common: the last key of the query is the item.

    They are holistic aggregates of the item, by its counts (see `aggregates.holistic`).
    """

    query: PeriodicAggregate
    category = "holistic"
    subtractable = True
    duplicate_sensitive = True
    exact = True

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

    def _order(self, keys: KeyDictionary) -> ItemOrder:
        return item_order(keys, self._places[-1], tuple(sorted(set(self._places[:-1]))))

    def _rows(self, keys: KeyDictionary, pairs: Ints, fields: dict[str, pa.Array]) -> Columns:
        columns = keys.decode(pairs)
        names = {key.name: columns[place] for key, place in zip(self.query.keys, self._places, strict=True)}
        return Columns(names, fields, len(pairs))


class RankedReader(_ItemList):
    """TOP(k, x), TOP(k, x, SUM(y)): the heaviest items of each group; HISTOGRAM(x): all, in their order."""

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

    def read(self, views: Sequence[WindowView], found: Found) -> Columns:
        (view,) = views
        accumulator, order = view.accumulator_for(self.reading.partials), self._order(view.keys)
        if self.rule.count is None:
            return self._histogram(accumulator, view.keys, order)
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

    @cached_property
    def _lowering(self) -> Lowering:
        return Lowering(AGGREGATES[self.query.calls[0].function], self.weights)

    def _lowered(self, accumulator: Accumulator) -> pa.Array:
        (call,) = self.query.calls
        return lowered_column(call, self._lowering, accumulator, None)

    def _histogram(self, accumulator: Accumulator, keys: KeyDictionary, order: ItemOrder) -> Columns:
        pairs, _ = order.valid_pairs
        pairs = pairs[accumulator.slots[self.presence, 0][pairs] > 0]
        (call,) = self.query.calls
        return self._rows(keys, pairs, {call.name: self._lowered(accumulator).take(pa.array(pairs))})

    def _heaviest(self, column: pa.Array, there: Ints, keys: KeyDictionary, order: ItemOrder) -> list[Columns]:
        """The rows of each window; `column` has the weights of all windows, one after the other."""
        assert self.rule.count is not None
        state = (there > 0).astype(np.int8)
        state[(state > 0) & np.asarray(column.is_valid()).reshape(there.shape)] = 2
        listed = _top_of_groups(_sortable(column).reshape(there.shape), state, order, self.rule.count)
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


def _top_of_groups(weights: NDArray[Any], state: NDArray[np.int8], order: ItemOrder, k: int) -> Ints:
    """Up to k pairs of each window and group, the heaviest first; -1 where a group has fewer."""
    most = int((order.valid - order.starts[:-1]).max(initial=0))
    chosen: Ints = pick_top(weights, state, order.order, order.starts[:-1], order.valid, min(k, most))
    return chosen


def _sortable(column: pa.Array) -> NDArray[Any]:
    """Numbers in the order of a column's values; NULLs are told apart by the caller."""
    if pt.is_decimal(column.type):
        return np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense"), dtype=np.int64)
    return np.asarray(column.fill_null(0) if column.null_count else column)


class FrequentReader(_ItemList):
    """FREQUENT(k, x): thesis algorithm 6, from the top-k lists of the window's sub-windows.

    An item's count is the sum over the lists that name it, and is reported when it exceeds the threshold, the sum of
    the k-th counts: never a false positive. Sub-windows are gcd(WINDOW, SLIDE) of the query itself; where neighbours
    have cut the panes finer, a sub-window's panes are merged before its list is made. Counts are lower bounds.
    """

    exact = False

    @cached_property
    def reading(self) -> Reading:
        return Reading(table_name(self.query), self.query.window, (self.presence,), sub_window_of(self.query.window))

    def read(self, views: Sequence[WindowView], found: Found) -> Columns:
        assert self.rule.count is not None
        order = self._order(views[0].keys)
        totals = np.zeros(len(views[0].keys), dtype=np.int64)
        threshold = np.zeros(len(order.groups), dtype=np.int64)
        for view in views:
            counts = view.accumulator_for(self.reading.partials).slots[self.presence, 0]
            state = np.where(counts > 0, np.int8(2), np.int8(0))
            (listed,) = _top_of_groups(counts[np.newaxis], state[np.newaxis], order, self.rule.count)
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


@dataclass(frozen=True)
class ApproxTopReader:
    """APPROX_TOP(k, x): from one frequent items sketch per pane and group, so the item is no key of the pane table."""

    query: PeriodicAggregate
    category = "algebraic"
    subtractable = False
    duplicate_sensitive = True
    exact = False

    @cached_property
    def _groups(self) -> PlainReader:
        """The query's groups alone."""
        return PlainReader(replace(self.query, keys=self.query.keys[:-1], items=None), ())

    @cached_property
    def _sketch(self) -> Partial:
        return Partial("items", self.query.keys[-1].expression, self.query.predicate)

    @cached_property
    def reading(self) -> Reading:
        whole = self._groups.reading
        return replace(whole, partials=(*whole.partials, self._sketch))

    def read(self, views: Sequence[WindowView], found: Found) -> Columns:
        (view,) = views
        assert self.query.items is not None and self.query.items.count is not None
        *_, item = self.query.keys
        groups = self._groups.read(views, found)
        accumulator = view.accumulator_for(self.reading.partials)
        there = np.flatnonzero(accumulator.slots[self._groups.presence, 0] > 0) if self.query.keys[:-1] else None
        merged = accumulator.merged(self._sketch, there)
        assert isinstance(merged, list)
        k, type = self.query.items.count, item.expression.type
        lists = [top_of(data, type, k) if data is not None else _nothing(type) for data in merged[0]]
        owners = pa.array(np.repeat(np.arange(len(lists)), [len(each[0]) for each in lists]))
        keys = {name: column.take(owners) for name, column in groups.keys.items()}
        items = pa.concat_arrays([each[0] for each in lists]) if lists else pa.array([], type)
        columns = [np.concatenate([np.empty(0, dtype=np.int64), *(each[i] for each in lists)]) for i in (1, 2, 3)]
        (call,) = self.query.calls
        names = (call.name, "lower", "upper") if self.query.items.bounds else (call.name,)
        fields = {name: pa.array(column) for name, column in zip(names, columns, strict=False)}
        return Columns({**keys, item.name: items}, fields, len(items))


def _nothing(type: pa.DataType) -> tuple[pa.Array, Ints, Ints, Ints]:
    empty = np.empty(0, dtype=np.int64)
    return pa.array([], type), empty, empty, empty
