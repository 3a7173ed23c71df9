"""The rows of a micro-batch that are stored for one-time questions: on the driver, or in Spark's files.

Spark's files are Parquet: the stream's columns, event time, and the order of rows of one time: the epoch and the place
in it. Rows of one sub-window are in one directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, desc
from pyspark.sql.types import LongType, StructField, StructType

from sash.catalog import Stream
from sash.core.time import Micros
from sash.plan.expressions import quoted
from sash.spark.lanes import CORRUPT_COLUMN, pane_end
from sash.spark.leaves import timed
from sash.spark.sources import spark_schema

# The order of stored rows: event time, epoch, arrival.
ORDER = ("_t", "_epoch", "_arrival")


def rows_to_keep(batch: DataFrame, stream: Stream, time: str, oldest: Micros) -> pa.Table:
    """Every row that can be read and is not too old: the stream's columns, and event time in microseconds."""
    table = _storable(batch, stream, oldest).selectExpr(*_columns(stream), f"_t AS {time}").toArrow()
    return table.cast(stream.schema.append(pa.field(time, pa.int64())))


def write_rows(batch: DataFrame, stream: Stream, oldest: Micros, epoch: int, length: Micros, place: Path) -> None:
    """Write the same rows to files, by sub-windows of a length: a directory `_pane=END` for each."""
    rows = _storable(batch, stream, oldest).selectExpr(
        *_columns(stream), "_t", f"{epoch}L AS _epoch", "_arrival", f"{pane_end(stream, length)} AS _pane"
    )
    # As few files of a good size as possible: otherwise each task would write one for each sub-window.
    rows = rows.hint("rebalance", col("_pane")).sortWithinPartitions("_pane", *ORDER)
    rows.write.partitionBy("_pane").parquet(local(place))


def stored_rows(spark: SparkSession, stream: Stream, paths: Iterable[Path]) -> DataFrame:
    """The rows of such files, with the columns of ORDER."""
    order = [StructField(name, LongType()) for name in ORDER]
    schema = StructType([*spark_schema(stream.schema).fields, *order])
    found = [literal(local(path)) for path in paths]
    return spark.read.schema(schema).parquet(*found) if found else spark.createDataFrame([], schema)


def ordered(rows: DataFrame) -> DataFrame:
    return rows.orderBy(*ORDER)


def latest_time(rows: DataFrame) -> Micros | None:
    """The time of the youngest row; None without a row."""
    ((latest,),) = rows.selectExpr("max(_t)").collect()
    return None if latest is None else int(latest)


def last_rows(rows: DataFrame, lag: int, number: int) -> DataFrame:
    """The `number` youngest rows before the last `lag` ones."""
    return rows.orderBy(*map(desc, ORDER)).offset(lag).limit(number)


def last_rows_of_each(rows: DataFrame, partition: Iterable[str], lag: int, reach: int) -> DataFrame:
    """The rows of each partition from the youngest but `lag` to the one that is `reach` back."""
    by, order = ", ".join(map(quoted, partition)), ", ".join(f"{name} DESC" for name in ORDER)
    ranked = rows.selectExpr("*", f"row_number() OVER (PARTITION BY {by} ORDER BY {order}) AS _n")
    return ranked.where(f"_n > {lag} AND _n <= {reach}")


def without_order(rows: DataFrame, stream: Stream) -> DataFrame:
    """The stream's own columns."""
    return rows.selectExpr(*_columns(stream))


def is_local(spark: SparkSession) -> bool:
    """Whether executors are on this machine, and see all its files."""
    return (spark.sparkContext.master or "").startswith("local")


def _storable(batch: DataFrame, stream: Stream, oldest: Micros) -> DataFrame:
    rows = timed(batch, stream).where(f"_t >= {oldest}L")
    return rows.where(f"{CORRUPT_COLUMN} IS NULL") if CORRUPT_COLUMN in rows.columns else rows


def _columns(stream: Stream) -> list[str]:
    return [quoted(name) for name in stream.schema.names]


def local(path: Path) -> str:
    return f"file://{path.as_posix()}"


def literal(path: str) -> str:
    """Escape a path: Spark takes a path for a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
