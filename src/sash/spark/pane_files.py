"""Pane tables whose rows stay in the cluster: a micro-batch's partials to files, and inquiries over such files.

    micro-batch ─► the pass of one table ─► mapInArrow: rows as they are stored ─► one directory per pane

    files ─► exchange by groups ─► mapInArrow: all windows, all queries ─► what may be in an answer ─► this process

    files of panes that close ─► sum by pane, group, item ─► the k most frequent of each pane and group ─► this process

An inquiry is one job, whatever the number of windows and queries. Its tasks are small, and it has its own pool:
micro-batches of other streams come first. Short lists are a part of their micro-batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr
from pyspark.sql.pandas.types import from_arrow_schema

from sash.expr.value_codes import one_array
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.cluster_panes import Inquiry, key_name, stored_rows, stored_schema, value_name
from sash.panes.pane_store import SPAN, PartFailure, PartResult
from sash.panes.readers import Columns
from sash.sharing.groups import PaneTable
from sash.spark.lanes import UNPARSABLE_PANE, PassProgram, split
from sash.spark.pools import answering
from sash.spark.sources import spark_schema
from sash.spark.spark_faults import first_line
from sash.spark.stored_rows import literal, local
from sash.storage.files import stream_bytes
from sash.storage.window_files import PANE

# A task has about this many rows of panes in memory.
ROWS_OF_TASK = 400_000
# Columns travel in pieces of this many rows, because a value in Spark is at most 2 GB long.
_ROWS_OF_PIECE = 500_000
_FOUND = pa.schema([("part", pa.int32()), ("failure", pa.string()), ("columns", pa.binary())])


# -- writing ---------------------------------------------------------------------------------------------


def write_panes(rows: DataFrame, program: PassProgram, place: Path) -> None:
    """Write the result of the pass of one pane table, as files by pane."""
    (table,) = program.tables
    storing = _StoringTask(program, table)
    stored = rows.where(f"_pane > {UNPARSABLE_PANE}L").mapInArrow(storing, spark_schema(storing.schema))
    # As few files of a good size as possible: otherwise each task would write one for each pane.
    stored = stored.hint("rebalance", col(PANE)).sortWithinPartitions(PANE)
    stored.write.partitionBy(PANE).parquet(local(place))


@dataclass(frozen=True)
class _StoringTask:
    """On an executor: from the rows of Spark's aggregation to stored rows."""

    program: PassProgram
    table: PaneTable

    @property
    def _keys(self) -> list[pa.DataType]:
        return [key.type for key in self.table.keys]

    @property
    def schema(self) -> pa.Schema:
        return stored_schema(self._keys, self.table.partials).append(pa.field(PANE, pa.int64()))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _pieces(batches):
            synopsis = BasicIntervalSynopsis(self._keys)
            synopsis.require(self.table.partials, None)
            for _, rows, _ in split(self.program, table).lanes:
                synopsis.absorb(rows)
            stored = stored_rows(synopsis)
            yield from stored.append_column(PANE, stored["end"]).cast(self.schema).combine_chunks().to_batches()


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Some batches at a time, so that a task's memory is bounded."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(each) for each in waiting) >= ROWS_OF_TASK:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting = []
    if sum(len(each) for each in waiting):
        yield pa.Table.from_batches(waiting).combine_chunks()


# -- short lists -----------------------------------------------------------------------------------------


def short_lists(spark: SparkSession, paths: Sequence[Path], table: PaneTable) -> pa.Table:
    """The rows that are on the list of some condition, of each pane and group (panes/list_panes.py)."""
    lists = table.name.lists
    assert lists is not None
    schema = stored_schema([key.type for key in table.keys], table.partials)
    identity, counts = [*SPAN, *map(key_name, range(len(table.keys)))], [value_name(p, 0) for p in table.partials]
    rows = spark.read.schema(spark_schema(schema)).parquet(*[literal(local(path)) for path in paths])
    # A file may be older than a condition.
    summed = rows.groupBy(*identity).agg(*(expr(f"sum(coalesce({name}, 0)) AS {name}") for name in counts))
    owner, item = ", ".join([*SPAN, *map(key_name, lists.group)]), key_name(lists.item)
    listed = [
        summed.where(f"{name} > 0 AND {item} IS NOT NULL")
        .selectExpr("*", f"row_number() OVER (PARTITION BY {owner} ORDER BY {name} DESC, {item}) AS place")
        .where(f"place <= {lists.k}")
        .drop("place")
        for name in counts
    ]
    found = listed[0] if len(listed) == 1 else reduce(DataFrame.unionAll, listed).distinct()
    return found.toArrow().select(schema.names).cast(schema).combine_chunks()


# -- reading ---------------------------------------------------------------------------------------------


def ask_or_blame(
    spark: SparkSession, inquiry: Inquiry, paths: Sequence[Path], rows: int
) -> dict[int, list[PartResult]]:
    """`ask_panes`. If the job fails, each part is asked alone, and only the parts that fail again fail.

    An answer may be too large for this process, a task too large for its executor. If even counting the rows of the
    files fails, no part is to blame, and the error is raised.
    """
    try:
        return ask_panes(spark, inquiry, paths, rows)
    except Exception as error:
        _check_readable(spark, paths, error)
    found: dict[int, list[PartResult]] = {}
    for number in range(len(inquiry.parts)):
        try:
            found[number] = ask_panes(spark, inquiry.only([number]), paths, rows).get(0, [])
        except Exception as error:
            _check_readable(spark, paths, error)
            found[number] = [PartFailure(first_line(error))]
    return found


def _check_readable(spark: SparkSession, paths: Sequence[Path], error: Exception) -> None:
    """Raise an error that no inquiry causes: even the number of rows cannot be counted."""
    try:
        with answering(spark) as session:
            session.read.parquet(*[literal(local(path)) for path in paths]).count()
    except Exception:
        raise error from None


def ask_panes(spark: SparkSession, inquiry: Inquiry, paths: Sequence[Path], rows: int) -> dict[int, list[PartResult]]:
    """The results of an inquiry over files with this many rows, by part; without rows a part may have no result."""
    with answering(spark) as session:
        found = [literal(local(path)) for path in paths]
        frame = session.read.schema(spark_schema(inquiry.schema)).parquet(*found)
        tasks = max(session.sparkContext.defaultParallelism, math.ceil(rows / ROWS_OF_TASK))
        frames = [
            _divided(frame, by, tasks).mapInArrow(
                _ReadingTask(inquiry.only(numbers), numbers), from_arrow_schema(_FOUND)
            )
            for by, numbers in inquiry.divisions().items()
        ]
        table = reduce(DataFrame.unionAll, frames).toArrow()
    parts: dict[int, list[PartResult]] = {}
    for part, failure, columns in zip(*(table[name].to_pylist() for name in _FOUND.names), strict=True):
        parts.setdefault(part, []).append(PartFailure(failure) if failure is not None else _unpacked(columns))
    return parts


def _divided(frame: DataFrame, by: Sequence[int], tasks: int) -> DataFrame:
    return frame.repartition(tasks, *map(key_name, by)) if by else frame.repartition(1)


@dataclass(frozen=True)
class _ReadingTask:
    """On an executor: from the rows of a task to the columns of parts."""

    inquiry: Inquiry
    numbers: Sequence[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = list(batches)
        if not sum(len(batch) for batch in some):
            return
        table = pa.Table.from_batches(some)
        for place, found in self.inquiry.read(table):
            for failure, columns in _packed(found):
                row = {"part": self.numbers[place], "failure": failure, "columns": columns}
                yield pa.RecordBatch.from_pylist([row], schema=_FOUND)


def _packed(found: PartResult) -> Iterator[tuple[str | None, bytes | None]]:
    if isinstance(found, PartFailure):
        yield found.why, None
        return
    # Keys and fields may have the same names; a query without keys has rows without columns.
    arrays = {"rows": pa.nulls(found.count)}
    arrays |= {f"k{name}": column for name, column in found.keys.items()}
    arrays |= {f"f{name}": column for name, column in found.fields.items()}
    table = pa.table(arrays)
    for first in range(0, max(1, len(table)), _ROWS_OF_PIECE):
        yield None, stream_bytes(table.slice(first, _ROWS_OF_PIECE))


def _unpacked(columns: bytes) -> Columns:
    table = pa.ipc.open_stream(columns).read_all().combine_chunks()
    keys, fields = (
        {name[1:]: one_array(table[name]) for name in table.column_names if name != "rows" and name[0] == kind}
        for kind in "kf"
    )
    return Columns(keys, fields, len(table))
