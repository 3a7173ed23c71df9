"""Numbers for the tuples of row-based windows: by timestamp, then by arrival.

    pending (seen before, not yet passed by the watermark) ──┐
    micro-batch ─────────────────────────────────────────────┴─► earlier than the old watermark: late, left out
                                                                 earlier than the new one: numbered, in order
                                                                 the rest: pending

A tuple gets its number when the watermark has passed it: until then an earlier one may come. With DELAY 0 only the
tuples of the very last timestamp are held back. A total order needs one sorted partition, and the tuples are read
more than once: row-based windows are the expensive ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr, lit, monotonically_increasing_id
from pyspark.sql.types import LongType, StructField, StructType

from sash.catalog import Stream
from sash.core.time import Micros
from sash.spark.frames import frame_of
from sash.spark.lanes import CORRUPT_COLUMN, event_micros

# The first number of pending tuples: all of them arrived before those of the micro-batch.
_BEFORE = -(2**62)


@dataclass(frozen=True)
class Interval:
    """Tuples with low <= timestamp < high are numbered; None: without a bound."""

    low: Micros | None
    high: Micros | None


class RowNumbering:
    """The tuples of one stream as numbered and pending ones."""

    def __init__(self, stream: Stream, session: SparkSession, schema: StructType) -> None:
        self._micros = event_micros(stream)
        self._session = session
        self._arrived = StructType([*schema.fields, StructField("_arrival", LongType())])

    def arrived(self, batch: DataFrame | None, pending: pa.Table | None) -> DataFrame | None:
        """Pending tuples and the micro-batch's, with `_t` and `_arrival`."""
        parts = []
        if batch is not None:
            parts.append(batch.withColumn("_arrival", monotonically_increasing_id()))
        if pending is not None and len(pending):
            places = pa.array(np.arange(len(pending)) + _BEFORE)
            parts.append(frame_of(self._session, pending.append_column("_arrival", places), self._arrived))
        if not parts:
            return None
        frame = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
        frame = frame.withColumn("_t", expr(self._micros)).where("_t IS NOT NULL")
        return frame.where(f"{CORRUPT_COLUMN} IS NULL") if CORRUPT_COLUMN in frame.columns else frame

    def numbered(self, frame: DataFrame, interval: Interval, first: int) -> DataFrame:
        """The tuples that the watermark has passed, with `_n` counted on from `first`."""
        if interval.low is not None:
            frame = frame.where(f"_t >= {interval.low}L")
        if interval.high is not None:
            frame = frame.where(f"_t < {interval.high}L")
        number = expr("row_number() OVER (ORDER BY _t, _arrival)").cast("bigint")
        return frame.withColumn("_n", number + lit(first))

    def held_back(self, frame: DataFrame, interval: Interval) -> pa.Table | None:
        """The tuples that wait for the watermark, in order of arrival."""
        if interval.high is None:
            return None
        waiting = frame.where(f"_t >= {interval.high}L").orderBy("_arrival").drop("_t", "_arrival")
        return waiting.toArrow()
