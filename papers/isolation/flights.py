"""The experiments of section 7.5 over panes in the cluster: a live session, with Spark.

micro-batches  ─┴────┴────┴────┴─     slides: as often as Spark takes packets in
flights          [ job ][ job ]       two groups of five queries, executed beside the slides (under serial: within)
one-time             [?]     [?]      at random times, over the same panes

The stream runs faster than time: a second of it takes `second`. An execution is the answer of one group as of one time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import sash
from papers.isolation.metrics import Execution

# Packets per second, and addresses.
RATE, ADDRESSES = 5_000, 10_000
KEYS = ("source", "destination")
GROUP = 5


class FlightRun:
    """One level over a window of `slots` panes of `t` seconds, for some seconds of the clock."""

    def __init__(self, level: str, slots: int, t: int, second: float, seconds: float, seed: int) -> None:
        self._level, self._slots, self._t, self._second, self._seconds = level, slots, t, second, seconds
        self._random = np.random.default_rng([seed, t, slots])
        # When the stream and the clock agree.
        self._zero = time.time()
        self._executions: list[Execution] = []
        self._guard = threading.Lock()
        self._begun = 0.0

    def run(self, spark: Any, with_questions: bool) -> list[Execution]:
        with sash.connect(spark=spark, isolation=self._level) as session:
            self._declare(session)
            session.start(trigger=f"{round(1_000 * self._t * self._second)} ms")
            # The first micro-batches compile their plans.
            while session.stats()["executions"] < 2 * len(KEYS):
                session.wait(0.1)
            aborted = session.stats()["beside_restarts"]
            with self._guard:
                self._executions.clear()
            self._begun = time.time()
            if with_questions:
                self._ask(session)
            else:
                session.wait(self._seconds)
            with self._guard:
                found = list(self._executions)
            aborted = session.stats()["beside_restarts"] - aborted
        return [replace(each, aborts=aborted * (not place)) for place, each in enumerate(found)]

    def _declare(self, session: sash.Session) -> None:
        frame = session.spark.readStream.format("rate").option("rowsPerSecond", RATE).option("numPartitions", 2).load()
        columns = [f"CAST(hash(value, {place}) % {ADDRESSES} AS INT) AS {key}" for place, key in enumerate(KEYS)]
        zero = round(1e6 * self._zero)
        ts = f"timestamp_micros(CAST({zero} + (unix_micros(timestamp) - {zero}) / {self._second} AS BIGINT)) AS ts"
        frame = frame.selectExpr(ts, "CAST(value % 100 AS INT) AS size", *columns)
        session.create_stream("packets", frame, timestamp="ts")
        for place, key in enumerate(KEYS):
            lengths = self._random.integers(1, self._slots, GROUP - 1).tolist()
            for number, length in enumerate([self._slots, *lengths]):
                query = session.register(
                    f"SELECT {key}, SUM(size) AS bytes FROM packets [WINDOW {length * self._t} sec "
                    f"SLIDE {self._t} sec] GROUP BY {key} ORDER BY bytes DESC LIMIT 10",
                    name=f"{key}_{number}",
                    synopsis="cluster",
                )
                if not number:
                    query.subscribe(partial(self._take, place))

    def _take(self, group: int, answer: sash.Answer) -> None:
        self._done(time.time(), self._due(answer.as_of.timestamp()), group)

    def _due(self, as_of: float) -> float:
        """When a time of the stream was due, by the clock."""
        return self._zero + (as_of - self._zero) * self._second

    def _ask(self, session: sash.Session) -> None:
        at = self._begun
        while (at := at + self._random.exponential(1.0) * self._second) < self._begun + self._seconds:
            session.wait(max(0.0, at - time.time()))
            length = int(self._random.integers(1, self._slots + 1)) * self._t
            text = f"SELECT source, SUM(size) AS bytes FROM packets [WINDOW {length} sec] GROUP BY source"
            answer = session.query(f"{text} ORDER BY bytes DESC LIMIT 10")
            self._done(at, self._due(_as_of(answer)), once=True)

    def _done(self, start: float, due: float, query: int = 0, once: bool = False) -> None:
        with self._guard:
            self._executions.append(Execution(start, time.time(), due, 0, query, once))


def _as_of(answer: pa.Table) -> float:
    return datetime.fromisoformat(answer.schema.metadata[b"as_of"].decode()).timestamp()
