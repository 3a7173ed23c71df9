"""Answers a second into sinks: many queries write to Parquet, each to its own path or all to one, and to Kafka.

    python -m benchmarks.run_sinks [--queries 100] [--seconds 400] [--json FILE]

The rate is that of a whole run, from the start of the stream to its end, with everything written. `none` is the same
run without a sink. Kafka needs its jars, which the tests fetch (tests/support/kafka.py); the broker runs beside, and
takes its part of the cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sash
from sash.core.clock import ManualClock
from sash.runtime.answers.registered_query import Query
from tests.support.kafka import JarsMissingError, broker, kafka_jars

GROUPS, PER_SECOND, SECONDS_OF_A_FILE = 10, 100, 50
START, SECOND = 1_767_225_600_000_000, 1_000_000
WriteTo = Callable[[Query], None]


def write_packets(directory: Path, seconds: int) -> None:
    """A file for each micro-batch, with every group in every second."""
    directory.mkdir()
    for number in range(seconds // SECONDS_OF_A_FILE):
        rows = np.arange(SECONDS_OF_A_FILE * PER_SECOND)
        times = START + number * SECONDS_OF_A_FILE * SECOND + rows * (SECOND // PER_SECOND)
        columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "src": rows % GROUPS, "length": rows % 1500}
        path = directory / f"{number:05d}.parquet"
        pq.write_table(pa.table(columns), path)
        # Spark takes files by their age.
        os.utime(path, (number, number))


def measured(data: Path, queries: int, write_to: WriteTo) -> dict[str, float]:
    with sash.connect(clock=ManualClock()) as session:
        session.sql(
            "CREATE STREAM p (ts TIMESTAMP, src BIGINT, length BIGINT) FROM parquet "
            f"OPTIONS (path '{data}', maxFilesPerTrigger '1') TIMESTAMP ts"
        )
        handles = []
        for number in range(queries):
            window = f"[WINDOW {10 + number} sec SLIDE 1 sec]"
            text = f"SELECT src, SUM(length) AS total, COUNT(*) AS n FROM p {window} GROUP BY src"
            handles.append(session.register(text, name=f"q{number}"))
            write_to(handles[-1])
        began = time.perf_counter()
        session.run()
        seconds = time.perf_counter() - began
        assert all(handle.error is None for handle in handles)
        assert all(sink["written"] == handle.answered for handle in handles for sink in handle.sinks())
        answers = sum(handle.answered for handle in handles)
    return {"answers": answers, "seconds": seconds, "answers_per_second": answers / seconds}


@contextlib.contextmanager
def a_broker(directory: Path) -> Iterator[str | None]:
    """Its address, for a Spark that has the connector; None where there are no jars."""
    try:
        of_broker, of_connector = kafka_jars()
    except JarsMissingError as error:
        print(f"without Kafka: {error}")
        yield None
        return
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, of_connector))} pyspark-shell"
    with broker(of_broker, directory) as address:
        yield address


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=400, help="of event time; each gives an answer of each query")
    parser.add_argument("--json", type=Path, help="write the figures into a file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, a_broker(Path(made) / "broker") as address:
        directory = Path(made)
        write_packets(directory / "packets", options.seconds)
        write_packets(directory / "few", SECONDS_OF_A_FILE)
        sinks: dict[str, WriteTo] = {
            "none": lambda query: None,
            "parquet": lambda query: query.write_to("parquet", path=str(directory / "own" / query.name)),
            "shared": lambda query: query.write_to("parquet", path=str(directory / "all"), shared="true"),
        }
        if address is not None:
            servers = {"kafka.bootstrap.servers": address}
            sinks["kafka"] = lambda query: query.write_to("kafka", topic="answers", **servers)
        found = {}
        # Warm up first: compilation is not measured.
        measured(directory / "few", options.queries, lambda query: None)
        for name, write_to in sinks.items():
            found[name] = measured(directory / "packets", options.queries, write_to)
            print(f"{name:>8} {found[name]['answers_per_second']:>9,.0f} answers/s", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
