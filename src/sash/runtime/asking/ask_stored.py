"""One-time questions answered from stored windows (KEEP), as of one time.

aggregates of one window   folded here, sub-window by sub-window (stored/folded_questions.py); where that will not do,
                           the same pass, synopses and finishers as a registered query has, over the stored rows
everything else            Spark SQL over views of the rows (sql/binding/stored.py says what may go there)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.core.errors import QueryFailedError, SashError
from sash.core.time import Micros, to_datetime
from sash.panes.pane_rows import BatchFacts
from sash.plan.expressions import quoted
from sash.runtime.asking.ask_counts import answer_from_counts, counting_index
from sash.runtime.asking.ask_files import all_rows, window_frame, youngest
from sash.runtime.asking.read_stored import common_time, having, read_question, read_stored
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from sash.runtime.stored.archive_feed import ArchiveFeed
from sash.runtime.stored.folded_questions import answer_folded, why_not_folded
from sash.runtime.stored.stored_indexes import MOST_TEXT, TIME, IndexGoneError
from sash.runtime.stored.stored_window import KeptWindow, StoredRows
from sash.runtime.stored.stored_windows import in_places, is_complete, window_rows, without_places
from sash.runtime.streams.running_stream import RunningStream
from sash.sharing.groups import PaneTable
from sash.spark.answer_frames import frame_of
from sash.spark.pipeline import Pipeline
from sash.spark.pools import asking
from sash.spark.preparation import Interval
from sash.spark.sources import type_name
from sash.spark.spark_faults import first_line
from sash.sql import ArchiveReading, StoredQuestion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# How many rows of an answer are wanted; who asks says it, and no layer between has to know. None: all.
MOST_ROWS: ContextVar[int | None] = ContextVar("sash_most_rows", default=None)
# The rows of a table as of a time; None: as they are now.
TableRows = Callable[[str, Micros | None], pa.Table]


def answer_from_rows(query: CompiledQuery, running: RunningStream, settings: Settings, spark: SparkSession) -> pa.Table:
    """An aggregate over one window, or a composition of such, from the stored rows."""
    counted = _from_counts(query, running, settings)
    if counted is not None:
        return counted
    kept = running.kept
    if kept is not None and kept.has_begun and why_not_folded(query, running.stream) is None:
        table, as_of = answer_folded(query, kept)
        return _told(table, as_of, _is_all(kept, query.windows[0].reach, as_of))
    with _reading([running]), asking(spark) as beside:
        return _from_pass(query, running, settings, beside)


def _from_pass(query: CompiledQuery, running: RunningStream, settings: Settings, spark: SparkSession) -> pa.Table:
    by_rows, reach = query.readings[0].table.by_rows, max(window.reach for window in query.windows)
    stored = read_stored(running, None if by_rows else reach)
    partition = query.readings[0].table.partition
    if by_rows and not partition and _kept(running).files is not None:
        stored = replace(stored, rows=youngest(stored.rows, reach))
    now = _kept(running).count(stored.rows) if by_rows else stored.as_of
    frame = _all_rows(spark, running, stored, None if by_rows else reach)
    pipeline = Pipeline(running.stream, frame)

    def facts(tables: list[PaneTable]) -> BatchFacts:
        if not by_rows:
            return pipeline.facts(pipeline.aggregate(running.looked_up(frame, query.lookups), tables), tables)
        result, _ = pipeline.aggregate_numbered(frame, None, Interval(None, None), 0, tables)
        found = pipeline.numbered_facts(result, tables)
        assert found is not None
        return found

    if by_rows and not now:
        raise SashError(f"no tuple of stream '{running.stream.name}' is stored: there is nothing to ask")
    runtime = StreamRuntime(running.stream, settings)
    try:
        table = runtime.answer_alone(query, 0 if by_rows else now - reach, now, facts)
    except SashError:
        raise
    except Exception as error:
        raise QueryFailedError(first_line(error)) from error
    if by_rows:
        # However few rows a partition has, there may have been more.
        return _told(table, stored.as_of, now >= reach and not partition)
    return _told(table, stored.as_of, is_complete(stored, reach, stored.as_of))


def _from_counts(query: CompiledQuery, running: RunningStream, settings: Settings) -> pa.Table | None:
    """From a set-valued index, if there is one that has what it takes."""
    kept = running.kept
    index = None if kept is None or not kept.has_begun else counting_index(query, kept)
    if kept is None or index is None:
        return None
    try:
        table, as_of = answer_from_counts(query, kept, index, settings)
    except IndexGoneError:
        return None
    return _told(table, as_of, _is_all(kept, kept.extent, as_of))


def _is_all(kept: KeptWindow, reach: int, as_of: Micros) -> bool:
    """Whether a window as of then begins after what is stored does."""
    return is_complete(kept.stored(kept.empty(), as_of, reach), reach, as_of)


def answer_by_spark(
    question: StoredQuestion,
    streams: Mapping[str, RunningStream],
    table_rows: TableRows,
    feed_of: Callable[[str], ArchiveFeed],
    spark: SparkSession,
) -> pa.Table:
    """Any other SELECT. Of several streams and archives, the answer is as of the least of their times."""
    with ExitStack() as held:
        spark = held.enter_context(asking(spark))
        held.enter_context(_reading(streams.values()))
        frames, as_of, complete = _window_frames(question, streams, spark)
        frames |= {view: _frame(spark, table_rows(table.name, as_of)) for view, table in question.tables.items()}
        times = [] if as_of is None else [as_of]
        for view, reading in question.archives.items():
            frames[view], time = _archived(feed_of(reading.archive.name), reading, spark, held)
            times += [] if time is None else [time]
        held.enter_context(_views(spark, frames))
        try:
            found = _answer(question, frames, spark)
        except Exception as error:
            raise SashError(f"Spark refuses the question: {first_line(error)}") from error
    return _told(found, min(times, default=None), complete)


def _answer(question: StoredQuestion, frames: Mapping[str, DataFrame], spark: SparkSession) -> pa.Table:
    """By Spark alone, or put in order here, where rows have been given places."""
    sorting, most = question.sorting, MOST_ROWS.get()
    if sorting is None or not any(sorting.place in frame.columns for frame in frames.values()):
        found = spark.sql(question.sql)
        return (found if most is None else found.limit(most + 1)).toArrow()
    if most is not None:
        # The first by their places; only these come here.
        first = spark.sql(f"{sorting.sql} ORDER BY {sorting.place}").limit(most + 1)
        return without_places(first.toArrow(), sorting.place)
    placed = spark.sql(sorting.sql).toArrow()
    if placed.nbytes <= MOST_TEXT:
        return in_places(placed, sorting.place)
    return without_places(spark.sql(f"{sorting.sql} ORDER BY {sorting.place}").toArrow(), sorting.place)


def _window_frames(
    question: StoredQuestion, streams: Mapping[str, RunningStream], spark: SparkSession
) -> tuple[dict[str, DataFrame], Micros | None, bool]:
    """The windows by view, as of when they are, and whether all of each is there."""
    stored = read_question(question, streams)
    as_of = common_time(stored.values())
    frames, complete = dict[str, "DataFrame"](), True
    for view, window in question.windows.items():
        assert as_of is not None
        files = _kept(streams[view]).files
        if files is None:
            found, whole = window_rows(window, stored[view], as_of)
            frames[view] = _frame(spark, having(window.sought, found))
        else:
            frames[view], whole = window_frame(spark, files, window, stored[view], as_of)
        complete &= whole
    return frames, as_of, complete


def _archived(
    feed: ArchiveFeed, reading: ArchiveReading, spark: SparkSession, held: ExitStack
) -> tuple[DataFrame, Micros | None]:
    """What a question reads of an archive, and as of when; its files stay until `held` ends."""
    if reading.keys is None:
        return held.enter_context(feed.scanning(spark))
    rows, now = feed.probe(reading.keys.values)
    return _frame(spark, rows), now


@contextmanager
def _reading(streams: Iterable[RunningStream]) -> Iterator[None]:
    """What is stored of some streams now can be read inside."""
    with ExitStack() as stack:
        for kept in {id(running): running.kept for running in streams}.values():
            if kept is not None:
                stack.enter_context(kept.reading())
        yield


def _kept(running: RunningStream) -> KeptWindow:
    assert running.kept is not None
    return running.kept


def _all_rows(spark: SparkSession, running: RunningStream, stored: StoredRows, reach: int | None) -> DataFrame:
    """All rows that were found; in the order of time where they are counted (`reach` is None)."""
    files = _kept(running).files
    return _frame(spark, stored.rows) if files is None else all_rows(spark, files, running.stream, stored, reach)


def _frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    rows = rows.select([name for name in rows.schema.names if name != TIME])
    return frame_of(spark, rows, ", ".join(f"{quoted(field.name)} {type_name(field.type)}" for field in rows.schema))


@contextmanager
def _views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    try:
        for view, frame in frames.items():
            frame.createOrReplaceTempView(view)
        yield
    finally:
        for view in frames:
            spark.catalog.dropTempView(view)


def _told(table: pa.Table, as_of: Micros | None, complete: bool) -> pa.Table:
    times = {} if as_of is None else {"as_of": to_datetime(as_of).isoformat()}
    return table.replace_schema_metadata({**times, "complete": json.dumps(complete)})


def is_whole(answer: pa.Table) -> bool:
    """Whether an answer says that it is complete."""
    return bool(json.loads(answer.schema.metadata[b"complete"]))
