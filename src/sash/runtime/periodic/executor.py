"""Joint execution: all queries that are due as of one time, in one scan of each pane table they read (rule CS2).

The answers have two parts: facts that are known when the panes are taken, and tables that are made later.

Whether an answer is complete, and the event time of a number of tuples, depend on what a group retains. So both are
recorded when the panes are taken, and tables may be made while the group goes on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa

from sash.panes.ahead import ReadAhead
from sash.panes.answers import Finisher, PendingTable
from sash.panes.pane_store import FAILURES, AnswerPart, PaneStore, PartFailure, PartIdentity, PartResult, needs_of
from sash.panes.readers import Columns
from sash.runtime.answers.answer import Answer
from sash.runtime.periodic.active import ActiveQuery, AdvanceOutcome
from sash.runtime.periodic.joint_queries import AnswerKind, JointQueries, WantedParts
from sash.runtime.periodic.pane_group import PaneGroup


class Execution:
    """One joint execution. `tables` gives the answers; after `freeze` in any thread, as of then.

    Or in two steps: `read_ahead` in any thread, then `follow` to a time that may be a pane later, then `tables`.
    """

    def __init__(self, joint: Sequence[JointQueries], as_of: int, outcome: AdvanceOutcome) -> None:
        self._as_of = as_of
        self._outcome = outcome
        # By group: what queries want of it, its frozen panes, and the part of them that can be read before the time of
        # the execution is known.
        self._wanted = _all_wanted(joint)
        self._frozen: dict[PaneGroup, PaneStore] = {}
        self._ahead: dict[PaneGroup, ReadAhead] = {}
        # The results of parts, and answers that are composed of several, by the names of leaders.
        self._results: dict[PartIdentity, pa.Table | PendingTable | PartResult | None] = {}
        self._composed: dict[str, pa.Table | PartFailure | None] = {}

    def freeze(self, build: bool = False) -> None:
        """Take the current panes, so that groups may go on meanwhile. Substream filters are not used.

        Lookups are made at once; `build`: build whatever they need.
        """
        for group, wanted in self._wanted.items():
            panes, needs = group.panes, needs_of(_parts(wanted))
            panes.close(self._as_of)
            read = self._ahead[group].needs if group in self._ahead else {}
            partials = dict.fromkeys(partial for some in needs.values() for partial in some)
            left = {window: some for window, some in needs.items() if window not in read}
            self._frozen[group] = panes.frozen(left, self._as_of, build, partials)

    def plan_ahead(self) -> bool:
        """After `freeze`: plan what can be read ahead; whether there is anything. All groups can do so, or none."""
        for group, wanted in self._wanted.items():
            ahead = self._frozen[group].ahead(_parts(wanted), self._as_of, group.clock.length)
            if ahead is None:
                self._ahead.clear()
                return False
            if ahead.needs and not group.clock.coarse:
                self._ahead[group] = ahead
        return bool(self._ahead)

    def read_ahead(self) -> None:
        for ahead in self._ahead.values():
            ahead.read()

    def follow(self, as_of: int) -> bool:
        """Freeze the rest as of a time; False if a pane that was read ahead has left its window."""
        if not all(ahead.follows(group.panes.version, as_of) for group, ahead in self._ahead.items()):
            return False
        if as_of != self._as_of:
            self._as_of = as_of
            self.freeze(build=True)
        return True

    def read(self) -> None:
        """Read all parts; then there are tables."""
        for group, wanted in self._wanted.items():
            panes, left = self._panes(group), wanted
            if group not in self._frozen:
                # A group that runs behind has not closed the panes of this time yet.
                panes.close(self._as_of)
                left = self._unfiltered(group, wanted) if group.choices.filters else wanted
            identities, parts = list(left), _parts(left)
            for number, found in panes.read(parts, self._as_of, self._ahead.get(group)):
                self._results[identities[number]] = _result(parts[number].finisher, found)

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
                self._results[identity] = PartFailure(str(error))
                continue
            if table is None:
                left[identity] = part, active
            else:
                self._results[identity] = table
        return left

    def tables(self, joint: JointQueries) -> list[pa.Table | PendingTable | None]:
        """The tables of each kind of answers; None where queries have failed, and where panes gave no result."""
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
                leaves.append(finisher.finish(columns))
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


def _result(finisher: Finisher, found: PartResult | None) -> pa.Table | PendingTable | PartResult | None:
    """The result of a part; where the part is a whole answer, its table."""
    if not isinstance(found, Columns) or not finisher.is_simple:
        return found
    if found.is_pending and finisher.is_plain:
        return PendingTable(finisher, found)
    try:
        return finisher.finish([found])
    except FAILURES as error:
        return PartFailure(str(error))


class JointAnswers:
    """Queries of one home, as of one time; each item is a task's."""

    def __init__(self, joint: Sequence[JointQueries], as_of: int, outcome: AdvanceOutcome) -> None:
        self._home = joint[0].home
        self._joint = joint
        self.outcome = outcome
        self._execution = Execution(joint, as_of, outcome)
        # The seconds of the execution.
        self.seconds = 0.0
        self._look(as_of)

    def _look(self, as_of: int) -> None:
        self.as_of = as_of
        self._moment = self._home.clock.moment(as_of)
        self._complete = [each.complete(as_of) for each in self._joint]

    @property
    def moment(self) -> datetime:
        """The event time of the answers."""
        return self._moment

    def freeze(self) -> None:
        """Take the current panes: from here on another thread may make the tables."""
        self._execution.freeze(build=True)

    def plan_ahead(self) -> bool:
        """Whether some panes can be read before the time of the answers is known (see `panes.ahead`)."""
        return self._execution.plan_ahead()

    def read_ahead(self) -> None:
        started = time.perf_counter()
        self._execution.read_ahead()
        self.seconds += time.perf_counter() - started

    def follow(self, as_of: int) -> bool:
        """Take the rest as of now; False: the panes that were read ahead are of no use."""
        if not self._execution.follow(as_of):
            return False
        self._look(as_of)
        return True

    def compute(self) -> list[Answer]:
        started = time.perf_counter()
        answers = self.answers()
        self.seconds += time.perf_counter() - started
        return answers

    def answers(self) -> list[Answer]:
        clock, number = self._home.clock, self.as_of if self._home.name.by_rows else None
        scheduled: dict[int | None, bool] = {}
        found: list[Answer] = []
        self._execution.read()
        for each, complete in zip(self._joint, self._complete, strict=True):
            kinds = []
            for kind, is_complete, table in zip(each.kinds, complete, self._execution.tables(each), strict=True):
                slide = kind.first.compiled.slide
                if slide not in scheduled:
                    scheduled[slide] = clock.is_multiple(slide, self.as_of)
                kinds.append((is_complete, scheduled[slide], table))
            found += Answer.alike(each.names, each.places, kinds, self._moment, number)
        # A query that has failed at an earlier time of the same advance gets no more answers.
        failed = self.outcome.failed
        return [answer for answer in found if answer.query not in failed] if failed else found
