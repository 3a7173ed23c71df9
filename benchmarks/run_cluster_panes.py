"""Panes in the cluster: many groups, and how much of them the Sash process has to hold.

    python -m benchmarks.run_cluster_panes                    20 million groups in the cluster
    python -m benchmarks.run_cluster_panes --compare 2        2 million, in the cluster and in this process
    python -m benchmarks.run_cluster_panes --fit              prices of executions in the cluster, for the scheduler

Files of packets whose sources are all different within a micro-batch: --groups million of them in the windows. Two
queries of 40 and 20 seconds, sums and counts by source, answer with their heaviest thousand and with those above a
bound. Each way is measured by a process of its own; its memory is looked at ten times a second. Prints a line of JSON
for each way: groups, tuples per second, seconds of the executions, the greatest memory of the Sash process and of the
JVM. Goes to benchmarks/out/cluster_panes.json. Fails if the Sash process had more than a gigabyte with its panes in the
cluster.

--fit measures executions of 1 to 24 queries over windows of 1 to 6 panes with 1,000 to 400,000 groups, and prints what
the scheduler's model needs (sharing/choose.py), by least squares of relative errors: nanoseconds of an execution, of a
value of panes, of a value of an answer. (What an answer costs besides its values is lost in the noise of a job.)
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import sash

OUT = Path(__file__).parent / "out"
START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
# Of the Sash process, with its panes in the cluster.
MOST_MEGABYTES = 1_000
MILLION = 1_000_000
# Seconds of a file, and so of a pane and of a micro-batch.
STEP = 10
PANES = 4
FILES = 6
MEMORY_EVERY = 0.1
SELECT = "SELECT src, SUM(length) AS bytes, COUNT(*) AS packets FROM packets"


def write(directory: Path, groups: int) -> int:
    """Files whose sources are spread over all groups; how many tuples. The windows of PANES files see every group."""
    directory.mkdir()
    each, chance = groups // PANES, np.random.default_rng(5)
    for number in range(FILES):
        # A quarter of the groups in order, each once: four files in a row have them all.
        sources = (np.arange(each, dtype=np.int64) * PANES + number % PANES) * 7_919 % (groups * 8)
        stamps = START_US + number * STEP * SECOND_US + 1 + np.arange(each) * (STEP * SECOND_US - 2) // each
        columns = {
            "ts": pa.array(stamps, pa.timestamp("us", "UTC")),
            "src": pa.array(sources),
            "length": pa.array(chance.integers(40, 1_500, each, dtype=np.int32)),
        }
        path = directory / f"part-{number:03d}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=MILLION)
        os.utime(path, (1_600_000_000 + number,) * 2)
    return each * FILES


def declare(session: sash.Session, data: Path) -> None:
    options = f"OPTIONS (path '{data}', maxFilesPerTrigger '1')"
    session.sql(
        f"CREATE STREAM packets (ts TIMESTAMP, src BIGINT, length INT) FROM parquet {options} "
        f"TIMESTAMP ts GRANULE {STEP} sec"
    )


def measure(groups: int, where: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        tuples = write(data, groups)
        peak, ended = _watched()
        with sash.connect(checkpoint=f"{scratch}/c", keep_answers=2, max_groups=10**9, cluster_groups=10**9) as session:
            declare(session, data)
            stored = "STORED IN CLUSTER" if where == "cluster" else ""
            session.sql(
                f"REGISTER QUERY heaviest AS {SELECT} [WINDOW 40 sec SLIDE 10 sec] GROUP BY src "
                f"ORDER BY bytes DESC LIMIT 1000 {stored}"
            )
            session.sql(
                f"REGISTER QUERY heavy AS {SELECT} [WINDOW 20 sec SLIDE 10 sec] GROUP BY src "
                f"HAVING SUM(length) > 1495 {stored}"
            )
            begun = time.perf_counter()
            session.run()
            seconds = time.perf_counter() - begun
            answers = [session.queries[name].answers()[-1] for name in ("heaviest", "heavy")]
            stats = session.stats()["streams"]["packets"]
        ended.set()
    return {
        "where": where,
        "groups": groups,
        "tuples": tuples,
        "seconds": seconds,
        "tuples_per_s": tuples / seconds,
        "seconds_in_spark": stats["seconds_in_spark"],
        "seconds_in_sash": stats["seconds_in_sash"],
        "rows_of_answers": [answer.table.num_rows for answer in answers],
        "memory": {name: value / 2**20 for name, value in peak.items()},
    }


# Groups and queries; the windows have 1 to 6 panes.
FITTED = [(groups, queries) for groups in (1_000, 100_000, 400_000) for queries in (1, 6, 24)]
LONGEST = 6


def fit() -> dict[str, float]:
    """The prices of executions in the cluster, in nanoseconds, by least squares of relative errors."""
    rows, seconds = [], []
    for groups, queries in FITTED:
        panes = min(queries, LONGEST)
        # Read: rows, sums and how many values each has. Told: a sum and a count. The first pane is not combined.
        rows.append([1.0, (panes - 1) * groups * 3, queries * groups * 2])
        seconds.append(statistics.median(executions(groups, queries)))
        print(json.dumps({"groups": groups, "queries": queries, "panes": panes, "seconds": seconds[-1]}), flush=True)
    weighed = np.array(rows) / np.array(seconds)[:, None]
    found = np.linalg.lstsq(weighed, np.ones(len(rows)))[0] * 1e9
    return dict(zip(("execution", "read", "lowered"), found.round(1).tolist(), strict=True))


def executions(groups: int, queries: int) -> list[float]:
    """The seconds of joint executions, without the first ones."""
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        write(data, groups * PANES)
        with sash.connect(keep_answers=2, max_groups=10**9, cluster_groups=10**9) as session:
            declare(session, data)
            for number in range(queries):
                window = STEP * (1 + number % LONGEST)
                session.sql(
                    f"REGISTER QUERY q{number} AS {SELECT} [WINDOW {window} sec SLIDE {STEP} sec] GROUP BY src "
                    f"HAVING SUM(length) > {1_400 + number} STORED IN CLUSTER"
                )
            session.run()
            return [each["seconds"] for each in session.schedule()["executed"]][2:]


def _watched() -> tuple[dict[str, int], threading.Event]:
    """The greatest memory so far of this process, of the JVM and of Spark's Python workers together."""
    own, peak, ended = psutil.Process(), {"sash": 0, "jvm": 0, "workers": 0}, threading.Event()

    def watch() -> None:
        while not ended.wait(MEMORY_EVERY):
            found = {"sash": own.memory_info().rss, "jvm": 0, "workers": 0}
            for child in own.children(recursive=True):
                try:
                    found["jvm" if "java" in child.name() else "workers"] += child.memory_info().rss
                except psutil.Error:
                    continue
            for name, value in found.items():
                peak[name] = max(peak[name], value)

    threading.Thread(target=watch, daemon=True).start()
    return peak, ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=float, default=20, help="millions of groups (default %(default)s)")
    parser.add_argument("--compare", type=float, default=0, help="millions of groups to measure both ways with")
    parser.add_argument("--fit", action="store_true", help="measure the prices of executions in the cluster")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(int(given.one[0]), given.one[1])))
        return
    if given.fit:
        print(json.dumps(fit()))
        return
    cells = [(round(given.compare * MILLION), where) for where in ("process", "cluster")] if given.compare else []
    cells += [(round(given.groups * MILLION), "cluster")] if given.groups else []
    found = []
    for groups, where in cells:
        command = [sys.executable, "-m", "benchmarks.run_cluster_panes", "--one", str(groups), where]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(found[-1]), flush=True)
    OUT.mkdir(exist_ok=True)
    (OUT / "cluster_panes.json").write_text(json.dumps(found, indent=1))
    if any(each["where"] == "cluster" and each["memory"]["sash"] > MOST_MEGABYTES for each in found):
        sys.exit(f"the Sash process had more than {MOST_MEGABYTES} MB")


if __name__ == "__main__":
    main()
