"""Executions in several threads: is a stream with many groups of synopses faster with two workers than with one?

    python -m benchmarks.run_workers                  ten minutes or so
    python -m benchmarks.run_workers --quick

Every runtime gets the same seconds of the same stream, one runtime after the other, second by second, in an order that
turns; so whatever else the machine does falls on all of them. What is measured is the application of a second: panes
are closed, and what is due is executed. Answers are compared.

    lists    64 queries in 8 groups: top lists and quantiles (those of the benchmark of scheduling)
    sums     64 sums in 4 groups with many addresses: most of the time is spent in kernels, which release Python's lock

The ratio is the time of one worker over that of several, the sum over all seconds; its spread, the quartiles of the
seconds.

Then live, where executions run beside slides: one thread, and two workers under each isolation level. Micro-batches
have five seconds of the stream each. With all the time that they need: what a micro-batch takes, against one thread.
With half of what one thread needs: panes arrive while queries are executed, and it is told how many answers there
were, by how many updates they were late, how many executions a slide came beside, and how many began again for that.

Writes benchmarks/out/workers.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.packet_panes import ALL_THE_TIME, PACKETS, Traffic, passes, together
from benchmarks.packet_queries import LOADS, catalog, workload
from sash.catalog import RegisteredQuery
from sash.core.clock import SystemClock
from sash.panes.pane_rows import BatchFacts
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery, compile_query
from sash.runtime.periodic.pace import Pace, UntilNext
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from sash.runtime.statistics import GroupStatistics

OUT = Path(__file__).parent / "out"
WORKERS = (1, 2, 4)
SEED = 7
# Seconds of the stream in a live micro-batch.
BATCH = 5
COLUMNS = (
    "level",
    "workers",
    "ms",
    "times as fast",
    "quartiles",
    "late",
    "answers",
    "executions",
    "beside",
    "restarts",
)
WIDE = Traffic(100_000, 20_000, 200)
GROUPED_BY = ("src", "dst", "protocol * 10000 + port", "port")
_SUM = "SELECT {of}, SUM(length) AS bytes FROM packets [WINDOW {w} sec SLIDE 1 sec] GROUP BY {of}"


def sums(number: int) -> list[CompiledQuery]:
    """Queries of all groups are due at every second."""
    found = [_SUM.format(of=GROUPED_BY[i % len(GROUPED_BY)], w=10 + i // len(GROUPED_BY)) for i in range(number)]
    known = catalog()
    return [
        compile_query(RegisteredQuery(f"q{i}", each, "packets", synopsis="basic"), known)
        for i, each in enumerate(found)
    ]


def measure(queries: list[CompiledQuery], traffic: Traffic, seconds: int, warm: int) -> list[dict[str, Any]]:
    runtimes = {workers: StreamRuntime(PACKETS, Settings("conservative", workers=workers)) for workers in WORKERS}
    for runtime in runtimes.values():
        runtime.synchronise(queries)
    took: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    for number, facts in enumerate(passes(traffic, runtimes[1].tables(), warm + seconds, SEED)):
        answers = {}
        for place in range(len(WORKERS)):
            workers = WORKERS[(number + place) % len(WORKERS)]
            begun = time.perf_counter()
            progress = runtimes[workers].apply(facts)
            took[workers].append(time.perf_counter() - begun)
            answers[workers] = [(answer.query, answer.as_of, answer.table) for answer in progress.answers]
        assert all(each == answers[1] for each in answers.values()), "the same answers in the same order"
    alone = np.array(took[1][warm:])
    return [
        {
            "workers": workers,
            "groups": len(runtimes[1].groups),
            "ms_per_second": 1e3 * float(np.mean(took[workers][warm:])),
            "ratio": float(alone.sum() / sum(took[workers][warm:])),
            "quartiles": np.percentile(alone / np.array(took[workers][warm:]), [25, 75]).tolist(),
        }
        for workers in WORKERS
    ]


@dataclass
class Live:
    """A runtime that micro-batches are applied to as a live session does, and what came of it."""

    level: str
    workers: int
    runtime: StreamRuntime = field(init=False)
    took: list[float] = field(default_factory=list)
    answers: int = 0

    def __post_init__(self) -> None:
        self.runtime = StreamRuntime(PACKETS, Settings("conservative", workers=self.workers), level=self.level)

    def take(self, facts: BatchFacts, pace: Pace) -> list[Answer]:
        begun = time.perf_counter()
        progress = self.runtime.apply(facts, pace=pace)
        self.took.append(time.perf_counter() - begun)
        self.answers += len(progress.answers)
        return progress.answers

    def forget(self) -> None:
        """What came before the measurement."""
        self.took.clear()
        self.answers = 0
        for group in self.runtime.groups.values():
            group.statistics = GroupStatistics()
        for active in self.runtime.active.values():
            active.lateness = 0

    def facts(self, alone: list[float]) -> dict[str, Any]:
        groups = [group.statistics for group in self.runtime.groups.values()]
        late = sum(active.lateness for active in self.runtime.active.values())
        return {
            "level": self.level,
            "workers": self.workers,
            "ms_per_batch": 1e3 * float(np.mean(self.took)),
            "ratio": sum(alone) / sum(self.took),
            "quartiles": np.percentile(np.array(alone) / np.array(self.took), [25, 75]).tolist(),
            "answers": self.answers,
            "lateness": late / max(1, self.answers),
            "executions": sum(each.executions for each in groups),
            "beside_slides": sum(each.beside_slides for each in groups),
            "restarts": sum(each.restarts for each in groups),
        }


def measure_live(
    queries: list[CompiledQuery], traffic: Traffic, seconds: int, warm: int, part: float | None
) -> list[dict[str, Any]]:
    """`part`: how much of the time that one thread needs there is; None: as much as anybody wants."""
    lives = [Live("serial", 1), *(Live(level, 2) for level in ("ws", "lws", "ttu"))]
    for live in lives:
        live.runtime.synchronise(queries)
    prepared = passes(traffic, lives[0].runtime.tables(), warm + seconds, SEED)
    batches = [together(prepared[start : start + BATCH]) for start in range(0, len(prepared), BATCH)]
    needed = 0.0
    for number, batch in enumerate(batches):
        measured, answers = number * BATCH >= warm, {}
        for place in range(len(lives)):
            live = lives[(number + place) % len(lives)]
            pace = UntilNext(SystemClock(), part * needed) if measured and part is not None else ALL_THE_TIME
            answers[live.level] = {(each.query, each.as_of): each.table for each in live.take(batch, pace)}
        if not measured:
            needed = lives[0].took[-1]
            for live in lives:
                live.forget()
        known = answers["serial"]
        for said in answers.values():
            assert part is not None or said.keys() == known.keys(), "the same answers"
            assert all(table == known[key] for key, table in said.items() if key in known), "right as of their times"
    return [live.facts(lives[0].took) for live in lives]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=64, help="how many (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=120, help="of the stream, measured (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="20 seconds, nothing written")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, on one line")
    arguments = parser.parse_args()
    seconds, warm = (20, 15) if arguments.quick else (arguments.seconds, 60)
    results = {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "lists": measure(workload("high", arguments.queries, SEED).queries, LOADS["high"], seconds, warm),
        "sums": measure(sums(arguments.queries), WIDE, seconds, warm // 3),
    }
    for name, part in (("all the time", None), ("half of the time", 0.5)):
        queries = workload("high", arguments.queries, SEED).queries
        results[f"lists, {name}"] = measure_live(queries, LOADS["high"], seconds, warm, part)
        results[f"sums, {name}"] = measure_live(sums(arguments.queries), WIDE, seconds, warm // 3, part)
    if not arguments.quick:
        OUT.mkdir(exist_ok=True)
        (OUT / "workers.json").write_text(json.dumps(results, indent=1))
    if arguments.json:
        print(json.dumps(results))
    else:
        table(results)


def table(results: dict[str, Any]) -> None:
    shown = Table(title=f"workers, on {results['cores']} cores")
    for column in ("queries", "groups", "workers", "ms", "times as fast", "quartiles"):
        shown.add_column(column, justify="left" if column == "queries" else "right")
    for name in ("lists", "sums"):
        for each in results[name]:
            low, high = each["quartiles"]
            cells = (str(each["groups"]), str(each["workers"]), f"{each['ms_per_second']:.1f}", f"{each['ratio']:.2f}")
            shown.add_row(name, *cells, f"{low:.2f} to {high:.2f}")
    Console(width=100).print(shown)
    for name in (name for name in results if name.endswith("time")):
        live = Table(title=f"live: {name}")
        for column in COLUMNS:
            live.add_column(column, justify="left" if column == "level" else "right")
        for each in results[name]:
            low, high = each["quartiles"]
            numbers = (f"{each['ms_per_batch']:.1f}", f"{each['ratio']:.2f}", f"{low:.2f} to {high:.2f}")
            counted = (str(each[column]) for column in ("answers", "executions", "beside_slides", "restarts"))
            live.add_row(each["level"], str(each["workers"]), *numbers, f"{each['lateness']:.2f}", *counted)
        Console(width=120).print(live)


if __name__ == "__main__":
    main()
