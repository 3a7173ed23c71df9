"""The experiments of section 7.5 without threads and without noise: one processor, and costs that were measured.

The scheduler is the one of algorithms 7 and 8 by the book; serial and WS are a few lines here. Time is what operations
cost, added up: a slide that falls due during an operation is executed after it.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from statistics import fmean

from papers.isolation.metrics import Execution
from papers.isolation.schedule import Scheduler
from papers.isolation.workload import Workload
from sash.isolation import SharedWindow
from sash.isolation.shared_window import LEVELS, RESTARTS


@dataclass(frozen=True)
class Costs:
    """In seconds: a scan of a sub-window by a group and by a one-time query, a group's answers, a slide.

    `step` is what a level adds to a scan: choosing the sub-window.
    """

    scan: float
    question: float
    answers: float
    slide: float
    step: dict[str, float]


def measured_costs(work: Workload, slots: int) -> Costs:
    question = work.question()
    parts = [work.groups[0].scan(packets) for packets in work.sub_windows]
    longest = [parts[number % len(parts)] for number in range(slots)]
    window = SharedWindow(range(slots))
    return Costs(
        fmean(timed(partial(group.scan, packets)) for packets in work.sub_windows for group in work.groups[:4]),
        fmean(timed(partial(question.scan, packets)) for packets in work.sub_windows),
        fmean(timed(partial(group.answers, longest)) for group in work.groups[:4]),
        timed(partial(window.slide, 0)),
        {level: timed(partial(SharedWindow(range(slots), level).read, slots, abs)) / slots for level in LEVELS},
    )


def timed(work: Callable[[], object], times: int = 7) -> float:
    """The fastest: whatever else the machine does only makes it slower."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return min(taken)


@dataclass
class _Running:
    """A query under way; `left` scans until it commits, `reflected` is the latest slide in it so far."""

    query: int
    once: bool
    count: int
    start: float
    reflected: int = 0
    left: int = 0
    aborts: int = 0


class Simulation:
    def __init__(self, level: str, work: Workload, slots: int, t: int, second: float, costs: Costs) -> None:
        self._level = level
        self._work = work
        self._costs = costs
        self._interval = t * second
        self._second = second
        self._now = 0.0
        self._slid = 0
        self._scheduler = Scheduler(slots, level if level in ("lws", "ttu") else "ttu")
        self._running: dict[str, _Running] = {}
        self._names = (f"Q{number}" for number in count(1))
        self._asked: list[float] = []
        self.executions: list[Execution] = []

    def run(self, slides: int, with_questions: bool) -> list[Execution]:
        end = slides * self._interval
        if with_questions:
            self._asked = list(self._times(end))
            heapq.heapify(self._asked)
        groups = cycle(enumerate(self._work.groups))
        while self._now < end:
            self._take_questions()
            if not self._running:
                query, group = next(groups)
                self._start(_Running(query, False, group.count, self._now))
            self._step()
            self._slide_if_due()
        return self.executions

    def _times(self, end: float) -> Iterator[float]:
        at = 0.0
        while (at := at + self._work.pauses() * self._second) < end:
            yield at

    def _take_questions(self) -> None:
        """Start questions. Under serial a running transaction is not suspended."""
        while self._asked and self._asked[0] <= self._now and not (self._level == "serial" and self._running):
            at, question = heapq.heappop(self._asked), self._work.question()
            self._start(_Running(0, True, question.count, at))

    def _start(self, running: _Running) -> None:
        name = next(self._names)
        running.left = running.count
        running.reflected = self._slid
        self._running[name] = running
        if self._level in ("lws", "ttu"):
            self._scheduler.start(name, running.count, priority=int(running.once))

    def _step(self) -> None:
        """One scan of the most important query; the answers are made after the last one."""
        name, running = max(self._running.items(), key=lambda each: each[1].once)
        if self._level in ("lws", "ttu"):
            done = self._scheduler.step()
            assert done is not None and done.transaction == name
            running.reflected = self._slid
            is_last = name not in self._scheduler.running
        else:
            running.left -= 1
            is_last = running.left == 0
        self._now += self._costs.step[self._level] + (self._costs.question if running.once else self._costs.scan)
        if is_last:
            del self._running[name]
            self._now += 0.0 if running.once else self._costs.answers
            reflected = running.reflected * self._interval
            self.executions.append(
                Execution(running.start, self._now, reflected, running.aborts, running.query, running.once)
            )

    def _must_wait(self) -> bool:
        """Slides wait for every query under serial, and for those that were aborted too often."""
        return any(self._level == "serial" or each.aborts >= RESTARTS for each in self._running.values())

    def _slide_if_due(self) -> None:
        while (self._slid + 1) * self._interval <= self._now and not self._must_wait():
            self._slid += 1
            self._now += self._costs.slide
            if self._level in ("lws", "ttu"):
                for name in self._scheduler.slide():
                    running = self._running.pop(name)
                    running.aborts += 1
                    self._start(running)
