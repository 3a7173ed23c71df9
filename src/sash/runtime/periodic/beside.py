"""Executions beside the slides of one advance, as earlier versions recorded them: a log of theirs is repeated.

Live, several threads computed with frozen panes while one thread moved the groups on (`connect(workers=2)`). Two were
0.84 times as fast as one, so no advance does that any more. Steps in a log:

    begin    moved to a position, what the scheduler decides there has begun (a flight, or two with SLIDE EXACTLY)
    slide    moved to a position while something was under way
    commit   the execution of this number is as of this position

A failed query was removed when the advance was over, and its later answers were not told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sash.runtime.periodic.active import AdvanceOutcome
from sash.runtime.periodic.advance import Advance
from sash.runtime.periodic.executor import JointAnswers
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.records.journal import GroupService, ServiceStep
from sash.schedule import ScheduledTask


class BesideAgain(Advance):
    """An advance that is repeated, whichever version recorded it."""

    def repeat(self, services: Iterable[GroupService]) -> None:
        under_way: list[_Begun | None] = []
        for service in services:
            group = self._groups[service.place]
            match service.step:
                case ServiceStep.SLIDE:
                    group.move_to(service.position, self._outcome)
                case ServiceStep.BEGIN:
                    group.move_to(service.position, self._outcome)
                    under_way += [_Begun(group, each) for each in group.schedule.begin(group.clock.position)]
                case ServiceStep.COMMIT:
                    begun, under_way[service.number] = under_way[service.number], None
                    assert begun is not None
                    self._commit(begun, self._targets[service.place])
                case _:
                    self._serve_again(service)
        self._outcome.ended[:] = [name for name in self._outcome.ended if name not in self._outcome.failed]
        self._catch_up()

    def _commit(self, begun: _Begun, target: int) -> None:
        outcome = AdvanceOutcome()
        joint, awake = begun.commit(target, outcome)
        begun.group.expire()
        if joint is not None:
            wanted = awake - self._outcome.failed.keys()
            self.answers += [batch.only(wanted.__contains__) for batch in joint.compute()]
            self._outcome.failed |= {name: why for name, why in outcome.failed.items() if name in awake}


class _Begun:
    """What a group's scheduler has begun: only SLIDE EXACTLY tasks, or none of them."""

    def __init__(self, group: PaneGroup, execution: ScheduledTask) -> None:
        self.group = group
        self._execution = execution
        group.under_way += 1

    def commit(self, target: int, outcome: AdvanceOutcome) -> tuple[JointAnswers | None, set[str]]:
        """Its time is now, or its own: the answers of the current panes, and the queries that have one."""
        # The queries that still live.
        group, queries = self.group, self.group.schedule.joint(self._execution)
        is_exactly = self._execution.tasks[0].task.exactly
        as_of = self._execution.as_of if is_exactly else group.clock.position
        rest = all(active.empty.rests and active.is_silent(as_of) for each in queries for active in each.queries)
        joint = None if rest else JointAnswers(queries, as_of, outcome)
        if joint is not None:
            joint.freeze()
        execution = replace(self._execution, as_of=as_of)
        group.under_way -= 1
        group.schedule.local.done(execution)
        awake = group.awake(execution)
        if awake:
            group.note_execution(awake)
        elif queries:
            group.rest(execution, target)
        return joint, {name for each in awake for name in each.names}
