"""Joint execution: all queries that are due as of one time, in one scan of each pane table they read (rule CS2).

The answers have two parts: facts that are known when the panes are taken, and tables that are made later.

Whether an answer is complete, and the event time of a number of tuples, depend on what a group retains. So both are
recorded when the panes are taken, and tables may be made while the group goes on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import pyarrow as pa

from sash.panes.answers import Finisher, PendingTable
from sash.panes.pane_store import FAILURES, AnswerPart, PaneStore, PartFailure, PartIdentity, PartResult, needs_of
from sash.panes.readers import Columns
from sash.plan.periodic import Shape
from sash.runtime.answers.answer import AnswerBatch
from sash.runtime.periodic.active import ActiveQuery, AdvanceOutcome
from sash.runtime.periodic.joint_queries import AnswerKind, JointQueries, WantedParts
from sash.runtime.periodic.pane_group import PaneGroup

# Windows are finished together until they have so many rows. Their answers are slices of one table, which stays in
# memory as long as one of them does.
_MOST_ROWS = 2**15


class Execution:
    """One joint execution. `tables` gives the answers; after `freeze` in any thread, as of then."""

    def __init__(self, joint: Sequence[JointQueries], as_of: int, outcome: AdvanceOutcome) -> None:
        self._as_of = as_of
        self._outcome = outcome
        # By group: what queries want of it, and its frozen panes.
        self._wanted = _all_wanted(joint)
        self._frozen: dict[PaneGroup, PaneStore] = {}
        # The results of parts, and answers that are composed of several, by the names of leaders.
        self._results: dict[PartIdentity, pa.Table | PendingTable | PartResult | None] = {}
        self._composed: dict[str, pa.Table | PartFailure | None] = {}
        # The columns of parts that are finished together, by shape, and how many rows they have.
        self._waiting: dict[Shape, list[tuple[AnswerPart, Columns]]] = {}
        self._waiting_rows = 0
        # Whether some part has no table.
        self._lacks_some = False

    def freeze(self, build: bool = False, files: Mapping[str, pa.Table] = MappingProxyType({})) -> None:
        """Take the current panes, so that groups may go on meanwhile. Substream filters are not used.

        Lookups are made at once; `build`: build whatever they need. `files`: of these groups, by label, take these
        files, not the current ones.
        """
        for group, wanted in self._wanted.items():
            panes, needs = group.panes, needs_of(_parts(wanted))
            panes.close(self._as_of)
            partials = dict.fromkeys(partial for some in needs.values() for partial in some)
            frozen = self._frozen[group] = panes.frozen(needs, self._as_of, build, partials)
            if group.label in files:
                frozen.load_files(files[group.label])

    def read(self) -> None:
        """Read all parts; then there are tables."""
        for group, wanted in self._wanted.items():
            panes, left = self._panes(group), wanted
            if group not in self._frozen:
                # A group that runs behind has not closed the panes of this time yet.
                panes.close(self._as_of)
                left = self._unfiltered(group, wanted) if group.choices.filters else wanted
            parts, results, as_of = _parts(left), self._results, self._as_of
            for number, found in panes.read(parts, as_of):
                part = parts[number]
                if isinstance(found, Columns) and found.is_pending and part.finisher.is_plain:
                    results[part.identity] = PendingTable(part.finisher, found, as_of)
                else:
                    self._take(part, found)
            self._finish()

    def _take(self, part: AnswerPart, found: PartResult | None) -> None:
        """The result of a part; where the part is a whole answer, its table, with others of its shape."""
        finisher = part.finisher
        if not isinstance(found, Columns) or not finisher.is_simple:
            self._results[part.identity] = found
            self._lacks_some = True
        else:
            self._waiting.setdefault(finisher.query.shape, []).append((part, found))
            self._waiting_rows += found.count
            if self._waiting_rows > _MOST_ROWS:
                self._finish()

    def _finish(self) -> None:
        """Make the tables of parts that wait, those of one shape together."""
        for waiting in self._waiting.values():
            found = _finished([(part.finisher, own) for part, own in waiting], self._as_of)
            self._results |= zip([part.identity for part, _ in waiting], found, strict=True)
            self._lacks_some = self._lacks_some or any(isinstance(each, PartFailure) for each in found)
        self._waiting, self._waiting_rows = {}, 0

    def _panes(self, group: PaneGroup) -> PaneStore:
        return self._frozen.get(group, group.panes)

    def _unfiltered(self, group: PaneGroup, wanted: WantedParts) -> WantedParts:
        """The parts that substream filters have not answered."""
        left: WantedParts = {}
        for identity, (part, active) in wanted.items():
            # All queries that want a part have one filter.
            try:
                table = group.filtered(active, self._as_of)
            except FAILURES as error:
                self._results[identity], self._lacks_some = PartFailure(str(error)), True
                continue
            if table is None:
                left[identity] = part, active
            else:
                self._results[identity] = table
        return left

    def tables(self, joint: JointQueries) -> list[pa.Table | PendingTable | None]:
        """The tables of each kind of answers; None where queries have failed, and where panes gave no result."""
        if joint.whole is not None and not self._lacks_some:
            return list(map(self._results.__getitem__, joint.whole))
        found: list[pa.Table | PendingTable | None] = []
        for number, kind in enumerate(joint.kinds):
            table = self._compose(kind) if kind.part is None else self._results[kind.part]
            if isinstance(table, pa.Table | PendingTable):
                found.append(table)
            else:
                found.append(None)
                assert not isinstance(table, Columns), "the columns of a simple query are finished"
                self._fail(kind, joint.names_of(number), table)
        return found

    def _compose(self, kind: AnswerKind) -> pa.Table | PartFailure | None:
        if kind.leader not in self._composed:
            try:
                self._composed[kind.leader] = self._composition(kind.first)
            except FAILURES as error:
                self._composed[kind.leader] = PartFailure(str(error))
        return self._composed[kind.leader]

    def _composition(self, active: ActiveQuery) -> pa.Table | PartFailure | None:
        found = [(leaf, self._results[part.identity]) for _, leaf, part in active.parts()]
        missing = [result for _, result in found if result is None or isinstance(result, PartFailure)]
        if missing:
            return missing[-1]
        leaves = []
        for number, finisher in enumerate(active.compiled.finishers):
            mine = [result for leaf, result in found if leaf == number]
            if columns := [result for result in mine if isinstance(result, Columns)]:
                leaves.append(finisher.finish(columns, self._as_of))
            else:
                leaves += [result.table if isinstance(result, PendingTable) else result for result in mine]
        return active.compiled.compose(leaves)

    def _fail(self, kind: AnswerKind, names: list[str], failure: PartFailure | None) -> None:
        """Fail queries, or let them be silent: a replay in the cluster computes nothing, but failures were noted."""
        for group, _, part in kind.first.parts():
            panes, result = self._panes(group), self._results[part.identity]
            if isinstance(result, PartFailure):
                for name in names:
                    panes.note_failure(name, self._as_of, result.why)
            elif result is None:
                noted = (panes.noted_failure(name, self._as_of) for name in (kind.leader, *names))
                failure = next((PartFailure(why) for why in noted if why is not None), failure)
        if failure is not None:
            self._outcome.failed |= dict.fromkeys(names, failure.why)


def _all_wanted(joint: Sequence[JointQueries]) -> dict[PaneGroup, WantedParts]:
    if len(joint) == 1:
        return joint[0].wanted
    found: dict[PaneGroup, WantedParts] = {}
    for each in joint:
        for group, wanted in each.wanted.items():
            found.setdefault(group, {}).update(wanted)
    return found


def _parts(wanted: WantedParts) -> list[AnswerPart]:
    return [part for part, _ in wanted.values()]


def _finished(read: list[tuple[Finisher, Columns]], as_of: int) -> list[pa.Table | PartFailure]:
    """The answers of queries of one shape over several windows."""
    finisher, columns = read[0]
    try:
        return [finisher.finish([columns], as_of)] if len(read) == 1 else finisher.finish_windows(read, as_of)
    except FAILURES as error:
        # Where one fails, each is made by itself: the others have their answers.
        return [PartFailure(str(error))] if len(read) == 1 else [_finished([each], as_of)[0] for each in read]


class JointAnswers:
    """Queries of one home, as of one time; each item of `joint` is a task's."""

    def __init__(self, joint: Sequence[JointQueries], as_of: int, outcome: AdvanceOutcome) -> None:
        self._home = joint[0].home
        self.joint = joint
        self.outcome = outcome
        self._execution = Execution(joint, as_of, outcome)
        # The seconds of the execution.
        self.seconds = 0.0
        self.as_of = as_of
        # The event time of the answers.
        self.moment: datetime = self._home.clock.moment(as_of)
        self._complete = [each.complete(as_of) for each in joint]

    def freeze(self, files: Mapping[str, pa.Table] = MappingProxyType({})) -> None:
        """Take the current panes, or some files: from here on another thread may make the tables."""
        self._execution.freeze(True, files)

    def compute(self) -> list[AnswerBatch]:
        started = time.perf_counter()
        answers = self.answers()
        self.seconds = time.perf_counter() - started
        return answers

    def answers(self) -> list[AnswerBatch]:
        """The answers of each item of `joint`."""
        clock, number = self._home.clock, self.as_of if self._home.name.by_rows else None
        found: list[AnswerBatch] = []
        self._execution.read()
        for each, complete in zip(self.joint, self._complete, strict=True):
            scheduled = {slide: clock.is_multiple(slide, self.as_of) for slide in each.slides}
            tables = self._execution.tables(each)
            kinds = [
                (is_complete, scheduled[kind.slide], "content" if isinstance(table, PendingTable) else "table", table)
                for kind, is_complete, table in zip(each.kinds, complete, tables, strict=True)
            ]
            found.append(AnswerBatch.alike(each.addressees, each.places, kinds, self.moment, number))
        # A query that has failed at an earlier time of the same advance gets no more answers.
        failed = self.outcome.failed
        return [batch.only(lambda name: name not in failed) for batch in found] if failed else found
