"""Substream filters in a group: which collective indexes it keeps, and the queries that they answer.

An index pays when many queries share it and there are many groups that it spares; for an approximate answer one query
is enough. The exact values of the groups that an index finds come from a running or interval synopsis, which need not
visit the other groups.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from sash.panes.accelerator import refusal
from sash.panes.answers import Finisher
from sash.panes.filters import FilterIndex, FilterKey
from sash.panes.pane_store import PaneStore
from sash.panes.readings import Reading
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.active import ActiveQuery
from sash.sharing.choose import CLUSTER, Load

# A group keeps an index for at least this many queries and this many groups: with fewer, a scan of all groups was as
# fast or faster (64 queries that let a twentieth through: 0.6 times at 2,000 groups, 1.6 at 50,000).
LEAST_QUERIES = 8
LEAST_GROUPS = 20_000
# The most numbers that the exact values of one window may take, per component.
MOST_NUMBERS = 64_000_000


@dataclass(frozen=True)
class FilterDecision:
    """Whether an index answers a HAVING. `company` are all queries that could use this index.

    `why_not` says why HAVING is evaluated for every group; None: the index answers.
    """

    key: FilterKey
    why_not: str | None = None
    company: tuple[str, ...] = ()


class Filters:
    """The collective indexes of one pane table; `p` is their precision."""

    def __init__(self, p: int) -> None:
        self.p = p
        self.filter_indexes: dict[FilterKey, FilterIndex] = {}
        # For each query with a HAVING that an index could serve.
        self._decisions: dict[str, FilterDecision] = {}

    def trial(self) -> Filters:
        """A copy with the same decisions, which has learnt as much about each index and does not change it."""
        other = Filters(self.p)
        other.filter_indexes = {key: copy.copy(index) for key, index in self.filter_indexes.items()}
        other._decisions = dict(self._decisions)
        return other

    def __bool__(self) -> bool:
        return bool(self.filter_indexes)

    @property
    def indexes(self) -> dict[FilterKey, list[str]]:
        """The kept indexes, each with the queries that it serves."""
        served = {name: decision.key for name, decision in self._decisions.items() if decision.why_not is None}
        return {key: [name for name, mine in served.items() if mine == key] for key in self.filter_indexes}

    def choose(self, queries: Iterable[ActiveQuery], load: Load) -> dict[str, list[Reading]]:
        """Keep the indexes that pay; the result is the readings that need exact values, by kind of synopsis."""
        asked: dict[FilterKey, list[ActiveQuery]] = {}
        self._decisions = {}
        for active in queries:
            key = _filterable(active.compiled.finishers[0]) if active.compiled.is_simple else None
            if key is None:
                continue
            why_not = _why_not_looked_up(active, load)
            if why_not is None:
                asked.setdefault(key, []).append(active)
            else:
                self._decisions[active.name] = FilterDecision(key, why_not)
        for key, mine in asked.items():
            why_not = _why_not_worth(key, [active.compiled for active in mine], load.groups)
            decision = FilterDecision(key, why_not, tuple(active.name for active in mine))
            self._decisions |= dict.fromkeys(decision.company, decision)
        kept = {key: mine for key, mine in asked.items() if self._decisions[mine[0].name].why_not is None}
        self.filter_indexes = {key: self.filter_indexes.get(key) or FilterIndex(key, self.p) for key in kept}
        for key, mine in kept.items():
            self.filter_indexes[key].look_back(max(active.compiled.readings[0].window.length for active in mine))
        needed: dict[str, list[Reading]] = {}
        for active in (active for mine in kept.values() for active in mine):
            (reading,) = active.compiled.readings
            kind = lookup_kind(reading)
            assert kind is not None
            needed.setdefault(kind, []).append(reading)
        return needed

    def decision(self, active: ActiveQuery) -> FilterDecision | None:
        """How a query's HAVING is answered now; None if no index could serve it."""
        chosen = self._decisions.get(active.name)
        if chosen is None or chosen.why_not is not None:
            return chosen
        index = self.filter_indexes[chosen.key]
        if not (index.pays or active.compiled.finishers[0].query.approximate):
            return replace(chosen, why_not=f"the index on {chosen.key} spares too few groups")
        return chosen

    def answer(self, active: ActiveQuery, panes: PaneStore, now: int) -> pa.Table | None:
        """A query's answer from the groups that its index finds; None if the panes must be scanned."""
        decision = self.decision(active) if active.name in self._decisions else None
        if decision is None or decision.why_not is not None:
            return None
        (finisher,), (reading,) = active.compiled.finishers, active.compiled.readings
        edge = now - reading.window.length
        starts = [panes.since[partial] for partial in reading.partials]
        if any(start is not None and start > edge for start in starts):
            return None
        return panes.answer_by(self.filter_indexes[decision.key], finisher, now)


def _filterable(finisher: Finisher) -> FilterKey | None:
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


def _why_not_looked_up(active: ActiveQuery, load: Load) -> str | None:
    """Why the exact values of single groups cannot be looked up for a query, whatever others do."""
    (bound,), kind = active.readings, CLUSTER if load.in_cluster else active.compiled.synopsis
    if kind not in (None, "running", "interval"):
        return f"{kind} panes give no values of single groups"
    if bound.covered is not None:
        return "its values are combined from those of other predicates (SS4)"
    if bound.reading.window.length // load.pane * load.groups > MOST_NUMBERS:
        return f"the exact values of one window would be more than {MOST_NUMBERS:,} numbers"
    return None


def _why_not_worth(key: FilterKey, queries: list[CompiledQuery], groups: int) -> str | None:
    approximate = any(query.finishers[0].query.approximate for query in queries)
    if approximate or (len(queries) >= LEAST_QUERIES and groups >= LEAST_GROUPS):
        return None
    few = f"{len(queries)} of {LEAST_QUERIES} queries, {groups} of {LEAST_GROUPS} groups so far"
    return f"an index on {key} does not pay yet ({few})"
