"""A large stored window, in memory and in the cluster: memory of the driver, and how long questions take.

    python -m benchmarks.run_stored_window                      20 million rows, several minutes
    python -m benchmarks.run_stored_window --rows 1000000

An hour of tuples (ts, src, length) comes in twenty micro-batches and is stored with KEEP 1 hour. Each place has a
process of its own. Memory is the resident set of the Python process: before the stream runs, when all is stored, and
at its greatest, questions included. Spark runs on this machine, so that the JVM is driver and executors in one, and is
left out. A question is asked three times; the least time is told. Writes benchmarks/out/stored_window.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import sash

OUT = Path(__file__).parent / "out"
PLACES = ("memory", "cluster")
FILES, HOUR, START = 20, 3_600_000_000, 1_700_000_000_000_000
SOURCES = 100_000
QUESTIONS = {
    "one source of the hour": "SELECT ts, length FROM s [WINDOW 1 hour] WHERE src = 17",
    "the last 1,000 rows": "SELECT COUNT(*) AS n FROM (SELECT ts FROM s [ROWS 1000]) x",
    "totals of a minute": "SELECT COUNT(*) AS n, SUM(length) AS t FROM s [WINDOW 1 min]",
    "totals of the hour": "SELECT COUNT(*) AS n, SUM(length) AS t FROM s [WINDOW 1 hour]",
}


def write_data(directory: Path, rows: int) -> None:
    chance = np.random.default_rng(1)
    each = rows // FILES
    for part in range(FILES):
        times = START + (part * each + np.arange(each)) * HOUR // (each * FILES)
        columns = {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "src": pa.array(chance.integers(0, SOURCES, each), pa.int32()),
            "length": pa.array(chance.integers(40, 1_500, each), pa.int32()),
        }
        path = directory / f"part-{part:03d}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_600_000_000 + part,) * 2)


def megabytes(field: str) -> int:
    """VmRSS is the resident memory now, VmHWM its maximum."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) // 1_024


def measure(data: Path, place: str) -> dict[str, Any]:
    with sash.connect() as session:
        session.sql(
            f"CREATE STREAM s (ts TIMESTAMP, src INT, length INT) FROM parquet OPTIONS (path '{data}', "
            f"maxFilesPerTrigger '1') TIMESTAMP ts KEEP 1 hour STORED IN {place.upper()}"
        )
        before, started = megabytes("VmRSS"), time.perf_counter()
        session.run()
        found: dict[str, Any] = {"place": place, "stored in s": time.perf_counter() - started}
        found |= {"MB before": before, "MB stored": megabytes("VmRSS"), "seconds": {}, "answers": {}}
        for name, text in QUESTIONS.items():
            times = []
            for _ in range(3):
                started = time.perf_counter()
                answer = session.query(text)
                times.append(time.perf_counter() - started)
            found["seconds"][name] = min(times)
            # Timestamps are long; their number tells as much.
            found["answers"][name] = answer.num_rows if answer.num_rows > 1 else answer.to_pylist()
        return found | {"MB at most": megabytes("VmHWM")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--measure", nargs=2, metavar=("DATA", "PLACE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(measure(Path(arguments.measure[0]), arguments.measure[1])))
        return
    found = []
    with tempfile.TemporaryDirectory(prefix="sash-bench-") as directory:
        write_data(Path(directory), arguments.rows)
        for place in PLACES:
            command = [sys.executable, "-m", "benchmarks.run_stored_window", "--measure", directory, place]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found.append(json.loads(told.splitlines()[-1]))
    assert found[0]["answers"] == found[1]["answers"], found
    OUT.mkdir(exist_ok=True)
    (OUT / "stored_window.json").write_text(json.dumps({"rows": arguments.rows, "places": found}, indent=1))
    show(found)


def show(found: list[dict[str, Any]]) -> None:
    table = Table("", *(each["place"] for each in found))
    for name in ("MB before", "MB stored", "MB at most"):
        table.add_row(name, *(f"{each[name]:,}" for each in found))
    table.add_row("stored in, s", *(f"{each['stored in s']:.1f}" for each in found))
    for name in QUESTIONS:
        table.add_row(f"{name}, s", *(f"{each['seconds'][name]:.2f}" for each in found))
    Console().print(table)


if __name__ == "__main__":
    main()
