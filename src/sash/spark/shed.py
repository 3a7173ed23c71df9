"""Load shedding: one tuple in k of a micro-batch is kept, and what is added up of them is multiplied by k.

Which tuples are kept depends on their places in the micro-batch and on its number alone: not on what is in them, so
that equal tuples are not kept or dropped together; and not on chance, so that Spark's second look at a micro-batch
sees the same ones.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.functions import lit

from sash.spark.lanes import PassProgram
from sash.synopses.partials import SHED_COLUMN


def sampled(batch: DataFrame, one_in: int, epoch: int) -> DataFrame:
    """The tuples that are kept (1: all), with the factor k - 1 that error bars need."""
    if one_in > 1:
        batch = batch.where(f"pmod(xxhash64(monotonically_increasing_id(), {epoch}L), {one_in}L) = 0")
    return batch.withColumn(SHED_COLUMN, lit(float(one_in - 1)))


def scaled(program: PassProgram, result: pa.Table, one_in: int) -> pa.Table:
    """The result of a pass as it would be, about, if all tuples had been kept."""
    for name in program.additive_columns:
        place = result.schema.get_field_index(name)
        result = result.set_column(place, result.schema.field(place), _times(result[name], one_in))
    return result


def _times(column: pa.ChunkedArray, factor: int) -> pa.ChunkedArray:
    type = column.type
    if not pa.types.is_decimal(type):
        return pc.multiply(column, pa.scalar(factor, type))
    # Arrow widens a product's type beyond what 128 bits hold.
    wide = pc.multiply(column.cast(pa.decimal256(50, type.scale)), pa.scalar(factor, pa.decimal256(10, 0)))
    return wide.cast(type)
