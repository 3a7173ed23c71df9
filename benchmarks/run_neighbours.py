"""Micro-batches with and without heavy one-time questions beside them.

    python -m benchmarks.run_neighbours               a minute and a half
    python -m benchmarks.run_neighbours --seconds 10

A live stream of packets stores its window. For --seconds it runs alone, then as long while another thread asks one
question after the other: a join of the stored window with itself, by Spark. Prints the median and the longest time of
work on a micro-batch, and the ratio of the two medians, as one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time

import sash

TRIGGER = 1.0
QUESTION = (
    "SELECT a.k, COUNT(*) AS pairs, SUM(a.v * b.v) AS products "
    "FROM packets [WINDOW 20 sec] a JOIN packets [WINDOW 20 sec] b ON a.k = b.k GROUP BY a.k"
)


def declare(session: sash.Session, rate: int) -> None:
    frame = session.spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 2).load()
    frame = frame.selectExpr("timestamp AS ts", "CAST(value % 1000 AS INT) AS k", "CAST(value % 97 AS INT) AS v")
    session.create_stream("packets", frame, timestamp="ts", keep="30 sec")
    for i, keys in enumerate(("k", "v", "k, v")):
        text = f"SELECT {keys}, SUM(v) AS t, COUNT(*) AS n FROM packets [WINDOW 10 sec SLIDE 1 sec] GROUP BY {keys}"
        session.register(text, name=f"q{i}")


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


def asking(session: sash.Session, done: threading.Event, took: list[float]) -> None:
    while not done.is_set():
        begun = time.perf_counter()
        session.query(QUESTION)
        took.append(time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30, help="of each half (default %(default)s)")
    parser.add_argument("--rate", type=int, default=20_000, help="tuples per second (default %(default)s)")
    given = parser.parse_args()
    with sash.connect(keep_answers=2) as session:
        declare(session, given.rate)
        session.start(trigger=f"{TRIGGER:g} seconds")
        # Until the stored window is full and everything has been done once.
        times(session, 25)
        while not session.queries["q0"].answered:
            times(session, 1)
        session.query(QUESTION)
        alone = times(session, given.seconds)
        done, took = threading.Event(), list[float]()
        thread = threading.Thread(target=asking, args=(session, done, took))
        thread.start()
        beside = times(session, given.seconds)
        done.set()
        thread.join()
        session.stop()
    found = {
        "alone": {"median": statistics.median(alone), "longest": max(alone), "micro_batches": len(alone)},
        "beside": {"median": statistics.median(beside), "longest": max(beside), "micro_batches": len(beside)},
        "ratio": statistics.median(beside) / statistics.median(alone),
        "questions": {"asked": len(took), "median": statistics.median(took)},
    }
    print(json.dumps(found), file=sys.stdout)


if __name__ == "__main__":
    main()
