"""The window join of bench/README.md: Sash against Spark's own stream-stream join, in one run, with equal results.

    python -m benchmarks.run_join --data DIR            DIR as `gen_data.py 4000000 20000 40 DIR` makes it
    python -m benchmarks.run_join --data DIR --only sash-executors spark-memory

Two sub-streams of packets (dst < 100, dst >= 900) within two seconds of each other, on src. Every engine reads the same
files, four per micro-batch, in the same kind of Spark session (with Sash's settings, its checkpoint file manager among
them), with a checkpoint. Sash brings the result rows to its process and adds them up there; Spark adds them up on its
executors. Each runs in a process of its own; start-up of Spark is not counted, that of the query is. The numbers of
rows and the sums of their columns must be the same.

Writes benchmarks/out/join.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "out"
FILES = 4
LEFT, RIGHT = "dst < 100", "dst >= 900"
QUERY = (
    "SELECT l.src AS src, l.dst AS ldst, r.dst AS rdst FROM packets [RANGE 2 sec] l, packets [RANGE 2 sec] r "
    f"WHERE l.src = r.src AND l.{LEFT} AND r.{RIGHT}"
)
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
COLUMNS = "ts TIMESTAMP, src INT, dst INT"


def sash(data: str, executor_rows: int) -> dict[str, Any]:
    import pyarrow.compute as pc

    import sash

    counted = {"rows": 0, "sum": 0}
    with tempfile.TemporaryDirectory() as scratch:
        session = sash.connect(checkpoint=f"{scratch}/checkpoint", executor_rows=executor_rows)
        assert session.spark is not None
        options = f"OPTIONS (path '{data}', maxFilesPerTrigger '{FILES}')"
        session.sql(f"CREATE STREAM packets ({COLUMNS}) FROM parquet {options} TIMESTAMP ts")

        def take(answer: sash.Answer) -> None:
            counted["rows"] += answer.table.num_rows
            counted["sum"] += sum(pc.sum(answer.table[name]).as_py() or 0 for name in ("src", "ldst", "rdst"))

        begun = time.perf_counter()
        session.register(QUERY, name="pairs").subscribe(take)
        session.run()
        seconds = time.perf_counter() - begun
        session.close()
    return {"seconds": seconds, **counted}


def spark(data: str, provider: str | None) -> dict[str, Any]:
    """Spark's stream-stream join over the same files; the state store is the default one, in memory, or RocksDB."""
    from pyspark.sql.functions import expr

    from sash.spark.session import acquire_local_session

    session = acquire_local_session()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    if provider is not None:
        session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    counted = {"rows": 0, "sum": 0}

    def side(name: str, condition: str) -> Any:
        frame = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", str(FILES)).parquet(data)
        columns = [f"ts AS {name}ts", f"src AS {name}src", f"dst AS {name}dst"]
        return frame.where(condition).selectExpr(*columns).withWatermark(f"{name}ts", "0 seconds")

    near = "lsrc = rsrc AND lts > rts - INTERVAL 2 SECONDS AND lts < rts + INTERVAL 2 SECONDS"
    joined = side("l", LEFT).join(side("r", RIGHT), expr(near)).selectExpr("lsrc AS src", "ldst", "rdst")

    def take(batch: Any, _: int) -> None:
        # The rows are handed over once, as Sash's are; adding them up is what the sink does with them.
        found = batch.selectExpr("count(1)", "coalesce(sum(src) + sum(ldst) + sum(rdst), 0)").collect()[0]
        counted["rows"] += found[0]
        counted["sum"] += found[1]

    with tempfile.TemporaryDirectory() as scratch:
        begun = time.perf_counter()
        writer = joined.writeStream.foreachBatch(take).option("checkpointLocation", f"{scratch}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        seconds = time.perf_counter() - begun
    session.stop()
    return {"seconds": seconds, **counted}


RUNS: dict[str, Callable[[str], dict[str, Any]]] = {
    "sash": lambda data: sash(data, 500_000),
    "sash-executors": lambda data: sash(data, 0),
    "spark-memory": lambda data: spark(data, None),
    "spark-rocksdb": lambda data: spark(data, ROCKSDB),
}


def measured(name: str, data: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.run_join", "--data", data, "--run", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}: {found['seconds']:.1f} s, {found['rows']:,} rows", file=sys.stderr, flush=True)
    return {"engine": name, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory of Parquet files")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), help="engines to measure")
    parser.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(RUNS[given.run](given.data)))
        return
    found = [measured(name, given.data) for name in given.only]
    if len({(each["rows"], each["sum"]) for each in found}) > 1:
        raise SystemExit(f"the results differ: {found}")
    best = next(each for each in found if each["engine"].startswith("sash"))["seconds"]
    for each in found:
        each["ratio"] = each["seconds"] / best
    OUT.mkdir(exist_ok=True)
    (OUT / "join.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
