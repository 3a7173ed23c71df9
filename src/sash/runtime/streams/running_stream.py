"""A running stream: its Spark pipeline, its runtime, its epoch log, and the protocol of an epoch.

    foreachBatch(rows, epoch)
      1  committed already? skip: Spark replays what it is not sure about
      2  intend: which version of the catalog this epoch sees
      3  Spark's one action: partials, as Arrow          (no lock held: one-time queries go on; row-based windows
         take two more: numbers for tuples, and what waits for them; a pane table in the cluster takes one); continuous
         plans take the rows (plan_runtime.py), and if nobody else wants them, theirs is the only action
      4  slide: apply to the runtime, run what is due    (under the isolation level)
      5  hand answers to subscribers
      6  append to the log: the epoch is committed

A crash before 6 replays the epoch: subscribers may see its answers again, state never counts it twice.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.catalog import Stream
from sash.core.clock import Clock
from sash.core.errors import SashError
from sash.core.time import Micros
from sash.isolation import Isolation
from sash.panes.pane_rows import BatchFacts
from sash.plan.nodes import Lookup
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import written_together
from sash.runtime.compiler import CompiledQuery
from sash.runtime.continuous.beginnings import Seen
from sash.runtime.continuous.plan_runtime import Batch, PlanRuntime
from sash.runtime.continuous.plans import StreamPlans
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.advance import repeated
from sash.runtime.periodic.cluster_tables import ClusterDirectories, ClusterTables
from sash.runtime.periodic.jumped import without_jumps
from sash.runtime.periodic.onetime import PaneLookup, is_cut
from sash.runtime.periodic.pace import UNHURRIED, Pace, UntilNext
from sash.runtime.periodic.stream_runtime import Progress, StreamRuntime, newest_common
from sash.runtime.records.journal import (
    STREAM,
    BatchEntry,
    EndEntry,
    HeartbeatEntry,
    Journal,
    ReplayedSettings,
    StreamEntry,
    StreamSnapshot,
)
from sash.runtime.records.session_tables import Tables
from sash.runtime.records.stream_queries import StreamQueries
from sash.runtime.settings import Settings
from sash.runtime.spark_pass import SparkPipeline
from sash.runtime.stored.archive_feed import ArchiveFeed
from sash.runtime.stored.stored_window import Brought, KeptWindow, rows_of_batch
from sash.runtime.streams.input_limit import InputLimit, InputMeter
from sash.runtime.streams.load import LiveLoad, report_recovery, report_snapshot
from sash.runtime.streams.roster import Deliver, Roster
from sash.runtime.streams.stream_pass import Passed, Passes
from sash.spark.preparation import sampled
from sash.spark.sources import units_in
from sash.storage.epochs import KEEP_ALL, EpochLog
from sash.storage.window_files import WindowFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RunningStream:
    """`queries` are the stream's periodic ones at the versions of the catalog; `deliver` takes progress outward."""

    def __init__(
        self,
        stream: Stream,
        pipeline: SparkPipeline,
        settings: Settings,
        isolation: Isolation,
        queries: StreamQueries[CompiledQuery],
        deliver: Deliver,
        log: EpochLog | None,
        clock: Clock,
        plans: StreamPlans | None = None,
        tables: Tables | None = None,
        level: str = "ttu",
        files: WindowFiles | None = None,
        panes: ClusterDirectories | None = None,
    ) -> None:
        """`panes` is where the panes are that do not come to this process; None where executors would not see them."""
        self.stream = stream
        self._plans = plans
        self.pipeline = pipeline
        self._isolation = isolation
        # What the user wants; the runtime's are those of the epoch that it works on.
        self.settings = settings
        self._journal = Journal(log)
        self._clock = clock
        # Live: the seconds between two micro-batches.
        self.interval: float | None = None
        self.runtime = StreamRuntime(stream, settings, isolation.give_way, level, isolation.away)
        away = nullcontext if level == "serial" else isolation.away
        self.cluster = ClusterTables(self.runtime, lambda: self.pipeline, panes, away)
        self._roster = Roster(self.runtime, queries, deliver)
        self._passes = Passes(
            stream, lambda: self.pipeline, self.runtime, self._roster, self.cluster, tables, isolation
        )
        self.input = InputMeter()
        # Live, where there is a `max_lag` and the source can be limited.
        self.input_limit: InputLimit | None = None
        self.load = self._new_load()
        # The stored window, for one-time questions.
        self.kept: KeptWindow | None = None
        if stream.keep is not None:
            self.kept = KeptWindow(stream, level, files=files, most_rows=settings.max_rows)
        # The archives that its rows go to.
        self.feeds: list[ArchiveFeed] = []
        self._epoch = -1
        # How many rows the last micro-batch of this session had.
        self._last_rows: int | None = None
        self._lock = threading.RLock()
        self.error: SashError | None = None
        self.stopping = False
        self._broken = False
        self._batch_thread: int | None = None

    def _new_load(self) -> LiveLoad:
        return LiveLoad(self.stream.name, self.runtime.statistics, self.stream.shed or 1)

    def redeclare(self, stream: Stream, pipeline: SparkPipeline) -> None:
        """The same stream with other options of its source, or another IDLE AFTER, after a restart."""
        with self._lock:
            self.stream, self.pipeline = stream, pipeline

    @property
    def is_stored(self) -> bool:
        """Whether its rows are kept, in a window or in an archive."""
        return self.kept is not None or bool(self.feeds)

    @property
    def keeps_one_in(self) -> int:
        """How the next micro-batch is sampled; `run()` has all the time that it needs for all tuples."""
        return self.load.keeps_one_in if self.is_overloaded else 1

    @property
    def is_overloaded(self) -> bool:
        """Live. A stream that has had nothing to do for a while is not, though no micro-batch has come to say so."""
        if self.interval is None or not self.load.is_over:
            return False
        is_waiting = not self.is_working and not self.stopping
        return not (is_waiting and self.load.has_rested(self._clock.now(), self.interval))

    @property
    def at_start(self) -> bool:
        """No micro-batch has been taken yet, in this session or one that it continues."""
        return self._epoch < 0

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """No micro-batch begins meanwhile; waits for the one in flight, unless called from it."""
        with self._lock:
            yield

    @property
    def is_working(self) -> bool:
        """A micro-batch is in flight."""
        return self._batch_thread is not None

    @property
    def in_batch(self) -> bool:
        """The calling thread is the one that works on a micro-batch (a subscriber's callback, say)."""
        inside = self._batch_thread == threading.get_ident()
        return inside or (self._plans is not None and self._plans.is_in_turn)

    def refuse_batches(self, refuse: bool) -> None:
        """Let no further micro-batch begin, or let them again; waits for the one in flight, unless called from it.

        A refused micro-batch raises: returning would tell Spark that it was processed.
        """
        with self._lock:
            self.stopping = refuse

    # -- recovery --------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Load the last snapshot and apply what came after it. Answers are remembered, not delivered again."""
        if not self._journal.is_durable:
            return
        snapshot, applied = self._journal.replay(STREAM, self._load_snapshot, self._repeat)
        self._use(self.settings)
        if self.kept is not None:
            self.kept.keep_only_files()
        self.cluster.recovered()
        self._roster.report_failures(self._roster.failed, reported=True)
        if snapshot is not None or applied:
            report_recovery(self.stream.name, snapshot, applied, self._epoch)

    def _use(self, settings: Settings) -> None:
        self.runtime.use(settings)
        if self.kept is not None:
            self.kept.allow(settings.max_rows, self.runtime.latest)

    def _load_snapshot(self, snapshot: StreamSnapshot) -> None:
        self._use(snapshot.settings.over(self.settings))
        self._roster.load(snapshot.failed, snapshot.ended)
        self._roster.synchronise(snapshot.version)
        self._passes.pending = snapshot.pending
        stream_snapshot.load(self.runtime, snapshot.runtime)
        self.load = self._new_load()
        if self.kept is not None and snapshot.kept is not None:
            self.kept.load(snapshot.kept, snapshot.rows)
        self.input.load(snapshot.input)
        self._epoch = snapshot.epoch

    def _repeat(self, entry: StreamEntry) -> None:
        """What is stored and who is answered must be as it was then, whatever the user wants from now on."""
        self._use(entry.settings.over(self.settings))
        self._roster.synchronise(entry.version)
        self.cluster.replay(entry.cluster)
        self._roster.fail(entry.failed)
        if isinstance(entry, BatchEntry):
            progress = self._apply_batch(entry, self._passes.facts(entry.partials), repeated(entry.services))
            self.input.take(*(entry.input or (0, 0.0)))
        else:
            progress = self._apply_time(entry)
        self._roster.hand_over(progress, delivered=True)
        self._epoch = entry.epoch

    def _apply_batch(self, entry: BatchEntry, facts: BatchFacts, pace: Pace) -> Progress:
        """A micro-batch, when it comes and when it is repeated; `facts` are its partials, sorted out."""
        self.runtime.reprice(entry.prices)
        numbered = self._passes.numbered(entry.counted, entry.pending)
        progress = self.runtime.apply(facts, numbered, pace, entry.missed, entry.one_in, entry.jumped)
        self._passes.pending = entry.pending
        self._keep(entry.kept)
        return progress

    def _apply_time(self, entry: StreamEntry) -> Progress:
        """A heartbeat, or the end."""
        numbered = self._passes.numbered(entry.counted, entry.pending)
        if isinstance(entry, HeartbeatEntry):
            progress = self.runtime.advance(entry.watermark, numbered)
        else:
            progress = self.runtime.finish(numbered)
        self._passes.pending = entry.pending
        self._keep(None)
        if self.kept is not None and isinstance(entry, EndEntry) and self.runtime.latest is not None:
            self.kept.finish(self.runtime.latest)
        return progress

    # -- queries ---------------------------------------------------------------------------------------

    def first_answer(self, query: CompiledQuery) -> Answer | None:
        """A query that has just come, answered from the synopsis as it is; it is scheduled at the next micro-batch."""

        def take() -> PaneLookup | None:
            active = self.runtime.covers(query)
            if active is None or is_cut(active) or self.runtime.is_between(query):
                return None
            as_of = newest_common(active)
            return None if as_of is None else PaneLookup(active, as_of)

        return self._isolation.taking(take)

    # -- epochs ----------------------------------------------------------------------------------------

    def on_batch(self, version: Callable[[], int], rows: DataFrame, epoch: int) -> None:
        with self._lock:
            self._check_whole()
            if self.stopping:
                raise SashError(f"stream '{self.stream.name}' is stopping")
            if epoch <= self._epoch:
                return
            with self._working(), written_together():
                self._take_batch(version(), rows, epoch)

    def _take_batch(self, current: int, rows: DataFrame, epoch: int) -> None:
        began = self._clock.now()
        if self.interval is not None:
            self.load.begin(began, self.interval)
        seen = self._journal.intend(epoch, current)
        failed_before = set(self._roster.failed)
        with self._isolation.slide():
            self._use(self.settings)
            self._roster.synchronise(seen)
            self.cluster.move(epoch)
        rows, jumped = without_jumps(rows, self.pipeline, self.runtime)
        one_in, before = self.keeps_one_in, self.runtime.statistics.tuples
        sample = rows if self.stream.shed is None else sampled(rows, one_in, epoch)
        tuples, (table, batch, counted, pending) = self._read(seen, sample, epoch)
        if one_in > 1:
            table = self.pipeline.scaled(table, self.runtime.tables(), one_in)
            batch = self._passes.facts(table)
        missed = 0
        reached = self.runtime.next_watermark(batch)
        if self._plans is not None:
            self._last_rows = batch.rows
            times = Seen(batch.latest, batch.earliest, self.runtime.latest, self.runtime.watermark)
            missed = self._plans.take(seen, Batch(rows, batch.rows, epoch, times, reached, tuples))
        for feed in self.feeds:
            feed.take_batch(rows, self.stream, epoch, batch.rows)
        kept, dropped = self._rows_to_keep(rows, epoch, reached)
        failed = self._roster.failed_since(failed_before)
        started, live = time.perf_counter(), self.interval is not None
        entry = BatchEntry(
            epoch=epoch,
            version=seen,
            settings=ReplayedSettings.of(self.runtime.settings),
            failed=failed,
            counted=counted,
            pending=pending,
            partials=table,
            prices=self.runtime.drifted_prices() if live else self.runtime.model_prices(),
            missed=max(missed, dropped),
            one_in=one_in,
            jumped=jumped,
            kept=kept,
            lasts=None if self.kept is None or kept is None else self.kept.last_end(kept),
        )
        with self._all_or_broken():
            with self._isolation.slide():
                self.cluster.bring()
                progress = self._apply_batch(entry, batch, self._pace(began))
            self.runtime.statistics.seconds_in_sash += time.perf_counter() - started
            self._epoch = epoch
            measured = None
            if self.input.is_wanted:
                units = units_in(self.stream.source, rows, batch.rows)
                measured = self.input.take(units, self._clock.now() - began)
            self._commit(replace(entry, services=progress.services, input=measured), progress)
        self.advance_feeds()
        if self.interval is not None:
            came, now = self.runtime.statistics.tuples - before, self._clock.now()
            self.load.take(epoch, now - began, self.interval, came, now)
            self.input.end(now - began)

    def advance_feeds(self, *, ended: bool = False) -> None:
        """Archives follow time: everything before the watermark has come, and at the end everything has."""
        latest, watermark = self.runtime.latest, self.runtime.watermark
        passed = None if watermark is None else watermark - 1
        reached = latest if ended else passed
        if reached is not None:
            for feed in self.feeds:
                feed.advance(reached)

    def _rows_to_keep(self, rows: DataFrame, epoch: int, reached: Micros | None) -> Brought:
        """What the stored window takes of a micro-batch that brings a watermark, and how many tuples were too late."""
        if self.kept is None:
            return None, 0
        started = time.perf_counter()
        brought = rows_of_batch(self.kept, self.pipeline, rows, epoch, reached)
        self.runtime.statistics.seconds_in_spark += time.perf_counter() - started
        return brought

    def _keep(self, rows: pa.Table | None) -> None:
        """The stored window follows the watermark."""
        if self.kept is not None:
            self.kept.take(self.kept.empty() if rows is None else rows, self.runtime.watermark)

    def _pace(self, began: float) -> Pace:
        """Live, there is time until the next micro-batch; and if Spark's part has used it, half as much again."""
        if self.interval is None:
            return UNHURRIED
        used = self._clock.now() - began
        return UntilNext(self._clock, max(self.interval - used, used / 2))

    @contextmanager
    def _working(self) -> Iterator[None]:
        """This thread works for the stream: what subscribers ask for meanwhile must not wait for it."""
        before, self._batch_thread = self._batch_thread, threading.get_ident()
        try:
            yield
        finally:
            self._batch_thread = before

    @contextmanager
    def _all_or_broken(self) -> Iterator[None]:
        """From the first change to the commit: what fails in between leaves a state that only the log can mend."""
        try:
            yield
        except BaseException:
            self._broken = True
            raise

    def _check_whole(self) -> None:
        if self._broken:
            raise SashError(
                f"stream '{self.stream.name}' failed in the middle of a micro-batch; connect again"
                + (" with the checkpoint to go on" if self._journal.is_durable else " and read it anew")
            )

    def _read(self, seen: int, rows: DataFrame, epoch: int) -> tuple[dict[PlanRuntime, pa.Table], Passed]:
        """What pane tables want of a micro-batch, or, where there are none, what continuous plans want of it."""
        if self._plans is not None and not self.runtime.groups:
            started = time.perf_counter()
            scanned = self._plans.scan_ahead(seen, rows, epoch, self._last_rows)
            self.runtime.statistics.seconds_in_spark += time.perf_counter() - started
            if scanned is not None:
                return scanned[0], (scanned[1], self._passes.facts(scanned[1]), None, None)
        return {}, self._passes.aggregate(rows, epoch)

    def looked_up(self, rows: DataFrame, lookups: Iterable[Lookup]) -> DataFrame:
        """The rows with the columns of the tables that queries look them up in."""
        return self._passes.looked_up(rows, lookups)

    def advance(self, watermark: Micros) -> None:
        """A heartbeat: no tuple with a timestamp before this is to come."""
        passed = max(time for time in (watermark, self.runtime.watermark) if time is not None)
        with written_together():
            if self._plans is not None:
                self._plans.advance(passed)
            self._move(passed, functools.partial(HeartbeatEntry, watermark=watermark))

    def begin(self) -> None:
        """The stream is about to run: plans over several streams wait for its tuples."""
        if self._plans is not None:
            self._plans.begin()

    def finish(self) -> None:
        """End of input (or IDLE AFTER): close the panes that are open."""
        with written_together():
            if self._plans is not None:
                self._plans.finish()
            self._move(None, EndEntry)

    def finish_if_idle(self, tuples: int) -> bool:
        """IDLE AFTER: the end of input for now, unless more than these tuples have come while we waited."""
        with self._lock:
            idle = not self.stopping and self.runtime.statistics.tuples == tuples
            if idle:
                self.finish()
            return idle

    def _move(self, watermark: Micros | None, kind: Callable[..., StreamEntry]) -> None:
        """Time goes on without tuples, to a watermark or to the end."""
        with self._lock, self._working():
            self._check_whole()
            failed_before = set(self._roster.failed)
            counted, pending = self._passes.count_pending(watermark)
            with self._all_or_broken():
                with self._isolation.slide():
                    self._use(self.settings)
                    entry = kind(
                        epoch=self._epoch,
                        version=self._roster.version,
                        settings=ReplayedSettings.of(self.runtime.settings),
                        failed=self._roster.failed_since(failed_before),
                        counted=counted,
                        pending=pending,
                    )
                    progress = self._apply_time(entry)
                self._commit(entry, progress)
            self.advance_feeds(ended=isinstance(entry, EndEntry))

    def _commit(self, entry: StreamEntry, progress: Progress) -> None:
        """Tell of what has failed and what is answered, then write the entry; `progress` is what came of it."""
        self._roster.report_failures(entry.failed, reported=False)
        changes = self.cluster.changes(progress.outcome.failed)
        self._roster.hand_over(progress, delivered=False)
        self._journal.append(replace(entry, cluster=changes))
        edge = KEEP_ALL if self.kept is None else self.kept.oldest
        snapshot = self._journal.compact(self._snapshot, edge)
        if snapshot is not None:
            report_snapshot(self.stream.name, snapshot)
        is_batch = isinstance(entry, BatchEntry)
        self.cluster.settle(taken_back=is_batch)
        if self.kept is not None:
            self.kept.let_go(taken_back=is_batch)

    def _snapshot(self) -> StreamSnapshot:
        return StreamSnapshot(
            epoch=self._epoch,
            version=self._roster.version,
            settings=ReplayedSettings.of(self.runtime.settings),
            failed=dict(self._roster.failed),
            ended=self._roster.ended,
            runtime=stream_snapshot.save(self.runtime),
            pending=self._passes.pending,
            input=self.input.save(),
            kept=None if self.kept is None else self.kept.save(),
        )
