"""A join in which one value has a part of all tuples, on Spark's executors: its bucket divided among tasks, and not.

    python -m benchmarks.run_skew                     parts 0, 0.5 and 0.9, a few minutes
    python -m benchmarks.run_skew --quick             small micro-batches, nothing written

    pairs     every pair of tuples with equal values is a result, and comes to the Sash process
    few       of a thousand pairs one is a result: what is found on the executors mostly stays there

One stream has the tuples of both sides. The windows are one second, in which --window tuples of each side come. Besides
the hot value there are 10,000, equally frequent. With a part p, a micro-batch has about p * p * tuples * window pairs
of the hot value. Every cell runs in a process of its own. The time is the median per micro-batch, without the first
three: the first gives the counts by which buckets are divided. The results of both ways must be the same. Goes to
benchmarks/out/skew.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

OUT = Path(__file__).parent / "out"
START_US, SECOND_US = 1_700_000_000_000_000, 1_000_000
PARTS = (0.0, 0.5, 0.9)
VALUES, WARM_UP = 10_000, 3
NEVER = 2**62
CONDITIONS = {"pairs": "", "few": " AND s.v + t.v < 45"}
WAYS = {"whole": NEVER, "divided": 100_000}


def generate(directory: Path, part: float, tuples: int, batches: int, rate: int) -> None:
    chance = np.random.default_rng(7)
    for batch in range(batches):
        hot = chance.random(tuples) < part
        micros = START_US + (batch * tuples + np.arange(tuples)) * SECOND_US // rate
        columns = {
            "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            "side": pa.array(chance.integers(0, 2, tuples, dtype=np.int32)),
            "k": pa.array(np.where(hot, 0, chance.integers(1, VALUES + 1, tuples)).astype(np.int32)),
            "v": pa.array(chance.integers(0, 1_000, tuples, dtype=np.int32)),
        }
        pq.write_table(pa.table(columns), directory / f"part-{batch:05d}.parquet")


def run(way: str, query: str, data: str) -> dict[str, Any]:
    """Seconds of each micro-batch, and what the results add up to."""
    import sash

    counted, ends = {"rows": 0, "sum": 0}, [0.0]
    with (
        tempfile.TemporaryDirectory() as scratch,
        sash.connect(checkpoint=f"{scratch}/checkpoint", executor_rows=0, share_results=WAYS[way]) as session,
    ):
        options = f"OPTIONS (path '{data}', maxFilesPerTrigger '1')"
        session.sql(f"CREATE STREAM both (ts TIMESTAMP, side INT, k INT, v INT) FROM parquet {options} TIMESTAMP ts")

        def take(answer: sash.Answer) -> None:
            counted["rows"] += answer.table.num_rows
            counted["sum"] += sum(pc.sum(answer.table[name]).as_py() or 0 for name in ("k", "v", "w"))
            ends.append(time.perf_counter())

        text = (
            "SELECT s.k, s.v, t.v AS w FROM both [RANGE 1 sec] s, both [RANGE 1 sec] t "
            f"WHERE s.k = t.k AND s.side = 0 AND t.side = 1{CONDITIONS[query]}"
        )
        ends[0] = time.perf_counter()
        session.register(text, name="results").subscribe(take)
        session.run()
        cores = session.spark.sparkContext.defaultParallelism
    return {"batches": np.diff(ends).tolist(), "cores": cores, **counted}


def measured(way: str, query: str, part: float, data: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.run_skew", "--run", way, query, data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{query}, {way} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    seconds = float(np.median(found["batches"][WARM_UP:]))
    say(f"{query}, part {part}, {way}: {seconds:.2f} s per micro-batch, {found['rows']:,} results")
    return {"query": query, "part": part, "way": way, "seconds": seconds, **found}


def compared(query: str, part: float, data: str) -> list[dict[str, Any]]:
    found = [measured(way, query, part, data) for way in WAYS]
    if len({(each["rows"], each["sum"]) for each in found}) > 1:
        raise SystemExit(f"the results differ: {found}")
    say(f"{query}, part {part}: {found[0]['seconds'] / found[1]['seconds']:.2f} times as fast divided")
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=400_000, help="per micro-batch (default %(default)s)")
    parser.add_argument("--batches", type=int, default=10, help="micro-batches (default %(default)s)")
    parser.add_argument("--window", type=int, default=20, help="tuples of a side in its window (default %(default)s)")
    parser.add_argument("--parts", nargs="+", type=float, default=list(PARTS), help="of the hot value")
    parser.add_argument("--queries", nargs="+", choices=CONDITIONS, default=list(CONDITIONS))
    parser.add_argument("--quick", action="store_true", help="small micro-batches, nothing written")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(*given.run)))
        return
    tuples, batches = (40_000, 5) if given.quick else (given.tuples, given.batches)
    found = []
    for part in given.parts:
        with tempfile.TemporaryDirectory() as data:
            generate(Path(data), part, tuples, batches, 2 * given.window)
            for query in given.queries:
                found += compared(query, part, data)
    results = {"tuples": tuples, "batches": batches, "window": given.window, "cells": found}
    if not given.quick:
        OUT.mkdir(exist_ok=True)
        (OUT / "skew.json").write_text(json.dumps(results, indent=1))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
