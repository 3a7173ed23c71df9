"""The windows of a question, cut out of the rows that are stored; and rows put where the places beside them say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.key_numbers import dense_codes
from sash.core.time import Micros
from sash.runtime.stored.stored_indexes import TIME
from sash.runtime.stored.stored_window import StoredRows
from sash.sql import StoredReading


def window_rows(reading: StoredReading, stored: StoredRows, as_of: Micros) -> tuple[pa.Table, bool]:
    """The rows of a window as of a time, in the order of time, and whether these are all that it may hold."""
    times, window = np.asarray(stored.rows[TIME]), reading.window
    if not reading.by_rows:
        wanted = _in_time(reading, times, as_of)
        return stored.rows.filter(pa.array(wanted)), is_complete(stored, 0 if reading.now else window.reach, as_of)
    rows = stored.rows.filter(pa.array(by_then(reading, times, as_of)))
    if reading.partition:
        # However few rows a partition has, there may have been more.
        return rows.filter(pa.array(_last_of_each(rows, reading))), False
    stop = max(0, len(rows) - window.lag)
    start = max(0, stop - window.length)
    return rows.slice(start, stop - start), len(rows) >= window.reach


def in_places(found: pa.Table, place: str) -> pa.Table:
    """Rows in the order of their places, without these: the last column has them. No two rows have the same one.

    >>> in_places(pa.table({"v": ["c", "a", "b"], "_place": [9, 2, 5]}), "_place")["v"].to_pylist()
    ['a', 'b', 'c']
    """
    places = np.asarray(found.column(found.num_columns - 1))
    rows = np.full(int(places.max(initial=-1)) + 1, -1)
    rows[places] = np.arange(len(places))
    rows = rows[rows >= 0]
    assert len(rows) == len(places)
    return without_places(found, place).take(pa.array(rows))


def without_places(found: pa.Table, place: str) -> pa.Table:
    """All columns but those of this name; there are two where SELECT * has given one, too."""
    return found.select([number for number, name in enumerate(found.schema.names) if name != place])


def is_complete(stored: StoredRows, reach: int, as_of: Micros) -> bool:
    return as_of - reach >= stored.since


def _in_time(reading: StoredReading, times: NDArray[np.int64], as_of: Micros) -> NDArray[np.bool_]:
    end = as_of - reading.window.lag
    if reading.now:
        until = times[by_then(reading, times, end)]
        return times == until.max() if len(until) else np.zeros(len(times), dtype=np.bool_)
    start = end - reading.window.length
    if reading.stream.closed_left:
        return (start <= times) & (times < end)
    return (start < times) & (times <= end)


def by_then(reading: StoredReading, times: NDArray[np.int64], end: Micros) -> NDArray[np.bool_]:
    """Which times a window that ends then may have."""
    return times < end if reading.stream.closed_left else times <= end


def _last_of_each(rows: pa.Table, reading: StoredReading) -> NDArray[np.bool_]:
    """The last rows of each partition; rows come in the order of time."""
    (codes,) = dense_codes([rows], [list(reading.partition)], null_safe=True)
    order = np.argsort(codes, kind="stable")
    _, sizes = np.unique(codes, return_counts=True)
    ends = np.repeat(np.cumsum(sizes), sizes)
    age = ends - 1 - np.arange(len(rows))
    wanted = np.zeros(len(rows), dtype=np.bool_)
    wanted[order] = (reading.window.lag <= age) & (age < reading.window.reach)
    return wanted
