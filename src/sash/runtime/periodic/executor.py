"""Joint execution: all queries that are due as of one time, in one scan of each pane table they read (rule CS2).

The answers have two parts: facts that are known when the panes are taken, and tables that are made later.

Whether an answer is complete, and the event time of a number of tuples, depend on what a group retains. So both are
recorded when the panes are taken, and tables may be made while the group goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType

import pyarrow as pa

from sash.panes.answers import Finisher, PendingTable
from sash.panes.cluster_panes import ClusterPanes
from sash.panes.pane_store import FAILURES, AnswerPart, PaneStore, PartFailure, PartIdentity, PartResult, needs_of
from sash.panes.readers import Columns
from sash.runtime.answers.answer import Answer
from sash.runtime.periodic.active import ActiveQuery, AdvanceOutcome
from sash.runtime.periodic.pane_group import PaneGroup

# By the interpreter itself: an execution asks this of each of its queries.
_is_simple = attrgetter("compiled.is_simple")


@dataclass
class _Wanted:
    """What queries want of one group: each part once, with the leaves of queries that want it."""

    group: PaneGroup
    parts: list[AnswerPart] = field(default_factory=list)
    askers: list[list[tuple[ActiveQuery, int]]] = field(default_factory=list)
    _numbers: dict[PartIdentity, int] = field(default_factory=dict)

    def add(self, active: ActiveQuery, leaf: int, part: AnswerPart) -> None:
        number = self._numbers.get(part.identity)
        if number is None:
            number = self._numbers[part.identity] = len(self.parts)
            self.parts.append(part)
            self.askers.append([])
        self.askers[number].append((active, leaf))


class Execution:
    """One joint execution. `tables` gives each query's answer; after `freeze` in any thread, as of then."""

    def __init__(self, queries: list[ActiveQuery], as_of: int, outcome: AdvanceOutcome) -> None:
        self._queries = queries
        self._as_of = as_of
        self._outcome = outcome
        # By the identity of the group: what queries want of it, and its frozen panes.
        self._wanted = _by_group(queries)
        self._frozen: dict[int, PaneStore] = {}
        # Whole answers, answers of leaves, and columns of the readings of leaves, by the names of queries.
        self._whole: dict[str, pa.Table | PendingTable] = {}
        self._leaves: dict[tuple[str, int], pa.Table] = {}
        self._columns: dict[tuple[str, int, int], Columns] = {}
        # Queries without an answer: the panes gave no result for some part of the query.
        self._silent: set[str] = set()

    def freeze(self, build: bool = False, files: Mapping[str, pa.Table] = MappingProxyType({})) -> None:
        """Take the current panes, so that groups may go on meanwhile. Substream filters are not used.

        Lookups are made at once; `build`: build whatever they need. `files`: of these groups, by label, take these
        files, not the current ones.
        """
        for which, wanted in self._wanted.items():
            panes, needs = wanted.group.panes, needs_of(wanted.parts)
            panes.close(self._as_of)
            partials = dict.fromkeys(partial for some in needs.values() for partial in some)
            frozen = self._frozen[which] = panes.frozen(needs, self._as_of, build, partials)
            if isinstance(frozen, ClusterPanes) and wanted.group.label in files:
                frozen.load_files(files[wanted.group.label])

    def tables(self) -> Iterator[tuple[ActiveQuery, pa.Table | PendingTable]]:
        for which, wanted in self._wanted.items():
            self._read(which, wanted)
        for active in self._queries:
            # A query that has failed at an earlier time of the same advance gets no more answers.
            table = None if active.name in self._outcome.failed else self._whole.get(active.name)
            if table is None:
                table = self._composed(active)
            if table is not None:
                yield active, table

    def _read(self, which: int, wanted: _Wanted) -> None:
        panes = self._frozen.get(which)
        if panes is None:
            panes = wanted.group.panes
            # A group that runs behind has not closed the panes of this time yet.
            panes.close(self._as_of)
            wanted = self._unfiltered(wanted) if wanted.group.choices.filters else wanted
        for number, found in panes.read(wanted.parts, self._as_of):
            self._take(wanted.parts[number], wanted.askers[number], found, panes)

    def _unfiltered(self, wanted: _Wanted) -> _Wanted:
        """The parts that substream filters have not answered."""
        left = _Wanted(wanted.group)
        for part, askers in zip(wanted.parts, wanted.askers, strict=True):
            # All askers of a part have one filter.
            try:
                table = wanted.group.filtered(askers[0][0], self._as_of)
            except FAILURES as error:
                self._outcome.failed |= {active.name: str(error) for active, _ in askers}
                continue
            for active, leaf in askers:
                if table is None:
                    left.add(active, leaf, part)
                else:
                    self._leaves[active.name, leaf] = table
        return left

    def _take(
        self, part: AnswerPart, askers: list[tuple[ActiveQuery, int]], found: PartResult | None, panes: PaneStore
    ) -> None:
        """Give the result of a part to all who want it; a simple query's answer is made of it at once."""
        result = _answer(part.finisher, found) if isinstance(found, Columns) and part.finisher.is_simple else found
        for active, leaf in askers:
            if isinstance(result, PendingTable) and not active.compiled.is_simple:
                result = result.table
            if isinstance(result, pa.Table | PendingTable):
                if active.compiled.is_simple:
                    self._whole[active.name] = result
                else:
                    self._leaves[active.name, leaf] = result
            elif isinstance(result, Columns):
                self._columns[active.name, leaf, part.reader] = result
            elif result is not None:
                self._outcome.failed[active.name] = result.why
                panes.note_failure(active.name, self._as_of, result.why)
            elif (why := panes.noted_failure(active.name, self._as_of)) is not None:
                self._outcome.failed[active.name] = why
            else:
                self._silent.add(active.name)

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


def _by_group(queries: list[ActiveQuery]) -> dict[int, _Wanted]:
    found: dict[int, _Wanted] = {}
    for active in queries:
        for group, leaf, part in active.parts():
            wanted = found.get(id(group))
            if wanted is None:
                wanted = found[id(group)] = _Wanted(group)
            wanted.add(active, leaf, part)
    return found


def _answer(finisher: Finisher, columns: Columns) -> pa.Table | PendingTable | PartFailure:
    if columns.is_pending and finisher.is_plain:
        return PendingTable(finisher, columns)
    try:
        return finisher.finish([columns])
    except FAILURES as error:
        return PartFailure(str(error))


class JointAnswers:
    """Queries of one home, as of one time; followers get the tables of their leaders."""

    def __init__(self, queries: list[ActiveQuery], as_of: int, outcome: AdvanceOutcome) -> None:
        self._home = queries[0].home
        self.queries = queries
        self.outcome = outcome
        # Queries that ask the same share a part of an execution, and so its table. A composition of several parts is
        # made for a leader, and its followers get the same table: by the name of the leader.
        self._led: dict[str, list[ActiveQuery]] = {}
        if not all(map(_is_simple, queries)):
            self._led = {same[0].name: same for same in self._home.schedule.led(queries).values()}
            queries = [same[0] for same in self._led.values()]
        self._execution = Execution(queries, as_of, outcome)
        # The seconds of the execution.
        self.seconds = 0.0
        self.as_of = as_of
        self._moment = self._home.clock.moment(as_of)
        # Queries whose windows are equal, and known since the same time, are complete together.
        known: dict[tuple[object, ...], bool] = {}
        self._complete: dict[str, bool] = {}
        for active in self.queries:
            key = (active.name,) if active.spans is None else (*active.spans, active.readings[0].valid_from)
            complete = known.get(key)
            if complete is None:
                complete = known[key] = active.is_complete(as_of)
            self._complete[active.name] = complete

    @property
    def moment(self) -> datetime:
        """The event time of the answers."""
        return self._moment

    def freeze(self, files: Mapping[str, pa.Table] = MappingProxyType({})) -> None:
        """Take the current panes, or some files: from here on another thread may make the tables."""
        self._execution.freeze(True, files)

    def compute(self) -> list[Answer]:
        started = time.perf_counter()
        answers = list(self.answers())
        self.seconds = time.perf_counter() - started
        return answers

    def answers(self) -> Iterator[Answer]:
        clock, moment, complete = self._home.clock, self._moment, self._complete
        number = self.as_of if self._home.name.by_rows else None
        scheduled: dict[int | None, bool] = {}
        for leader, table in self._execution.tables():
            make = Answer.pending if isinstance(table, PendingTable) else Answer
            for active in self._led.get(leader.name, (leader,)):
                name, slide = active.name, active.compiled.slide
                if slide not in scheduled:
                    scheduled[slide] = clock.is_multiple(slide, self.as_of)
                yield make(name, moment, complete[name], scheduled[slide], table, number)
        for name in self.outcome.failed.keys() & self._led.keys():
            self.outcome.failed |= {active.name: self.outcome.failed[name] for active in self._led[name]}
