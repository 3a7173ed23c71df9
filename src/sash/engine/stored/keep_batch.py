"""What a stored window takes of a micro-batch: its rows, or files that Spark writes them to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sash.core.time import Micros
from sash.engine.spark_pass import SparkPass
from sash.engine.stored.kept import KeptWindow
from sash.engine.stored.sub_windows import TIME
from sash.spark.kept import write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What is accepted, and how many tuples were too late; without a stored window, nothing.
Brought = tuple[pa.Table | None, int]


def rows_of_batch(kept: KeptWindow, spark: SparkPass, rows: DataFrame, epoch: int, reached: Micros | None) -> Brought:
    """The part of a micro-batch, which brings a watermark, that is stored."""
    if kept.gave_up_at is not None:
        return None, 0
    oldest, files = kept.oldest_by(reached), kept.files
    if files is None:
        came = spark.rows_to_keep(rows, TIME, oldest)
        accepted = kept.accepted(came)
        return accepted, len(came) - len(accepted)
    place = files.place(epoch)
    write_rows(rows, kept.stream, oldest, epoch, kept.length, place)
    came = kept.of_files(files.found(place))
    accepted = kept.accepted(came)
    names, taken = came["file"].to_pylist(), accepted["file"].to_pylist()
    files.discard(set(names) - set(taken))
    files.hold(taken)
    return accepted, kept.count(came) - kept.count(accepted)
