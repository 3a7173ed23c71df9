"""What FREQUENT(10, v) keeps and brings to the Sash process, over a million different values.

    python -m papers.frequent.space [--values 1000000] [--seconds 16]

A micro-batch is a second: a quarter million tuples, a fifth of them of a hundred frequent values, the others of all
values alike. The window has six sub-windows of two seconds. The query runs alone, from short lists; and beside a TOP
over the same window, from the counts of all values. The answers must be the same. Each way runs in a process of its
own. Prints, and writes papers/out/frequent_space.json:

    pairs     the most rows of pane tables in the Sash process, after an answer
    bytes     the Arrow tables that came from Spark, all micro-batches together
    rows      the rows of these tables
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sash
from papers import OUT
from sash.spark.pipeline import Pipeline

START_US, SECOND_US = 1_700_000_000_000_000, 1_000_000
PER_SECOND, FREQUENT = 250_000, 100
WINDOW = "FROM s [WINDOW 12 sec SLIDE 2 sec]"
WAYS = {"short lists": {}, "all counts": {"top": f"SELECT TOP(10, v) {WINDOW}"}}


def write(directory: Path, values: int, seconds: int) -> None:
    chance = np.random.default_rng(6)
    for second in range(seconds):
        stamps = START_US + second * SECOND_US + np.sort(chance.integers(1, SECOND_US, PER_SECOND))
        often = chance.zipf(1.5, PER_SECOND) % FREQUENT
        drawn = np.where(chance.random(PER_SECOND) < 0.2, often, chance.integers(0, values, PER_SECOND))
        table = pa.table({"ts": pa.array(stamps, pa.timestamp("us", "UTC")), "v": pa.array(drawn)})
        pq.write_table(table, directory / f"{second:04d}.parquet")


def run(way: str, data: str) -> dict[str, Any]:
    figures: dict[str, Any] = {"pairs": 0, "bytes": 0, "rows": 0, "answers": []}
    for name in ("aggregate", "short_lists"):
        setattr(Pipeline, name, _counting(getattr(Pipeline, name), figures))
    with sash.connect() as session:
        source = f"FROM parquet OPTIONS (path '{data}', maxFilesPerTrigger '1')"
        session.sql(f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) {source} TIMESTAMP ts")

        def take(answer: sash.Answer) -> None:
            tables = session.stats()["streams"]["s"]["pane_tables"]
            figures["pairs"] = max(figures["pairs"], sum(table["rows"] for table in tables))
            figures["answers"].append(answer.table.to_pylist())

        for name, text in WAYS[way].items():
            session.register(text, name)
        session.register(f"SELECT FREQUENT(10, v) {WINDOW} WITH BOUNDS", "frequent").subscribe(take)
        session.run()
    return figures


def _counting(method: Any, figures: dict[str, Any]) -> Any:
    def counted(*given: Any) -> pa.Table:
        table = method(*given)
        figures["bytes"] += table.nbytes
        figures["rows"] += len(table)
        return table

    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=16)
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(*given.run)))
        return
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory), given.values, given.seconds)
        for way in WAYS:
            command = [sys.executable, "-m", "papers.frequent.space", "--run", way, directory]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[way] = json.loads(done.stdout.splitlines()[-1])
            print(way, {name: found[way][name] for name in ("pairs", "bytes", "rows")}, flush=True)
    answers = [figures.pop("answers") for figures in found.values()]
    if answers[0] != answers[1] or not answers[0]:
        raise AssertionError("short lists and all counts gave different answers")
    OUT.mkdir(exist_ok=True)
    (OUT / "frequent_space.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
