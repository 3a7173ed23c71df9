"""A question asked once, while the stream runs at half the rate that it can sustain: medians and 99th percentiles.

    python -m benchmarks.run_questions                                    some minutes
    python -m benchmarks.run_questions --rows 100000 --asked 10           a trial

First the sustainable rate is measured: files of packets are drained, with the queries, indexes and stored window of the
live stream. Then a live stream has packets at half that rate, and stores a window of --rows rows. When the window is
full, one thread asks --asked questions of each kind by turns, each for another key, so that no answer is at hand. The
medians are meant to be 5 ms at most from panes, and 50 ms for a key or an aggregate of the stored window. The 99th
percentiles, the processor time of the asking thread, and what goes to Spark are reported.

Writes benchmarks/out/questions.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import sash
from benchmarks.engines import declare_stream, drained, shared_session
from benchmarks.packets import DDL, generate, parts

OUT = Path(__file__).parent / "out"
# The drained files: packets in each, how many files, packets in a second of event time.
BATCH, BATCHES, EVENT_RATE = 200_000, 12, 100_000
VALUES = {"src": 1_000, "dst": 1_000, "protocol": 100, "port": 100, "length": 1_500}
# Questions of panes read those of the first query.
QUERIES = [
    f"SELECT {key}, SUM(length) AS n FROM packets [WINDOW {window} sec SLIDE {slide} sec] GROUP BY {key}"
    for key in ("src", "dst", "port", "protocol")
    for window, slide in ((60, 2), (20, 1))
]


class Kind(NamedTuple):
    """A kind of question, who answers, and how many milliseconds its median may be."""

    what: str
    answers: str
    text: str
    target: float | None = None


PANES, ROWS, INDEX, SPARK = "panes", "stored rows", "an index", "Spark"
KINDS = (
    Kind(
        "a key", PANES, "SELECT src, SUM(length) AS n FROM packets [WINDOW 10 sec] GROUP BY src HAVING src = {key}", 5
    ),
    Kind("all keys", PANES, "SELECT src, SUM(length) + {key} AS n FROM packets [WINDOW 10 sec] GROUP BY src", 5),
    Kind(
        "totals of a key", ROWS, "SELECT COUNT(*) AS n, SUM(length) AS total FROM packets {keep} WHERE src = {key}", 50
    ),
    Kind("an average", ROWS, "SELECT AVG(length) + {key} AS n FROM packets {keep}", 50),
    Kind(
        "totals by key",
        ROWS,
        "SELECT dst, SUM(port) + {key} AS n, MAX(length) AS m FROM packets {keep} GROUP BY dst",
        50,
    ),
    Kind("a median", INDEX, "SELECT MEDIAN(length) + {key} AS n FROM packets {keep}", 50),
    Kind("rows of a key", SPARK, "SELECT ts, dst, length FROM packets {keep} WHERE src = {key}"),
    Kind(
        "a join",
        SPARK,
        "SELECT COUNT(*) AS n FROM packets {keep} a JOIN packets [ROWS 100] b ON a.src = b.src WHERE b.dst <> {key}",
    ),
)


def complete(session: sash.Session) -> None:
    """The indexes of the stored window."""
    session.sql("CREATE INDEX ON packets (src) USING db")
    session.sql("CREATE INDEX ON packets (length) USING tree")


def sustainable(rows: int) -> float:
    """Packets a second of a session that has nothing to wait for."""

    def declare(session: sash.Session, directory: str, files_per_batch: int) -> None:
        declare_stream(session, directory, files_per_batch, "packets", DDL, f"KEEP {max(1, rows // EVENT_RATE)} sec")
        complete(session)

    files = parts(generate(OUT / "packets-questions", BATCH * BATCHES, EVENT_RATE, BATCHES))
    for _ in ("warm-up", "measured"):
        with drained(QUERIES, files, 1, declare) as (session, seconds):
            rate = float(session.stats()["tuples"] / seconds)
    return rate


def declare_live(session: sash.Session, rate: int, keep: int) -> None:
    source = session.spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 2).load()
    columns = (f"CAST(pmod(hash(value, '{name}'), {values}) AS INT) AS {name}" for name, values in VALUES.items())
    session.create_stream("packets", source.selectExpr("timestamp AS ts", *columns), timestamp="ts", keep=f"{keep} sec")
    complete(session)
    for number, text in enumerate(QUERIES):
        session.register(text, name=f"q{number}")


def wait_until_full(session: sash.Session, rate: int, keep: int) -> int:
    """The number of stored rows, when more packets have come than the window has."""
    _wait_for(session, "tuples", rate * (keep + 5))
    # Packets are counted before they are stored.
    _wait_for(session, "micro_batches", session.stats()["streams"]["packets"]["micro_batches"] + 2)
    return int(session.query(f"SELECT COUNT(*) AS n FROM packets [WINDOW {keep} sec]")["n"][0].as_py())


def _wait_for(session: sash.Session, name: str, number: int) -> None:
    while session.stats()["streams"]["packets"][name] < number:
        session.wait(1)


def asked(session: sash.Session, keep: int, times: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of each question, by the clock and of the processor; the first round is not counted."""
    took: dict[str, list[tuple[float, float]]] = {kind.what: [] for kind in KINDS}
    for number in range(-1, times):
        for kind in KINDS:
            text = kind.text.format(key=number % VALUES["src"], keep=f"[WINDOW {keep} sec]")
            begun, taken = time.perf_counter(), time.thread_time()
            session.query(text)
            took[kind.what].append((1_000 * (time.perf_counter() - begun), 1_000 * (time.thread_time() - taken)))
    return {what: each[1:] for what, each in took.items()}


def work(session: sash.Session) -> float:
    """Seconds that micro-batches have taken."""
    stats = session.stats()["streams"]["packets"]
    return float(stats["seconds_in_spark"] + stats["seconds_in_sash"])


def measure(rows: int, rate: int, times: int) -> dict[str, Any]:
    keep = max(1, round(rows / rate))
    with sash.connect(spark=shared_session()) as session:
        declare_live(session, rate, keep)
        session.start(trigger="1 second")
        stored = wait_until_full(session, rate, keep)
        say(f"{stored:,} rows are stored; asking")
        busy, begun = work(session), time.monotonic()
        took = asked(session, keep, times)
        share = (work(session) - busy) / (time.monotonic() - begun)
        session.stop()
    return {"rate": rate, "keep_s": keep, "stored_rows": stored, "share_of_time_in_micro_batches": share, "ms": took}


def print_table(found: dict[str, Any]) -> None:
    table = Table("question", "answered by", "median", "99th percentile", "longest", "processor, median", "target")
    table.title = (
        f"milliseconds; {found['stored_rows']:,} stored rows, {found['rate']:,} packets a second, "
        f"micro-batches {found['share_of_time_in_micro_batches']:.0%} of the time"
    )
    for kind in KINDS:
        clock, processor = zip(*found["ms"][kind.what], strict=True)
        middle, high, longest = np.quantile(clock, (0.5, 0.99, 1))
        target = "" if kind.target is None else f"{kind.target:g}: {'met' if middle <= kind.target else 'missed'}"
        table.add_row(
            kind.what, kind.answers, *(f"{each:,.1f}" for each in (middle, high, longest, np.median(processor))), target
        )
    Console(width=120).print(table)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="stored rows (default 1,000,000)")
    parser.add_argument("--asked", type=int, default=100, help="questions of each kind (default 100)")
    parser.add_argument("--rate", type=int, help="packets a second (default: half the sustainable rate)")
    given = parser.parse_args(arguments)
    rate = given.rate
    if rate is None:
        limit = sustainable(given.rows)
        say(f"sustainable: {limit:,.0f} packets a second")
        rate = round(limit / 2)
    found = {"load": os.getloadavg()[0], **measure(given.rows, rate, given.asked)}
    print_table(found)
    (OUT / "questions.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
