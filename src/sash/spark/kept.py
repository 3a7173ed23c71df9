"""The rows of a micro-batch as they are stored for one-time questions."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame

from sash.catalog import Stream
from sash.core.time import Micros
from sash.spark.lanes import CORRUPT_COLUMN, quoted
from sash.spark.leaves import timed


def rows_to_keep(batch: DataFrame, stream: Stream, time: str, oldest: Micros) -> pa.Table:
    """Every row that can be read and is not too old: the stream's columns, and event time in microseconds."""
    rows = timed(batch, stream).where(f"_t >= {oldest}L")
    if CORRUPT_COLUMN in rows.columns:
        rows = rows.where(f"{CORRUPT_COLUMN} IS NULL")
    columns = [quoted(name) for name in stream.schema.names]
    table = rows.selectExpr(*columns, f"_t AS {time}").toArrow()
    return table.cast(stream.schema.append(pa.field(time, pa.int64())))
