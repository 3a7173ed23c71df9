"""A micro-batch with the columns of the tables in which its tuples are looked up.

    packets ──► left join with the versions of ports: packets.port = port AND begin < ts <= end ──► pre-aggregation

A tuple finds at most one version, so no tuple is counted twice; one that finds none is left out by the condition that
the query has on `Lookup.name`. The versions are sent to all executors.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import broadcast, expr

from sash.catalog import Stream
from sash.core.versions import RowVersions
from sash.plan.nodes import Lookup
from sash.spark.frames import frame_of
from sash.spark.lanes import event_micros, quoted

_TIME = "_looked_up_at"


def looked_up(batch: DataFrame, stream: Stream, versions: Mapping[Lookup, RowVersions]) -> DataFrame:
    """The batch with more columns, the same rows in the same order."""
    if not versions:
        return batch
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
