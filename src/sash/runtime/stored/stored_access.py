"""How the windows of a question are read from stored rows, all windows of one stream as of one time.

An index finds the rows of a window where it helps, else all of them are read:

    ByValue    WHERE x.src = 42           the rows that have the constants
    ByProbe    WHERE x.k = y.k            the rows of y that have values of the rows of x, which were found before
    ByOrder    ORDER BY length LIMIT 5    the first rows in the order of the index
    ByPlace    ORDER BY length, ts        all rows, with their places in that order

Spark gets these rows instead of all, and the same statement: an index leaves out only rows that cannot matter. With
places the statement has no ORDER BY, and the answer is sorted here. EXPLAIN prints the choices of this module. Whether
a probe helps depends on the number of values, which is known only when it is tried.

If an index serves a window of a stream, the stream is read through its indexes, which see one state; any other stream
by a scan of its sub-windows, as the isolation level says. Windows are cut out of the rows when their time is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.catalog import CLUSTER, StoredIndex, Stream
from sash.changes.key_numbers import dense_codes
from sash.core.time import Micros
from sash.rows.value_keys import can_be_indexed
from sash.runtime.stored.stored_indexes import TIME, IndexGoneError, StoredIndexes
from sash.runtime.stored.stored_window import StoredRows, StoredWindow, nothing_to_ask
from sash.sql import LeadingRows, Link, SoughtValues, StoredQuestion, StoredReading, WindowOrder

# The indexes of a stream's stored window, if there are any.
IndexesOf = Callable[[Stream], StoredIndexes | None]


@dataclass(frozen=True)
class ByValue:
    index: StoredIndex
    sought: SoughtValues


@dataclass(frozen=True)
class ByProbe:
    index: StoredIndex
    link: Link


@dataclass(frozen=True)
class ByOrder:
    index: StoredIndex
    leading: LeadingRows


@dataclass(frozen=True)
class ByPlace:
    index: StoredIndex
    sorting: WindowOrder
    reach: Micros


Access = ByValue | ByProbe | ByOrder | ByPlace


def choose_access(question: StoredQuestion, indexes_of: IndexesOf) -> dict[str, Access | None]:
    """The access by view, in reading order: stream by stream, windows whose values probe others before those."""
    windows = question.windows
    streams = {reading.stream.name: indexes_of(reading.stream) for reading in windows.values()}
    direct = {
        view: _direct(reading, streams[reading.stream.name], len(streams), question.sorting)
        for view, reading in windows.items()
    }
    chosen: dict[str, Access | None] = {}

    def comes_later(name: str) -> tuple[bool, bool]:
        """Streams without indexes cannot be probed and come first; then those with constants, which have few rows."""
        constants = (isinstance(direct[view], ByValue) for view in windows if windows[view].stream.name == name)
        return streams[name] is not None, not any(constants)

    for name in sorted(streams, key=comes_later):
        left = {view: reading for view, reading in windows.items() if reading.stream.name == name}
        while left:
            here = [view for view in chosen if windows[view].stream.keep_in != CLUSTER]
            ways = {view: direct[view] or _probe(left[view], streams[name], here) for view in left}
            view = min(left, key=lambda each: _rank(ways[each], left[each]))
            chosen[view] = ways[view]
            del left[view]
    return chosen


def by_stream(question: StoredQuestion, views: Collection[str]) -> Mapping[str, list[str]]:
    """Views by the name of their stream, all in their order."""
    found: dict[str, list[str]] = {}
    for view in views:
        found.setdefault(question.windows[view].stream.name, []).append(view)
    return found


def _direct(
    reading: StoredReading, indexes: StoredIndexes | None, streams: int, sorting: WindowOrder | None
) -> Access | None:
    """The access that needs no other window."""
    if indexes is None:
        return None
    found = indexes.row_index(reading.sought)
    if found is not None:
        return ByValue(*found)
    if sorting is not None:
        return _by_place(reading, indexes, sorting)
    leading = reading.leading
    # With several streams the time of their windows is known only when all are read, and so are the first rows.
    if leading is None or streams > 1 or not indexes.is_few(leading.count):
        return None
    index = indexes.known([leading.column])
    return None if index is None else ByOrder(index, leading)


def sorting_column(reading: StoredReading, sorting: WindowOrder) -> str | None:
    """The column whose index would give rows their places, if there is one."""
    types = [reading.stream.schema.field(term.column).type for term in sorting.terms]
    return sorting.terms[0].column if reading.reach is not None and all(map(can_be_indexed, types)) else None


def _by_place(reading: StoredReading, indexes: StoredIndexes, sorting: WindowOrder) -> ByPlace | None:
    column = sorting_column(reading, sorting)
    index = None if column is None else indexes.known([column])
    if index is None or reading.reach is None or not indexes.is_placed_soon(sorting, reading.reach):
        return None
    return ByPlace(index, sorting, reading.reach)


def _probe(reading: StoredReading, indexes: StoredIndexes | None, before: Collection[str]) -> ByProbe | None:
    """Probe with the values of a window that is read before, and whose rows are here."""
    fitting = [
        (index, link)
        for link in reading.links
        if link.other in before and indexes is not None and (index := indexes.known([link.column])) is not None
    ]
    return ByProbe(*fitting[0]) if fitting else None


def _rank(way: Access | None, reading: StoredReading) -> tuple[int, int]:
    """The order in which the windows of a stream are read: those with fewest rows first, by estimate."""
    order = 0 if isinstance(way, ByValue) else 1 if way is not None else 2
    return order, reading.reach or 0


# -- reading ---------------------------------------------------------------------------------------


def common_time(stored: Iterable[StoredRows]) -> Micros | None:
    """The least time of the streams that go on; when all have ended, the greatest."""
    every = list(stored)
    going = [each.as_of for each in every if not each.has_ended]
    return min(going) if going else max((each.as_of for each in every), default=None)


def read_question(question: StoredQuestion, kept: Mapping[str, StoredWindow]) -> dict[str, StoredRows]:
    """The rows that each window is cut out of, by view. A stream with two windows is read once, as of one time."""
    by_name = {each.stream.name: each for each in kept.values()}
    indexes = {name: each.indexes if each.has_begun else None for name, each in by_name.items()}
    access = choose_access(question, lambda stream: indexes[stream.name])
    reader = _Reader(question, access, several=len(by_name) > 1)
    for name, views in by_stream(question, list(access)).items():
        reader.read(by_name[name], indexes[name], views)
    return reader.found


def read_stored(
    kept: StoredWindow, reach: int | None, wanted: Callable[[pa.Table], pa.Table] | None = None
) -> StoredRows:
    stored = kept.read(reach, wanted)
    if stored is None:
        raise nothing_to_ask(kept.stream)
    return stored


def having(sought: Sequence[SoughtValues], rows: pa.Table) -> pa.Table:
    """The rows that have one of the values in each column."""
    for each in sought:
        rows = rows.filter(pc.is_in(rows[each.column], each.values))
    return rows


@dataclass
class _Reader:
    """With `several` streams all stored rows are read: only then the common time is known."""

    question: StoredQuestion
    access: Mapping[str, Access | None]
    several: bool
    found: dict[str, StoredRows] = field(default_factory=dict)

    def read(self, kept: StoredWindow, indexes: StoredIndexes | None, views: Sequence[str]) -> None:
        needed = [access.index for view in views if (access := self.access[view]) is not None]
        if indexes is not None and needed:
            try:
                self.found |= indexes.read(needed, partial(self._by_indexes, kept, indexes, views))
                return
            except IndexGoneError:
                pass
        self.found |= self._by_scan(kept, views)

    def _by_scan(self, kept: StoredWindow, views: Sequence[str]) -> dict[str, StoredRows]:
        reaches = [self.question.windows[view].reach for view in views]
        known = [reach for reach in reaches if reach is not None]
        reach = None if self.several or len(known) < len(reaches) else max(known)
        sought = self.question.windows[views[0]].sought if len(views) == 1 else ()
        # This process does not read files: Spark finds the sought rows in them.
        wanted = partial(having, sought) if sought and kept.files is None else None
        return dict.fromkeys(views, read_stored(kept, reach, wanted))

    # -- one state of a stream, which may be read again ----------------------------------------------

    def _by_indexes(self, kept: StoredWindow, state: StoredIndexes, views: Sequence[str]) -> dict[str, StoredRows]:
        found: dict[str, StoredRows] = {}
        for view in views:
            rows = self._rows(view, kept, state, {**self.found, **found})
            found[view] = self._stored(view, kept, state, rows)
        return found

    def _stored(self, view: str, kept: StoredWindow, state: StoredIndexes, rows: pa.Table) -> StoredRows:
        return kept.stored(rows, state.now, None if self.several else self.question.windows[view].reach)

    def _rows(self, view: str, kept: StoredWindow, state: StoredIndexes, before: Mapping[str, StoredRows]) -> pa.Table:
        match self.access[view]:
            case ByValue(index, sought):
                return state.find(index, sought.values)
            case ByProbe(index, link):
                values = self._values(link, before[link.other])
                return state.find(index, values) if state.has_many(index, len(values)) else state.rows()
            case ByOrder() as way:
                return self._leading(view, kept, state, way)
            case ByPlace(index, sorting, reach):
                return state.placed(index, sorting, reach)
        return state.rows()

    def _values(self, link: Link, stored: StoredRows) -> pa.Array:
        """The values that a window is probed with: those of rows in the other window, as far as known."""
        reading = self.question.windows[link.other]
        rows = stored.rows if self.several else window_rows(reading, stored, stored.as_of)[0]
        return having(reading.sought, rows)[link.other_column].unique().drop_null()

    def _leading(self, view: str, kept: StoredWindow, state: StoredIndexes, way: ByOrder) -> pa.Table:
        """The first rows of the index, until the window, which may be a part of the stored rows, has enough."""
        least = way.leading.count
        while state.is_few(least):
            rows = state.leading(way.index, way.leading, least)
            inside, _ = window_rows(self.question.windows[view], self._stored(view, kept, state, rows), state.now)
            if len(inside) >= way.leading.count:
                return rows
            least *= 2
        return state.rows()


# -- windows, cut out of the rows ------------------------------------------------------------------


def window_rows(reading: StoredReading, stored: StoredRows, as_of: Micros) -> tuple[pa.Table, bool]:
    """The rows of a window as of a time, in the order of time, and whether the window is complete."""
    times, window = np.asarray(stored.rows[TIME]), reading.window
    if not reading.by_rows:
        wanted = _in_time(reading, times, as_of)
        return stored.rows.filter(pa.array(wanted)), is_complete(stored, 0 if reading.now else window.reach, as_of)
    rows = stored.rows.filter(pa.array(by_then(reading, times, as_of)))
    if reading.partition:
        # A partition with few rows may have had more rows before.
        return rows.filter(pa.array(_last_of_each(rows, reading))), False
    stop = max(0, len(rows) - window.lag)
    start = max(0, stop - window.length)
    return rows.slice(start, stop - start), len(rows) >= window.reach


def in_places(found: pa.Table, place: str) -> pa.Table:
    """Rows in the order of their places, without the last column, which has the places. All places differ.

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
    """All columns but those of this name; there are two if SELECT * has given one, too."""
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
    """Which times a window with this end may have."""
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
