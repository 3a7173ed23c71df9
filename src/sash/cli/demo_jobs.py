"""The demo's comparison: some of its queries as Spark jobs, one streaming query for each window.

Every job reads the packets for itself. It may answer more often than Sash, at every micro-batch, and in no order; Spark
has no ORDER BY for it. Jobs run at the same time, as they would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from sash.cli.demo_stream import DemoQuery, packets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As many jobs as two cores take without falling behind for good.
JOBS = 4
_WARM_BATCHES = 4
_LONGEST_WARM_UP = 60.0
_LEAST_SECONDS = 3.0
_LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class JobRates:
    """`batch_seconds` is the median micro-batch; `tuples_per_s` is per second of work, of all jobs together."""

    queries: int
    batch_seconds: float
    tuples_per_s: float

    @classmethod
    def of(cls, batches: Sequence[Sequence[Any]]) -> JobRates:
        """The rates from the progress of each job, as Spark reports it.

        >>> batch = {"numInputRows": 1_000, "durationMs": {"triggerExecution": 500}}
        >>> JobRates.of([[batch, batch], [batch], []])
        JobRates(queries=2, batch_seconds=0.5, tuples_per_s=4000.0)
        """
        seconds = [[batch["durationMs"]["triggerExecution"] / 1e3 for batch in job] for job in batches if job]
        tuples = [sum(batch["numInputRows"] for batch in job) for job in batches if job]
        rates = [number / sum(took) for number, took in zip(tuples, seconds, strict=True)]
        return cls(len(seconds), median([each for took in seconds for each in took] or [0.0]), sum(rates))


def run_jobs(
    spark: SparkSession, queries: Sequence[DemoQuery], rate: int, seed: int, seconds: float, stopped: Callable[[], bool]
) -> JobRates:
    """Run the first queries as jobs; count from when the JVM has compiled them."""
    packets(spark, rate, seed).withWatermark("ts", "0 seconds").createOrReplaceTempView("packets")
    jobs = []
    try:
        for query in queries[:JOBS]:
            writer = spark.sql(query.spark_text).writeStream.format("noop").outputMode("update")
            jobs.append(writer.trigger(processingTime="1 second").start())
        _wait(_LONGEST_WARM_UP, lambda: stopped() or all(len(_batches(job)) >= _WARM_BATCHES for job in jobs))
        known = [len(_batches(job)) for job in jobs]
        _wait(max(seconds, _LEAST_SECONDS), stopped)
        return JobRates.of([_batches(job)[before:] for job, before in zip(jobs, known, strict=True)])
    finally:
        for job in jobs:
            job.stop()
        spark.catalog.dropTempView("packets")


def _batches(job: Any) -> list[Any]:
    return [progress for progress in job.recentProgress if progress["numInputRows"]]


def _wait(seconds: float, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not done():
        time.sleep(_LOOK_SECONDS)
