"""A running stream: a loop over its runtimes, epoch by epoch.

    foreachBatch(rows, epoch)
      1  committed already? skip: Spark replays what it is not sure about
      2  intend: which version of the catalog this epoch sees, and when its tuples arrived
      3  Spark's one action: partials, as Arrow          (no lock held: one-time queries go on; row-based windows
         take two more: numbers for tuples, and what waits for them; a pane table in the cluster takes one); if only
         continuous plans want the rows, the action is theirs
      4  archives take the rows; then each runtime takes the micro-batch, tells its answers and commits: continuous
         plans (plan_runtime.py), and at last the panes (pane_runtime.py), whose commit is the stream's

A crash before the last commit replays the epoch: subscribers may see its answers again, state never counts it twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sash.catalog import Stream
from sash.core.clock import Clock
from sash.core.errors import SashError
from sash.core.time import SECOND, Micros
from sash.plan.nodes import Lookup
from sash.runtime.answers.registered_query import written_together
from sash.runtime.continuous.beginnings import StoredBeginning
from sash.runtime.continuous.plan_runtime import PlanRuntime
from sash.runtime.continuous.plans import StreamPlans
from sash.runtime.periodic.cluster_tables import ClusterTables
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.records.journal import NONE_JUMPED, JumpedTuples
from sash.runtime.route import Runtime
from sash.runtime.settings import Settings
from sash.runtime.spark_pass import Batch, BatchTimes, SparkPipeline
from sash.runtime.stored.archive_feed import ArchiveFeed
from sash.runtime.stored.stored_window import StoredWindow
from sash.runtime.streams.input_limit import InputLimit, InputMeter
from sash.runtime.streams.load import LiveLoad
from sash.runtime.streams.pane_runtime import PaneRuntime
from sash.spark.leaves import Leaves
from sash.spark.preparation import sampled
from sash.storage.epochs import Intent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RunningStream:
    """The runtimes of a stream: its `panes`, and the plans that read it."""

    def __init__(self, panes: PaneRuntime, clock: Clock, plans: StreamPlans | None = None) -> None:
        self.panes = panes
        self._plans = plans
        self._clock = clock
        # Live: the seconds between two micro-batches.
        self.interval: float | None = None
        # Live, where there is a `max_lag` and the source can be limited.
        self.input_limit: InputLimit | None = None
        self.load = self._new_load()
        # The archives that its rows go to.
        self.feeds: list[ArchiveFeed] = []
        # How many rows the last micro-batch of this session had.
        self._last_rows: int | None = None
        self._lock = threading.RLock()
        self.error: SashError | None = None
        # No more tuples are expected for now.
        self.has_ended = False
        self.stopping = False
        self._batch_thread: int | None = None
        # Since when no micro-batch has been in flight.
        self._rests_since = clock.now()
        # Told, on the thread of a flight, that landing it has failed.
        self.on_failure: Callable[[Exception], None] = lambda error: None
        panes.on_landing = self._land

    def _new_load(self) -> LiveLoad:
        stream = self.stream
        return LiveLoad(stream.name, self.runtime.statistics, stream.shed or 1, has_first=stream.shed_first is not None)

    @property
    def stream(self) -> Stream:
        return self.panes.stream

    @property
    def pipeline(self) -> SparkPipeline:
        return self.panes.pipeline

    @property
    def runtime(self) -> StreamRuntime:
        """The pane tables and the watermark."""
        return self.panes.panes

    @property
    def stored_window(self) -> StoredWindow | None:
        """The stored window, for one-time questions."""
        return self.panes.stored_window

    @property
    def cluster(self) -> ClusterTables:
        return self.panes.cluster

    @property
    def input(self) -> InputMeter:
        return self.panes.input

    def use(self, settings: Settings) -> None:
        """Use other settings, from the next epoch on."""
        self.panes.settings = settings

    def redeclare(self, stream: Stream, pipeline: SparkPipeline) -> None:
        """Declare the same stream with other options of its source, or another IDLE AFTER, after a restart."""
        with self._lock:
            self.panes.source.stream, self.panes.source.pipeline = stream, pipeline

    def recover(self) -> None:
        self.panes.load()
        self.load = self._new_load()

    @property
    def has_stored_rows(self) -> bool:
        """Whether a plan that comes now may begin with stored rows."""
        return self.stored_window is not None and self.runtime.latest is not None

    @property
    def is_stored(self) -> bool:
        """Whether its rows are kept, in a window or in an archive."""
        return self.stored_window is not None or bool(self.feeds)

    @property
    def keeps_one_in(self) -> int:
        """How the next micro-batch is sampled; `run()` has time for all tuples."""
        return self.load.keeps_one_in if self.is_overloaded else 1

    @property
    def is_overloaded(self) -> bool:
        """Whether a live stream is overloaded. A stream that has rested is not, even before its next micro-batch."""
        if self.interval is None or not self.load.is_over:
            return False
        is_waiting = not self.is_working and not self.stopping
        return not (is_waiting and self.load.has_rested(self._clock.now(), self.interval))

    @property
    def at_start(self) -> bool:
        """Whether no micro-batch has been taken yet, in this session or one that it continues."""
        return self.panes.epoch < 0

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """Let no micro-batch begin meanwhile; wait for the one in flight, unless called from it."""
        with self._lock:
            yield

    @property
    def is_working(self) -> bool:
        """Whether a micro-batch is in flight."""
        return self._batch_thread is not None

    @property
    def in_batch(self) -> bool:
        """Whether the calling thread works on a micro-batch: it may be in a subscriber's callback."""
        inside = self._batch_thread == threading.get_ident()
        return inside or (self._plans is not None and self._plans.is_in_turn)

    def refuse_batches(self, refuse: bool) -> None:
        """Refuse further micro-batches, or allow them again; wait for the one in flight, unless called from it.

        A refused micro-batch raises: returning would tell Spark that it was processed.
        """
        with self._lock:
            self.stopping = refuse
            self._rests_since = self._clock.now()

    # -- epochs ----------------------------------------------------------------------------------------

    def on_batch(self, version: Callable[[], int], rows: DataFrame, epoch: int) -> None:
        with self._lock:
            self.panes.check_whole()
            if self.stopping:
                raise SashError(f"stream '{self.stream.name}' is stopping")
            if epoch <= self.panes.epoch:
                return
            self._count_pause()
            with self._working(), written_together():
                self._take_batch(version(), rows, epoch)

    def _take_batch(self, current: int, rows: DataFrame, epoch: int) -> None:
        began, before, self.has_ended = self._clock.now(), self.runtime.statistics.tuples, False
        if self.interval is not None:
            self.load.begin(began, self.interval)
        started = time.perf_counter()
        version, arrival = self.panes.begin(epoch, Intent(current, self._arrival()))
        if arrival is not None:
            rows = self.pipeline.stamped(rows, arrival)
        batch = replace(self._read(version, rows, epoch), version=version, began=began, interval=self.interval)
        plans = self._plans_at(batch.version)
        if plans:
            self.open(plans)
        if self._plans is not None:
            self._last_rows = batch.number
            with self.runtime.statistics.in_spark():
                batch = self._plans.with_tuples(plans, batch)
        self.runtime.work.take_plans(batch.number, [plan.readers for plan in plans])
        with self.runtime.statistics.in_spark():
            for feed in self.feeds:
                feed.take_batch(batch.rows, self.stream, epoch, batch.number)
        # The panes come last: their commit is the stream's.
        runtimes: list[Runtime[Any, Any]] = [*plans, self.panes]
        for runtime in runtimes:
            with self.runtime.statistics.in_spark() if batch.is_far and runtime is not self.panes else nullcontext():
                batch = replace(batch, missed=max(batch.missed, runtime.take(batch)))
        if self._plans is not None and plans:
            self._plans.took(batch, time.perf_counter() - started)
        self.advance_feeds()
        if self.interval is not None:
            came, now = self.runtime.statistics.tuples - before, self._clock.now()
            self.load.take(epoch, now - began, self.interval, came, now)
            self.input.end(now - began)

    def _arrival(self) -> Micros | None:
        """The timestamp of tuples that have none of their own; time goes on, even if the clock was set back."""
        if not self.stream.implicit:
            return None
        return max(time for time in (self._clock.instant(), self.runtime.reached) if time is not None)

    def _read(self, version: int, rows: DataFrame, epoch: int) -> Batch:
        """Spark's part of a micro-batch: for the pane tables, or, without any, for continuous plans."""
        rows, jumped = self._without_jumps(rows)
        one_in = self.keeps_one_in
        only = None if self.load.sheds_all else self.stream.shed_first
        sample = rows if self.stream.shed is None else sampled(rows, one_in, epoch, only)
        tuples, scanned = self._scan_ahead(version, sample, epoch)
        passed, panes = self.panes.read(sample, epoch, scanned, one_in), self.runtime
        facts = passed.facts
        times = BatchTimes(facts.latest, facts.earliest, panes.latest, panes.watermark)
        reached = panes.next_watermark(facts)
        passed = replace(passed, jumped=jumped)
        return Batch(self.stream.name, rows, facts.rows, epoch, times, reached, tuples, passed)

    def _without_jumps(self, rows: DataFrame) -> tuple[DataFrame, JumpedTuples]:
        """The rows that are not too far ahead (MAX JUMP).

        Which rows are too far ahead depends on the rows and on earlier commits only, so a replay gives the same result.
        """
        if self.stream.max_jump is None:
            return rows, NONE_JUMPED
        with self.runtime.statistics.in_spark():
            found = self.pipeline.jumps(rows, self.runtime.reached)
        return (rows, NONE_JUMPED) if found is None else (found.without, JumpedTuples(found.tuples, found.first))

    def _scan_ahead(
        self, version: int, rows: DataFrame, epoch: int
    ) -> tuple[Mapping[Leaves, pa.Table], pa.Table | None]:
        if self._plans is None or self.runtime.groups:
            return {}, None
        with self.runtime.statistics.in_spark():
            scanned = self._plans.scan_ahead(version, rows, epoch, self._last_rows)
        return ({}, None) if scanned is None else scanned

    def _plans_at(self, version: int | None = None, *, form: bool = True) -> list[PlanRuntime]:
        return [] if self._plans is None else self._plans.at(version, form=form)

    # -- new plans -------------------------------------------------------------------------------------

    @contextmanager
    def at_rest(self) -> Iterator[bool]:
        """Whether no micro-batch is in flight; then none begins inside. Nobody waits."""
        if not self._lock.acquire(blocking=False):
            yield False
            return
        try:
            yield self._is_at_rest
        finally:
            self._lock.release()

    @property
    def _is_at_rest(self) -> bool:
        return not self.is_working and self.panes.is_between_epochs

    def open(self, plans: Iterable[PlanRuntime], least: Micros | None = None) -> None:
        """Let plans that have just come begin with the stored rows (KEEP): those up to the last micro-batch.

        If it is known, the watermark `least` is the least of their streams.
        """
        kept, panes, name = self.stored_window, self.runtime, self.stream.name
        new = [plan for plan in plans if plan.is_new_to(name)]
        if kept is None or not new or (found := kept.everything()) is None:
            return
        for plan in new:
            time = panes.watermark if len(plan.streams) == 1 else least
            stored = found.since(plan.oldest_needed(name, time))
            frame = kept.frame(self.pipeline.session, stored.rows)
            far = self._plans is not None and self._plans.are_far(kept.count(stored.rows))
            times = stored.earliest, stored.missed, panes.latest, panes.watermark
            plan.open(name, StoredBeginning(frame, far, self.panes.epoch, *times))

    @contextmanager
    def _working(self) -> Iterator[None]:
        """This thread works for the stream: a subscriber's requests must not wait for it.

        The time is Sash's, but for what is counted as Spark's inside.
        """
        before, self._batch_thread = self._batch_thread, threading.get_ident()
        counted, started = self.runtime.statistics, time.perf_counter()
        in_spark = counted.seconds_in_spark
        try:
            yield
        finally:
            self._batch_thread = before
            if before is None:
                counted.seconds_in_sash += time.perf_counter() - started - (counted.seconds_in_spark - in_spark)
                self._rests_since = self._clock.now()

    def _count_pause(self) -> None:
        """A micro-batch begins, or the input has ended. Without an interval nothing is known about waiting."""
        seconds, statistics = self._clock.now() - self._rests_since, self.runtime.statistics
        waiting = waited(seconds, self.interval, self._clock.instant()) if self.interval else 0.0
        statistics.seconds_waiting += waiting
        statistics.seconds_between += seconds - waiting

    def looked_up(self, rows: DataFrame, lookups: Iterable[Lookup]) -> DataFrame:
        """The rows, joined with the tables that queries look them up in."""
        return self.panes.passes.looked_up(rows, lookups)

    def begin(self) -> None:
        """The stream is about to run: plans over several streams wait for its tuples."""
        # A new plan must not take the stream for ended meanwhile (`open`).
        with self._lock:
            self.has_ended, self._rests_since = False, self._clock.now()
            for runtime in self._plans_at(form=False):
                runtime.begin(self.stream.name)

    def _opened_plans(self) -> list[PlanRuntime]:
        """The plans, before time moves without tuples."""
        plans = self._plans_at()
        with self._lock:
            if self._is_at_rest:
                self.open(plans)
        return plans

    def advance(self, watermark: Micros) -> None:
        """A heartbeat: no tuple with a timestamp before this is to come."""
        passed = max(time for time in (watermark, self.runtime.watermark) if time is not None)
        with written_together():
            for runtime in self._opened_plans():
                runtime.advance(self.stream.name, passed)
            with self._lock, self._working():
                self.panes.advance(self.stream.name, passed)
                self.advance_feeds()

    def punctuate(self, column: str, value: pa.Array) -> None:
        """A promise about all micro-batches that come: no tuple has this value in this column."""
        with self.between_batches(), written_together():
            for runtime in self._plans_at():
                runtime.punctuate(self.stream.name, column, value)

    def finish(self, *, is_end: bool = True) -> None:
        """End of input (or IDLE AFTER): close the open panes."""
        if self.interval is None:
            self._count_pause()
        with written_together():
            for runtime in self._opened_plans():
                runtime.finish(self.stream.name)
            with self._lock, self._working():
                self.panes.finish(self.stream.name, is_end=is_end)
                self.has_ended = True
                self.advance_feeds(ended=True)

    def _land(self) -> None:
        """On the thread of a flight that can land: land it, unless a micro-batch or a stop has done so meanwhile."""
        try:
            with self._lock:
                if not self.stopping:
                    self._land_between_batches(wait=False)
        except Exception as error:
            self.on_failure(error)

    def end_flights(self) -> None:
        """Wait for the executions beside micro-batches, and take their answers."""
        with self._lock:
            self._land_between_batches(wait=True)

    def _land_between_batches(self, wait: bool) -> None:
        with self._working(), written_together():
            self.panes.land(wait)

    def finish_if_idle(self, tuples: int) -> bool:
        """IDLE AFTER: the end of input for now, unless more tuples than these have come meanwhile."""
        with self._lock:
            idle = not self.stopping and self.runtime.statistics.tuples == tuples
            if idle:
                self.finish(is_end=False)
            return idle

    def advance_feeds(self, *, ended: bool = False) -> None:
        """Move archives forward: everything before the watermark has come, and at the end everything has."""
        latest, watermark = self.runtime.latest, self.runtime.watermark
        passed = None if watermark is None else watermark - 1
        reached = latest if ended else passed
        if reached is not None:
            for feed in self.feeds:
                feed.advance(reached)


def waited(seconds: float, interval: float, now: Micros) -> float:
    """How long of the time up to a micro-batch that begins `now` Spark has waited for its trigger.

    Spark's triggers are at the multiples of the interval.

    >>> waited(4.75, 5, 60 * SECOND), waited(12.25, 5, 60 * SECOND + SECOND // 4), waited(0.25, 5, 61 * SECOND)
    (4.75, 12.0, 0.0)
    """
    return max(0.0, seconds - now / SECOND % interval)
