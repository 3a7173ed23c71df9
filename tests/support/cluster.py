"""A program that runs a stream on a small cluster of its own, and kills executors while it does.

    python -m tests.support.cluster DATA CHECKPOINT OUT

Every answer is a JSON line of OUT. The last line on stdout is how many executors were killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

import sash
from sash.spark.spark_session import SETTINGS, jvm_process
from tests.support.processes import descendants

QUERIES = {
    "totals": "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k",
    "pairs": "SELECT a.v, b.v AS w FROM s [RANGE 1 sec] a, s [RANGE 1 sec] b WHERE a.k = b.k AND a.v < b.v - 90",
    "kinds": "SELECT DISTINCT k, g FROM s [RANGE 1 sec]",
}


def declare(session: sash.Session, data: str) -> None:
    session.sql(
        f"CREATE STREAM s (ts TIMESTAMP, k INT, g STRING, v INT) FROM parquet "
        f"OPTIONS (path '{data}', maxFilesPerTrigger '1') TIMESTAMP ts DELAY 1 sec"
    )


def line_of(answer: sash.Answer) -> str:
    rows = sorted(json.dumps(row, default=str) for row in answer.table.to_pylist())
    return json.dumps([answer.query, answer.as_of.isoformat(), answer.complete, rows])


def main(data: str, checkpoint: str, out: str) -> None:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.sql.shuffle.partitions", "2")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.executorEnv.PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    killed: list[int] = []

    def kill_one() -> None:
        executors = descendants(jvm_process(spark), "CoarseGrainedExecutorBackend")
        if executors:
            killed.append(executors[0])
            os.kill(executors[0], signal.SIGKILL)

    with open(out, "w") as file, sash.connect(spark=spark, checkpoint=checkpoint, executor_rows=0) as session:
        declare(session, data)
        told: list[str] = []

        def record(answer: sash.Answer) -> None:
            file.write(line_of(answer) + "\n")
            told.append(answer.query)
            if answer.query == "kinds" and told.count("kinds") == 1:
                kill_one()
            if answer.query == "kinds" and told.count("kinds") == 2:
                # Most likely in the middle of a job.
                threading.Timer(0.3, kill_one).start()

        for name, text in QUERIES.items():
            session.register(text, name=name).subscribe(record)
        session.run()
    print(len(killed))
    spark.stop()


if __name__ == "__main__":
    Path(sys.argv[3]).touch()
    main(*sys.argv[1:4])
