"""The executor on Spark: any question over stored windows (KEEP), tables, archives and queries' results.

    aggregates of one window   the same pass, synopses and finishers as a registered query has, over the stored rows
    everything else            Spark SQL over views of the rows (sql/binding/stored.py says what may go there)

Both begin with DataFrames of the stored rows. Rows in memory are cut to a window here and given to Spark. Rows in files
(STORED IN CLUSTER) stay in the files: this module selects the files, by the times of their sub-windows and their
numbers of rows, and Spark selects rows in them by a condition, an order or a rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.catalog import Stream
from sash.core.errors import QueryFailedError, SashError
from sash.core.time import Micros
from sash.panes.pane_rows import BatchFacts
from sash.plan.expressions import quoted
from sash.runtime.answers.answer import stamped_table
from sash.runtime.asking.query_results import QueryResults
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.session_parts import SessionParts
from sash.runtime.settings import Settings
from sash.runtime.stored.archive_feed import ArchiveFeed, wanted_keys
from sash.runtime.stored.stored_access import (
    by_then,
    common_time,
    having,
    in_places,
    is_complete,
    read_question,
    read_stored,
    window_rows,
    without_places,
)
from sash.runtime.stored.stored_indexes import MOST_TEXT, TIME
from sash.runtime.stored.stored_window import StoredRows, StoredWindow
from sash.runtime.streams.running_stream import RunningStream
from sash.sharing.groups import PaneTable
from sash.spark.answer_frames import frame_of
from sash.spark.pipeline import Pipeline
from sash.spark.pools import asking
from sash.spark.preparation import Interval
from sash.spark.sources import type_name
from sash.spark.spark_faults import first_line
from sash.spark.stored_rows import last_rows, last_rows_of_each, latest_time, ordered, stored_rows, without_order
from sash.sql import ArchiveReading, StoredQuestion, StoredReading
from sash.storage.window_files import WindowFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# How many rows of an answer the caller wants (None: all). The layers between need not know it.
MOST_ROWS: ContextVar[int | None] = ContextVar("sash_most_rows", default=None)


class QuestionsOnSpark:
    """`feed_of` gives an archive by name."""

    def __init__(self, shared: SessionParts, feed_of: Callable[[str], ArchiveFeed], results: QueryResults) -> None:
        self._shared = shared
        self.feed_of = feed_of
        self._results = results

    def answer_aggregate(self, query: CompiledQuery, running: RunningStream) -> pa.Table:
        """An aggregate over one window, or a composition of such."""
        with _reading([_kept(running)]), asking(self._shared.spark) as beside:
            return _from_pass(query, running, self._shared.settings, beside)

    def answer_select(self, question: StoredQuestion, streams: Mapping[str, RunningStream]) -> pa.Table:
        """Any other SELECT. Of several streams, archives and queries, the answer is as of the least of their times."""
        kept = {view: _kept(running) for view, running in streams.items()}
        with ExitStack() as held:
            spark = held.enter_context(asking(self._shared.spark))
            held.enter_context(_reading(kept.values()))
            frames, as_of, complete = _window_frames(question, kept, spark)
            for view, table in question.tables.items():
                frames[view] = frame(spark, self._shared.tables.rows_at(table.name, as_of))
            times = [] if as_of is None else [as_of]
            for view, reading in question.archives.items():
                frames[view], time = self._archived(reading, spark, held)
                times += [] if time is None else [time]
            for view, result in question.results.items():
                rows, time, whole = self._results.read(result)
                frames[view], complete = frame(spark, rows), complete and whole
                times += [] if time is None else [time]
            held.enter_context(_views(spark, frames))
            try:
                found = _answer(question, frames, spark)
            except Exception as error:
                raise SashError(f"Spark refuses the question: {first_line(error)}") from error
        return stamped_table(found, min(times, default=None), complete)

    def _archived(
        self, reading: ArchiveReading, spark: SparkSession, held: ExitStack
    ) -> tuple[DataFrame, Micros | None]:
        """The rows of an archive that a question reads, and their time; the files stay until `held` ends."""
        feed = self.feed_of(reading.archive.name)
        wanted = None if reading.keys is None else wanted_keys(reading.keys, feed.archive.spec)
        if wanted is None or not feed.fits(wanted):
            return held.enter_context(feed.scanning(spark, wanted))
        rows, now = feed.probe(wanted)
        return frame(spark, rows), now


def _kept(running: RunningStream) -> StoredWindow:
    assert running.stored_window is not None
    return running.stored_window


@contextmanager
def _reading(windows: Iterable[StoredWindow]) -> Iterator[None]:
    """Inside, the rows that some windows store now can be read."""
    with ExitStack() as stack:
        for kept in {id(kept): kept for kept in windows}.values():
            stack.enter_context(kept.reading())
        yield


# -- aggregates: the pass of a registered query ------------------------------------------------------


def _from_pass(query: CompiledQuery, running: RunningStream, settings: Settings, spark: SparkSession) -> pa.Table:
    kept, table = _kept(running), query.readings[0].table
    reach = max(window.reach for window in query.windows)
    stored = read_stored(kept, None if table.by_rows else reach)
    rows, now = _source(spark, kept).everything(stored, reach, table.by_rows, bool(table.partition))
    pipeline = Pipeline(running.stream, rows)

    def facts(tables: list[PaneTable]) -> BatchFacts:
        if not table.by_rows:
            return pipeline.facts(pipeline.aggregate(running.looked_up(rows, query.lookups), tables), tables)
        result, _ = pipeline.aggregate_numbered(rows, None, Interval(None, None), 0, tables)
        found = pipeline.numbered_facts(result, tables)
        assert found is not None
        return found

    if table.by_rows and not now:
        raise SashError(f"no tuple of stream '{running.stream.name}' is stored: there is nothing to ask")
    runtime = StreamRuntime(running.stream, settings)
    try:
        answer = runtime.answer_alone(query, 0 if table.by_rows else now - reach, now, facts)
    except SashError:
        raise
    except Exception as error:
        raise QueryFailedError(first_line(error)) from error
    if table.by_rows:
        # However few rows a partition has, there may have been more.
        return stamped_table(answer, stored.as_of, now >= reach and not table.partition)
    return stamped_table(answer, stored.as_of, is_complete(stored, reach, stored.as_of))


# -- everything else: Spark SQL ----------------------------------------------------------------------


def _window_frames(
    question: StoredQuestion, kept: Mapping[str, StoredWindow], spark: SparkSession
) -> tuple[dict[str, DataFrame], Micros | None, bool]:
    """The windows by view, their time, and whether each is complete."""
    stored = read_question(question, kept)
    as_of = common_time(stored.values())
    frames, complete = dict[str, "DataFrame"](), True
    for view, window in question.windows.items():
        assert as_of is not None
        frames[view], whole = _source(spark, kept[view]).window(window, stored[view], as_of)
        complete &= whole
    return frames, as_of, complete


def _answer(question: StoredQuestion, frames: Mapping[str, DataFrame], spark: SparkSession) -> pa.Table:
    """The answer by Spark alone, or sorted here if the rows have places."""
    sorting, most = question.sorting, MOST_ROWS.get()
    if sorting is None or not any(sorting.place in each.columns for each in frames.values()):
        found = spark.sql(question.sql)
        return (found if most is None else found.limit(most + 1)).toArrow()
    if most is not None:
        # Only the rows with the first places come here.
        first = spark.sql(f"{sorting.sql} ORDER BY {sorting.place}").limit(most + 1)
        return without_places(first.toArrow(), sorting.place)
    placed = spark.sql(sorting.sql).toArrow()
    if placed.nbytes <= MOST_TEXT:
        return in_places(placed, sorting.place)
    return without_places(spark.sql(f"{sorting.sql} ORDER BY {sorting.place}").toArrow(), sorting.place)


@contextmanager
def _views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    try:
        for view, made in frames.items():
            made.createOrReplaceTempView(view)
        yield
    finally:
        for view in frames:
            spark.catalog.dropTempView(view)


# -- stored rows as DataFrames -----------------------------------------------------------------------


def frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    rows = rows.select([name for name in rows.schema.names if name != TIME])
    return frame_of(spark, rows, ", ".join(f"{quoted(field.name)} {type_name(field.type)}" for field in rows.schema))


def _source(spark: SparkSession, kept: StoredWindow) -> FramesOfMemory | FramesOfFiles:
    """The stored rows of a stream, as DataFrames."""
    return FramesOfMemory(spark) if kept.files is None else FramesOfFiles(spark, kept.stream, kept.files)


@dataclass(frozen=True)
class FramesOfMemory:
    spark: SparkSession

    def everything(self, stored: StoredRows, reach: int, by_rows: bool, partitioned: bool) -> tuple[DataFrame, int]:
        """All rows that a window looks back to, and their end: a time, or a number of rows, which are in order."""
        return frame(self.spark, stored.rows), len(stored.rows) if by_rows else stored.as_of

    def window(self, reading: StoredReading, stored: StoredRows, as_of: Micros) -> tuple[DataFrame, bool]:
        """The rows of a window as of a time, and whether the window is complete."""
        found, whole = window_rows(reading, stored, as_of)
        return frame(self.spark, having(reading.sought, found)), whole


@dataclass(frozen=True)
class FramesOfFiles:
    """The ring holds a table of files: name, number of rows, last instant of the file's sub-window."""

    spark: SparkSession
    stream: Stream
    files: WindowFiles

    def everything(self, stored: StoredRows, reach: int, by_rows: bool, partitioned: bool) -> tuple[DataFrame, int]:
        if not by_rows:
            rows = self._rows(stored.rows).where(self._after(stored.as_of - reach))
            return without_order(rows, self.stream), stored.as_of
        found = stored.rows if partitioned else _youngest(stored.rows, reach)
        return without_order(ordered(self._rows(found)), self.stream), int(np.asarray(found["rows"]).sum())

    def window(self, reading: StoredReading, stored: StoredRows, as_of: Micros) -> tuple[DataFrame, bool]:
        if reading.by_rows:
            rows, complete = self._by_rows(reading, stored, as_of)
        elif reading.now:
            rows, complete = self._of_now(reading, stored, as_of), is_complete(stored, 0, as_of)
        else:
            rows, complete = self._in_time(reading, stored, as_of), is_complete(stored, reading.window.reach, as_of)
        return without_order(rows, self.stream), complete

    def _in_time(self, reading: StoredReading, stored: StoredRows, as_of: Micros) -> DataFrame:
        end = as_of - reading.window.lag
        start = end - reading.window.length
        found = self._begun(stored.rows, end)
        # The window begins in a sub-window whose last instant is at or after the beginning.
        found = found.filter(pa.array(np.asarray(found[TIME]) >= start))
        return self._rows(found).where(f"{self._after(start)} AND {self._before(end)}")

    def _of_now(self, reading: StoredReading, stored: StoredRows, as_of: Micros) -> DataFrame:
        end = as_of - reading.window.lag
        found, whole = self._begun_and_whole(reading, stored.rows, end)
        if whole.any():
            times = np.asarray(found[TIME])
            found = found.filter(pa.array(times >= times[whole].max()))
        rows = self._rows(found).where(self._before(end))
        latest = latest_time(rows)
        return rows.where("false" if latest is None else f"_t = {latest}L")

    def _by_rows(self, reading: StoredReading, stored: StoredRows, as_of: Micros) -> tuple[DataFrame, bool]:
        window = reading.window
        found, whole = self._begun_and_whole(reading, stored.rows, as_of)
        if reading.partition:
            rows = self._rows(found).where(self._before(as_of))
            # A partition with few rows may have had more rows before.
            return last_rows_of_each(rows, reading.partition, window.lag, window.reach), False
        inside, cut = found.filter(pa.array(whole)), found.filter(pa.array(~whole))
        needed = pa.concat_tables([_youngest(inside, window.reach), cut])
        rows = self._rows(needed).where(self._before(as_of))
        enough = int(np.asarray(inside["rows"]).sum()) >= window.reach
        # Only the sub-window that contains the time has an unknown number of rows that count.
        complete = enough or (len(cut) > 0 and rows.count() >= window.reach)
        return last_rows(rows, window.lag, window.length), complete

    def _begun(self, found: pa.Table, end: Micros) -> pa.Table:
        """The files of sub-windows that begin before a time."""
        return found.filter(pa.array(np.asarray(found[TIME]) - self.stream.sub_window < end))

    def _begun_and_whole(
        self, reading: StoredReading, found: pa.Table, end: Micros
    ) -> tuple[pa.Table, NDArray[np.bool_]]:
        """The files of sub-windows that begin before a time, and which of these sub-windows end by then, too."""
        begun = self._begun(found, end)
        return begun, by_then(reading, np.asarray(begun[TIME]), end)

    def _rows(self, found: pa.Table) -> DataFrame:
        self.files.check(found)
        return stored_rows(self.spark, self.stream, map(self.files.path, found["file"].to_pylist()))

    def _after(self, start: Micros) -> str:
        return f"_t {'>=' if self.stream.closed_left else '>'} {start}L"

    def _before(self, end: Micros) -> str:
        return f"_t {'<' if self.stream.closed_left else '<='} {end}L"


def _youngest(found: pa.Table, needed: int) -> pa.Table:
    """The files of the youngest sub-windows that have `needed` rows together; all files if they have fewer."""
    times, numbers = np.asarray(found[TIME]), np.asarray(found["rows"])
    order = np.argsort(-times, kind="stable")
    place = int(np.searchsorted(np.cumsum(numbers[order]), needed))
    return found if place >= len(found) else found.filter(pa.array(times >= times[order[place]]))
