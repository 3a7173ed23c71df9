"""A join in which one value has a part of all tuples, on Spark's executors: its bucket divided among tasks, and not.

    python -m benchmarks.run_skew                     parts 0, 0.5 and 0.9, a few minutes
    python -m benchmarks.run_skew --quick             small micro-batches, nothing written
    python -m benchmarks.run_skew --queries groups    one query alone

    pairs     every pair of tuples with equal values is a result, and comes to the Sash process
    few       of a thousand pairs one is a result: what is found on the executors mostly stays there
    slide     the results of `few` at the multiples of SLIDE
    groups    COUNT and MAX over all pairs, in a thousand groups: put together where the pairs are found

One stream has the tuples of both sides. The windows are one second, in which --window tuples of each side come. Besides
the hot value there are 10,000, equally frequent. With a part p, a micro-batch has about p * p * tuples * window pairs
of the hot value. Queries with SLIDE have a twentieth of the tuples in a micro-batch and twenty times as many in a
window: as many pairs, and few multiples. Every cell runs in a process of its own. The time is the median per
micro-batch, without the first three: the first gives the counts by which buckets are divided. The results of both ways
must be the same. Goes to benchmarks/out/skew.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

OUT = Path(__file__).parent / "out"
START_US, SECOND_US = 1_700_000_000_000_000, 1_000_000
PARTS = (0.0, 0.5, 0.9)
VALUES, WARM_UP = 10_000, 3
NEVER = 2**62
WAYS = {"whole": NEVER, "divided": 100_000}


@dataclass(frozen=True)
class Query:
    """`denser`: so many times fewer tuples in a micro-batch, and more in a window."""

    select: str = "s.k, s.v, t.v AS w"
    end: str = ""
    slide: str = ""
    denser: int = 1

    @property
    def text(self) -> str:
        window = f"[RANGE 1 sec{self.slide}]"
        return f"SELECT {self.select} FROM both {window} s, both {window} t WHERE s.k = t.k{SIDES}{self.end}"


SIDES = " AND s.side = 0 AND t.side = 1"
FEW, SLIDE = " AND s.v + t.v < 45", " SLIDE 1 sec"
QUERIES = {
    "pairs": Query(),
    "few": Query(end=FEW),
    "slide": Query(end=FEW, slide=SLIDE, denser=20),
    "groups": Query("s.v AS k, COUNT(*) AS v, MAX(t.v) AS w", " GROUP BY s.v", SLIDE, 20),
}


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

    counted, ends = {"rows": 0, "sum": 0}, dict[int, float]()
    share_results, firsts = WAYS[way], _first_times(Path(data))
    with (
        tempfile.TemporaryDirectory() as scratch,
        sash.connect(
            checkpoint=f"{scratch}/checkpoint", policy="conservative", executor_rows=0, share_results=share_results
        ) as session,
    ):
        options = f"OPTIONS (path '{data}', maxFilesPerTrigger '1')"
        session.sql(f"CREATE STREAM both (ts TIMESTAMP, side INT, k INT, v INT) FROM parquet {options} TIMESTAMP ts")

        def take(answer: sash.Answer) -> None:
            counted["rows"] += answer.table.num_rows
            counted["sum"] += sum(pc.sum(answer.table[name]).as_py() or 0 for name in ("k", "v", "w"))
            # A micro-batch may have many answers: its last one counts.
            micros = round(answer.as_of.timestamp() * SECOND_US)
            ends[int(np.searchsorted(firsts, micros, side="right"))] = time.perf_counter()

        begin = time.perf_counter()
        session.register(QUERIES[query].text, name="results").subscribe(take)
        session.run()
        cores = session.spark.sparkContext.defaultParallelism
    return {"batches": np.diff([begin, *ends.values()]).tolist(), "cores": cores, **counted}


def _first_times(data: Path) -> list[int]:
    """When the micro-batches begin, in event time."""
    columns = (pq.read_table(path, columns=["ts"])["ts"] for path in sorted(data.iterdir()))
    return [column[0].cast(pa.int64()).as_py() for column in columns]


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
    return found


def table(cells: list[dict[str, Any]]) -> None:
    shown = Table(title="seconds per micro-batch")
    for column in ("query", "part", *WAYS, "times as fast", "results"):
        shown.add_column(column, justify="left" if column == "query" else "right")
    for query, part in dict.fromkeys((cell["query"], cell["part"]) for cell in cells):
        mine = {cell["way"]: cell for cell in cells if (cell["query"], cell["part"]) == (query, part)}
        whole, divided = (mine[way]["seconds"] for way in WAYS)
        ratio, rows = f"{whole / divided:.2f}", f"{mine['whole']['rows']:,}"
        shown.add_row(query, str(part), f"{whole:.2f}", f"{divided:.2f}", ratio, rows)
    Console(stderr=True, width=100).print(shown)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=400_000, help="per micro-batch (default %(default)s)")
    parser.add_argument("--batches", type=int, default=10, help="micro-batches (default %(default)s)")
    parser.add_argument("--window", type=int, default=20, help="tuples of a side in its window (default %(default)s)")
    parser.add_argument("--parts", nargs="+", type=float, default=list(PARTS), help="of the hot value")
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--quick", action="store_true", help="small micro-batches, nothing written")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(*given.run)))
        return
    tuples, batches = (40_000, 5) if given.quick else (given.tuples, given.batches)
    found = []
    for part in given.parts:
        for query in given.queries:
            denser = QUERIES[query].denser
            with tempfile.TemporaryDirectory() as data:
                generate(Path(data), part, tuples // denser, batches, 2 * given.window * denser)
                found += compared(query, part, data)
    results = {"tuples": tuples, "batches": batches, "window": given.window, "cells": found}
    if not given.quick:
        OUT.mkdir(exist_ok=True)
        (OUT / "skew.json").write_text(json.dumps(results, indent=1))
    table(found)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
