"""An execution under way beside slides: from the decision of its group's scheduler to its answers.

    begun ──► taken ──► computed ──► committed ──► landed        lws, and begun again if the window slid meanwhile
    begun ──► taken, committed ──► computed ──► landed           ws; SLIDE EXACTLY, which is as of its own time anyway
    begun ──► taken ──► read ahead ──► committed ──► computed    ttu: with the last sub-window, as of a pane later if
                                                    ──► landed   one has come, and begun again if more have

Committed: as of when it is has been decided, its tasks are done and have their next deadlines, and who of its queries
has something to say is known. All that changes its group happens on the thread that moves it; only what was taken is
computed with elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from sash.engine.answers.answer import Answer
from sash.engine.periodic.active import ActiveQuery, AdvanceOutcome
from sash.engine.periodic.group import PaneGroup
from sash.engine.periodic.joint import JointAnswers
from sash.scheduling import ScheduledTask

# Begun so often in vain, it is waited for: its group does not slide before it is committed.
RESTARTS = 8


class Flight:
    """`execution` is what the scheduler has begun in the group: SLIDE EXACTLY tasks alone, or none of them."""

    def __init__(self, number: int, place: int, group: PaneGroup, execution: ScheduledTask) -> None:
        self.number = number
        self.place = place
        self.group = group
        self._execution = execution
        self.restarts = 0
        self.is_committed = False
        # The window has slid since it began.
        self.slid = False
        # What was taken; None where all of its queries rest.
        self.joint: JointAnswers | None = None
        self.answers: list[Answer] = []
        self.failed: dict[str, str] = {}
        self._awake: set[str] = set()
        self.group.under_way += 1

    @property
    def is_exactly(self) -> bool:
        return self._execution.tasks[0].task.exactly

    @property
    def is_preferred(self) -> bool:
        return not self.is_committed and self.restarts >= RESTARTS

    @property
    def as_of(self) -> int:
        """The time that it would be as of if it were committed now."""
        return self._execution.as_of if self.is_exactly else self.group.clock.position

    @property
    def queries(self) -> list[ActiveQuery]:
        """Those that still live."""
        return self.group.schedule.members(self._execution)

    def take(self) -> JointAnswers | None:
        """The panes of now; None if there is nothing to compute with them."""
        queries = self.queries
        rest = all(active.resting and self.group.is_silent(active, self.as_of) for active in queries)
        self.joint = None if rest else JointAnswers(queries, self.as_of, AdvanceOutcome())
        if self.joint is not None:
            self.joint.freeze()
        return self.joint

    def commit(self, target: int) -> None:
        """It is as of now."""
        group, execution = self.group, replace(self._execution, as_of=self.as_of)
        self.is_committed = True
        group.under_way -= 1
        group.schedule.local.done(execution)
        awake = group.awake(execution)
        if awake:
            group.statistics.executed([active.compiled.windows for active in awake], group.clock.length)
        elif self.queries:
            group.rest(execution, target)
        self._awake = {active.name for active in awake}

    def land(self, answers: list[Answer]) -> None:
        """Its answers have come; those of queries that rest were computed for nothing."""
        assert self.joint is not None and self.is_committed
        self.answers = [answer for answer in answers if answer.query in self._awake]
        self.failed = {name: why for name, why in self.joint.outcome.failed.items() if name in self._awake}
        self.group.statistics.beside_slides += self.slid
        ran = replace(self._execution, as_of=self.joint.as_of)
        self.group.timeline.note([ran], self.joint.moment, self.joint.seconds, self._awake)
