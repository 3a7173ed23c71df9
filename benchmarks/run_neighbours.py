"""Micro-batches alone and beside heavy neighbours, with pools of Spark's FAIR scheduler and without.

    python -m benchmarks.run_neighbours                 nine minutes
    python -m benchmarks.run_neighbours --seconds 10
    python -m benchmarks.run_neighbours --own           three minutes

A live stream of packets stores its window. For --seconds it runs alone; then as long while another thread asks one
question after the other, a join of the stored window with itself, by Spark; then as long while another thread has an
archive rewritten by Spark, again and again; then as long while another thread moves the time of another stream, whose
panes are in the cluster, so that one execution over them follows the other. That is done on a Spark whose scheduler is
FAIR, with the pools of Sash, and on one whose scheduler is FIFO, where pools mean nothing, everything else being equal:
pools, none, none, pools, so that neither gains by coming later. Prints the median and the longest time of work on a
micro-batch in each case, what the neighbours took, and the ratios of medians, as one JSON object.

--own: instead, a live stream whose own panes are in the cluster, under `serial`, where a slide waits for executions,
and under `ttu`, where executions run beside the micro-batches: serial, ttu, ttu, serial.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from pyspark.sql import DataFrame, SparkSession

import sash
from sash.runtime.stored import archive_feed
from sash.spark.pools import allocation_file
from sash.spark.spark_session import SETTINGS

TRIGGER = 1.0
QUESTION = (
    "SELECT a.k, COUNT(*) AS pairs, SUM(a.v * b.v) AS products "
    "FROM packets [WINDOW 20 sec] a JOIN packets [WINDOW 20 sec] b ON a.k = b.k GROUP BY a.k"
)
BEGIN = 1_700_000_000_000_000
ARCHIVED, MINUTES = 2_000_000, 20
# A stream whose panes are in the cluster, of an hour; its window of ten minutes has all groups.
WIDE, GROUPS, LONG = 3_000_000, 500_000, 60
POOLS, NONE = "pools", "none"
# What a neighbour does, for the so-manieth time; and what micro-batches took, and what that took each time.
Work = Callable[[sash.Session, int], None]
Took = tuple[list[float], list[float]]


@contextmanager
def spark_with(scheduler: str) -> Iterator[SparkSession]:
    """Spark as Sash starts it, but for the scheduler."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cores = os.cpu_count() or 2
    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", "2g")
    settings = {**SETTINGS, "spark.scheduler.mode": scheduler, "spark.sql.shuffle.partitions": str(cores)}
    with allocation_file(cores) as pools:
        for name, value in {**settings, "spark.scheduler.allocation.file": pools}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    try:
        yield spark
    finally:
        spark.stop()


def declare(session: sash.Session, rate: int, directory: Path) -> None:
    frame = session.spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 2).load()
    frame = frame.selectExpr("timestamp AS ts", "CAST(value % 1000 AS INT) AS k", "CAST(value % 97 AS INT) AS v")
    session.create_stream("packets", frame, timestamp="ts", keep="30 sec")
    for i, keys in enumerate(("k", "v", "k, v")):
        text = f"SELECT {keys}, SUM(v) AS t, COUNT(*) AS n FROM packets [WINDOW 10 sec SLIDE 1 sec] GROUP BY {keys}"
        session.register(text, name=f"q{i}")
    # An archive of something else: that of a stream is part of the stream's own work.
    session.create_stream("old", _rows(session, ARCHIVED, MINUTES, 1_000), timestamp="ts")
    session.sql(
        "CREATE ARCHIVE log FROM old KEY k LIFETIME UP TO 1 hour UPDATE EVERY 5 min PARTITION 4 x 4 "
        f"IN '{directory / 'archive'}'"
    )
    # Its time moves when somebody says so, because everything in it may be late.
    wide = _rows(session, WIDE, LONG, GROUPS)
    wide.write.parquet(str(directory / "wide"))
    source = session.spark.readStream.schema(wide.schema).parquet(str(directory / "wide"))
    session.create_stream("wide", source, timestamp="ts", delay="1 day", granule="1 min")
    session.sql(
        "REGISTER QUERY large AS SELECT k, SUM(v) AS t FROM wide [WINDOW 10 min SLIDE 1 min] "
        "GROUP BY k HAVING SUM(v) < 0 STORED IN CLUSTER"
    )


def _rows(session: sash.Session, rows: int, minutes: int, groups: int) -> DataFrame:
    apart = minutes * 60_000_000 // rows
    time, key = f"timestamp_micros({BEGIN} + id * {apart}) AS ts", f"CAST(id % {groups} AS INT) AS k"
    return session.spark.range(rows).selectExpr(time, key, "id AS v")


def times(session: sash.Session, seconds: float) -> list[float]:
    """What micro-batches took: seconds of work in Spark and in Sash of each."""
    found: list[float] = []
    statistics_of = session.stats()["streams"]["packets"]
    known, spent = statistics_of["micro_batches"], _work(statistics_of)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
        now = session.stats()["streams"]["packets"]
        if now["micro_batches"] > known:
            found.append((_work(now) - spent) / (now["micro_batches"] - known))
            known, spent = now["micro_batches"], _work(now)
    return found


def _work(stats: dict[str, float]) -> float:
    return stats["seconds_in_spark"] + stats["seconds_in_sash"]


def ask(session: sash.Session, number: int) -> None:
    session.query(QUESTION)


def rewrite(session: sash.Session, number: int) -> None:
    session.sql(f"ALTER ARCHIVE log PARTITION {(2, 4)[number % 2]} x 4")


def neighbours() -> dict[str, Work]:
    """The neighbours' work, in a session that has just begun."""
    minute = itertools.count(1)

    def execute(session: sash.Session, number: int) -> None:
        session.advance("wide", BEGIN + next(minute) * 60_000_000)

    return {"questions": ask, "archive": rewrite, "panes": execute}


def beside(session: sash.Session, seconds: float, work: Work) -> Took:
    """What micro-batches took while a thread did some work over and over, and what that took each time."""
    done, took = threading.Event(), list[float]()

    def loop() -> None:
        while not done.is_set():
            begun = time.perf_counter()
            work(session, len(took))
            took.append(time.perf_counter() - begun)

    thread = threading.Thread(target=loop)
    thread.start()
    found = times(session, seconds)
    done.set()
    thread.join()
    return found, took


def block(scheduler: str, seconds: float, rate: int) -> dict[str, Took]:
    """One session: alone, and beside each of the neighbours."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        spark_with(scheduler) as spark,
        sash.connect(spark=spark, keep_answers=2) as session,
    ):
        declare(session, rate, Path(scratch))
        work = neighbours()
        session.start(trigger=f"{TRIGGER:g} seconds")
        # Until the stored window is full and everything has been done once.
        times(session, 25)
        while not session.queries["q0"].answered or session.stats()["streams"]["wide"]["tuples"] < WIDE:
            times(session, 1)
        for each in work.values():
            each(session, 0)
            each(session, 1)
        found = {"alone": (times(session, seconds), list[float]())}
        found |= {name: beside(session, seconds, each) for name, each in work.items()}
        session.stop()
    return found


def own(level: str, seconds: float, rate: int) -> tuple[list[float], dict[str, float]]:
    """What micro-batches take whose own executions are in the cluster, how often a query is answered, and how late.

    Each micro-batch brings tuples of new groups: the window has ten times the rate.
    """
    with spark_with("FAIR") as spark, sash.connect(spark=spark, isolation=level, keep_answers=2) as session:
        frame = spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 2).load()
        frame = frame.selectExpr("timestamp AS ts", f"CAST(value % {10 * rate} AS INT) AS k", "value AS v")
        session.create_stream("packets", frame, timestamp="ts")
        text = "SELECT k, SUM(v) AS t FROM packets [WINDOW 10 sec SLIDE 1 sec] GROUP BY k HAVING SUM(v) < 0"
        query = session.register(text, name="large", synopsis="cluster")
        session.start(trigger=f"{TRIGGER:g} seconds")
        times(session, 15)
        before = query.answered
        found = times(session, seconds)
        told = {
            "answers": query.answered - before,
            "lateness": session.stats()["queries"]["large"]["lateness"],
            "beside_slides": session.stats()["beside_slides"],
        }
        session.stop()
    return found, told


def compare_own(seconds: float, rate: int) -> dict[str, dict[str, float]]:
    batches, counts = defaultdict[str, list[float]](list), defaultdict[str, list[dict[str, float]]](list)
    for level in ("serial", "ttu", "ttu", "serial"):
        took, told = own(level, seconds, rate)
        batches[level] += took
        counts[level].append(told)
        print(f"{level}: done", file=sys.stderr, flush=True)
    return {
        level: {**summary(batches[level]), **{name: statistics.fmean(each[name] for each in told) for name in told[0]}}
        for level, told in counts.items()
    }


def summary(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "longest": max(values), "number": len(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="of each case in each session (default %(default)s)")
    parser.add_argument("--rate", type=int, default=20_000, help="tuples per second (default %(default)s)")
    parser.add_argument("--own", action="store_true", help="a stream whose own panes are in the cluster")
    given = parser.parse_args()
    if given.own:
        print(json.dumps(compare_own(given.seconds, given.rate)))
        return
    batches: dict[str, dict[str, list[float]]] = {POOLS: defaultdict(list), NONE: defaultdict(list)}
    beside_them: dict[str, dict[str, list[float]]] = {POOLS: defaultdict(list), NONE: defaultdict(list)}
    # The archive is small for a benchmark's sake; Spark rewrites it as it would a large one.
    with mock.patch.object(archive_feed, "SPARK_FROM_BYTES", 0):
        for name, scheduler in ((POOLS, "FAIR"), (NONE, "FIFO"), (NONE, "FIFO"), (POOLS, "FAIR")):
            for case, (took, work) in block(scheduler, given.seconds, given.rate).items():
                batches[name][case] += took
                beside_them[name][case] += work
            print(f"{name}: done", file=sys.stderr, flush=True)
    found = {
        name: {
            "micro_batches": {case: summary(values) for case, values in batches[name].items()},
            "neighbours": {case: summary(values) for case, values in beside_them[name].items() if values},
            "ratio": {
                case: statistics.median(batches[name][case]) / statistics.median(batches[name]["alone"])
                for case in beside_them[name]
                if beside_them[name][case]
            },
        }
        for name in (POOLS, NONE)
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
