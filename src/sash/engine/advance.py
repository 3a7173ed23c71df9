"""Moving the groups of a stream forward: panes are taken in, and what becomes due is executed.

    ── taken in ──► frontier ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ► targets
                    every group with a deadline up to here is served, one after the other;
                    when nothing is due any more, the frontier jumps to the next deadline

Unhurried, only such jumps move the frontier: each group is served at its own deadlines. Live, the clock moves it too
(see `pace`), and deadlines that it has passed are late. Which group of synopses is served next is decided by weighted
shares of the time (`SharedTime`), which of its tasks by its local scheduler.

What a hurried advance does depends on the clock, so it is written down, service by service, for recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sash.engine.active import ActiveQuery, Outcome
from sash.engine.group import PaneGroup
from sash.engine.pace import Pace, Unhurried
from sash.scheduling import SharedTime

# Executes queries as of a time; the seconds that it took.
Execute = Callable[[list[ActiveQuery], int], float]


class Service(NamedTuple):
    """This group, by its place, was brought to a position and served there; `early`: before its deadline."""

    place: int
    position: int
    early: bool = False


class Repeated(Unhurried):
    """The pace of a hurried advance that is done once more; its services over time, and those over tuples."""

    def __init__(self, services: Sequence[Sequence[Service]]) -> None:
        self.services = services


class Advance:
    """One advance of some groups to their targets; `pause` is called after each service."""

    def __init__(
        self,
        groups: Sequence[PaneGroup],
        targets: Sequence[int],
        execute: Execute,
        outcome: Outcome,
        pause: Callable[[], None],
    ) -> None:
        self._groups = groups
        self._targets = targets
        self._execute = execute
        self._outcome = outcome
        self._pause = pause
        # When each group that has something to execute is due; serving one group changes only its own.
        self._dues: dict[int, int] = {}
        self.services: list[Service] = []
        # The clock has had a say: these are not the services of an unhurried advance.
        self.hurried = False

    def go(self, pace: Pace, shares: SharedTime) -> None:
        """Serve what is due on the way to the targets. Out of time, what is left is late; but something is served."""
        start = frontier = min((group.position for group in self._groups if group.origin is not None), default=0)
        whole = max(self._targets, default=start) - start
        self._dues = {place: due for place in range(len(self._groups)) if (due := self._due(place)) is not None}
        while self._dues:
            unhurried = max(frontier, min(self._dues.values()))
            frontier = max(unhurried, start + int(min(1.0, pace.passed()) * whole))
            self.hurried |= frontier > unhurried
            if pace.passed() >= 1 and self.services:
                self.hurried = True
                break
            for place in self._served_next(frontier, pace, shares):
                seconds = self._serve(Service(place, self._position(place, frontier)), one_by_one=pace.hurries)
                shares.charge(self._groups[place].label, seconds)
        self._catch_up()

    def refresh(self, pace: Pace, shares: SharedTime) -> None:
        """Nothing is due: use the time that is left for tasks that panes have come for since their last answer."""
        while pace.hurries and pace.passed() < 1:
            stale = [place for place, group in enumerate(self._groups) if group.is_stale]
            if not stale:
                return
            self.hurried = True
            place = self._chosen(stale, shares)
            group = self._groups[place]
            shares.charge(group.label, self._serve(Service(place, group.position, early=True), one_by_one=True))

    def repeat(self, services: Iterable[Service]) -> None:
        """What a hurried advance did, once more."""
        for service in services:
            if service.early:
                self._catch_up()
            self._serve(service, one_by_one=True)
        self._catch_up()

    # -- who is next -----------------------------------------------------------------------------------

    def _due(self, place: int) -> int | None:
        return self._groups[place].next_due(self._targets[place])

    def _position(self, place: int, frontier: int) -> int:
        """Where a group is when the stream is at the frontier: at the end of a pane."""
        group = self._groups[place]
        return max(group.position, group.floor(min(frontier, self._targets[place])))

    def _served_next(self, frontier: int, pace: Pace, shares: SharedTime) -> list[int]:
        """The groups with something due at the frontier; of those, where time matters, the one whose turn it is."""
        behind = [place for place, due in self._dues.items() if due <= frontier]
        return [self._chosen(behind, shares)] if pace.hurries else behind

    def _chosen(self, places: list[int], shares: SharedTime) -> int:
        by_label = {self._groups[place].label: place for place in places}
        return by_label[shares.choose(by_label)]

    # -- serving ---------------------------------------------------------------------------------------

    def _serve(self, service: Service, one_by_one: bool) -> float:
        """Execute what a group's scheduler decides: one joint execution, or all that are due as of one time."""
        self.services.append(service)
        group = self._groups[service.place]
        group.move_to(service.position, self._outcome)
        executions = group.take(service.early, one_by_one)
        awake: list[ActiveQuery] = []
        for execution in executions:
            mine = group.awake(execution)
            if not mine:
                group.rest(execution, self._targets[service.place])
            awake += mine
        seconds = self._execute(awake, executions[0].as_of) if awake else 0.0
        for name in self._outcome.failed:
            group.unschedule(name)
        group.expire()
        if (due := self._due(service.place)) is None:
            self._dues.pop(service.place, None)
        else:
            self._dues[service.place] = due
        self._pause()
        return seconds

    def _catch_up(self) -> None:
        for group, target in zip(self._groups, self._targets, strict=True):
            group.catch_up(target, self._outcome)
        # Groups that are read together forget only what none of them needs: now that all are at their targets.
        for group in self._groups:
            if group.links and group.origin is not None:
                group.expire()
