"""Moving the groups of a stream forward: the groups take panes in, and execute the queries that become due.

    ── taken in ──► frontier ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ► targets
                    every group with a deadline up to here is served, one after the other;
                    when nothing is due any more, the frontier jumps to the next deadline

Unhurried, only such jumps move the frontier: each group is served at its own deadlines. Live, the clock moves it too
(see `pace`), and deadlines that the frontier has passed are late. Weighted shares of the time (`SharedTime`) decide
which group of synopses is served next; the group's local scheduler decides which of its tasks.

A hurried advance depends on the clock, so it is recorded, service by service, for recovery.

One thread serves all groups: with two threads an advance was 0.84 times as fast, because Arrow tables, expressions and
bookkeeping hold Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from sash.runtime.answers.answer import AnswerBatch
from sash.runtime.periodic.active import AdvanceOutcome
from sash.runtime.periodic.flight import Flight
from sash.runtime.periodic.joint_queries import JointQueries, divided
from sash.runtime.periodic.pace import UNHURRIED, Pace, UnhurriedPace
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.records.journal import GroupService, ServiceStep
from sash.schedule import ScheduledTask, SharedTime


@dataclass
class ServiceResult:
    """The results of one service, and the seconds of its executions."""

    answers: list[AnswerBatch] = field(default_factory=list)
    outcome: AdvanceOutcome = field(default_factory=AdvanceOutcome)
    seconds: float = 0.0
    # How many executions have departed.
    departed: int = 0


# Executes queries as of a time and adds to the result of the service; returns the seconds that it took.
Execute = Callable[[list[JointQueries], int, ServiceResult], float]


class RepeatedPace(UnhurriedPace):
    """The pace of a hurried advance that is repeated."""

    def __init__(self, services: Sequence[Sequence[GroupService]]) -> None:
        self.services = services


def repeated(services: Sequence[Sequence[GroupService]] | None) -> Pace:
    """The pace of an advance in the journal: a hurried one is repeated service by service."""
    return UNHURRIED if services is None else RepeatedPace(services)


class Advance:
    """One advance of some groups to their targets; `pause` is called between services, when all groups are whole."""

    def __init__(
        self,
        groups: Sequence[PaneGroup],
        targets: Sequence[int],
        execute: Execute,
        outcome: AdvanceOutcome,
        pause: Callable[[], None],
        flies: bool = False,
        restarts: bool = False,
    ) -> None:
        """`flies`: executions over panes in the cluster depart, if time matters, and nobody waits for them here.

        `restarts`: they are as of the newest pane, and begin again when their window slides.
        """
        self._groups = groups
        self._targets = targets
        self._execute = execute
        self._outcome = outcome
        self._pause = pause
        self._flies = flies
        self._restarts = restarts
        self._start = self._last_position()
        self._whole = max(targets, default=self._start) - self._start
        # Groups whose flights have departed before: their deadlines wait.
        self._waiting = {place for place, group in enumerate(groups) if group.flights}
        # Which part of the time the flights of a group will take, if they take as long as its last one.
        self._flown: dict[int, float] = {}
        # The next deadline of each group; serving a group changes only its own.
        self._dues: dict[int, int] = {}
        self.services: list[GroupService] = []
        self.answers: list[AnswerBatch] = []
        # Whether the clock had an influence: then the services are not those of an unhurried advance.
        self.hurried = False

    def go(self, pace: Pace, shares: SharedTime) -> None:
        """Serve what is due on the way to the targets. When time is up, the rest is late; at least one is served."""
        frontier = self._start
        self._dues = {place: due for place in range(len(self._groups)) if (due := self._due(place)) is not None}
        while self._dues:
            unhurried = max(frontier, min(self._dues.values()))
            passed = pace.passed()
            frontier = max(unhurried, self._after(passed)) if passed else unhurried
            self.hurried |= frontier > unhurried
            if pace.passed() >= 1 and self.services:
                self.hurried = True
                break
            for place in self._served_next(frontier, pace, shares):
                self._serve(self._service(place, self._position(place, frontier), pace), shares, pace, pace.hurries)
        self._catch_up()
        # Recovery repeats an advance without recorded services unhurried: nothing began again in it, under any level.
        restarts = self._restarts and pace.hurries
        for place, group in enumerate(self._groups):
            if restarts and any(flight.is_outdated for flight in group.flights):
                self.hurried = True
                self.services.append(GroupService(place, group.clock.position, step=ServiceStep.AGAIN))
                group.begin_again()

    def refresh(self, pace: Pace, shares: SharedTime) -> None:
        """Nothing is due: use the remaining time for tasks that have new panes since their last answer."""
        while pace.hurries and pace.passed() < 1:
            stale = [place for place, group in enumerate(self._groups) if group.is_stale]
            if not stale:
                return
            self.hurried = True
            place = self._chosen(stale, shares)
            service = self._service(place, self._groups[place].clock.position, pace)
            self._serve(service._replace(early=True), shares, pace, one_by_one=True)

    def repeat(self, services: Iterable[GroupService]) -> None:
        """Repeat the services of a hurried advance."""
        for service in services:
            self._serve_again(service)
        self._catch_up()

    def _serve_again(self, service: GroupService) -> None:
        if service.early or service.step == ServiceStep.AGAIN:
            self._catch_up()
        if service.step == ServiceStep.AGAIN:
            self._groups[service.place].begin_again()
        else:
            self._conclude(service, self._served(service, one_by_one=True))

    # -- which group is next ---------------------------------------------------------------------------

    def _last_position(self) -> int:
        """The position of the groups that are furthest behind."""
        begun = [group.clock for group in self._groups if group.clock.origin is not None]
        return min((clock.position for clock in begun), default=0)

    def _after(self, part: float) -> int:
        """How far the panes have come in when a part of the time has passed."""
        return self._start + int(min(1.0, part) * self._whole)

    def _due(self, place: int) -> int | None:
        rests = place in self._waiting or self._flown.get(place, 0.0) >= 1
        return None if rests else self._groups[place].next_due(self._targets[place])

    def _position(self, place: int, frontier: int) -> int:
        """The position of a group when the stream is at the frontier: the end of a pane.

        Flights take their time one after the other, so the group is further on when its next flight can start.
        """
        group = self._groups[place]
        if place in self._flown:
            frontier = max(frontier, self._after(self._flown[place]))
        return max(group.clock.position, group.clock.floor(min(frontier, self._targets[place])))

    def _served_next(self, frontier: int, pace: Pace, shares: SharedTime) -> list[int]:
        """The groups with something due at the frontier; if time matters, only one, by its turn."""
        behind = [place for place, due in self._dues.items() if due <= frontier]
        return [self._chosen(behind, shares)] if pace.hurries else behind

    def _chosen(self, places: list[int], shares: SharedTime) -> int:
        by_label = {self._groups[place].label: place for place in places}
        return by_label[shares.choose(by_label)]

    # -- serving ---------------------------------------------------------------------------------------

    def _service(self, place: int, position: int, pace: Pace) -> GroupService:
        if not (self._flies and pace.hurries and self._groups[place].reads_cluster):
            return GroupService(place, position)
        self.hurried = True
        position = self._position(place, self._targets[place]) if self._restarts else position
        return GroupService(place, position, step=ServiceStep.DEPART)

    def _serve(self, service: GroupService, shares: SharedTime, pace: Pace, one_by_one: bool) -> None:
        served = self._served(service, one_by_one)
        if served.departed:
            takes = pace.part(served.departed * self._groups[service.place].flight_seconds)
            self._flown[service.place] = self._flown.get(service.place, 0.0) + takes
        self._conclude(service, served)
        shares.charge(self._groups[service.place].label, served.seconds)

    def _served(self, service: GroupService, one_by_one: bool) -> ServiceResult:
        """Execute what a group's scheduler decides: one joint execution, or all that are due as of one time.

        Nobody waits for an execution that flies.
        """
        group, served = self._groups[service.place], ServiceResult()
        group.move_to(service.position, served.outcome)
        flies = service.step in (ServiceStep.DEPART, ServiceStep.FLY)
        executions = group.take(service.early, not flies and (one_by_one or not group.schedule.shares))
        awake: list[JointQueries] = []
        far: list[list[JointQueries]] = []
        for execution in executions:
            mine = group.awake(execution)
            if not mine:
                group.rest(execution, self._targets[service.place])
            here, there = divided(mine, attrgetter("reads_cluster")) if flies else (mine, [])
            awake += here
            far.append(there)
        if any(far):
            served.departed = _depart(group, executions, far, service.step == ServiceStep.FLY)
        if awake:
            served.seconds = self._execute(awake, executions[0].as_of, served)
            moment = group.clock.moment(executions[0].as_of)
            group.timeline.note(executions, moment, served.seconds, [each.names for each in awake])
        for name in served.outcome.failed:
            group.unschedule(name)
        group.expire()
        return served

    def _conclude(self, service: GroupService, served: ServiceResult) -> None:
        self.services.append(service)
        self.answers += served.answers
        self._outcome.failed |= served.outcome.failed
        self._outcome.ended += served.outcome.ended
        if (due := self._due(service.place)) is None:
            self._dues.pop(service.place, None)
        else:
            self._dues[service.place] = due
        self._pause()

    def _catch_up(self) -> None:
        for group, target in zip(self._groups, self._targets, strict=True):
            group.catch_up(target, self._outcome)
        # Groups that are read together forget only panes that none of them needs: now all are at their targets.
        for group in self._groups:
            if group.links and group.clock.origin is not None:
                group.expire()


def _depart(group: PaneGroup, executions: list[ScheduledTask], joint: list[list[JointQueries]], as_one: bool) -> int:
    """Let executions, each of some queries, run beside what follows: as one job, unless nothing is shared.

    SLIDE EXACTLY queries are apart, because other queries may end up as of a later time. `as_one`: a single flight has
    all. The result is the number of flights.
    """
    jobs = [each for each in joint if each]
    if group.schedule.shares:
        jobs = [[each for job in jobs for each in job]]
    for job in jobs:
        group.note_execution(job)
    if as_one:
        jobs = [[each for job in jobs for each in job]]
    else:
        jobs = [side for job in jobs for side in divided(job, attrgetter("compiled.exactly")) if side]
    group.flights += [Flight(group, job, executions[0].as_of, executions) for job in jobs]
    return len(jobs)
