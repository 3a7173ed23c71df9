"""What an answer costs in Sash's own process: NumPy makes the passes, which are not counted.

    python -m benchmarks.run_answers                                              W1 with 1, 1,000 and 10,000 queries
    python -m benchmarks.run_answers --form W3 --queries 1 240 --batch-seconds 5

The queries are those of run_multi_query, each with a subscriber that takes the number of rows of each answer and reads
a column of every hundredth. Packets have 1,000 sources.

    first     milliseconds of the first micro-batch: queries are bound, placed, scheduled and answered
    batch     milliseconds of a later micro-batch
    answer    the same in microseconds for each answer, and calls of Sash's functions
    peak      the most memory of this process meanwhile, in MB
    query     KB that a registered query takes, its first micro-batch included

Times are processor times. Writes benchmarks/out/answers.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.engines import FORMS, Reader, texts_of
from benchmarks.packet_panes import Traffic
from benchmarks.run_multi_query import OUT, forget_peak, peak_mb, repeated, workload
from sash.catalog import Stream
from sash.sharing.groups import PaneTable
from tests.support.numpy_pass import Columns, NumpyPipeline
from tests.work.counting import calls
from tests.work.packets import PacketSession

TRAFFIC = Traffic(20_000, 1_000, 5)
# The longest windows of the first thousand queries are full.
WARM_SECONDS = 120
COUNTED_SECONDS = 80
KEPT_ANSWERS = 10
# The memory of a query is measured over this many at most: they take a while when every allocation is noted.
MEASURED = 1_000


class TimedPass(NumpyPipeline):
    """It adds its processor time to `spent`."""

    def __init__(self, spent: list[float], declared: Stream) -> None:
        super().__init__(declared)
        self._spent = spent

    def aggregate(self, batch: Columns, tables: list[PaneTable]) -> pa.Table:
        begun = time.process_time()
        found = super().aggregate(batch, tables)
        self._spent.append(time.process_time() - begun)
        return found


class TimedSession(PacketSession):
    """`seconds_of` tells the processor time of micro-batches without their passes."""

    def __init__(self) -> None:
        self._passes: list[float] = []
        super().__init__(TRAFFIC, partial(TimedPass, self._passes), keep_answers=KEPT_ANSWERS)
        self.reader = Reader()
        self._took = 0.0

    def push(self, name: str, rows: Any) -> None:
        begun = time.process_time()
        super().push(name, rows)
        self._took += time.process_time() - begun

    def seconds_of(self, work: Callable[[], None]) -> float:
        before, passes = self._took, sum(self._passes)
        work()
        return self._took - before - (sum(self._passes) - passes)

    def register_all(self, texts: list[str]) -> None:
        for number, text in enumerate(texts):
            self.register(text, f"q{number}").subscribe(self.reader)

    def go_on_for(self, batches: int, seconds: int) -> None:
        for _ in range(batches):
            self.go_on(seconds)


def measured(texts: list[str], seconds: int) -> dict[str, Any]:
    """The figures of some queries with micro-batches of this many seconds."""
    forget_peak(os.getpid())
    with TimedSession() as session:
        session.register_all(texts)
        first = session.seconds_of(partial(session.go_on_for, 1, seconds))
        session.go_on_for(WARM_SECONDS // seconds, seconds)
        batches, before = COUNTED_SECONDS // seconds, session.answers
        took = session.seconds_of(partial(session.go_on_for, batches, seconds))
        answers = session.answers - before
        peak = peak_mb(os.getpid())
        with calls() as called:
            session.go_on_for(1, seconds)
        counted = session.answers - before - answers
    return {
        "first_ms": 1e3 * first,
        "batch_ms": 1e3 * took / batches,
        "answers": answers,
        "us_per_answer": 1e6 * took / max(1, answers),
        "calls_per_answer": called.total / max(1, counted),
        "peak_mb": peak,
        "kb_per_query": kilobytes_per_query(texts[:MEASURED]),
    }


def kilobytes_per_query(texts: list[str]) -> float:
    """What the registration of these queries leaves in memory, and their first micro-batch of one second."""
    tracemalloc.start()
    try:
        with PacketSession(keep_answers=KEPT_ANSWERS) as session:
            # What the first query brings stays: modules, and the stream.
            session.register(texts[0], "first")
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for number, text in enumerate(texts):
                session.register(text, f"q{number}")
            session.go_on()
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / len(texts) / 1024


def table(results: dict[str, Any]) -> Table:
    shown = Table(title=f"{results['form']}, micro-batches of {results['batch_seconds']} s")
    for column in ("queries", "first, ms", "batch, ms", "answer, µs", "answer, calls", "peak, MB", "query, KB"):
        shown.add_column(column, justify="right")
    for number, found in results["queries"].items():
        figures = ("first_ms", "batch_ms", "us_per_answer", "calls_per_answer", "peak_mb", "kb_per_query")
        shown.add_row(f"{number:,}", *(f"{found[figure]:,.1f}" for figure in figures))
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", choices=FORMS, default="W1", help="as in run_multi_query (default %(default)s)")
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 1_000, 10_000], metavar="N")
    parser.add_argument(
        "--batch-seconds", type=int, default=20, help="event time per micro-batch (default %(default)s)"
    )
    parser.add_argument("--workload", type=Path, help="a workload file, as of run_multi_query")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, on one line")
    arguments = parser.parse_args()
    queries = workload(arguments.workload)
    # What is compiled and imported once is not counted.
    measured(texts_of(arguments.form, queries[:8]), arguments.batch_seconds)
    results: dict[str, Any] = {"form": arguments.form, "batch_seconds": arguments.batch_seconds}
    results["queries"] = {
        number: measured(texts_of(arguments.form, repeated(queries, number)), arguments.batch_seconds)
        for number in arguments.queries
    }
    OUT.mkdir(exist_ok=True)
    (OUT / "answers.json").write_text(json.dumps(results, indent=1))
    if arguments.json:
        print(json.dumps(results))
    else:
        Console(width=120).print(table(results))


if __name__ == "__main__":
    main()
