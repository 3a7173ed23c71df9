"""An advance whose executions run beside the slides that follow them: live, with several workers, under every
isolation level but `serial`.

    panes arrive   |----1----|----2----|----3----|
    this thread    [1][begin a, b]  [2][begin c] .. [commit a] ..            slides, decisions, commits: all here
    worker             [ a as of 1         ]
    worker             [ b as of 1 ][ c as of 2 ]                            nothing but computing, of frozen panes

While nothing is under way, the frontier jumps from deadline to deadline, as in every advance. While an execution is
under way, the frontier moves with the clock: an arrived pane is taken in during the computation. The isolation level
says how such a slide affects executions that have not been committed (see `flight`):

    ws     not at all: they are as of the pane that they began at
    lws    they begin again, as of the newest pane
    ttu    they read the oldest pane last: one slide costs nothing, after more slides they begin again

With enough time, as always in `run()`, the answers are those of `run()`; groups and tasks that are due at one moment
are executed at the same time. When the time is up, the advance still waits for the executions under way, so that all
answers of a micro-batch exist before its commit. A failed query is removed when the advance is over, and its later
answers are not told: so it does not matter in which order the threads ran.

Every step that changes a group is recorded, in order, for recovery:

    begin    moved to a position, what the scheduler decides there has begun (a flight, or two with SLIDE EXACTLY)
    slide    moved to a position while something was under way
    commit   the flight of this number is as of this position
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sash.runtime.answers.answer import Answer
from sash.runtime.periodic.active import AdvanceOutcome
from sash.runtime.periodic.advance import Advance, Execute
from sash.runtime.periodic.flight import Flight, PaneHistory
from sash.runtime.periodic.pace import Pace
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.records.journal import GroupService, ServiceStep
from sash.schedule import SharedTime


@dataclass(frozen=True)
class SlideRules:
    """How executions and slides interact: by the isolation `level`.

    While this thread waits for workers, it is `away`, and others may read the windows. `history` records what
    executions do to the panes of some group.
    """

    level: str
    away: Callable[[], AbstractContextManager[None]]
    history: PaneHistory | None = None


class Beside(Advance):
    def __init__(
        self,
        groups: Sequence[PaneGroup],
        targets: Sequence[int],
        execute: Execute,
        outcome: AdvanceOutcome,
        pause: Callable[[], None],
        workers: int,
        rules: SlideRules,
    ) -> None:
        super().__init__(groups, targets, execute, outcome, pause, workers)
        self._level, self._away, self._history = rules.level, rules.away, rules.history
        self._flights = 0
        self._doing: dict[Future[Any], Flight] = {}
        # In the order of commits; executions that ran alone are there with their answers.
        self._told: list[Flight | list[Answer]] = []

    def _go(self, pace: Pace, shares: SharedTime) -> None:
        # The order of steps depends on threads, even if there was time for everything.
        self.hurried = True
        self._fly(pace, shares)
        self._gather()

    def _fly(self, pace: Pace, shares: SharedTime) -> None:
        start = frontier = self._last_position()
        whole = max(1, max(self._targets, default=start) - start)
        self._dues = {place: due for place in range(len(self._groups)) if (due := self._due(place)) is not None}
        while self._dues or self._doing:
            self._reap(shares)
            passed = pace.passed()
            frontier = max(frontier, start + int(min(1.0, passed) * whole))
            if self._dues and not self._doing:
                frontier = max(frontier, min(self._dues.values()))
            self._slide_beside(frontier)
            if passed >= 1 and self.services:
                break
            if not self._begin_next(frontier, pace, shares):
                self._wait(pace.seconds_until((self._next_pane() - start) / whole))
        while self._doing:
            self._wait(None)
            self._reap(shares)

    # -- slides ----------------------------------------------------------------------------------------

    def _slide_beside(self, frontier: int) -> None:
        """Take in arrived panes where executions are under way; elsewhere panes wait until something is due."""
        for place in self._places_in_flight():
            position = self._position(place, frontier)
            if position > self._groups[place].clock.position:
                self._slide(GroupService(place, position, step=ServiceStep.SLIDE))
                self._look_again(place)

    def _places_in_flight(self) -> list[int]:
        """The groups with executions under way, without those where an execution has precedence."""
        preferred = {flight.place for flight in self._doing.values() if flight.is_preferred}
        return [place for place in {flight.place: None for flight in self._doing.values()} if place not in preferred]

    def _slide(self, service: GroupService) -> None:
        group = self._groups[service.place]
        for flight in self._doing.values():
            flight.slid |= flight.group is group and service.position > group.clock.position
        group.move_to(service.position, self._outcome)
        self.services.append(service)
        if self._history is not None:
            self._history.catch_up()

    def _next_pane(self) -> int:
        """When the next pane arrives that would be taken in during an execution."""
        places = self._places_in_flight()
        ends = {place: self._groups[place].clock.position + self._groups[place].clock.length for place in places}
        return min((end for place, end in ends.items() if end <= self._targets[place]), default=max(self._targets))

    # -- executions ------------------------------------------------------------------------------------

    def _begin_next(self, frontier: int, pace: Pace, shares: SharedTime) -> bool:
        """Begin a due execution if a worker is free for it."""
        waits_for = {flight.place for flight in self._doing.values() if flight.is_preferred}
        behind = [place for place, due in self._dues.items() if due <= frontier and place not in waits_for]
        if not behind or len(self._doing) >= self._workers:
            return False
        (place,) = self._chosen(behind, shares, 1)
        service = GroupService(place, self._position(place, frontier))
        if self._groups[place].choices.filters:
            # A question changes the collective index that answers it: nothing else runs meanwhile.
            self._serve_whole(service, pace.hurries, shares)
        else:
            for flight in self._begin(service):
                self._start(flight)
            self._look_again(place)
        return True

    def _begin(self, service: GroupService) -> list[Flight]:
        self._slide(service._replace(step=ServiceStep.BEGIN))
        group, first = self._groups[service.place], self._flights
        begun = group.schedule.begin(group.clock.position)
        self._flights += len(begun)
        return [Flight(first + i, service.place, group, execution) for i, execution in enumerate(begun)]

    def _start(self, flight: Flight) -> None:
        """Start it as of now; it may be started again, as of a later time."""
        assert self._pool is not None
        joint = flight.take()
        if joint is None:
            self._commit(flight)
        elif self._level == "lws" and not flight.is_exactly:
            self._note("read", flight)
            self._doing[self._pool.submit(joint.compute)] = flight
        elif self._level == "ttu" and not flight.is_exactly and joint.plan_ahead():
            self._note("read_ahead", flight)
            self._doing[self._pool.submit(joint.read_ahead)] = flight
        else:
            self._note("read", flight)
            self._commit(flight)
            if self._level == "ttu":
                self._note("committed", flight)
            self._doing[self._pool.submit(joint.compute)] = flight

    def _reap(self, shares: SharedTime) -> None:
        """Continue with the executions that workers have finished."""
        for future in [each for each in self._doing if each.done()]:
            flight, result = self._doing.pop(future), future.result()
            assert flight.joint is not None and self._pool is not None
            if not flight.is_committed and not self._is_good(flight):
                self._note("aborted", flight)
                flight.restarts += 1
                flight.group.statistics.restarts += 1
                self._start(flight)
                continue
            if not flight.is_committed:
                self._commit(flight)
                if self._level == "ttu":
                    self._note("read_rest", flight)
                    self._doing[self._pool.submit(flight.joint.compute)] = flight
                    continue
            self._land(flight, result)
            shares.charge(flight.group.label, flight.joint.seconds)

    def _is_good(self, flight: Flight) -> bool:
        """Whether the execution may be committed as of now."""
        assert flight.joint is not None
        if self._level == "ttu":
            return flight.joint.follow(flight.as_of)
        return flight.joint.as_of == flight.as_of

    def _commit(self, flight: Flight) -> None:
        flight.commit(self._targets[flight.place])
        flight.group.expire()
        self._told.append(flight)
        self.services.append(
            GroupService(flight.place, flight.group.clock.position, step=ServiceStep.COMMIT, number=flight.number)
        )
        self._look_again(flight.place)

    def _land(self, flight: Flight, answers: list[Answer]) -> None:
        assert flight.joint is not None
        flight.land(answers)
        flight.group.calibration.observe(flight.group.schedule.expected(flight.queries), flight.joint.seconds)
        self._note("committed", flight)

    def _serve_whole(self, service: GroupService, hurries: bool, shares: SharedTime) -> None:
        before = len(self.answers)
        for seconds in self._serve([service], one_by_one=hurries):
            shares.charge(self._groups[service.place].label, seconds)
        self._told.append(self.answers[before:])
        del self.answers[before:]

    def _look_again(self, place: int) -> None:
        if (due := self._due(place)) is None:
            self._dues.pop(place, None)
        else:
            self._dues[place] = due
        self._pause()

    def _wait(self, seconds: float | None) -> None:
        """Wait for a worker to finish, at most `seconds`."""
        if self._doing:
            with self._away():
                wait(self._doing, seconds, FIRST_COMPLETED)

    def _gather(self) -> None:
        """All answers in the order of commits, and all failed queries."""
        failed: dict[str, str] = {}
        for told in self._told:
            answers = told if isinstance(told, list) else told.answers
            self.answers += [answer for answer in answers if answer.query not in failed]
            failed = failed if isinstance(told, list) else told.failed | failed
        self._told.clear()
        self._outcome.failed |= failed
        self._outcome.ended[:] = [name for name in self._outcome.ended if name not in failed]

    def _note(self, what: str, flight: Flight) -> None:
        if self._history is not None and self._history.group is flight.group and not flight.is_exactly:
            getattr(self._history, what)(flight)

    # -- recovery --------------------------------------------------------------------------------------

    def repeat(self, services: Iterable[GroupService]) -> None:
        under_way: dict[int, Flight] = {}
        for service in services:
            match service.step:
                case ServiceStep.SLIDE:
                    self._slide(service)
                case ServiceStep.BEGIN:
                    under_way |= {flight.number: flight for flight in self._begin(service)}
                case ServiceStep.COMMIT:
                    self._commit_again(under_way.pop(service.number))
                case ServiceStep.WHOLE:
                    self._repeat_whole(service)
        self._gather()
        self._catch_up()

    def _commit_again(self, flight: Flight) -> None:
        joint = flight.take()
        self._commit(flight)
        if joint is not None:
            flight.land(joint.compute())

    def _repeat_whole(self, service: GroupService) -> None:
        if service.early:
            self._gather()
            self._catch_up()
        before = len(self.answers)
        for _ in self._serve([service], one_by_one=True):
            pass
        self._told.append(self.answers[before:])
        del self.answers[before:]
