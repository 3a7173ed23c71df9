"""A stream's Spark query: micro-batches in, partials out.

One action per micro-batch, whatever the queries; row-based windows take two more, because tuples need numbers, and
each pane table in the cluster one that writes its files.

The pass is a plan of Spark's, parsed once per set of pane tables, and bound to the rows of each micro-batch:

    text ── Spark's parser ──► plan over a name     kept
                                       │
    micro-batch ─► its plan ───────────┴─► the name replaced ─► analysed, run ─► Arrow

A view of that name would be two of Spark's commands per micro-batch, and the text would be parsed each time. Spark's
analysis cannot be kept: the columns of every micro-batch are new to Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.functions import expr
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sash.catalog import Stream
from sash.core.errors import SourceError
from sash.core.time import Micros
from sash.panes.aggregates import HOLISTIC
from sash.panes.lifted import LiftedColumn
from sash.panes.pane_rows import BatchFacts
from sash.panes.partials import Partial
from sash.panes.readers import aggregate_of
from sash.plan.expressions import quoted
from sash.plan.nodes import AggregateCall
from sash.plan.periodic import PeriodicAggregate
from sash.sharing.groups import PaneTable
from sash.spark.lanes import PassProgram, split
from sash.spark.pane_files import short_lists, write_panes
from sash.spark.pools import STREAM, in_pool
from sash.spark.preparation import Interval, Jumps, RowNumbering, jumps, scaled, stamped_rows
from sash.spark.sources import has_corrupt_column, limited, open_source, type_name
from sash.spark.spark_faults import disk_full, file_of, first_line, is_disk_full, never_called_back
from sash.spark.stored_rows import is_local, rows_to_keep
from sash.spark.user_functions import define_functions
from sash.spark.user_lifts import with_partials

_TRIES = 5
# What the pass calls its rows.
ROWS = "_sash_rows"


def start_python_source(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query whose source a Python process plans.

    Spark gives that process ten seconds to call back. This limit cannot be changed, and a busy machine may need longer.
    No tuple was read before the call back, so the query is started again.
    """
    query = writer.start()
    for _ in range(_TRIES - 1):
        while query.isActive and query.status["message"] == "Initializing sources":
            time.sleep(0.02)
        if not never_called_back(query.exception()):
            break
        query = writer.start()
    return query


class Pipeline:
    """The stateless part of the shared plan: rows to pane partials, by Spark's own generated code."""

    def __init__(self, stream: Stream, frame: DataFrame) -> None:
        self._stream = stream
        self._corrupt = has_corrupt_column(frame)
        self._frame = frame
        self._query: StreamingQuery | None = None
        # By whether the pass is over numbered tuples.
        self._passes: dict[bool, tuple[tuple[PaneTable, ...], BoundPass]] = {}
        stamped = stamped_rows(frame, 0) if stream.implicit else frame
        self._numbering = RowNumbering(stream, frame.sparkSession, stamped.schema)

    @property
    def is_streaming(self) -> bool:
        return self._frame.isStreaming

    @property
    def session(self) -> SparkSession:
        return self._frame.sparkSession

    @property
    def is_local(self) -> bool:
        return is_local(self.session)

    # -- running ---------------------------------------------------------------------------------------

    def read_once(self, on_batch: Callable[[DataFrame, int], None]) -> None:
        """Take a static DataFrame as one micro-batch."""
        with in_pool(self._frame.sparkSession, STREAM):
            define_functions(self._frame.sparkSession)
            on_batch(self._frame, 0)

    def start(
        self, on_batch: Callable[[DataFrame, int], None], checkpoint: Path, trigger: str | None, most: int | None = None
    ) -> StreamingQuery:
        """Start the Spark query: at a processing-time interval, or (None) over what is available now.

        `most`: the most input of one micro-batch, if the source can be limited (limits.py).
        """
        frame = self._frame
        if self._stream.source is not None:
            # For Spark a missing directory is one without new files.
            opened = open_source(frame.sparkSession, limited(self._stream.source, most), self._stream.declared)
            frame = frame if most is None else opened

        def take(batch: DataFrame, epoch: int) -> None:
            define_functions(batch.sparkSession)
            on_batch(batch, epoch)

        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint.resolve().as_uri())
        writer = writer.trigger(availableNow=True) if trigger is None else writer.trigger(processingTime=trigger)
        try:
            # The thread that Spark starts for the stream inherits the pool.
            with in_pool(self._frame.sparkSession, STREAM):
                is_python = self._stream.source is not None and self._stream.source.format.lower() == "pcap"
                self._query = start_python_source(writer) if is_python else writer.start()
        except Exception as error:
            raise SourceError(f"stream '{self._stream.name}' cannot start: {first_line(error)}") from error
        return self._query

    # -- one micro-batch -------------------------------------------------------------------------------

    def aggregate(self, batch: DataFrame, tables: list[PaneTable]) -> pa.Table:
        """The one action. Raises Spark's error: the caller finds out whose expression failed."""
        return self._pass_for(tables).run(batch)

    def stamped(self, batch: DataFrame, arrival: Micros) -> DataFrame:
        return stamped_rows(batch, arrival)

    def write_panes(self, batch: DataFrame, table: PaneTable, place: Path) -> None:
        """Write a micro-batch's rows for a pane table as files, by Spark: a directory `_pane=END` for each pane."""
        program = self._program([table])
        write_panes(BoundPass(program).over(batch), program, place)

    def short_lists(self, paths: Sequence[Path], table: PaneTable) -> pa.Table:
        """The short lists of the panes in such files, as stored rows."""
        return short_lists(self.session, paths, table)

    def facts(self, result: pa.Table, tables: list[PaneTable]) -> BatchFacts:
        """The result of the pass, now or from the log, split by pane tables."""
        return split(self._pass_for(tables).program, result)

    def scaled(self, result: pa.Table, tables: list[PaneTable], one_in: int) -> pa.Table:
        """Scale the result of a pass over one tuple in `one_in` to an estimate for all tuples."""
        return scaled(self._pass_for(tables).program, result, one_in)

    def aggregate_numbered(
        self,
        batch: DataFrame | None,
        pending: pa.Table | None,
        interval: Interval,
        counted: int,
        tables: list[PaneTable],
    ) -> tuple[pa.Table | None, pa.Table | None]:
        """For row-based windows: partials of the tuples that the watermark has passed, and the waiting tuples."""
        frame = self._numbering.arrived(batch, pending)
        if frame is None:
            return None, None
        numbered = self._numbering.numbered(frame, interval, counted)
        result = self._pass_for(tables, numbered=True).run(numbered)
        return result, self._numbering.held_back(frame, interval)

    def numbered_facts(self, result: pa.Table | None, tables: list[PaneTable]) -> BatchFacts | None:
        return None if result is None else split(self._pass_for(tables, numbered=True).program, result)

    def rows_to_keep(self, batch: DataFrame, time: str, oldest: Micros) -> pa.Table:
        return rows_to_keep(batch, self._stream, time, oldest)

    def _pass_for(self, tables: list[PaneTable], numbered: bool = False) -> BoundPass:
        wanted, known = tuple(tables), self._passes.get(numbered)
        if known is None or known[0] != wanted:
            known = self._passes[numbered] = (wanted, BoundPass(self._program(tables, numbered)))
        return known[1]

    def _program(self, tables: list[PaneTable], numbered: bool = False) -> PassProgram:
        return PassProgram(self._stream, tables, ROWS, type_name, self._corrupt, numbered)

    def with_pending(self, batch: DataFrame | None, pending: pa.Table | None) -> DataFrame | None:
        """All the tuples that a failed pass may have read."""
        return batch if pending is None else self._numbering.arrived(batch, pending)

    def jumps(self, batch: DataFrame, reached: Micros | None) -> Jumps | None:
        """The tuples of a micro-batch that are too far ahead of the stream."""
        try:
            return jumps(batch, self._stream, reached)
        except Exception:
            self.readable(batch)
            raise

    def readable(self, batch: DataFrame) -> None:
        """Read every row of the batch and do nothing with it; SourceError if even that fails."""
        try:
            batch.selectExpr(f"max({quoted(self._stream.timestamp)})").collect()
        except Exception as error:
            if is_disk_full(error):
                raise disk_full(self._stream.name) from error
            raise SourceError(
                f"stream '{self._stream.name}' cannot be read: {first_line(error)}{file_of(error)}"
            ) from error

    def failure(self, batch: DataFrame, leaves: Sequence[PeriodicAggregate]) -> str | None:
        """Why a query's own expressions fail over this batch, or None when they do not."""
        return next((why for leaf in leaves if (why := self._failure(batch, leaf)) is not None), None)

    def _failure(self, batch: DataFrame, query: PeriodicAggregate) -> str | None:
        frame = batch if query.predicate is None else batch.where(query.predicate.sql)
        expressions = [*(key.expression.sql for key in query.keys), *(key.sql for key in query.partition)]
        calls = [lifted for call in query.calls for lifted in _lifts(call)]
        texts = ["count(1)", *(lifted.sql() for lifted in calls)]
        grouped = frame.groupBy(*map(expr, expressions)).agg(*map(expr, texts))
        names = [f"c{i}" for i in range(len(grouped.columns))]
        called = zip(names[len(names) - len(calls) :], calls, strict=True)
        lifts = {name: lifted.user for name, lifted in called if lifted.user is not None}
        grouped = with_partials(grouped.toDF(*names), lifts)
        try:
            grouped.write.format("noop").mode("overwrite").save()
        except Exception as error:
            if is_disk_full(error):
                raise disk_full(self._stream.name) from error
            return first_line(error)
        return None


def _lifts(call: AggregateCall) -> list[LiftedColumn]:
    """The columns to evaluate; a holistic aggregate's argument is a key of its pane table: counting evaluates it."""
    if call.function in HOLISTIC:
        columns = list(Partial("count", call.argument).lift())
    else:
        columns = [lifted for partial in aggregate_of(call).lift(call.argument, None) for lifted in partial.lift()]
    if call.condition is None:
        return columns
    return [replace(each, argument=f"CASE WHEN {call.condition.sql} THEN {each.argument} END") for each in columns]


class BoundPass:
    """The text of a program, to be run over one micro-batch after the other."""

    def __init__(self, program: PassProgram) -> None:
        self.program = program
        self._plan: _KeptPlan | None = None
        # The result's, from the first run: later ones need not ask Spark.
        self._schema: pa.Schema | None = None

    def over(self, rows: DataFrame) -> DataFrame:
        # They may come while the stream runs.
        define_functions(rows.sparkSession)
        if self._plan is None:
            self._plan = _KeptPlan(rows.sparkSession, self.program.sql)
        return with_partials(self._plan.over(rows), self.program.user_lifts)

    def run(self, rows: DataFrame) -> pa.Table:
        """One action."""
        frame = self.over(rows)
        if self._schema is None:
            table = frame.toArrow()
            self._schema = table.schema
        else:
            # `toArrow` without questions about settings and types.
            batches = frame._collect_as_arrow()  # type: ignore[operator]
            table = pa.Table.from_batches(batches).cast(self._schema) if batches else self._schema.empty_table()
        return table.combine_chunks()


class _KeptPlan:
    """Objects of the JVM. Every name that is looked up there is a round trip, so they are looked up once."""

    def __init__(self, session: SparkSession, text: str) -> None:
        java: Any = session._jvm
        self._plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
        self._rows = self._plan.collectLeaves().head()
        # For Scala a map is a partial function, and a plan's nodes are replaced by one.
        self._replaced = getattr(java.scala.collection.immutable, "Map$Map1")
        self._planned = java.org.apache.spark.sql.classic.Dataset.ofRows

    def over(self, rows: Any) -> DataFrame:
        plan = self._plan.transformDown(self._replaced(self._rows, rows._jdf.logicalPlan()))
        return ClassicDataFrame(self._planned(rows.sparkSession._jsparkSession, plan), rows.sparkSession)
