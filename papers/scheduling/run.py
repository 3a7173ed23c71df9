"""Scheduling policies under overload: re-executions per second, and how late they are.

    python -m papers.scheduling.run                     the whole table, a quarter of an hour
    python -m papers.scheduling.run --quick             one seed, two numbers of queries, two minutes
    python -m papers.scheduling.run --clock processor   on a machine that is busy with other things
    python -m papers.scheduling.run --loads long cluster --demands 1.2 2     where executions are dear, as in the report

Section 8.5 of the thesis (figures 5 to 8 of the report it comes from): eight groups of queries, top lists and
quantiles of bandwidth over packets with random values; windows of 20 to 100 s, slides of 1 s to half the window; two
rates of packets, the higher one with twice as many different values. Executions, maintenance and scheduling are the
engine's own, in real time. What Spark's pass would deliver for each second is prepared beforehand.

A second of the stream arrives every --update-ms milliseconds: our synopses are fast, so the stream has to run faster
than time for an overload. When the engine is ready for a micro-batch, it takes all seconds that have arrived, as with
Spark; when it is ahead, it waits. A one-time query per second of the stream is executed in between, and counted apart.

Two more loads have executions that cost much more than answers, as in the report: windows of 720 to 3,600 panes of
1,000 groups (long), and panes in the cluster, where an execution is a Spark job (cluster). There updates arrive as fast
as --demands says: 1.2 means that conservative needs 1.2 times the time that it has.

    throughput   answers of periodic queries per second of the clock
    latency      updates beyond SLIDE between two answers of a query, averaged over answers; what a query is late
                 already when the time is up is counted too
    demand       seconds that conservative needs for an update when it is given all the time it wants, per second that
                 it has: over 1, it is overloaded

If the report's two loads were measured, and no other, writes papers/out/scheduling.json, which
`python -m papers.scheduling.draw` draws.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track

from benchmarks.packet_panes import ALL_THE_TIME, PACKETS, Standing, passes, together
from benchmarks.packet_queries import LOADS, Workload, workload
from papers import out_directory
from sash.core.clock import SystemClock
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.cluster_panes import Inquiry, stored_rows
from sash.panes.pane_rows import BatchFacts
from sash.panes.pane_store import FILES, PartResult
from sash.runtime.periodic.active import ActiveQuery
from sash.runtime.periodic.advance import ServiceResult
from sash.runtime.periodic.joint_queries import JointQueries
from sash.runtime.periodic.onetime import look_up
from sash.runtime.periodic.pace import Pace, UntilNext
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from sash.schedule import POLICY_NAMES
from sash.sharing.groups import PaneTable
from sash.spark.pane_files import ask_panes
from sash.spark.spark_session import acquire_own_session

UPDATE_MS = (6.5, 8.0)
NUMBERS = (40, 80, 160, 240)
SEEDS = 5
# Updates at full pace before the ones that count: prices are learnt, plans made.
SETTLED = 100
UPDATES = 200
# Conservative's demand is measured over this many updates.
DEMANDED = 30
# An execution in the cluster takes a hundred times as long as one in this process, and varies less.
FEWER = 3
DEMANDS = (1.2, 2.0)

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
    demands: list[float]

    def settled(self, load: str) -> int:
        return SETTLED // FEWER if load == "cluster" else SETTLED

    def counted(self, load: str) -> int:
        return self.updates // FEWER if load == "cluster" else self.updates

    def seconds(self, work: Workload) -> int:
        """Of the stream, in each cell."""
        return work.longest + self.settled(work.load) + max(self.counted(work.load), DEMANDED)


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


class ProcessorClock(SystemClock):
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

    def execute(self, measured: bool, joint: list[JointQueries], as_of: int, served: ServiceResult) -> float:
        begun = self._measured_by.now()
        took = super().execute(measured, joint, as_of, served)
        self.executing += self._measured_by.now() - begun
        return took


class Shelves:
    """The files of pane tables in the cluster, which Spark reads."""

    def __init__(self, groups: list[PaneGroup]) -> None:
        self._groups = groups
        self._spark = acquire_own_session()
        self._directory = tempfile.TemporaryDirectory(prefix="sash-scheduling-")
        self._written = 0
        for group in groups:
            group.move_to_cluster(FILES.empty_table()).attach(self, {})
            group.choose()

    def bring(self, batch: BatchFacts) -> None:
        """Write what the pass has brought, one file for each pane table."""
        for number, group in enumerate(self._groups):
            table = group.full_table
            synopsis = BasicIntervalSynopsis([key.type for key in table.keys])
            synopsis.require(table.partials, None)
            for place, rows, _ in batch.lanes:
                if place == number:
                    synopsis.absorb(rows)
            group.panes.bring(self._put(stored_rows(synopsis)))

    def _put(self, rows: pa.Table) -> pa.Table:
        ends, found = np.asarray(rows["end"]), []
        for end in np.unique(ends):
            self._written += 1
            name = f"{self._directory.name}/{self._written}.parquet"
            some = rows.filter(pa.array(ends == end))
            pq.write_table(some, name)
            found.append({"file": name, "rows": len(some), "start": some["start"][0].as_py(), "end": int(end)})
        return pa.Table.from_pylist(found, FILES)

    def ask(self, inquiry: Inquiry, files: pa.Table) -> Mapping[int, Sequence[PartResult]]:
        paths, rows = [Path(name) for name in files["file"].to_pylist()], int(np.asarray(files["rows"]).sum())
        return ask_panes(self._spark, inquiry, paths, rows)

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()


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
        self._shelves = Shelves(self.runtime.ordered()) if work.load == "cluster" else None
        self._take(work.longest, NEAR_THE_END)
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
        if self._shelves is not None:
            # Beside the micro-batch: Spark's pass writes these files.
            self._shelves.bring(batch)
            begun = self._clock.now()
        progress = self.runtime.apply(batch, pace=pace)
        assert not progress.outcome.failed, progress.outcome.failed
        self._tally.busy += self._clock.now() - begun
        self._tally.executing = self.runtime.executing
        self._tally.answers += len(progress.answers)
        self._tally.updates += updates
        self._tally.micro_batches += 1

    def _ask(self, times: int) -> None:
        for _ in range(times if self._questions else 0):
            look_up(self._questions[self._tally.asked % len(self._questions)], self.runtime).compute()
            self._tally.asked += 1

    def _forget(self) -> None:
        """Count anew. A query that is late now stays so, and its whole delay counts when it is answered."""
        self._tally, self.runtime.executing = Tally(), 0.0
        for active in self.runtime.active.values():
            active.note_answer(active.answered, 0)

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
    measurement = Measurement(policy, work, prepared, options.seconds(work), options.clock)
    measurement.live(options.settled(work.load), interval)
    tally = measurement.live(options.counted(work.load), interval)
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
        work = workload(load, number, seed)
        wanted = Measurement("conservative", work, prepared, options.seconds(work), options.clock).demand(DEMANDED)
        for name, interval in paces(load, wanted, intervals, options.demands).items():
            base = {"load": name, "queries": number, "seed": seed, "demand": wanted / interval}
            say(
                f"{name} load, {number} queries, seed {seed}: conservative needs {wanted / interval:.1f} times its time"
            )
            for policy in options.policies:
                yield {**base, **measure(policy, work, prepared, interval, options)}


def paces(load: str, wanted: float, intervals: dict[str, float], demands: list[float]) -> dict[str, float]:
    """The seconds between updates, by the name of the load at that pace."""
    if load in intervals:
        return {load: intervals[load]}
    return {f"{load}, demand {demand:g}": wanted / demand for demand in demands}


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
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=["low", "high"])
    demands = "of conservative, at the loads long and cluster (default: %(default)s)"
    parser.add_argument("--demands", type=float, nargs="+", default=list(DEMANDS), help=demands)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="processor: for a machine that is busy")
    parser.add_argument("--quick", action="store_true", help="one seed, 40 and 160 queries")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, on one line")
    return parser.parse_args()


def main() -> None:
    given = parsed()
    seeds, numbers = (1, [40, 160]) if given.quick else (given.seeds, given.queries)
    options = Options(given.loads, numbers, given.policies, seeds, given.updates, given.clock, given.demands)
    intervals = {load: each / 1_000 for load, each in zip(("low", "high"), given.update_ms, strict=True)}
    # That some pane tables are nearly as large as the stream is known.
    logging.getLogger("sash.runtime").setLevel(logging.ERROR)
    say("compiling ...")
    work = workload("low", 40, 0)
    Measurement("conservative", work, {}, options.seconds(work)).demand(DEMANDED)
    measured = list(cells(options, intervals))
    results: dict[str, Any] = {"machine": machine(), **asdict(options), "cells": measured}
    results["update_ms"] = {load: interval * 1_000 for load, interval in intervals.items()}
    # The report's figures are drawn from its own two loads.
    if set(LOADS) - set(options.loads) == {"long", "cluster"}:
        (out_directory(given.quick) / "scheduling.json").write_text(json.dumps(results, indent=1))
    if given.json:
        print(json.dumps(results))
        return
    from papers.scheduling.draw import tables, verdicts

    tables(results)
    verdicts(results)


if __name__ == "__main__":
    main()
