"""Executions in several threads: is a stream with many groups of synopses faster with two workers than with one?

    python -m benchmarks.run_workers                  two minutes or so
    python -m benchmarks.run_workers --quick

Every runtime gets the same seconds of the same stream, one runtime after the other, second by second, in an order that
turns; so whatever else the machine does falls on all of them. What is measured is the application of a second: panes
are closed, and what is due is executed. Answers are compared.

    lists    64 queries in 8 groups: top lists and quantiles (those of the benchmark of scheduling)
    sums     64 sums in 4 groups with many addresses: most of the time is spent in kernels, which release Python's lock

The ratio is the time of one worker over that of several, the sum over all seconds; its spread, the quartiles of the
seconds. Writes benchmarks/out/workers.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.packet_panes import PACKETS, Traffic, passes
from benchmarks.packet_queries import LOADS, catalog, workload
from sash.catalog import RegisteredQuery
from sash.engine.compiler import CompiledQuery, compile_query
from sash.engine.settings import Settings
from sash.engine.stream import StreamRuntime

OUT = Path(__file__).parent / "out"
WORKERS = (1, 2, 4)
SEED = 7
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


if __name__ == "__main__":
    main()
