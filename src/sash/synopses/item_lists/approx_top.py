"""APPROX_TOP(k, x): from one frequent items sketch per pane and group, so the item is no key of the pane table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from sash.plan.periodic import PeriodicAggregate
from sash.synopses.partials import Partial
from sash.synopses.readers import Columns, Found, places_of, table_name
from sash.synopses.readings import Reading
from sash.synopses.sketches.items import top_of
from sash.synopses.window_view import WindowView


@dataclass(frozen=True)
class ApproxTop:
    """Estimated counts with their bounds; the error is at most 0.09% of the window's values."""

    query: PeriodicAggregate
    category = "algebraic"
    subtractable = False
    duplicate_sensitive = True
    exact = False

    @cached_property
    def _by_group(self) -> PeriodicAggregate:
        """The query's groups alone."""
        return replace(self.query, keys=self.query.keys[:-1], items=None)

    @cached_property
    def reading(self) -> Reading:
        presence = Partial("rows", None, self.query.predicate)
        sketch = Partial("items", self.query.keys[-1].expression, self.query.predicate)
        return Reading(table_name(self._by_group), self.query.window, (presence, sketch))

    @property
    def group(self) -> tuple[int, ...]:
        return tuple(range(len(self.reading.table.keys)))

    def read(self, views: Sequence[WindowView], found: Found) -> Columns:
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
