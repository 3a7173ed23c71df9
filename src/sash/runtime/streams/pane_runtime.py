"""The runtime of the route PANES: a stream's pane tables, its stored window, and the stream's log that has both.

    read       Spark's one action for all pane tables: partials, as Arrow      (no lock held: questions go on)
    take       slide: apply the entry to panes and stored window, run what is due          (under the isolation level)
               hand answers outward
               append the entry to the log: the epoch is committed

The panes themselves (periodic/stream_runtime.py) do no I/O: an entry has the same effect when it comes and when it is
replayed. The stored window has its rows in the same entries, so it is a part of this runtime.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from sash.catalog import Stream
from sash.core.clock import Clock
from sash.core.errors import SashError
from sash.core.time import Micros
from sash.isolation import Isolation
from sash.panes.pane_rows import BatchFacts
from sash.plan.nodes import Lookup
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.advance import repeated
from sash.runtime.periodic.cluster_tables import ClusterDirectories, ClusterTables
from sash.runtime.periodic.flight import wait_for_all
from sash.runtime.periodic.onetime import PaneLookup, is_cut
from sash.runtime.periodic.pace import UNHURRIED, Pace, UntilNext
from sash.runtime.periodic.stream_runtime import Progress, StreamRuntime, newest_common
from sash.runtime.records.journal import (
    STREAM,
    BatchEntry,
    EndEntry,
    HeartbeatEntry,
    Journal,
    JumpedTuples,
    LandingEntry,
    ReplayedSettings,
    StoredResults,
    StreamEntry,
    StreamSnapshot,
)
from sash.runtime.records.session_tables import Tables
from sash.runtime.records.stream_queries import StreamQueries
from sash.runtime.settings import SessionSettings, Settings
from sash.runtime.spark_pass import Batch, PassResult, SparkPipeline, StreamSource
from sash.runtime.stored.stored_window import RowsAndLate, StoredWindow, rows_of_batch
from sash.runtime.streams.input_limit import InputMeter
from sash.runtime.streams.load import report_recovery, report_snapshot
from sash.runtime.streams.stream_pass import Passes
from sash.spark.pools import PANES, in_pool
from sash.spark.sources import units_in
from sash.storage.epochs import KEEP_ALL, EpochLog, Intent
from sash.storage.window_files import WindowFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Audience(Protocol):
    """Takes a stream's answers for its queries."""

    def take(self, progress: Progress, delivered: bool) -> None:
        """Hand answers to their queries; record failures and ends. `delivered`: queries had these before a restart."""


class PaneQueries:
    """The queries of a stream as of a version of the catalog: wanted ones, failed ones, ended ones.

    They are known by their serial numbers, as text: a later query of the same name is another one. A new version costs
    only as much as the queries that it changes. `audience` takes progress outward.
    """

    def __init__(self, runtime: StreamRuntime, queries: StreamQueries[CompiledQuery], audience: Audience) -> None:
        self._runtime = runtime
        self._queries = queries
        self._audience = audience
        self.version = -1
        self.wanted: dict[str, CompiledQuery] = {}
        # The serial number of each name among the wanted queries.
        self._serials: dict[str, int] = {}
        # The tables in which tuples are looked up, and for how many queries.
        self.lookups: Counter[Lookup] = Counter()
        self.failed: dict[str, str] = {}
        self._ended: set[str] = set()

    def synchronise(self, version: int) -> None:
        if version == self.version:
            return
        gone, come = self._queries.go_to(version)
        for query in gone:
            del self.wanted[str(query.serial)], self._serials[query.name]
            self.lookups -= Counter(query.lookups)
        for query in come:
            self.wanted[str(query.serial)] = query
            self._serials[query.name] = query.serial
            self.lookups.update(query.lookups)
        self._runtime.change([query.name for query in gone], [query for query in come if not self._is_over(query)])
        self.version = version

    def _is_over(self, query: CompiledQuery) -> bool:
        return str(query.serial) in self.failed or str(query.serial) in self._ended

    def serials(self, names: Iterable[str]) -> dict[str, str]:
        """The serial numbers of queries by name."""
        return {name: str(self._serials[name]) for name in names if name in self._serials}

    def fail(self, failed: dict[str, str]) -> None:
        """Take queries, by their serial numbers, out of the runtime for good."""
        self.failed.update(failed)
        self._runtime.change([self.wanted[serial].name for serial in failed], ())

    def failed_since(self, before: Iterable[str]) -> dict[str, str]:
        known = set(before)
        return {serial: why for serial, why in self.failed.items() if serial not in known}

    def hand_over(self, progress: Progress, delivered: bool) -> None:
        """Note failed and ended queries, and take answers outward."""
        outcome = progress.outcome
        serials = self.serials([*outcome.failed, *outcome.ended])
        self.failed.update({serials[name]: why for name, why in outcome.failed.items()})
        self._ended.update(serials[name] for name in outcome.ended)
        self._take_outward(progress, delivered)

    def report_failures(self, failed: dict[str, str], reported: bool) -> None:
        found = Progress()
        known = {serial: why for serial, why in failed.items() if serial in self.wanted}
        found.outcome.failed.update({self.wanted[serial].name: why for serial, why in known.items()})
        self._take_outward(found, reported)

    def _take_outward(self, progress: Progress, delivered: bool) -> None:
        progress.serials = self._serials
        self._audience.take(progress, delivered)

    @property
    def ended(self) -> list[str]:
        """The queries, by serial number, whose LIFETIME is over."""
        return sorted(self._ended)

    def load(self, failed: dict[str, str], ended: Iterable[str]) -> None:
        self.failed, self._ended = dict(failed), set(ended)


@dataclass(frozen=True)
class StreamStorage:
    """Where a stream has its log, the rows of its stored window, and the panes in the cluster.

    Each may be None: without a checkpoint, or without a place that executors see. `results` are those that its queries
    store.
    """

    log: EpochLog | None = None
    files: WindowFiles | None = None
    panes: ClusterDirectories | None = None
    results: StoredResults | None = None


class PaneRuntime:
    """`queries` are the stream's periodic ones at the versions of the catalog; `audience` takes progress outward."""

    def __init__(
        self,
        source: StreamSource,
        settings: SessionSettings,
        isolation: Isolation,
        queries: StreamQueries[CompiledQuery],
        audience: Audience,
        storage: StreamStorage,
        clock: Clock,
        tables: Tables | None = None,
    ) -> None:
        stream, level = source.stream, settings.isolation
        self.source = source
        # The user's settings; `panes` has the settings of its current epoch.
        self.settings: Settings = settings
        self._isolation = isolation
        self._journal = Journal(storage.log, storage.results)
        self._clock = clock
        self.panes = StreamRuntime(stream, settings, isolation.give_way, level != "serial", level == "lws")
        away = nullcontext if level == "serial" else isolation.away
        self.cluster = ClusterTables(self.panes, source, storage.panes, away)
        self._pane_queries = PaneQueries(self.panes, queries, audience)
        self.passes = Passes(source, self.panes, self._pane_queries, self.cluster, tables, isolation)
        self.stored_window: StoredWindow | None = None
        if stream.keep is not None:
            self.stored_window = StoredWindow(stream, level, files=storage.files, most_rows=settings.max_rows)
        self.input = InputMeter()
        self.epoch = -1
        self._is_broken = False
        # Called on the thread of a flight that can land.
        self.on_landing: Callable[[], None] = lambda: None
        # Queries that had failed when the epoch began.
        self._failed_before: set[str] = set()

    @property
    def stream(self) -> Stream:
        return self.source.stream

    @property
    def pipeline(self) -> SparkPipeline:
        return self.source.pipeline

    # -- epochs ----------------------------------------------------------------------------------------

    def check_whole(self) -> None:
        if self._is_broken:
            raise SashError(
                f"stream '{self.stream.name}' failed in the middle of a micro-batch; connect again"
                + (" with the checkpoint to go on" if self._journal.is_durable else " and read it anew")
            )

    def begin(self, epoch: int, intent: Intent) -> Intent:
        """Go to the version of the catalog that an epoch sees: a repeated epoch sees that of its first attempt."""
        seen = self._journal.intend(epoch, intent)
        self._failed_before = set(self._pane_queries.failed)
        with self._isolation.slide():
            self._use(self.settings)
            self._pane_queries.synchronise(seen.version)
            self.cluster.move(epoch)
        return seen

    @property
    def is_between_epochs(self) -> bool:
        """Whether every epoch that has begun is committed."""
        return not self._is_broken and not self._journal.intends_more_than(self.epoch)

    def read(self, rows: DataFrame, epoch: int, scanned: pa.Table | None, one_in: int) -> PassResult:
        """Spark's one action for the pane tables. `scanned` are the facts of a scan by plans instead.

        SHED: the rows are one of `one_in` tuples, and their partials are scaled.
        """
        if scanned is None:
            found = self.passes.aggregate(rows, epoch)
        else:
            found = PassResult(scanned, self.passes.facts(scanned))
        if one_in > 1:
            table = self.pipeline.scaled(found.table, self.panes.tables(), one_in)
            found = replace(found, table=table, facts=self.passes.facts(table), one_in=one_in)
        return found

    def take(self, batch: Batch) -> int:
        """`batch.missed` tuples came too late for the other runtimes."""
        passed, statistics, is_live = batch.passed, self.panes.statistics, batch.interval is not None
        assert passed is not None
        kept, dropped = self._rows_to_keep(batch)
        landing = self._landing(wait=not is_live)
        if (watermark := self.panes.next_watermark(passed.facts)) is not None:
            self._cut(watermark, is_batch=True)
        late = statistics.late_tuples
        entry = BatchEntry(
            epoch=batch.epoch,
            version=batch.version,
            settings=ReplayedSettings.of(self.panes.settings),
            failed=self._pane_queries.failed_since(self._failed_before),
            has_lists=self.panes.has_lists,
            counted=passed.counted,
            pending=passed.pending,
            partials=passed.table,
            prices=self.panes.drifted_prices() if is_live else self.panes.model_prices(),
            missed=max(batch.missed, dropped),
            one_in=passed.one_in,
            jumped=JumpedTuples(*passed.jumped),
            kept=kept,
            lasts=None if self.stored_window is None or kept is None else self.stored_window.last_end(kept),
            landed=landing or None,
        )
        with self._all_or_broken():
            with self._isolation.slide():
                self.cluster.bring()
                progress = self._apply_batch(entry, passed.facts, self._pace(batch))
                self.panes.start_flights(self._launch)
            self.epoch = batch.epoch
            measured = None
            if self.input.is_wanted:
                units = units_in(self.stream.source, batch.rows, batch.number)
                measured = self.input.take(units, self._clock.now() - batch.began)
            self._commit(replace(entry, services=progress.services, input=measured), progress)
        return statistics.late_tuples - late

    def _pace(self, batch: Batch) -> Pace:
        """Live, there is time until the next micro-batch; if Spark's part has used it, half as much again."""
        if batch.interval is None:
            return UNHURRIED
        used = self._clock.now() - batch.began
        return UntilNext(self._clock, max(batch.interval - used, used / 2))

    def _rows_to_keep(self, batch: Batch) -> RowsAndLate:
        """What the stored window takes of a micro-batch, and how many tuples came too late for it."""
        if self.stored_window is None:
            return None, 0
        with self.panes.statistics.in_spark():
            return rows_of_batch(self.stored_window, self.pipeline, batch.rows, batch.epoch, batch.watermark)

    def _cut(self, watermark: Micros | None, is_batch: bool) -> None:
        """Spark makes the short lists of the panes that close next. No lock is held: questions go on."""
        with self.panes.statistics.in_spark():
            self.cluster.cut(watermark, is_batch)

    def advance(self, stream: str, watermark: Micros) -> None:
        self._move(watermark, partial(HeartbeatEntry, watermark=watermark))

    def finish(self, stream: str, *, is_end: bool = False) -> None:
        """Close the open panes. `is_end`: nothing comes any more."""
        self._move(None, partial(EndEntry, is_end=is_end))

    def _move(self, watermark: Micros | None, kind: Callable[..., StreamEntry]) -> None:
        """Move time without tuples, to a watermark or to the end."""
        self.check_whole()
        failed_before = set(self._pane_queries.failed)
        counted, pending = self.passes.count_pending(watermark)
        landing = self._landing(wait=True)
        self._cut(watermark, is_batch=False)
        with self._all_or_broken():
            with self._isolation.slide():
                self._use(self.settings)
                self.cluster.bring()
                entry = kind(
                    epoch=self.epoch,
                    version=self._pane_queries.version,
                    settings=ReplayedSettings.of(self.panes.settings),
                    failed=self._pane_queries.failed_since(failed_before),
                    has_lists=self.panes.has_lists,
                    counted=counted,
                    pending=pending,
                    landed=landing or None,
                )
                progress = self._apply_time(entry)
            self._commit(entry, progress)

    # -- executions beside micro-batches ---------------------------------------------------------------

    def land(self, wait: bool) -> None:
        """Land flights in an epoch of their own: all of them, or those that can land now."""
        if self._is_broken:
            # The log has the state. But no job may outlive the session.
            wait_for_all(self.panes.flights if wait else ())
        elif landing := self._landing(wait):
            with self._all_or_broken():
                entry = LandingEntry(
                    epoch=self.epoch,
                    version=self._pane_queries.version,
                    settings=ReplayedSettings.of(self.panes.settings),
                    failed={},
                    landed=landing,
                )
                with self._isolation.slide():
                    progress = self._apply_landing(entry)
                self._commit(entry, progress)

    def _landing(self, wait: bool) -> list[int]:
        """The places of the flights that can land now; `wait`: of all. Flights with precedence can."""
        if awaited := [flight for flight in self.panes.flights if wait or flight.has_precedence]:
            with self._isolation.slide():
                self.panes.start_flights(self._launch)
            with self.panes.statistics.in_spark():
                wait_for_all(awaited)
        return self.panes.landing()

    def _launch(self, jobs: Sequence[Callable[[], None]]) -> None:
        threading.Thread(target=self._fly, args=jobs, name="sash-flight", daemon=True).start()

    def _fly(self, job: Callable[[], None], *others: Callable[[], None]) -> None:
        """The other jobs do not wait for the landing: it may be waiting for them."""
        with in_pool(self.pipeline.session, PANES):
            job()
        if others:
            self._launch(others)
        self.on_landing()

    @contextmanager
    def _all_or_broken(self) -> Iterator[None]:
        """From the first change to the commit: an error in between leaves a state that only the log can repair."""
        try:
            yield
        except BaseException:
            self._is_broken = True
            raise

    def _commit(self, entry: StreamEntry, progress: Progress) -> None:
        """Report failures and answers, then write the entry; `progress` is the result of the entry."""
        self._pane_queries.report_failures(entry.failed, reported=False)
        changes = self.cluster.changes(progress.outcome.failed)
        self._pane_queries.hand_over(progress, delivered=False)
        self._journal.append(replace(entry, cluster=changes))
        edge = KEEP_ALL if self.stored_window is None else self.stored_window.oldest
        snapshot = self._journal.compact(self.save, edge)
        if snapshot is not None:
            report_snapshot(self.stream.name, snapshot)
        is_batch = isinstance(entry, BatchEntry)
        self.cluster.settle(taken_back=is_batch)
        if self.stored_window is not None:
            self.stored_window.let_go(taken_back=is_batch)

    # -- the effect of an entry, when it comes and when it is replayed ---------------------------------

    def _apply_batch(self, entry: BatchEntry, facts: BatchFacts, pace: Pace) -> Progress:
        """`facts` are the partials of the micro-batch, by pane tables."""
        landed = self.panes.land(entry.landed or ())
        self.panes.reprice(entry.prices)
        numbered = self.passes.numbered(entry.counted, entry.pending)
        progress = self.panes.apply(facts, numbered, pace, entry.missed, entry.one_in, entry.jumped)
        self.passes.pending = entry.pending
        self._keep(entry.kept)
        return self.panes.conclude(landed, progress)

    def _apply_time(self, entry: StreamEntry) -> Progress:
        """Apply a heartbeat, or the end."""
        landed = self.panes.land(entry.landed or ())
        numbered = self.passes.numbered(entry.counted, entry.pending)
        if isinstance(entry, HeartbeatEntry):
            progress = self.panes.advance(entry.watermark, numbered)
        else:
            progress = self.panes.finish(numbered, is_end=isinstance(entry, EndEntry) and entry.is_end)
        self.passes.pending = entry.pending
        self._keep(None)
        if self.stored_window is not None and isinstance(entry, EndEntry) and self.panes.latest is not None:
            self.stored_window.finish(self.panes.latest)
        return self.panes.conclude(landed, progress)

    def _apply_landing(self, entry: StreamEntry) -> Progress:
        return self.panes.conclude(self.panes.land(entry.landed or ()), Progress())

    def _keep(self, rows: pa.Table | None) -> None:
        """Give rows to the stored window, and move it to the watermark."""
        if self.stored_window is not None:
            self.stored_window.take(self.stored_window.empty() if rows is None else rows, self.panes.watermark)

    def _use(self, settings: Settings) -> None:
        self.panes.use(settings)
        if self.stored_window is not None:
            self.stored_window.allow(settings.max_rows, self.panes.latest)

    # -- answers of now, and recovery ------------------------------------------------------------------

    def answer(self, query: CompiledQuery) -> Answer | None:
        """Answer from the current panes, also a query that is scheduled only at the next micro-batch.

        None if the panes do not have everything that the query reads.
        """

        def take() -> PaneLookup | None:
            active = None if self.panes.latest is None else self.panes.covers(query)
            if active is None or is_cut(active) or self.panes.is_between(query):
                return None
            as_of = newest_common(active)
            return None if as_of is None else PaneLookup(active, as_of)

        return self._isolation.taking(take)

    def incomplete_until(self, query: CompiledQuery) -> int | None:
        """Until when a query would have no complete answers if it were registered now."""
        return self._isolation.reading(partial(self.panes.incomplete_until, query))

    def save(self) -> StreamSnapshot:
        return StreamSnapshot(
            epoch=self.epoch,
            version=self._pane_queries.version,
            settings=ReplayedSettings.of(self.panes.settings),
            failed=dict(self._pane_queries.failed),
            ended=self._pane_queries.ended,
            runtime=stream_snapshot.save(self.panes),
            pending=self.passes.pending,
            input=self.input.save(),
            kept=None if self.stored_window is None else self.stored_window.save(),
        )

    def load(self) -> None:
        """Load the last snapshot and the entries after it. Answers are remembered, not delivered again."""
        if not self._journal.is_durable:
            return
        snapshot, applied = self._journal.replay(STREAM, self._load_snapshot, self._repeat)
        self._use(self.settings)
        self.panes.has_lists = True
        if self.stored_window is not None:
            self.stored_window.keep_only_files()
        self.cluster.recovered()
        self._pane_queries.report_failures(self._pane_queries.failed, reported=True)
        if snapshot is not None or applied:
            report_recovery(self.stream.name, snapshot, applied, self.epoch)

    def _load_snapshot(self, snapshot: StreamSnapshot) -> None:
        self._use(snapshot.settings.over(self.settings))
        self._pane_queries.load(snapshot.failed, snapshot.ended)
        self.panes.lists_before = {name: saved.by_lists for name, saved in snapshot.runtime.queries.items()}
        self._pane_queries.synchronise(snapshot.version)
        self.panes.lists_before = {}
        self.passes.pending = snapshot.pending
        stream_snapshot.load(self.panes, snapshot.runtime)
        if self.stored_window is not None and snapshot.kept is not None:
            self.stored_window.load(snapshot.kept, snapshot.rows)
        self.input.load(snapshot.input)
        self.epoch = snapshot.epoch

    def _repeat(self, entry: StreamEntry) -> None:
        """Apply an entry again with the settings of its time, whatever the user has chosen since."""
        self._use(entry.settings.over(self.settings))
        self.panes.has_lists = entry.has_lists
        self._pane_queries.synchronise(entry.version)
        self.cluster.replay(entry.cluster)
        self._pane_queries.fail(entry.failed)
        if isinstance(entry, BatchEntry):
            progress = self._apply_batch(entry, self.passes.facts(entry.partials), repeated(entry.services))
            self.input.take(*(entry.input or (0, 0.0)))
        elif isinstance(entry, LandingEntry):
            progress = self._apply_landing(entry)
        else:
            progress = self._apply_time(entry)
        self._pane_queries.hand_over(progress, delivered=True)
        self.epoch = entry.epoch
