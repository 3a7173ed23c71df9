"""The experiments of section 7.5 on real threads: one slides, one runs the periodic queries in turn, one asks.

slides      ─┴────┴────┴────┴─     every t, on a thread of its own
periodic     [group][group][gro    on the worker's thread, one after the other, in turn
one-time         [?]     [?]       at random times, with a higher priority
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import cycle

from benchmarks.stored_slides import frequent_switches
from papers.isolation.metrics import Execution
from papers.isolation.workload import Packets, Workload
from sash.isolation import SharedWindow


class ThreadedRun:
    """One level, one workload; `second` is what a second of the stream takes."""

    def __init__(self, level: str, work: Workload, slots: int, t: int, second: float, slides: int) -> None:
        contents = cycle(work.sub_windows)
        self._window: SharedWindow[Packets] = SharedWindow([next(contents) for _ in range(slots)], level)
        self._contents = contents
        self._work = work
        self._interval = t * second
        self._second = second
        self._slides = slides
        self._begun = 0.0
        self._over = threading.Event()
        self.executions: list[Execution] = []
        # What the periodic queries took of a processor, in seconds.
        self.processor_seconds = 0.0

    def run(self, with_questions: bool) -> list[Execution]:
        actors = [self._slide, self._execute] + ([self._ask] if with_questions else [])
        failures: list[BaseException] = []
        threads = [threading.Thread(target=self._guarded, args=(actor, failures)) for actor in actors]
        with frequent_switches():
            self._begun = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]
        return self.executions

    def _guarded(self, actor: Callable[[], None], failures: list[BaseException]) -> None:
        try:
            actor()
        except BaseException as failure:
            failures.append(failure)
        finally:
            if actor != self._ask:
                self._over.set()

    def _due(self, number: int) -> float:
        """When a sub-window's slide was due; those of the initial sub-windows were due before."""
        return self._begun + (number - len(self._window) + 1) * self._interval

    def _slide(self) -> None:
        for number in range(len(self._window), len(self._window) + self._slides):
            if self._over.wait(max(0.0, self._due(number) - time.perf_counter())):
                return
            self._window.slide(next(self._contents))

    def _execute(self) -> None:
        begun = time.thread_time()
        for query, group in cycle(enumerate(self._work.groups)):
            start = time.perf_counter()
            answer = self._window.read(group.count, group.scan)
            group.answers(answer.parts)
            self._done(start, answer.state[-1].number, answer.attempts, query)
            if self._over.is_set():
                break
        self.processor_seconds = time.thread_time() - begun

    def _ask(self) -> None:
        at = self._begun
        while True:
            at += self._work.pauses() * self._second
            if self._over.wait(max(0.0, at - time.perf_counter())):
                return
            question = self._work.question()
            answer = self._window.read(question.count, question.scan, priority=1)
            self._done(at, answer.state[-1].number, answer.attempts, once=True)

    def _done(self, start: float, youngest: int, attempts: int, query: int = 0, once: bool = False) -> None:
        self.executions.append(Execution(start, time.perf_counter(), self._due(youngest), attempts - 1, query, once))
