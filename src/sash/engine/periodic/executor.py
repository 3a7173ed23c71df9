"""Joint execution: all queries that are due as of one time, in one scan of each pane table they read (rule CS2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from sash.core.window import Window
from sash.engine.periodic.active import ActiveQuery, BoundReading, Outcome
from sash.engine.periodic.group import PaneGroup
from sash.plan.periodic import Shape
from sash.synopses.ahead import ReadAhead
from sash.synopses.answers import Finisher
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.cluster import ClusterPanes, Failed, Part
from sash.synopses.cluster.inquiry import FAILURES
from sash.synopses.covered import Covered
from sash.synopses.partials import Partial
from sash.synopses.readers import Columns, Found
from sash.synopses.window_view import WindowView


@dataclass
class _Job:
    """One reading of one leaf of one query, until the views of all its spans have come."""

    active: ActiveQuery
    bound: BoundReading
    leaf: int
    reader: int
    missing: int
    views: dict[Window, WindowView] = field(default_factory=dict)


class Execution:
    """One joint execution. `tables` gives each query's answer; after `freeze` in any thread, as of then.

    Or in two steps: `read_ahead` in any thread, then `follow` to a time that may be a pane later, then `tables`.
    """

    def __init__(self, queries: list[ActiveQuery], as_of: int, outcome: Outcome) -> None:
        self._queries = queries
        self._as_of = as_of
        self._outcome = outcome
        self._leaves: dict[tuple[str, int], pa.Table] = {}
        self._columns: dict[tuple[str, int, int], Columns] = {}
        # The panes that were frozen, by the identity of their group.
        self._frozen: dict[int, BasicIntervalSynopsis | ClusterPanes] = {}
        # Queries that are not to be answered: what they read is in the cluster, and nobody asks there.
        self._silent: set[str] = set()
        # What can be read before it is known as of when, likewise.
        self._ahead: dict[int, ReadAhead] = {}

    def freeze(self, build: bool = False) -> None:
        """Take what it will read as it is now, so that groups may go on meanwhile. Substream filters are not asked.

        Lookups are made at once; `build`: whatever they need is built for that.
        """
        for group, jobs in self._by_group():
            if isinstance(group.synopsis, ClusterPanes):
                self._frozen[id(group)] = group.synopsis.frozen()
                continue
            group.synopsis.close(self._as_of)
            read = self._ahead[id(group)].needs if id(group) in self._ahead else {}
            wanted = _needs(jobs)
            partials = dict.fromkeys(partial for some in wanted.values() for partial in some)
            needs = {window: some for window, some in wanted.items() if window not in read}
            self._frozen[id(group)] = group.synopsis.frozen(needs, self._as_of, build, partials)

    def plan_ahead(self) -> bool:
        """After `freeze`: look what could be read ahead; whether there is anything. A job in the cluster reads all."""
        if any(isinstance(frozen, ClusterPanes) for frozen in self._frozen.values()):
            return False
        for group, jobs in self._by_group():
            frozen = self._frozen[id(group)]
            if isinstance(frozen, BasicIntervalSynopsis) and not group.coarse:
                self._ahead[id(group)] = ReadAhead(frozen, _needs(jobs), self._as_of, group.length)
        return any(ahead.needs for ahead in self._ahead.values())

    def read_ahead(self) -> None:
        for ahead in self._ahead.values():
            ahead.read()

    def follow(self, as_of: int) -> bool:
        """Freeze the rest as of a time, unless something that was read ahead has left its window."""
        groups = {id(group): group for active in self._queries for group in active.groups}
        if not all(ahead.follows(groups[which].synopsis.version, as_of) for which, ahead in self._ahead.items()):
            return False
        if as_of != self._as_of:
            self._as_of = as_of
            self.freeze(build=True)
        return True

    def tables(self) -> Iterator[tuple[ActiveQuery, pa.Table]]:
        for which, ahead in self._ahead.items():
            frozen = self._frozen[which]
            assert isinstance(frozen, BasicIntervalSynopsis)
            ahead.complete(frozen, self._as_of)
        for group, jobs in self._by_group():
            self._scan(group, jobs)
        for active in self._queries:
            table = self._composed(active)
            if table is not None:
                yield active, table

    def _by_group(self) -> Iterable[tuple[PaneGroup, dict[Window, list[_Job]]]]:
        found: dict[int, tuple[PaneGroup, dict[Window, list[_Job]]]] = {}
        for active in self._queries:
            bound = iter(active.readings)
            for leaf, finisher in enumerate(active.compiled.finishers):
                for reader, reading in enumerate(finisher.readings):
                    mine = next(bound)
                    _, jobs = found.setdefault(id(mine.group), (mine.group, {}))
                    job = _Job(active, mine, leaf, reader, len(reading.spans))
                    for span in reading.spans:
                        jobs.setdefault(span, []).append(job)
        return found.values()

    def _scan(self, group: PaneGroup, jobs: dict[Window, list[_Job]]) -> None:
        synopsis = self._frozen.get(id(group), group.synopsis)
        if isinstance(synopsis, ClusterPanes):
            self._inquire(synopsis, jobs)
            return
        if id(group) not in self._frozen:
            # A group that runs behind has not closed the panes of this time yet.
            synopsis.close(self._as_of)
            jobs = {span: left for span, waiting in jobs.items() if (left := self._unfiltered(group, waiting))}
        for view in synopsis.scan(_needs(jobs), self._as_of):
            found, tables = dict[Covered | None, Found](), dict[Shape, pa.Table]()
            for job in jobs[view.window]:
                covered = job.bound.covered
                mine = view if covered is None else covered.view(view, job.bound.reading.partials)
                try:
                    self._take(job, mine, found.setdefault(covered, Found()), tables)
                except FAILURES as error:
                    self._outcome.failed[job.active.name] = str(error)

    def _inquire(self, panes: ClusterPanes, jobs: dict[Window, list[_Job]]) -> None:
        """One job in the cluster for all windows and queries; those that want the same have it computed once."""
        numbers: dict[tuple[object, ...], int] = {}
        parts: list[Part] = []
        asking = {id(job): job for waiting in jobs.values() for job in waiting}
        places = []
        for job in asking.values():
            query = job.active.compiled.finishers[job.leaf].query
            number = numbers.setdefault(
                (query.shape, query.window.length, query.window.lag, job.reader, job.bound.covered), len(parts)
            )
            if number == len(parts):
                parts.append(Part(query, job.reader, job.bound.covered))
            places.append(number)
        found = panes.found(parts, self._as_of)
        for job, number in zip(asking.values(), places, strict=True):
            name = job.active.name
            if found is None:
                self._repeat(name, panes)
            elif isinstance(columns := found[number], Failed):
                self._outcome.failed[name] = columns.why
                panes.failures[name] = (self._as_of, columns.why)
            else:
                self._columns[job.active.name, job.leaf, job.reader] = columns

    def _repeat(self, name: str, panes: ClusterPanes) -> None:
        """Nobody is asked: what failed then fails, and everybody else has been answered."""
        as_of, why = panes.failures.get(name, (None, ""))
        if as_of == self._as_of:
            self._outcome.failed[name] = why
        else:
            self._silent.add(name)

    def _unfiltered(self, group: PaneGroup, jobs: list[_Job]) -> list[_Job]:
        """The jobs that are left when substream filters have answered theirs."""
        if not group.filters:
            return jobs
        left = []
        for job in jobs:
            try:
                table = group.filtered(job.active, self._as_of)
            except FAILURES as error:
                self._outcome.failed[job.active.name] = str(error)
                continue
            if table is None:
                left.append(job)
            else:
                self._leaves[job.active.name, job.leaf] = table
        return left

    def _take(self, job: _Job, view: WindowView, found: Found, tables: dict[Shape, pa.Table]) -> None:
        finisher = job.active.compiled.finishers[job.leaf]
        if finisher.is_simple:
            shape = finisher.query.shape
            table = tables.get(shape)
            if table is None:
                table = tables[shape] = finisher.answer(view, found)
            self._leaves[job.active.name, job.leaf] = table
            return
        job.views[view.window] = view
        if len(job.views) == job.missing:
            spans = finisher.readings[job.reader].spans
            columns = finisher.readers[job.reader].read([job.views[span] for span in spans], found)
            self._columns[job.active.name, job.leaf, job.reader] = columns
            job.views.clear()

    def _composed(self, active: ActiveQuery) -> pa.Table | None:
        if active.name in self._outcome.failed or active.name in self._silent:
            return None
        try:
            leaves = [self._leaf(active, i, f) for i, f in enumerate(active.compiled.finishers)]
            return active.compiled.compose(leaves)
        except FAILURES as error:
            self._outcome.failed[active.name] = str(error)
            return None

    def _leaf(self, active: ActiveQuery, leaf: int, finisher: Finisher) -> pa.Table:
        if (active.name, leaf) in self._leaves:
            return self._leaves[active.name, leaf]
        read = [self._columns[active.name, leaf, reader] for reader in range(len(finisher.readers))]
        return finisher.finish(read)


def _needs(jobs: dict[Window, list[_Job]]) -> dict[Window, list[Partial]]:
    return {span: _partials(waiting) for span, waiting in jobs.items()}


def _partials(jobs: list[_Job]) -> list[Partial]:
    found: dict[Partial, None] = {}
    seen: set[tuple[Shape, int, Covered | None]] = set()
    for job in jobs:
        finisher = job.active.compiled.finishers[job.leaf]
        which = (finisher.query.shape, job.reader, job.bound.covered)
        if which not in seen:
            seen.add(which)
            found |= dict.fromkeys(job.bound.stored.partials)
    return list(found)
