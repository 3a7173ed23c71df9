"""The windows of a question, cut by Spark out of files (STORED IN CLUSTER): what stored_windows.py does with rows.

Which files matter is decided here, from the times of their sub-windows and their numbers of rows; what matters in them
is a condition, an order or a rank for Spark. No row comes to the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.catalog import Stream
from sash.core.time import Micros
from sash.runtime.stored.stored_indexes import TIME, sub_window_length
from sash.runtime.stored.stored_window import StoredRows
from sash.runtime.stored.stored_windows import by_then, is_complete
from sash.spark.stored_rows import last_rows, last_rows_of_each, latest_time, ordered, stored_rows, without_order
from sash.sql import StoredReading
from sash.storage.window_files import WindowFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def all_rows(
    spark: SparkSession, files: WindowFiles, stream: Stream, stored: StoredRows, reach: int | None
) -> DataFrame:
    """The rows of the last `reach` microseconds; None: of all files, in the order of time."""
    rows = _rows(spark, files, stream, stored.rows)
    if reach is None:
        return without_order(ordered(rows), stream)
    return without_order(rows.where(_after(stream, stored.as_of - reach)), stream)


def youngest(found: pa.Table, needed: int) -> pa.Table:
    """The files of the youngest sub-windows that have so many rows together; all files if they have fewer."""
    times, numbers = np.asarray(found[TIME]), np.asarray(found["rows"])
    order = np.argsort(-times, kind="stable")
    place = int(np.searchsorted(np.cumsum(numbers[order]), needed))
    return found if place >= len(found) else found.filter(pa.array(times >= times[order[place]]))


def window_frame(
    spark: SparkSession, files: WindowFiles, reading: StoredReading, stored: StoredRows, as_of: Micros
) -> tuple[DataFrame, bool]:
    """The rows of a window as of a time, and whether these are all that it may hold."""
    stream = reading.stream
    if reading.by_rows:
        rows, complete = _by_rows(spark, files, reading, stored, as_of)
    elif reading.now:
        rows, complete = _of_now(spark, files, reading, stored, as_of), is_complete(stored, 0, as_of)
    else:
        rows = _in_time(spark, files, reading, stored, as_of)
        complete = is_complete(stored, reading.window.reach, as_of)
    return without_order(rows, stream), complete


def _in_time(
    spark: SparkSession, files: WindowFiles, reading: StoredReading, stored: StoredRows, as_of: Micros
) -> DataFrame:
    stream, end = reading.stream, as_of - reading.window.lag
    start = end - reading.window.length
    found = _begun(stream, stored.rows, end)
    # The last instant of a sub-window that the window begins in is at or after its beginning.
    found = found.filter(pa.array(np.asarray(found[TIME]) >= start))
    return _rows(spark, files, stream, found).where(f"{_after(stream, start)} AND {_before(stream, end)}")


def _of_now(
    spark: SparkSession, files: WindowFiles, reading: StoredReading, stored: StoredRows, as_of: Micros
) -> DataFrame:
    stream, end = reading.stream, as_of - reading.window.lag
    found, whole = _begun_and_whole(reading, stored.rows, end)
    if whole.any():
        times = np.asarray(found[TIME])
        found = found.filter(pa.array(times >= times[whole].max()))
    rows = _rows(spark, files, stream, found).where(_before(stream, end))
    latest = latest_time(rows)
    return rows.where("false" if latest is None else f"_t = {latest}L")


def _by_rows(
    spark: SparkSession, files: WindowFiles, reading: StoredReading, stored: StoredRows, as_of: Micros
) -> tuple[DataFrame, bool]:
    stream, window = reading.stream, reading.window
    found, whole = _begun_and_whole(reading, stored.rows, as_of)
    if reading.partition:
        rows = _rows(spark, files, stream, found).where(_before(stream, as_of))
        # However few rows a partition has, there may have been more.
        return last_rows_of_each(rows, reading.partition, window.lag, window.reach), False
    inside, cut = found.filter(pa.array(whole)), found.filter(pa.array(~whole))
    needed = pa.concat_tables([youngest(inside, window.reach), cut])
    rows = _rows(spark, files, stream, needed).where(_before(stream, as_of))
    enough = int(np.asarray(inside["rows"]).sum()) >= window.reach
    # Only of a sub-window that the time is inside of it is not known how many rows count.
    complete = enough or (len(cut) > 0 and rows.count() >= window.reach)
    return last_rows(rows, window.lag, window.length), complete


def _begun(stream: Stream, found: pa.Table, end: Micros) -> pa.Table:
    """The files of sub-windows that begin before a time."""
    return found.filter(pa.array(np.asarray(found[TIME]) - sub_window_length(stream) < end))


def _begun_and_whole(reading: StoredReading, found: pa.Table, end: Micros) -> tuple[pa.Table, NDArray[np.bool_]]:
    """The same, and which of these end by then, too."""
    begun = _begun(reading.stream, found, end)
    return begun, by_then(reading, np.asarray(begun[TIME]), end)


def _rows(spark: SparkSession, files: WindowFiles, stream: Stream, found: pa.Table) -> DataFrame:
    files.check(found)
    return stored_rows(spark, stream, map(files.path, found["file"].to_pylist()))


def _after(stream: Stream, start: Micros) -> str:
    return f"_t {'>=' if stream.closed_left else '>'} {start}L"


def _before(stream: Stream, end: Micros) -> str:
    return f"_t {'<' if stream.closed_left else '<='} {end}L"
