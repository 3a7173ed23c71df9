"""Which synopses a pane group keeps: the panes themselves, and the synopses over them for its readings."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from sash.core.window import Window
from sash.panes.accelerator import Accelerator
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.list_panes import ListPanes
from sash.panes.pane_store import PaneStore
from sash.panes.partials import Partial
from sash.panes.partitioned import PartitionedSynopsis
from sash.panes.readings import Reading, TableName
from sash.runtime.periodic.active import ActiveQuery, BoundReading
from sash.runtime.periodic.group_filters import Filters
from sash.sharing.choose import CLUSTER, Load, SynopsisChoice, access_cost, can_be_looked_up, choose
from sash.sharing.groups import families, same_data
from sash.sharing.rules import scheduling_group


def synopsis_for(name: TableName) -> BasicIntervalSynopsis:
    """An empty synopsis for the panes of a table."""
    if name.lists is not None:
        return ListPanes([key.type for key in name.keys], name.lists)
    if not name.partition:
        return BasicIntervalSynopsis([key.type for key in name.keys])
    group = tuple(range(len(name.keys)))
    keys = [*name.keys, *(key for key in name.partition if key not in name.keys)]
    return PartitionedSynopsis([key.type for key in keys], group, tuple(keys.index(key) for key in name.partition))


class ReadingPlace(NamedTuple):
    """The data of a reading, in words, the kind of synopsis that answers it, its scheduling group, and its cost.

    `reason` says why this kind answers it, if its user has set none.
    """

    data: str
    kind: str
    group: str
    access: float
    reason: str


class Choices:
    """The synopses of one pane table, and what was known about its panes when they were chosen."""

    def __init__(self, name: TableName, length: int, filter_precision: int) -> None:
        self._name = name
        # The synopsis for readings whose user has set none.
        self.choice = SynopsisChoice("basic", "")
        self.filters = Filters(filter_precision)
        # Predicates that are answered from each other's synopses, each with the first of its family.
        self._families: dict[str, str] = {}
        # The load of the closed panes when they were judged, and how many rows they had.
        self.load = Load(length)
        self._judged = 0
        # In a trial, which does not look at the panes: their last known load.
        self._known: Load | None = None
        # What was found out about readings since the last choice: queries of one shape over one window have one answer.
        self._places: dict[tuple[tuple[Partial, ...], tuple[Window, ...]], ReadingPlace] = {}

    def trial(self) -> Choices:
        """A copy that uses the last known load of the panes."""
        other = copy.copy(self)
        other.filters, other._known, other._places = self.filters.trial(), self.load, {}
        return other

    def judge(self, panes: PaneStore, length: int, readings: Iterable[BoundReading]) -> None:
        """Measure the closed panes and the readings: choices are based on them."""
        known = self._known or Load(length, *panes.closed_groups(), in_cluster=panes.is_read_by_job)
        self.load = replace(known, pane=length)
        self._judged = panes.closed_rows
        self._families = families(bound.stored for bound in readings if bound.covered is not None)

    def look_again(self, panes: PaneStore) -> bool:
        """Look at the closed panes if they have far more or fewer rows than before: whether their load is another.

        More panes of the same kind are no other load: no choice and no cost would change by much.
        """
        if _is_near(self._judged, panes.closed_rows):
            return False
        groups, rows_per_pane = panes.closed_groups()
        self._judged = panes.closed_rows
        return not (_is_near(self.load.groups, groups) and _is_near(self.load.rows_per_pane, rows_per_pane))

    def build(
        self, panes: PaneStore, length: int, readings: Iterable[BoundReading], queries: Iterable[ActiveQuery]
    ) -> None:
        """Build the chosen synopses; the panes stay, so nothing is lost."""
        self._places.clear()
        if self._name.partition:
            return
        wanted = self._wanted(length, readings, queries)
        # An unchanged synopsis keeps its contents.
        known = {each.key: each for each in panes.accelerators}
        panes.accelerators = [known.get(each.key, each) for each in wanted]

    def _wanted(
        self, length: int, readings: Iterable[BoundReading], queries: Iterable[ActiveQuery]
    ) -> list[Accelerator]:
        """All synopses that are wanted over panes of a length."""
        looked_up = self.filters.choose(queries, self.load)
        if self.load.in_cluster:
            self.choice = SynopsisChoice(CLUSTER, "it has many groups, or a query says STORED IN CLUSTER")
            return []
        by_kind: dict[str, list[Reading]] = {}
        for bound in readings:
            by_kind.setdefault(bound.synopsis or "auto", []).append(bound.stored)
        auto = by_kind.pop("auto", [])
        self.choice = choose(auto, self.load)
        by_kind.setdefault(self.choice.kind, []).extend(auto)
        by_kind.pop("basic", None)
        # Before the table has moved to the cluster, and where it cannot: answer from its panes.
        by_kind.pop(CLUSTER, None)
        for kind, more in looked_up.items():
            by_kind.setdefault(kind, []).extend(more)
        return [_accelerator(kind, length, wanted) for kind, wanted in by_kind.items() if wanted]

    def drop_filters(self) -> None:
        """The panes move elsewhere, so no index is built over them from now on."""
        self.filters = Filters(self.filters.p)
        self._places.clear()

    # -- for a reading ---------------------------------------------------------------------------------

    def place(self, reading: Reading, panes: PaneStore) -> ReadingPlace:
        """Where and at what cost a reading is answered."""
        found = self._places.get((reading.partials, reading.spans))
        if found is None:
            serving = (each for each in panes.accelerators if each.serves(reading.spans[0], reading.partials))
            kind = next((each.kind for each in serving), panes.kind)
            is_there = "another query or a substream filter needs it"
            other = "no other synopsis answers such windows" if kind == panes.kind else is_there
            why = self.choice.reason if kind == self.choice.kind else other
            why = "" if self._name.lists is not None else why
            data = same_data(self._name.label, reading, self._families)
            group, access = scheduling_group(data, kind, reading.spans[:1]), access_cost((reading,), kind, self.load)
            found = ReadingPlace(data, kind, group, access, why)
            self._places[reading.partials, reading.spans] = found
        return found

    # -- recovery --------------------------------------------------------------------------------------

    def save(self) -> list[float]:
        """The basis of the choices: after a restart they must be the same."""
        return [self._judged, self.load.pane, self.load.groups, self.load.rows_per_pane]

    def restore(self, saved: list[float], panes: PaneStore) -> None:
        judged, pane, groups, rows_per_pane = saved
        self._judged = int(judged)
        self._places.clear()
        self.load = Load(int(pane), int(groups), rows_per_pane, panes.is_read_by_job)


def _is_near(before: float, now: float) -> bool:
    return 0.8 * before <= now <= 1.25 * before


def _accelerator(kind: str, length: int, readings: list[Reading]) -> Accelerator:
    bounded = [reading for reading in readings if can_be_looked_up(reading)]
    spans = {span for reading in bounded for span in reading.spans}
    return Accelerator(kind, length, spans, {partial for reading in bounded for partial in reading.partials})
