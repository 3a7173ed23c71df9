"""Continuous queries against Spark's own operators on streams, in one run, with equal results.

    python -m benchmarks.run_continuous --data DIR            DIR as `gen_data.py 12000000 20000 120 DIR` makes it
    python -m benchmarks.run_continuous --data DIR --tasks join --engines sash spark-memory
    python -m benchmarks.run_continuous --data DIR --tasks join --engines one-executor two-executors

    join       two sub-streams of packets (dst < 100, dst >= 900) within two seconds of each other, on src;
               Spark: a stream-stream join
    three      the same with a third sub-stream (dst in 500..509), all three within two seconds of each other;
               Spark: two stream-stream joins, one after the other
    distinct   pairs of source and destination; Spark: dropDuplicatesWithinWatermark. The window is longer than the
               data, so that no pair comes twice and both mean the same

Every engine reads the same files, four per micro-batch, in the same kind of Spark session (with Sash's settings, its
checkpoint file manager among them), with a checkpoint. Sash brings the result rows to its process and adds them up
there; Spark adds them up on its executors. Each runs in a process of its own; start-up of Spark is not counted, that of
the query is. The numbers of rows and the sums of their columns must be the same. `sash-auto` processes each micro-batch
where that takes less time (spark/placement.py). `one-executor` and `two-executors` are Sash on a small cluster of this
machine, an executor a core; `jobs` is the time of Spark's jobs for a micro-batch, the median of the second half.

Writes benchmarks/out/continuous.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

OUT = Path(__file__).parent / "out"
FILES = 4
LEFT, RIGHT, MIDDLE = "dst < 100", "dst >= 900", "dst BETWEEN 500 AND 509"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
COLUMNS = "ts TIMESTAMP, src INT, dst INT"
QUERIES = {
    "join": "SELECT l.src AS src, l.dst AS ldst, r.dst AS rdst FROM packets [RANGE 2 sec] l, packets [RANGE 2 sec] r "
    f"WHERE l.src = r.src AND l.{LEFT} AND r.{RIGHT}",
    "three": "SELECT l.src AS src, l.dst AS ldst, r.dst AS rdst, m.dst AS mdst FROM packets [RANGE 2 sec] l, "
    "packets [RANGE 2 sec] r, packets [RANGE 2 sec] m WHERE l.src = r.src AND r.src = m.src "
    f"AND l.{LEFT} AND r.{RIGHT} AND m.{MIDDLE}",
    "distinct": "SELECT DISTINCT src, dst FROM packets [RANGE 1 hour]",
}


def sash(executor_rows: int | None, executors: int, task: str, data: str) -> dict[str, Any]:
    """With a number of executors on a cluster of this machine, else on the cores of its own process."""
    import pyarrow.compute as pc

    import sash

    counted = {"rows": 0, "sum": 0}
    spark = cluster(executors) if executors else None
    with tempfile.TemporaryDirectory() as scratch:
        session = sash.connect(spark=spark, checkpoint=f"{scratch}/checkpoint", executor_rows=executor_rows)
        options = f"OPTIONS (path '{data}', maxFilesPerTrigger '{FILES}')"
        session.sql(f"CREATE STREAM packets ({COLUMNS}) FROM parquet {options} TIMESTAMP ts")

        def take(answer: sash.Answer) -> None:
            names = [name for name in answer.table.schema.names if not name.startswith("_")]
            counted["rows"] += answer.table.num_rows
            counted["sum"] += sum(pc.sum(answer.table[name]).as_py() or 0 for name in names)

        begun = time.perf_counter()
        session.register(QUERIES[task], name="results").subscribe(take)
        session.run()
        seconds = time.perf_counter() - begun
        jobs = job_seconds(spark) if spark is not None else {}
        session.close()
    if spark is not None:
        spark.stop()
    return {"seconds": seconds, **jobs, **counted}


def cluster(executors: int) -> Any:
    from pyspark.sql import SparkSession

    from sash.spark.spark_session import SETTINGS

    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = os.pathsep.join(path for path in sys.path if path)
    places = {"spark.executorEnv.PYTHONPATH": paths, "spark.sql.shuffle.partitions": "2"}
    builder = SparkSession.builder.master(f"local-cluster[{executors},1,2048]").config("spark.driver.memory", "2g")
    for name, value in {**SETTINGS, **places}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def job_seconds(session: Any) -> dict[str, float]:
    """What the jobs of a micro-batch take, the median of the second half of the micro-batches."""
    found = session.sparkContext._jsc.sc().statusStore().jobsList(None)
    taken: dict[str, float] = defaultdict(float)
    for job in (found.apply(place) for place in range(found.size())):
        times = job.submissionTime(), job.completionTime()
        if job.description().isDefined() and all(time.isDefined() for time in times):
            name = job.description().get().partition("batch = ")[2].split()
            taken[name[0] if name else ""] += (times[1].get().getTime() - times[0].get().getTime()) / 1_000
    batches = [taken[name] for name in sorted((name for name in taken if name.isdigit()), key=int)]
    return {"jobs": median(batches[len(batches) // 2 :])}


def spark(provider: str | None, task: str, data: str) -> dict[str, Any]:
    """Spark's operator over the same files; the state store is the default one, in memory, or RocksDB."""
    from sash.spark.spark_session import acquire_own_session

    session = acquire_own_session()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    if provider is not None:
        session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    results = {"join": joined, "three": joined_twice, "distinct": distinct}[task](session, data)
    counted = {"rows": 0, "sum": 0}

    def take(batch: Any, _: int) -> None:
        sums = " + ".join(f"sum({name})" for name in results.columns)
        found = batch.selectExpr("count(1)", f"coalesce({sums}, 0)").collect()[0]
        counted["rows"] += found[0]
        counted["sum"] += found[1]

    with tempfile.TemporaryDirectory() as scratch:
        begun = time.perf_counter()
        writer = results.writeStream.foreachBatch(take).option("checkpointLocation", f"{scratch}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        seconds = time.perf_counter() - begun
    session.stop()
    return {"seconds": seconds, **counted}


def packets(session: Any, data: str) -> Any:
    return session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", str(FILES)).parquet(data)


def side(session: Any, data: str, name: str, condition: str) -> Any:
    columns = [f"ts AS {name}ts", f"src AS {name}src", f"dst AS {name}dst"]
    frame = packets(session, data).where(condition).selectExpr(*columns)
    return frame.withWatermark(f"{name}ts", "0 seconds")


def pairs(session: Any, data: str) -> Any:
    from pyspark.sql.functions import expr

    near = "lsrc = rsrc AND lts > rts - INTERVAL 2 SECONDS AND lts < rts + INTERVAL 2 SECONDS"
    return side(session, data, "l", LEFT).join(side(session, data, "r", RIGHT), expr(near))


def joined(session: Any, data: str) -> Any:
    return pairs(session, data).selectExpr("lsrc AS src", "ldst", "rdst")


def joined_twice(session: Any, data: str) -> Any:
    """Spark allows one event time per stream: of the pairs it is the left one's, the right one's is a number."""
    from pyspark.sql.functions import expr

    first = pairs(session, data).selectExpr("lts", "lsrc", "ldst", "rdst", "unix_micros(rts) AS rt")
    near = "lsrc = msrc AND lts > mts - INTERVAL 2 SECONDS AND lts < mts + INTERVAL 2 SECONDS"
    both = expr(f"{near} AND abs(rt - unix_micros(mts)) < 2000000")
    return first.join(side(session, data, "m", MIDDLE), both).selectExpr("lsrc AS src", "ldst", "rdst", "mdst")


def distinct(session: Any, data: str) -> Any:
    late = packets(session, data).withWatermark("ts", "1 hour")
    return late.dropDuplicatesWithinWatermark(["src", "dst"]).select("src", "dst")


Engine = Callable[[str, str], dict[str, Any]]
ENGINES: dict[str, Engine] = {
    "sash": partial(sash, 500_000, 0),
    "sash-executors": partial(sash, 0, 0),
    "sash-auto": partial(sash, None, 0),
    "one-executor": partial(sash, 0, 1),
    "two-executors": partial(sash, 0, 2),
    "spark-memory": partial(spark, None),
    "spark-rocksdb": partial(spark, ROCKSDB),
}
COMPARED = ("sash", "sash-executors", "spark-memory", "spark-rocksdb")


def measured(task: str, engine: str, data: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.run_continuous", "--data", data, "--run", task, engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{engine} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{task}, {engine}: {found['seconds']:.1f} s, {found['rows']:,} rows", file=sys.stderr, flush=True)
    return {"task": task, "engine": engine, **found}


def compared(task: str, engines: list[str], data: str) -> list[dict[str, Any]]:
    found = [measured(task, engine, data) for engine in engines]
    if len({(each["rows"], each["sum"]) for each in found}) > 1:
        raise SystemExit(f"the results differ: {found}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory of Parquet files")
    parser.add_argument("--tasks", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=COMPARED)
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        task, engine = given.run
        print(json.dumps(ENGINES[engine](task, given.data)))
        return
    found = [each for task in given.tasks for each in compared(task, given.engines, given.data)]
    OUT.mkdir(exist_ok=True)
    (OUT / "continuous.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
