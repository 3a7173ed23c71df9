"""Scheduling policies under overload: re-executions per second, and how late they are.

    python -m papers.scheduling.run                     the whole table, a quarter of an hour
    python -m papers.scheduling.run --quick             one seed, two numbers of queries, two minutes
    python -m papers.scheduling.run --clock processor   on a machine that is busy with other things

Section 8.5 of the thesis (figures 5 to 8 of the report it comes from): eight groups of queries, top lists and
quantiles of bandwidth over packets with random values; windows of 20 to 100 s, slides of 1 s to half the window; two
rates of packets, the higher one with twice as many different values. Executions, maintenance and scheduling are the
engine's own, in real time. What Spark's pass would deliver for each second is prepared beforehand.

A second of the stream arrives every --update-ms milliseconds: our synopses are fast, so the stream has to run faster
than time for an overload. When the engine is ready for a micro-batch, it takes all seconds that have arrived, as with
Spark; when it is ahead, it waits. A one-time query per second of the stream is executed in between, and counted apart.

    throughput   answers of periodic queries per second of the clock
    latency      updates beyond SLIDE between two answers of a query, averaged over answers; what a query is late
                 already when the time is up is counted too
    demand       seconds that conservative needs for an update when it is given all the time it wants, per second that
                 it has: over 1, it is overloaded

Writes papers/out/scheduling.json, which `python -m papers.scheduling.draw` draws.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks.packet_panes import ALL_THE_TIME, PACKETS, Standing, passes, together
from benchmarks.packet_queries import LOADS, Workload, workload
from papers import OUT
from sash.core.clock import SystemClock
from sash.panes.pane_rows import BatchFacts
from sash.runtime.periodic.active import ActiveQuery
from sash.runtime.periodic.advance import ServiceResult
from sash.runtime.periodic.onetime import look_up
from sash.runtime.periodic.pace import Pace, UntilNext
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from sash.schedule import POLICY_NAMES
from sash.sharing.groups import PaneTable

UPDATE_MS = (6.5, 8.0)
NUMBERS = (40, 80, 160, 240)
SEEDS = 5
# Panes that fill the synopses, and updates at full pace before the ones that count: prices are learnt, plans made.
FILLED, SETTLED = 100, 100
UPDATES = 200
# Conservative's demand is measured over this many updates.
DEMANDED = 30

# What passes have delivered, by load, seed and pane tables; only the latest are kept.
Prepared = dict[tuple[str, int, tuple[PaneTable, ...]], list[BatchFacts]]


@dataclass(frozen=True)
class Options:
    loads: list[str]
    queries: list[int]
    policies: list[str]
    seeds: int
    updates: int
    clock: str

    @property
    def seconds(self) -> int:
        """Of the stream, in each cell."""
        return FILLED + SETTLED + max(self.updates, DEMANDED)


@dataclass
class Tally:
    """What happened while some updates arrived. `executing` is within `busy`, one-time queries are not."""

    updates: int = 0
    micro_batches: int = 0
    answers: int = 0
    asked: int = 0
    seconds: float = 0.0
    busy: float = 0.0
    executing: float = 0.0


class WallClock(SystemClock):
    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


class ProcessorClock:
    """The time that this process computes, and the time that it would have waited: other programs do not count."""

    def __init__(self) -> None:
        self._waited = 0.0

    def now(self) -> float:
        return time.process_time() + self._waited

    def wait(self, seconds: float) -> None:
        self._waited += seconds


CLOCKS: dict[str, Callable[[], WallClock | ProcessorClock]] = {"wall": WallClock, "processor": ProcessorClock}


class TimedRuntime(StreamRuntime):
    """The engine, and for how long it has been executing periodic queries, by the clock of the measurement."""

    def __init__(self, settings: Settings, clock: WallClock | ProcessorClock) -> None:
        super().__init__(PACKETS, settings)
        self.executing = 0.0
        self._measured_by = clock

    def execute(self, measured: bool, queries: list[ActiveQuery], as_of: int, served: ServiceResult) -> float:
        begun = self._measured_by.now()
        took = super().execute(measured, queries, as_of, served)
        self.executing += self._measured_by.now() - begun
        return took


# Everybody is answered once, near the end.
NEAR_THE_END = Standing(0.999)


class Measurement:
    """One policy, one set of queries, and a stream that arrives at its own pace."""

    def __init__(self, policy: str, work: Workload, prepared: Prepared, seconds: int, clock: str = "wall") -> None:
        self._clock = CLOCKS[clock]()
        self.runtime = TimedRuntime(Settings(policy), self._clock)
        self.runtime.synchronise(work.queries)
        tables = self.runtime.tables()
        key = (work.load, work.seed, tuple(tables))
        if key not in prepared:
            prepared.clear()
            prepared[key] = passes(LOADS[work.load], tables, seconds, work.seed)
        self._facts = iter(prepared[key])
        self._questions = work.questions
        self._tally = Tally()
        self._take(FILLED, NEAR_THE_END)
        self._forget()

    def live(self, updates: int, interval: float) -> Tally:
        """Updates arrive at regular intervals, whether they are waited for or not."""
        self._forget()
        begun, taken, clock = self._clock.now(), 0, self._clock
        while taken < updates:
            arrived = min(updates, 1 + int((clock.now() - begun) / interval))
            if arrived == taken:
                clock.wait(max(1e-6, begun + taken * interval - clock.now()))
                continue
            self._take(arrived - taken, UntilNext(clock, begun + arrived * interval - clock.now()))
            self._ask(arrived - taken)
            taken = arrived
        self._tally.seconds = max(clock.now() - begun, updates * interval)
        return self._tally

    def demand(self, updates: int) -> float:
        """Seconds per update when nothing is late, one-time queries included."""
        self._forget()
        begun = self._clock.now()
        for _ in range(updates):
            self._take(1, ALL_THE_TIME)
            self._ask(1)
        return (self._clock.now() - begun) / updates

    def _take(self, updates: int, pace: Pace) -> None:
        batch, begun = together([next(self._facts) for _ in range(updates)]), self._clock.now()
        self.runtime.reprice(self.runtime.drifted_prices())
        progress = self.runtime.apply(batch, pace=pace)
        assert not progress.outcome.failed, progress.outcome.failed
        self._tally.busy += self._clock.now() - begun
        self._tally.executing = self.runtime.executing
        self._tally.answers += len(progress.answers)
        self._tally.updates += updates
        self._tally.micro_batches += 1

    def _ask(self, times: int) -> None:
        for _ in range(times):
            look_up(self._questions[self._tally.asked % len(self._questions)], self.runtime).compute()
            self._tally.asked += 1

    def _forget(self) -> None:
        """Count anew. A query that is late now stays so, and its whole delay counts when it is answered."""
        self._tally, self.runtime.executing = Tally(), 0.0
        for active in self.runtime.active.values():
            active.lateness = 0

    def lateness(self) -> int:
        """In updates; what queries are late that have not been answered yet is part of it."""
        return sum(active.lateness + self._overdue(active) for active in self.runtime.active.values())

    def _overdue(self, active: ActiveQuery) -> int:
        assert active.answered is not None and active.compiled.slide is not None
        return max(0, active.home.clock.position - active.answered - active.compiled.slide) // active.home.clock.length

    def plan(self) -> dict[str, int]:
        """Sub-groups, how many of them are executed more often than they ask for, and periods that are left."""
        found = [(group.label, task) for group in self.runtime.groups.values() for task in group.schedule.local.tasks()]
        moved = sum(task.period != task.key.slide for _, task in found)
        return {"tasks": len(found), "moved": moved, "periods": len({(label, task.period) for label, task in found})}


def measure(policy: str, work: Workload, prepared: Prepared, interval: float, options: Options) -> dict[str, Any]:
    measurement = Measurement(policy, work, prepared, options.seconds, options.clock)
    measurement.live(SETTLED, interval)
    tally = measurement.live(options.updates, interval)
    return {
        "policy": policy,
        "throughput": tally.answers / tally.seconds,
        "latency": measurement.lateness() / max(1, tally.answers),
        **asdict(tally),
        **measurement.plan(),
    }


def cells(options: Options, intervals: dict[str, float]) -> Iterator[dict[str, Any]]:
    """All policies of one workload in turn, so that they share whatever else the machine does."""
    prepared: Prepared = {}
    todo = [(load, seed, n) for load in options.loads for seed in range(options.seeds) for n in options.queries]
    for load, seed, number in track(todo, "workloads", console=Console(stderr=True)):
        work, interval = workload(load, number, seed), intervals[load]
        wanted = Measurement("conservative", work, prepared, options.seconds, options.clock).demand(DEMANDED)
        base = {"load": load, "queries": number, "seed": seed, "demand": wanted / interval}
        say(f"{load} load, {number} queries, seed {seed}: conservative needs {wanted / interval:.1f} times its time")
        for policy in options.policies:
            yield {**base, **measure(policy, work, prepared, interval, options)}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(), "load_average": os.getloadavg()}  # fmt: skip


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    between = "between updates, at low and at high load (default: %(default)s)"
    parser.add_argument("--update-ms", type=float, nargs=2, default=UPDATE_MS, metavar="MS", help=between)
    parser.add_argument("--queries", type=int, nargs="+", default=list(NUMBERS), help="numbers of queries")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="random inputs to average over (default %(default)s)")
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates per cell (default %(default)s)")
    parser.add_argument("--policies", nargs="+", choices=POLICY_NAMES, default=list(POLICY_NAMES))
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS))
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="processor: for a machine that is busy")
    parser.add_argument("--quick", action="store_true", help="one seed, 40 and 160 queries, nothing written")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, on one line")
    return parser.parse_args()


def main() -> None:
    given = parsed()
    seeds, numbers = (1, [40, 160]) if given.quick else (given.seeds, given.queries)
    options = Options(given.loads, numbers, given.policies, seeds, given.updates, given.clock)
    intervals = dict(zip(LOADS, (each / 1_000 for each in given.update_ms), strict=True))
    # That some pane tables are nearly as large as the stream is known.
    logging.getLogger("sash.runtime").setLevel(logging.ERROR)
    say("compiling ...")
    Measurement("conservative", workload("low", 40, 0), {}, options.seconds).demand(DEMANDED)
    measured = list(cells(options, intervals))
    results: dict[str, Any] = {"machine": machine(), **asdict(options), "cells": measured}
    results["update_ms"] = dict(zip(LOADS, given.update_ms, strict=True))
    if not given.quick:
        OUT.mkdir(exist_ok=True)
        (OUT / "scheduling.json").write_text(json.dumps(results, indent=1))
    if given.json:
        print(json.dumps(results))
        return
    from papers.scheduling.draw import tables, verdicts

    tables(results)
    verdicts(results)


if __name__ == "__main__":
    main()
