"""Nexmark, a yardstick that others use: its queries one by one and all at once, beside native Spark.

    python -m benchmarks.run_nexmark                                  1,000,000 events, half an hour on two cores
    python -m benchmarks.run_nexmark --events 500000 --queries q5,q7,q8 --no-native

Events follow Nexmark's published rules (nexmark.py); generating them is not timed. Sash runs each query in a session of
its own, and all at once in one session; a subscriber reads the answers. Native Spark runs one streaming query in append
mode for each, over the same files in the same micro-batches, into a sink that drops the rows. A query that an engine
refuses has the message instead of a figure (nexmark_queries.py has the texts).

Events are persons, auctions and bids, whichever a query reads. Events a second and core are events by seconds of
processor time, of this process and of Spark's, as Nexmark counts cores: its suite measures how many a query used.

Writes benchmarks/out/nexmark.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path

from pyspark.errors import AnalysisException
from rich.console import Console
from rich.table import Table

import sash
from benchmarks.engines import declare_stream, drained, processor, shared_session, stage
from benchmarks.nexmark import DDL, EACH, RATE, generate
from benchmarks.nexmark_queries import QUERIES
from benchmarks.packets import parts, rows_of
from sash.core.errors import CqlError

OUT = Path(__file__).parent / "out"
SASH, NATIVE = "Sash", "native Spark"
SIDE_ROWS = 10_000
# Of the JVM: queries at once bring hundreds of megabytes of rows in a micro-batch, and 2 GB are too few.
MEMORY = "6g"
FLINK = "Published for orientation: Flink's q5 (HOP 10 s / 2 s) has 22 to 75 thousand events a second and core."


@dataclass(frozen=True)
class Figure:
    """What some queries took for so many events each."""

    events: int
    seconds: float
    processor: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    @property
    def rate_per_core(self) -> float:
        return self.events / self.processor


# A refused query has the message.
Measured = Figure | str
# By query and engine.
Alone = dict[str, dict[str, Measured]]


def declare(session: sash.Session, directory: str, files_per_batch: int) -> None:
    """The stream of events, and the table of q13."""
    declare_stream(session, directory, files_per_batch, "events", DDL)
    session.sql("CREATE NONRETROACTIVE TABLE side (key BIGINT PRIMARY KEY, value STRING)")
    session.update_table("side", [{"key": key, "value": str(key)} for key in range(SIDE_ROWS)])


def refusals(names: list[str], directory: str) -> dict[str, str]:
    """The queries that cannot be registered, and why."""
    found = {}
    with sash.connect(spark=shared_session()) as session:
        declare(session, directory, 1)
        for name in names:
            try:
                session.register(QUERIES[name].cql, name=name)
            except CqlError as error:
                found[name] = str(error).splitlines()[0]
    return found


def run_sash(names: list[str], files: list[Path], per_batch: int) -> Figure:
    taken = processor()
    with drained([QUERIES[name].cql for name in names], files, per_batch, declare) as (session, seconds):
        return Figure(session.stats()["tuples"], seconds, processor() - taken)


def run_native(name: str, files: list[Path], per_batch: int) -> Measured:
    spark, events = shared_session(), sum(map(rows_of, files))
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as checkpoint:
        frame = spark.readStream.schema(DDL).option("maxFilesPerTrigger", per_batch).parquet(stage(files, directory))
        frame.withWatermark("ts", "0 seconds").createOrReplaceTempView("events")
        side = spark.range(SIDE_ROWS).selectExpr("id AS key", "CAST(id AS STRING) AS value")
        side.createOrReplaceTempView("side")
        taken, begun = processor(), time.perf_counter()
        try:
            writer = spark.sql(QUERIES[name].sql).writeStream.format("noop").outputMode("append")
            writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
        except AnalysisException as error:
            return str(error).splitlines()[0]
        return Figure(events, time.perf_counter() - begun, processor() - taken)


def one_by_one(names: list[str], refused: dict[str, str], files: list[Path], per_batch: int, native: bool) -> Alone:
    found: Alone = {}
    for name in names:
        found[name] = {SASH: refused[name] if name in refused else run_sash([name], files, per_batch)}
        if native:
            run_native(name, files[:1], 1)  # warm-up
            found[name][NATIVE] = run_native(name, files, per_batch)
        say(f"{name}: {'; '.join(f'{engine} {shown(each)}' for engine, each in found[name].items())}")
    return found


def at_once(alone: Alone, files: list[Path], per_batch: int) -> dict[tuple[str, ...], Figure]:
    """All queries that Sash has in one session, and those that native Spark has as well."""
    known = tuple(name for name, found in alone.items() if isinstance(found[SASH], Figure))
    both = tuple(name for name in known if isinstance(alone[name].get(NATIVE), Figure))
    found = {}
    for names in dict.fromkeys((known, both)):
        if len(names) > 1:
            found[names] = run_sash(list(names), files, per_batch)
            say(f"{len(names)} queries at once: {shown(found[names])}")
    return found


def total(figures: Iterable[Measured]) -> Figure:
    """Queries one after the other, each over all events."""
    known = [astuple(each) for each in figures if isinstance(each, Figure)]
    events, seconds, taken = (sum(column) for column in zip(*known, strict=True))
    return Figure(events, seconds, taken)


def shown(measured: Measured | None) -> str:
    if not isinstance(measured, Figure):
        return "-" if measured is None else f"refused: {measured}"
    return f"{measured.rate:,.0f} ({measured.rate_per_core:,.0f})"


def print_tables(alone: Alone, together: dict[tuple[str, ...], Figure]) -> None:
    console, engines = Console(width=150), list(next(iter(alone.values())))
    table = Table("query", "what", *engines, title="events a second (and core), each query alone")
    for name, found in alone.items():
        cells = (shown(each) if isinstance(each, Figure) else "-" for each in found.values())
        table.add_row(name, QUERIES[name].what, *cells)
    console.print(table)
    sums = Table("queries", f"{SASH}, at once", "times queries", *(f"{each}, one by one" for each in engines))
    sums.title = "events a second (and core); one by one: the events of all queries in the seconds of all"
    for names, figure in together.items():
        figures = [[alone[name][engine] for name in names] for engine in engines]
        complete = [total(each) if all(isinstance(one, Figure) for one in each) else None for each in figures]
        times = replace(figure, events=figure.events * len(names))
        sums.add_row(str(len(names)), *map(shown, (figure, times, *complete)))
    console.print(sums)
    for name, found in alone.items():
        for engine, measured in found.items():
            if isinstance(measured, str):
                console.print(f"{name}, {engine}: {measured}", highlight=False, markup=False, soft_wrap=True)
    console.print(FLINK, highlight=False)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batch-events", type=int, default=250_000, help="events in a micro-batch (default 250,000)")
    parser.add_argument("--queries", type=chosen_queries, default=list(QUERIES), help="q0,q5,.. (default: all)")
    parser.add_argument("--no-native", action="store_true", help="without native Spark")
    return parser.parse_args(arguments)


def chosen_queries(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in QUERIES]:
        raise argparse.ArgumentTypeError(f"no query {', '.join(unknown)}; there are {', '.join(QUERIES)}")
    return names


def main(arguments: list[str]) -> None:
    given = parsed(arguments)
    os.environ.setdefault("SPARK_DRIVER_MEMORY", MEMORY)
    say(f"generating {given.events:,} events at {RATE:,} a second (once); load average {os.getloadavg()[0]:.2f}")
    directory = generate(OUT / f"nexmark-{given.events}", given.events)
    files, per_batch = parts(directory), max(1, given.batch_events // EACH)
    refused = refusals(given.queries, str(directory))
    known = [name for name in given.queries if name not in refused]
    if known:
        say(f"warming up with {len(known)} queries at once")
        run_sash(known, files[:per_batch], per_batch)
    alone = one_by_one(given.queries, refused, files, per_batch, not given.no_native)
    together = at_once(alone, files, per_batch)
    print_tables(alone, together)
    results = {
        "events": given.events,
        "batch_events": per_batch * EACH,
        "alone": {
            name: {engine: asdict(each) if isinstance(each, Figure) else each for engine, each in found.items()}
            for name, found in alone.items()
        },
        "at_once": [{"queries": names, **asdict(figure)} for names, figure in together.items()],
    }
    (OUT / "nexmark.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
