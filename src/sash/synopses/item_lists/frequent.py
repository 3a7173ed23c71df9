"""FREQUENT(k, x): the items that are frequent for certain (thesis, algorithm 6; see also `synopses.frequent`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from sash.synopses.item_lists.base import Ints, ItemList, top_of_groups
from sash.synopses.items import ItemOrder
from sash.synopses.readers import Columns, Found, table_name
from sash.synopses.readings import Reading, sub_window_of
from sash.synopses.window_view import WindowView


class Frequent(ItemList):
    """From the top-k lists of the window's sub-windows.

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
