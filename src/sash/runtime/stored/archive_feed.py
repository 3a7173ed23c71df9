"""An archive of a session: its deliveries, its updates and its readers.

    rows of a stream's micro-batch ──Spark──┐
    a query's answers or changes ───────────┴──► inbox ──► update of the archive, when time passes a multiple of
                                                           UPDATE EVERY and all of that interval is here

A question reads both, so it sees rows before the next update. Deliveries may come twice after a crash
(archive/inbox.py). A failed update changes nothing and is tried again with the next one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.archive import EXPIRES, Archive, Spec, with_times
from sash.archive.file_reader import expires_after
from sash.archive.inbox import Inbox, InboxFiles
from sash.archive.wanted_keys import KeyRange, KeyValues, WantedKeys
from sash.catalog import DeclaredArchive, Stream
from sash.core.changes import EXP, INSTANT, NEVER, SIGN, TS
from sash.core.errors import ArchiveError
from sash.core.events import report
from sash.core.time import Micros, format_duration, to_datetime, to_micros
from sash.spark.spark_faults import first_line
from sash.sql import SoughtRange, SoughtValues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sash.spark.archive_frames import SparkWriter

logger = logging.getLogger("sash.runtime")

# From this size on Spark rewrites sub-indices and reads probes: this process would need several times as much memory.
SPARK_FROM_BYTES = 64 * 2**20
# The most rows of a micro-batch in one file of the inbox.
ROWS_PER_FILE = 500_000
# Before every event time.
_NEVER_YET: Micros = -(2**62)


class ArchiveFeed:
    """One thread at a time delivers and updates; any thread reads meanwhile, and waits for neither."""

    def __init__(self, declared: DeclaredArchive, archive: Archive, spark: Callable[[], SparkSession]) -> None:
        self.declared = declared
        self.archive = archive
        self._spark = spark
        self.inbox = Inbox(archive.directory, archive.spec)
        self._writing = threading.RLock()
        # How many readers read files of the inbox.
        self._readers = 0
        self._counting = threading.Lock()
        # Everything up to this time has come.
        self.now: Micros = self._latest()
        self.error: str | None = None
        # The time of a failed update, which is tried again with the next one.
        self._failed: Micros | None = None
        self._is_closed = False

    def _latest(self) -> Micros:
        """The time up to which everything has come. Answers come in the order of their times.

        Tuples of a stream may come out of order, and changes may come again, divided otherwise.
        """
        latest = _NEVER_YET if self._updated is None else self._updated
        in_order = not self.declared.of_stream and not self.declared.of_changes
        return max(latest, self.inbox.latest() or latest) if in_order else latest

    @property
    def _updated(self) -> Micros | None:
        return self.archive.facts().updated

    # -- what comes ------------------------------------------------------------------------------------

    def take_batch(self, rows: DataFrame, stream: Stream, epoch: int, number: int) -> None:
        """Take a micro-batch of `number` rows; a micro-batch that comes again after a crash has the same epoch."""
        from sash.spark.archive_frames import lifetime_sql, write_rows

        column = self.declared.lifetime_column
        type = None if column is None else self.declared.schema.field(column).type
        lifetime = lifetime_sql(column, type, self.declared.lifetime)
        with self._writing:
            if self._is_closed:
                return
            try:
                files = max(1, number // ROWS_PER_FILE)
                write_rows(rows, stream, lifetime, self._updated, self.inbox.place(epoch), files)
                # Before the commit of the micro-batch: Spark will not bring it again.
                self.inbox.sync(epoch)
            except Exception as error:
                raise ArchiveError(
                    f"archive '{self.declared.name}' cannot take a micro-batch: {first_line(error)}; "
                    "what it has stays as it was"
                ) from error

    def take_answer(self, as_of: datetime, table: pa.Table, rows: int | None) -> None:
        """Take an answer of a periodic query: its rows live for the archive's lifetime, from `as_of` on.

        Several answers over a window of rows may have the same time; `rows` tells them apart.
        """
        time = to_micros(as_of)
        stamps = np.full(len(table), time, dtype=np.int64)
        if len(table.column_names) < len(self.declared.schema):
            table = table.append_column(self.declared.schema.names[-1], pa.array(stamps).cast(INSTANT))
        with self._writing:
            if rows is not None:
                self.now = min(self.now, time - 1)
            self._put(time if rows is None else rows, table, stamps, stamps + self.declared.lifetime)
            self.advance(time if rows is None else time - 1)

    def take_changes(self, as_of: datetime, table: pa.Table) -> None:
        """Take results of a continuous query; each lives until its own expiry.

        After a crash results may come again, in another division: then all results from there on do.
        """
        ts = np.asarray(table[TS].cast(pa.int64()))
        exp = np.asarray(table[EXP].cast(pa.int64()).fill_null(NEVER))
        rows = table.drop_columns([TS, EXP, SIGN])
        assert pc.all(pc.greater(table[SIGN], 0)).as_py() is not False, "results that are taken back are not archived"
        with self._writing:
            if len(ts):
                self.inbox.cut(int(ts.min()))
                self._put(int(ts.min()), rows, ts, np.minimum(exp, ts + self.declared.lifetime))
            self.advance(to_micros(as_of))

    def _put(self, number: int, rows: pa.Table, inserted: Any, expires: Any) -> None:
        if self._is_closed:
            return
        after = _NEVER_YET if self._updated is None else self._updated
        fresh = pa.array(inserted > after)
        records = with_times(rows, inserted, expires).filter(fresh)
        if len(records):
            self.inbox.put(number, records)

    def begin_anew(self) -> None:
        """Drop the waiting deliveries: they came from another query, with its own numbers."""
        with self._writing:
            self.inbox.clear()

    # -- updates ---------------------------------------------------------------------------------------

    def advance(self, now: Micros, *, wait: bool = True) -> None:
        """Everything up to a time has come: update the archive if an interval is over.

        A caller that may not `wait` leaves the update to the thread that is updating.
        """
        if not self._writing.acquire(blocking=wait):
            return
        try:
            self._advance(now)
        finally:
            self._writing.release()

    def _advance(self, now: Micros) -> None:
        self.now = max(now, self.now)
        due, updated = self.archive.spec.boundary(self.now), self._updated
        if self._is_closed or due == self._failed or (updated is not None and due <= updated):
            return
        try:
            self._update(updated, due)
            with self._writer(self.archive.facts().bytes) as writer:
                self.archive.retune(writer)
        except Exception as error:
            if self.error is None:
                told = "archive %(archive)s cannot be updated; its rows stay, and the update is tried again"
                report(logger, logging.ERROR, "archive.failed", told, exception=True, archive=self.declared.name)
            self.error, self._failed = first_line(error), due
            return
        if self.error is not None:
            told = "archive %(archive)s is updated again"
            report(logger, logging.INFO, "archive.again", told, archive=self.declared.name)
            self.error = self._failed = None
        facts, told = self.archive.facts(), "archive %(archive)s is updated up to %(until)s: %(rows)d rows"
        report(
            logger, logging.INFO, "archive.updated", told,
            archive=self.declared.name, until=to_datetime(due).isoformat(), rows=facts.rows, bytes=facts.bytes,
        )  # fmt: skip

    def _update(self, updated: Micros | None, due: Micros) -> None:
        from sash.spark.pools import ARCHIVES, in_pool

        waiting, facts = self.inbox.waiting(updated, due), self.archive.facts()
        size = max(waiting.bytes, max((sub.bytes for sub in facts.sub_indices), default=0))
        with in_pool(self._spark(), ARCHIVES), self._writer(size) as writer:
            records = waiting.read(self.archive.spec) if writer is None else self._frame(waiting)
            self.archive.update(records, due, writer=writer)
        with self._counting:
            if not self._readers:
                self.inbox.forget(due)

    def repartition(self, g: int | None, e: int | None, layout: str, strategy: str | None) -> None:
        """ALTER ARCHIVE .. PARTITION; without numbers Sash chooses from now on."""
        from sash.spark.pools import ARCHIVES, in_pool

        with self._writing:
            advice = self.archive.advice()
            with in_pool(self._spark(), ARCHIVES), self._writer(self.archive.facts().bytes) as writer:
                self.archive.migrate(
                    g or advice.g, e or advice.e, layout=layout, strategy=strategy or advice.strategy, auto=g is None,
                    writer=writer,
                )  # fmt: skip

    def _writer(self, size: int) -> AbstractContextManager[SparkWriter | None]:
        """Spark, for large sub-indices or remote executors; None means Arrow."""
        from sash.spark.archive_frames import SparkWriter
        from sash.spark.stored_rows import is_local

        by_spark = size >= SPARK_FROM_BYTES or not is_local(self._spark())
        return SparkWriter(self._session) if by_spark else nullcontext()

    def _frame(self, waiting: InboxFiles) -> DataFrame:
        from sash.spark.archive_frames import inserted_between, read_files

        rows = read_files(self._session, waiting.paths, self.archive.spec)
        return inserted_between(rows, waiting.since, waiting.until)

    @cached_property
    def _session(self) -> SparkSession:
        from sash.spark.archive_frames import archive_session

        return archive_session(self._spark())

    # -- questions -------------------------------------------------------------------------------------

    def fits(self, wanted: WantedKeys) -> bool:
        """This process should read the rows of a probe; Spark reads more than that."""
        with self._reading():
            waiting = self.inbox.waiting(None, self.now).bytes
        return self.archive.probe_size(wanted).bytes + waiting < SPARK_FROM_BYTES

    def probe(self, wanted: WantedKeys) -> tuple[pa.Table, Micros | None]:
        """The rows with wanted keys, and their time."""
        spec = self.archive.spec
        columns = [*spec.schema.names, EXPIRES]
        with self._reading():
            while True:
                # In this order: `now` is never behind an update.
                updated, now = self._updated, self.now
                stored = self.archive.probe_keys(wanted, columns=columns)
                waiting = self.inbox.waiting(updated, now).read(spec, wanted.condition)
                # Between the two reads an update may have moved records.
                if self._updated == updated:
                    found = pa.concat_tables([stored, waiting.select(columns)]).filter(expires_after(now))
                    return found.select(spec.schema.names), _known(now)

    @contextmanager
    def scanning(
        self, spark: SparkSession, wanted: WantedKeys | None = None
    ) -> Iterator[tuple[DataFrame, Micros | None]]:
        """All rows as a DataFrame, and their time; their files stay until the end of the `with`.

        Files that cannot have `wanted` keys are left out.
        """
        from sash.plan.expressions import quoted
        from sash.spark.archive_frames import alive, inserted_between, read_files

        spec = self.archive.spec
        with self._reading(), self.archive.hold(wanted=wanted) as held:
            now = self.now
            waiting = self.inbox.waiting(held.manifest.updated, now)
            stored, fresh = (read_files(spark, paths, spec) for paths in (held.paths, waiting.paths))
            fresh = inserted_between(fresh, waiting.since, waiting.until)
            yield alive(stored.unionAll(fresh), now).select(*map(quoted, spec.schema.names)), _known(now)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Inside, no file of the inbox is removed."""
        with self._counting:
            self._readers += 1
        try:
            yield
        finally:
            with self._counting:
                self._readers -= 1

    def statistics(self) -> dict[str, Any]:
        facts = self.archive.facts()
        spec = facts.spec
        return {
            "name": self.declared.name,
            "from": self.declared.source,
            "key": self.declared.key,
            "lifetime": format_duration(self.declared.lifetime),
            "every": format_duration(self.declared.every),
            "partition": f"{spec.g} x {spec.e}",
            "layout": spec.layout,
            "strategy": spec.strategy,
            "auto": spec.auto,
            "rows": facts.rows,
            "bytes": facts.bytes,
            "files": facts.files,
            "updated": None if facts.updated is None else to_datetime(facts.updated),
            "directory": str(self.archive.directory.absolute()),
            "error": self.error,
        }

    def close(self) -> None:
        """Take no more deliveries; wait for a running update."""
        with self._writing:
            self._is_closed = True
            self.archive.close()


def wanted_keys(sought: SoughtValues | SoughtRange, spec: Spec) -> WantedKeys:
    if isinstance(sought, SoughtValues):
        return KeyValues.of(sought.values, spec)
    return KeyRange.of(sought.low, sought.high, spec)


def _known(now: Micros) -> Micros | None:
    return None if now == _NEVER_YET else now
