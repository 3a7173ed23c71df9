"""Counts what a micro-batch asks of Spark: SQL executions, jobs, py4j round trips, and the rows that come back.

    with SparkWork(spark) as work:
        running.on_batch(version, rows, epoch)
    assert work.executions == 1

An execution is what Spark's own page lists under SQL: one action on a DataFrame, or one command. The stores behind that
page live without the page (`spark.ui.enabled=false`); their listeners run behind, so they are waited for. Jobs are
counted by Spark's scheduler. With adaptive execution every exchange of an execution is a job of its own.

Round trips are the commands that the counting thread sends to the JVM. Those that only let go of an object of the JVM
are left out: when they come is up to Python's garbage collector.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql.classic.dataframe import DataFrame

from sash.runtime.streams.running_stream import RunningStream


class SparkWork:
    """The calls of Spark inside of `with`: executions and jobs of all threads, the rest of the counting thread.

    `descriptions` are the executions as Spark names them; `rows` came to this process as Arrow or by `collect`.
    """

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._store = spark._jsparkSession.sharedState().statusStore()
        self._patch = pytest.MonkeyPatch()
        self._before = (0, 0)
        self._thread = 0
        self.executions = self.jobs = self.round_trips = self.rows = 0
        self.descriptions: list[str] = []

    def __enter__(self) -> SparkWork:
        self._before, self._thread = self._so_far(), threading.get_ident()
        self._patch.setattr(GatewayClient, "send_command", self._counting_commands(GatewayClient.send_command))
        # `toArrow` calls the first.
        for name in ("_collect_as_arrow", "collect"):
            self._patch.setattr(DataFrame, name, self._counting_rows(getattr(DataFrame, name)))
        return self

    def __exit__(self, *exception: object) -> None:
        self._patch.undo()
        executions, jobs = self._so_far()
        self.jobs = jobs - self._before[1]
        self.executions = executions - self._before[0]
        self.descriptions = [each.description() for each in self._newest(self.executions)]

    def _so_far(self) -> tuple[int, int]:
        """How many executions and jobs there were since Spark started."""
        self._context.listenerBus().waitUntilEmpty()
        ids = [each.executionId() for each in self._newest(1)]
        return max(ids, default=-1) + 1, self._context.dagScheduler().numTotalJobs()

    def _newest(self, number: int) -> list[Any]:
        """The store lists executions by their ids, and forgets the oldest."""
        there = self._store.executionsCount()
        found = self._store.executionsList(max(0, there - number), number)
        return [found.apply(place) for place in range(found.length())]

    def _counting_commands(self, send: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(send)
        def counting(client: GatewayClient, command: str, *rest: Any, **options: Any) -> Any:
            lets_go = command.startswith(MEMORY_COMMAND_NAME)
            self.round_trips += threading.get_ident() == self._thread and not lets_go
            return send(client, command, *rest, **options)

        return counting

    def _counting_rows(self, bring: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(bring)
        def counting(frame: DataFrame, *arguments: Any, **options: Any) -> Any:
            found = bring(frame, *arguments, **options)
            number = sum(each.num_rows if isinstance(each, pa.RecordBatch) else 1 for each in found)
            self.rows += number * (threading.get_ident() == self._thread)
            return found

        return counting


@contextmanager
def counted_batches(spark: Any) -> Iterator[list[SparkWork]]:
    """What each micro-batch of a stream asks of Spark, from the beginning of Sash's function to its end.

    Spark's own executions, of which one is around that function, are not counted. One stream at a time.
    """
    batches: list[SparkWork] = []
    take = RunningStream.on_batch

    def counting(running: RunningStream, *arguments: Any) -> None:
        with SparkWork(spark) as work:
            take(running, *arguments)
        batches.append(work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunningStream, "on_batch", counting)
        yield batches
