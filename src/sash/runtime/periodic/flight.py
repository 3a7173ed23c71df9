"""An execution under way beside slides: from the decision of its group's scheduler to its answers.

    begun ──► taken ──► computed ──► committed ──► landed        lws, and begun again if the window slid meanwhile
    begun ──► taken, committed ──► computed ──► landed           ws; SLIDE EXACTLY, which is as of its own time anyway
    begun ──► taken ──► read ahead ──► committed ──► computed    ttu: with the last sub-window, as of a pane later if
                                                    ──► landed   one has come, and begun again if more have

Committed: its time has been decided, its tasks are done and have their next deadlines, and the queries that have an
answer are known. Only the thread that moves the group changes it; other threads compute with the panes that were taken.

`PaneHistory` records what executions beside slides do to the panes of one group, as a history that `isolation` can
judge. A pane is a sub-window, and the ring has as many slots as the longest window has panes. Slides are numbered from
the beginning of the record. Each window length of a flight is its own transaction: it reads its own panes. SLIDE
EXACTLY is left out, because its time is fixed under every level.

It is for tests and for debugging: its memory grows for ever. It belongs to one group, and begins when nothing is under
way; the group's windows have no LAG.
"""

from __future__ import annotations

from dataclasses import replace

from sash.isolation import History, Recorder
from sash.runtime.answers.answer import Answer
from sash.runtime.periodic.active import AdvanceOutcome
from sash.runtime.periodic.executor import JointAnswers
from sash.runtime.periodic.joint_queries import JointQueries
from sash.runtime.periodic.pane_group import PaneGroup
from sash.schedule import ScheduledTask

# After this many vain beginnings, the group does not slide before the execution is committed.
RESTARTS = 8


class Flight:
    """`execution` is what the group's scheduler has begun: only SLIDE EXACTLY tasks, or none of them."""

    def __init__(self, number: int, place: int, group: PaneGroup, execution: ScheduledTask) -> None:
        self.number = number
        self.place = place
        self.group = group
        self._execution = execution
        self.restarts = 0
        self.is_committed = False
        # Whether the window has slid since it began.
        self.slid = False
        # The panes that were taken; None if all of its queries rest.
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
        """Its time if it were committed now."""
        return self._execution.as_of if self.is_exactly else self.group.clock.position

    @property
    def queries(self) -> list[JointQueries]:
        """Its queries that still live, task by task."""
        return self.group.schedule.joint(self._execution)

    def take(self) -> JointAnswers | None:
        """Take the current panes; None if there is nothing to compute with them."""
        queries = self.queries
        every = (active for each in queries for active in each.queries)
        rest = all(active.empty.rests and active.is_silent(self.as_of) for active in every)
        self.joint = None if rest else JointAnswers(queries, self.as_of, AdvanceOutcome())
        if self.joint is not None:
            self.joint.freeze()
        return self.joint

    def commit(self, target: int) -> None:
        """Decide that its time is now."""
        group, execution = self.group, replace(self._execution, as_of=self.as_of)
        self.is_committed = True
        group.under_way -= 1
        group.schedule.local.done(execution)
        awake = group.awake(execution)
        if awake:
            group.note_execution(awake)
        elif self.queries:
            group.rest(execution, target)
        self._awake = {name for each in awake for name in each.names}

    def land(self, answers: list[Answer]) -> None:
        """Take its answers; the answers of resting queries are thrown away."""
        assert self.joint is not None and self.is_committed
        self.answers = [answer for answer in answers if answer.query in self._awake]
        self.failed = {name: why for name, why in self.joint.outcome.failed.items() if name in self._awake}
        self.group.statistics.beside_slides += self.slid
        ran = replace(self._execution, as_of=self.joint.as_of)
        self.group.timeline.note([ran], self.joint.moment, self.joint.seconds, [self._awake])


class PaneHistory:
    """All calls come from the thread that moves the group."""

    def __init__(self, group: PaneGroup, slots: int) -> None:
        self.group = group
        self._slots = slots
        self._recorder = Recorder()
        self._recorder.begin(slots, filled=slots - 1)
        self._youngest, self._seen = slots - 1, group.clock.position
        # The open transactions of a flight, by the lengths of their windows.
        self._open: dict[int, dict[int, str]] = {}
        # The time as of which a flight has read ahead.
        self._ahead: dict[int, int] = {}
        self._begun = 0

    @property
    def history(self) -> History:
        return self._recorder.history

    def catch_up(self) -> None:
        """Record the slides since the last call; a group that advances by several panes slides several times."""
        while self._seen < self.group.clock.position:
            self._seen += self.group.clock.length
            self._youngest += 1
            self._recorder.wrote(str(self._youngest), [self._youngest % self._slots])

    def read(self, flight: Flight) -> None:
        """Read all panes, as of now."""
        for length, name in self._begin(flight).items():
            self._read(name, flight.as_of - length, flight.as_of)

    def read_ahead(self, flight: Flight) -> None:
        """Read all panes but the oldest."""
        self._ahead[id(flight)] = flight.as_of
        for length, name in self._begin(flight).items():
            self._read(name, flight.as_of - length + self.group.clock.length, flight.as_of)

    def read_rest(self, flight: Flight) -> None:
        """Read the oldest pane, or a newer one; this commits the flight, and nothing is read after it."""
        before, now = self._ahead.pop(id(flight)), flight.as_of
        for length, name in self._open[id(flight)].items():
            self._read(name, now - length, before - length + self.group.clock.length)
            self._read(name, before, now)
        self.committed(flight)

    def aborted(self, flight: Flight) -> None:
        self._ahead.pop(id(flight), None)
        for name in self._open.pop(id(flight)).values():
            self._recorder.did("a", name)

    def committed(self, flight: Flight) -> None:
        """Record the commit, unless it is recorded already."""
        for name in self._open.pop(id(flight), {}).values():
            self._recorder.did("c", name)

    def _begin(self, flight: Flight) -> dict[int, str]:
        self.catch_up()
        every = (active for each in flight.queries for active in each.queries)
        lengths = {window.length for active in every for window in active.compiled.windows}
        names = {length: f"Q{self._begun + i}" for i, length in enumerate(sorted(lengths))}
        self._begun += len(names)
        self._open[id(flight)] = names
        return names

    def _read(self, name: str, since: int, until: int) -> None:
        for end in range(since + self.group.clock.length, until + 1, self.group.clock.length):
            number = self._youngest - (self._seen - end) // self.group.clock.length
            self._recorder.did("r", name, number % self._slots)
