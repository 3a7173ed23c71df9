"""A stream with its checkpoint, and no Spark: micro-batches are Arrow tables, passes are DuckDB's.

`Sparkless` is one process. It may die at any moment; the next one opens the same checkpoint, is told the same story
again by its program, and gets again what Spark is not sure about: every micro-batch that `on_batch` has not returned
from, and the one before.
"""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.catalog import Catalog, RegisteredQuery, Stream
from sash.core.clock import ManualClock
from sash.isolation import isolation
from sash.panes.pane_rows import BatchFacts
from sash.runtime.compiler import compile_query
from sash.runtime.periodic.stream_runtime import Progress
from sash.runtime.records.catalog_history import query_change, stream_change
from sash.runtime.records.checkpoint import Checkpoint
from sash.runtime.records.stream_queries import StreamQueries
from sash.runtime.settings import SessionSettings
from sash.runtime.spark_pass import StreamSource
from sash.runtime.streams.pane_runtime import PaneRuntime, StreamStorage
from sash.runtime.streams.running_stream import RunningStream
from sash.sharing.groups import PaneTable
from sash.spark.preparation import Interval
from tests.support.duck_pass import aggregate

# (registered queries, dropped queries, the micro-batch)
Step = tuple[dict[str, str], list[str], pa.Table]
Told = dict[tuple[str, Any], list[dict[str, Any]]]


class DuckPipeline:
    """A `SparkPass` by DuckDB. The log stores the tuples of a micro-batch; each question about them is a pass."""

    is_streaming, is_local = True, False

    def __init__(self, declared: Stream) -> None:
        self._declared = declared

    def aggregate(self, rows: pa.Table, tables: list[PaneTable]) -> pa.Table:
        return rows

    def facts(self, table: pa.Table, tables: list[PaneTable]) -> BatchFacts:
        return aggregate(self._declared, tables, table)

    def aggregate_numbered(
        self,
        rows: pa.Table | None,
        pending: pa.Table | None,
        interval: Interval,
        counted: int,
        tables: list[PaneTable],
    ) -> tuple[pa.Table | None, pa.Table | None]:
        parts = [part for part in (pending, rows) if part is not None]
        if not parts:
            return None, None
        seen = pa.concat_tables(parts)
        stamps = np.asarray(seen["_us"], dtype=np.int64)
        low = stamps.min(initial=0) if interval.low is None else interval.low
        passed = (stamps >= low) & (interval.high is None or stamps < interval.high)
        ready = seen.filter(pa.array(passed))
        order = np.argsort(stamps[passed], kind="stable")
        numbered = ready.take(pa.array(order)).append_column("_n", pa.array(np.arange(len(order)) + counted + 1))
        return numbered, None if interval.high is None else seen.filter(pa.array((stamps >= low) & ~passed))

    def numbered_facts(self, result: pa.Table | None, tables: list[PaneTable]) -> BatchFacts | None:
        return None if result is None else aggregate(self._declared, tables, result)

    def stamped(self, rows: pa.Table, arrival: int) -> pa.Table:
        stamps = pa.array([arrival] * len(rows), pa.int64())
        return rows.append_column("arrival", stamps.cast(pa.timestamp("us", "UTC"))).append_column("_us", stamps)

    def rows_to_keep(self, rows: pa.Table, time: str, oldest: int) -> pa.Table:
        names = [*self._declared.schema.names, time]
        return rows.filter(pc.greater_equal(rows["_us"], oldest)).rename_columns(names)


@dataclass
class World:
    """What outlives a process: what subscribers were told, and how far Spark has come for certain."""

    checkpoint: Path
    told: Told = field(default_factory=dict)
    done: int = -1
    clock: ManualClock = field(default_factory=ManualClock)
    kept: list[dict[str, Any]] = field(default_factory=list)

    def take(self, progress: Progress, delivered: bool) -> None:
        assert not progress.outcome.failed, progress.outcome.failed
        for answer in [] if delivered else progress.answers:
            key, rows = (answer.query, (answer.as_of, answer.rows)), sorted(answer.table.to_pylist(), key=repr)
            assert self.told.setdefault(key, rows) == rows, "a repeated answer is the same"


class Sparkless:
    """One process."""

    def __init__(self, declared: Stream, world: World) -> None:
        self._world = world
        self._checkpoint = Checkpoint(world.checkpoint)
        try:
            self._open(declared)
        except BaseException:
            self.vanish()
            raise

    def _open(self, declared: Stream) -> None:
        self._history = self._checkpoint.history
        if not self._history.streams():
            self._history.append(stream_change(declared))
        catalog = Catalog()
        catalog.add_stream(declared)
        pipeline: Any = DuckPipeline(declared)
        clock = self._world.clock
        panes = PaneRuntime(
            StreamSource(declared, pipeline), SessionSettings("conservative"), isolation("serial"),
            StreamQueries(self._history, RLock(), lambda query: True, partial(compile_query, catalog=catalog)),
            self._world, StreamStorage(self._checkpoint.log(declared)), clock,
        )  # fmt: skip
        self.running = RunningStream(panes, clock)
        self.running.recover()

    def run(self, story: list[Step], *, ends: bool = True) -> None:
        """The story, and, if it `ends`, the end after the last micro-batch."""
        for epoch, (come, go, rows) in enumerate(story):
            # The program repeats its statements; the session knows them.
            if epoch > self._world.done:
                self._register(come, go)
            if epoch >= self._world.done:
                batch: Any = rows
                self.running.on_batch(lambda: self._history.version, batch, epoch)
                self._world.done = max(epoch, self._world.done)
        if not ends:
            return
        self.running.finish()
        assert self.running.stored_window is not None
        stored = self.running.stored_window.read(None)
        self._world.kept = [] if stored is None else stored.rows.to_pylist()

    def _register(self, come: dict[str, str], go: list[str]) -> None:
        known = self._history.queries()
        for name in go:
            if name in known:
                self._history.append({"change": "drop query", "name": name})
        for name, text in come.items():
            if name not in known:
                serial = self._history.version + 1
                self._history.append(query_change(RegisteredQuery(name, text, "s", serial=serial)))

    def vanish(self) -> None:
        """The system takes back what a dead process held."""
        self._checkpoint.fence.drop()


def story_told(declared: Stream, story: list[Step], world: World, *faults: AbstractContextManager[Any]) -> World:
    """The story to its end, by one process after the other; each fault ends one of them."""
    every: list[AbstractContextManager[Any]] = [*faults, nullcontext()]
    for fault in every:
        opened: list[Sparkless] = []
        with fault:
            opened.append(Sparkless(declared, world))
            opened[0].run(story)
        for process in opened:
            process.vanish()
        if not opened:
            # One that died while it opened the checkpoint held it.
            gc.collect()
    return world
