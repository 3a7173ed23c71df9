"""What aggregates that answer with one row per item have in common: the item by its column's name, then its weight.

The pane table is grouped by the query's keys and the item, so an item's count or weight is a plain aggregate of its
pair; what is left is to choose among the pairs of each group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.plan.periodic import ItemRule, PeriodicAggregate
from sash.storage.keys import KeyDictionary
from sash.synopses.item_kernels import pick_top
from sash.synopses.items import ItemOrder, item_order
from sash.synopses.partials import Partial
from sash.synopses.readers import Columns, places_of, table_name

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ItemList:
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
