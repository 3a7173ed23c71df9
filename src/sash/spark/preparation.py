"""The preparation of a micro-batch before the pass.

MAX JUMP   Tuples that are too far ahead of all others are left out: a clock that is wrong must not close everybody's
           panes. In the order of time, tuples follow each other without a gap of more than d, from where the stream
           had come before. In the first micro-batch the gap is that behind most of its tuples. It takes one more
           action, which brings one row for each stretch of d with tuples.
SHED       One tuple in k is kept, and what is added up of them is multiplied by k. Which ones are kept depends on
           their places in the micro-batch and on its number alone, so that Spark's second look sees the same ones.
           Where only the tuples of a condition are shed, the pass groups by the factor, too.
ARRIVAL    Tuples without a timestamp of their own get that of their micro-batch, which its intent has.
lookups    A left join adds the columns of tables: packets.port = port AND begin < ts <= end. A tuple finds at most one
           version; one that finds none is left out by the query's condition on `Lookup.name`.
numbers    Tuples of row-based windows are numbered by timestamp, then by arrival, when the watermark has passed them:
           until then an earlier one may come. A total order needs one sorted partition, and the tuples are read more
           than once: row-based windows are the expensive ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, expr, lit, monotonically_increasing_id
from pyspark.sql.types import LongType, StructField, StructType

from sash.catalog import ARRIVAL, Stream
from sash.core.time import Micros
from sash.core.versions import RowVersions
from sash.panes.partials import SHED_COLUMN
from sash.plan.expressions import quoted
from sash.plan.nodes import Lookup
from sash.spark.answer_frames import frame_of
from sash.spark.lanes import CORRUPT_COLUMN, PassProgram, event_micros


def sampled(batch: DataFrame, one_in: int, epoch: int, only: str | None = None) -> DataFrame:
    """The kept tuples (1: all), with the factor k - 1 that error bars need.

    Tuples for which the condition `only` is not true are all kept, with the factor 0.
    """
    if one_in == 1:
        return batch.withColumn(SHED_COLUMN, lit(0.0))
    chosen = f"pmod(xxhash64(monotonically_increasing_id(), {epoch}L), {one_in}L) = 0"
    if only is None:
        return batch.where(chosen).withColumn(SHED_COLUMN, lit(float(one_in - 1)))
    factor = expr(f"CASE WHEN {only} THEN {one_in - 1}D ELSE 0D END")
    return batch.where(f"NOT coalesce({only}, FALSE) OR {chosen}").withColumn(SHED_COLUMN, factor)


def scaled(program: PassProgram, result: pa.Table, one_in: int) -> pa.Table:
    """Scale the result of a pass to an estimate for all tuples."""
    factors = pc.add(result[SHED_COLUMN], 1.0).cast(pa.int64()) if program.is_weighted else pa.scalar(one_in)
    for name in program.additive_columns:
        place = result.schema.get_field_index(name)
        result = result.set_column(place, result.schema.field(place), _times(result[name], factors))
    return result


def _times(column: pa.ChunkedArray, factors: pa.ChunkedArray | pa.Scalar) -> pa.ChunkedArray:
    type = column.type
    if not pa.types.is_decimal(type):
        return pc.multiply(column, factors.cast(type))
    # Arrow would widen a product's type beyond 128 bits.
    wide = pc.multiply(column.cast(pa.decimal256(50, type.scale)), factors.cast(pa.decimal256(19, 0)))
    return wide.cast(type)


_TIME = "_looked_up_at"


def looked_up(batch: DataFrame, stream: Stream, versions: Mapping[Lookup, RowVersions]) -> DataFrame:
    """The batch with more columns, the same rows in the same order."""
    frame = batch.withColumn(_TIME, expr(event_micros(stream)))
    for lookup, rows in versions.items():
        frame = _joined(frame, lookup, rows)
    return frame.drop(_TIME)


def _joined(frame: DataFrame, lookup: Lookup, versions: RowVersions) -> DataFrame:
    columns = [lookup.column(name) for name in versions.rows.schema.names]
    begin, end = lookup.column("_begin"), lookup.column("_end")
    table = versions.rows.rename_columns(columns)
    table = table.append_column(begin, pa.array(versions.begin)).append_column(end, pa.array(versions.end))
    equal = [f"{quoted(mine)} = {quoted(lookup.column(key))}" for mine, key in lookup.keys]
    during = f"{quoted(begin)} < {_TIME} AND {_TIME} <= {quoted(end)}"
    right = broadcast(frame_of(frame.sparkSession, table))
    joined = frame.join(right, expr(" AND ".join([*equal, during])), "left")
    return joined.withColumn(lookup.name, expr(f"{quoted(begin)} IS NOT NULL")).drop(begin, end)


# The first number of pending tuples: all of them arrived before those of the micro-batch.
_BEFORE = -(2**62)


@dataclass(frozen=True)
class Interval:
    """Tuples with low <= timestamp < high are numbered; None: without a bound."""

    low: Micros | None
    high: Micros | None


def stamped_rows(rows: DataFrame, arrival: Micros) -> DataFrame:
    """The rows with the time of their arrival, behind their own columns."""
    return rows.withColumn(ARRIVAL, expr(f"timestamp_micros({arrival})"))


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


@dataclass(frozen=True)
class Stretches:
    """The tuples of a micro-batch by stretches of time: the first and the last time of each, and its tuples."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    tuples: NDArray[np.int64]


@dataclass(frozen=True)
class Jumps:
    """The micro-batch without the tuples that jumped; how many these are, and the time of the first."""

    without: DataFrame
    tuples: int
    first: Micros


def jumps(batch: DataFrame, stream: Stream, reached: Micros | None) -> Jumps | None:
    """The tuples of a micro-batch that are too far ahead of the stream; None if there are none."""
    assert stream.max_jump is not None
    micros = event_micros(stream)
    # Also of rows that cannot be parsed: whether Spark can tell depends on the columns that it is asked for.
    timed = batch.selectExpr(f"{micros} AS _t").where("_t IS NOT NULL" if reached is None else f"_t > {reached}L")
    stretches = timed.groupBy(expr(f"_t - pmod(_t, {stream.max_jump}L)"))
    table = stretches.agg(expr("min(_t) AS a"), expr("max(_t) AS b"), expr("count(1) AS n")).toArrow()
    found = Stretches(*(np.asarray(table[name], dtype=np.int64) for name in ("a", "b", "n")))
    edge = last_without_gap(found, stream.max_jump, reached)
    beyond = found.first > edge
    if not beyond.any():
        return None
    kept = batch.where(f"coalesce({micros} <= {edge}L, TRUE)")
    return Jumps(kept, int(found.tuples[beyond].sum()), int(found.first[beyond].min()))


def last_without_gap(found: Stretches, longest: Micros, reached: Micros | None) -> Micros:
    """The time of the last tuple before the gap; no stretch is longer than a gap may be."""
    if not len(found.first):
        return 0 if reached is None else reached
    order = np.argsort(found.first)
    first, last, tuples = found.first[order], found.last[order], found.tuples[order]
    before = np.concatenate([[first[0] if reached is None else reached], last[:-1]])
    runs = np.cumsum(first - before > longest)
    followed = int(np.argmax(np.bincount(runs, tuples))) if reached is None else 0
    mine = last[runs <= followed]
    if len(mine):
        return int(mine[-1])
    assert reached is not None
    return reached
