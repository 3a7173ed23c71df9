"""Substream filters in a group: which collective indexes it keeps, and the queries that they answer.

An index pays when many queries share it and there are many groups that it spares; a query that asks for an approximate
answer always gets an index. The exact values of the groups that an index finds come from a running or interval
synopsis, which need not visit the other groups.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from sash.panes.accelerator import refusal
from sash.panes.answers import Finisher
from sash.panes.filters import FilterIndex, FilterKey
from sash.panes.pane_store import PaneStore
from sash.panes.readings import Reading
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.active import ActiveQuery
from sash.sharing.choose import Load

# A group keeps an index for at least this many queries and this many groups: with fewer, a scan of all groups was as
# fast or faster (64 queries that let a twentieth through: 0.6 times at 2,000 groups, 1.6 at 50,000).
LEAST_QUERIES = 8
LEAST_GROUPS = 20_000
# The most numbers that the exact values of one window may take, per component.
_MOST_NUMBERS = 64_000_000


class Filters:
    """The collective indexes of one pane table; `p` is their precision."""

    def __init__(self, p: int) -> None:
        self.p = p
        self.filter_indexes: dict[FilterKey, FilterIndex] = {}
        self._served: dict[str, FilterKey] = {}

    def __bool__(self) -> bool:
        return bool(self.filter_indexes)

    @property
    def indexes(self) -> dict[FilterKey, list[str]]:
        """The kept indexes, each with the queries that it serves."""
        return {key: [name for name, mine in self._served.items() if mine == key] for key in self.filter_indexes}

    def choose(self, queries: Iterable[ActiveQuery], load: Load) -> dict[str, list[Reading]]:
        """Keep the indexes that pay; the result is the readings that need exact values, by kind of synopsis."""
        asked: dict[FilterKey, list[ActiveQuery]] = {}
        for active in queries:
            covered = active.readings[0].covered is not None
            filter = filterable(active.compiled.finishers[0]) if active.compiled.is_simple and not covered else None
            if filter is None or active.compiled.synopsis not in (None, "running", "interval"):
                continue
            if active.compiled.readings[0].window.length // load.pane * load.groups <= _MOST_NUMBERS:
                asked.setdefault(filter, []).append(active)
        kept = {key: mine for key, mine in asked.items() if is_worth([active.compiled for active in mine], load.groups)}
        self.filter_indexes = {key: self.filter_indexes.get(key) or FilterIndex(key, self.p) for key in kept}
        self._served = {active.name: key for key, mine in kept.items() for active in mine}
        for key, mine in kept.items():
            self.filter_indexes[key].look_back(max(active.compiled.readings[0].window.length for active in mine))
        needed: dict[str, list[Reading]] = {}
        for active in (active for mine in kept.values() for active in mine):
            (reading,) = active.compiled.readings
            kind = lookup_kind(reading)
            assert kind is not None
            needed.setdefault(kind, []).append(reading)
        return needed

    def answer(self, active: ActiveQuery, panes: PaneStore, now: int) -> pa.Table | None:
        """A query's answer from the groups that its index finds; None if the panes must be scanned."""
        key = self._served.get(active.name)
        if key is None:
            return None
        index, (finisher,), (reading,) = self.filter_indexes[key], active.compiled.finishers, active.compiled.readings
        edge = now - reading.window.length
        starts = [panes.since[partial] for partial in reading.partials]
        if any(start is not None and start > edge for start in starts):
            return None
        if not (index.pays or finisher.query.approximate):
            return None
        return panes.answer_by(index, finisher, now)


def filterable(finisher: Finisher) -> FilterKey | None:
    """The index that could serve a query, if exact values can be looked up group by group; else None."""
    if finisher.filter is None or lookup_kind(finisher.readings[0]) is None:
        return None
    return finisher.filter.key


def lookup_kind(reading: Reading) -> str | None:
    """The synopsis that gives exact values of single groups: running where possible, else interval."""
    for kind in ("running", "interval"):
        if all(refusal(kind, partial) is None for partial in reading.partials):
            return kind
    return None


def is_worth(queries: list[CompiledQuery], groups: int) -> bool:
    approximate = any(query.finishers[0].query.approximate for query in queries)
    return approximate or (len(queries) >= LEAST_QUERIES and groups >= LEAST_GROUPS)
