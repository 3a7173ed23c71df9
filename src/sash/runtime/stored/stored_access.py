"""How the windows of a question are read out of what is stored, all of one stream as of one time.

An index finds the rows of a window where it helps, else all of them are read:

    ByValue    WHERE x.src = 42           the rows that have the constants
    ByProbe    WHERE x.k = y.k            the rows of y with values that the rows of x have, which were found before
    ByOrder    ORDER BY length LIMIT 5    the first rows in the order of the index
    ByPlace    ORDER BY length, ts        all rows, with their places in that order

Spark is given these rows instead of all, and the same statement: an index leaves out only what cannot matter. With
places the statement is without ORDER BY, and the answer is put in order here. EXPLAIN tells what is chosen here. A
probe is tried: whether it helps, the number of values says once they are known.

A stream of which an index serves a window is read through its indexes, which see one state of it; any other by a scan
of its sub-windows, as the isolation level says. Windows are cut out of the rows later, when it is known as of when.
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
from sash.runtime.stored.stored_indexes import TIME, IndexGoneError, KeptIndexes
from sash.runtime.stored.stored_window import KeptWindow, StoredRows, nothing_to_ask
from sash.sql import LeadingRows, Link, SoughtValues, StoredQuestion, StoredReading, WindowOrder

# The indexes of a stream's stored window, if there are any.
IndexesOf = Callable[[Stream], KeptIndexes | None]


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
    """By view, in the order in which windows are read: stream by stream, and what others are probed with first."""
    windows = question.windows
    streams = {reading.stream.name: indexes_of(reading.stream) for reading in windows.values()}
    direct = {
        view: _direct(reading, streams[reading.stream.name], len(streams), question.sorting)
        for view, reading in windows.items()
    }
    chosen: dict[str, Access | None] = {}

    def comes_later(name: str) -> tuple[bool, bool]:
        """Streams without indexes are probed by nobody, those with constants by few."""
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
    reading: StoredReading, indexes: KeptIndexes | None, streams: int, sorting: WindowOrder | None
) -> Access | None:
    """Without other windows."""
    if indexes is None:
        return None
    found = indexes.row_index(reading.sought)
    if found is not None:
        return ByValue(*found)
    if sorting is not None:
        return _by_place(reading, indexes, sorting)
    leading = reading.leading
    # Of several streams it is only known when all are read as of when their windows are, and so which rows are first.
    if leading is None or streams > 1 or not indexes.is_few(leading.count):
        return None
    index = indexes.known([leading.column])
    return None if index is None else ByOrder(index, leading)


def sorting_column(reading: StoredReading, sorting: WindowOrder) -> str | None:
    """The column an index on which would give rows their places, if one could."""
    types = [reading.stream.schema.field(term.column).type for term in sorting.terms]
    return sorting.terms[0].column if reading.reach is not None and all(map(can_be_indexed, types)) else None


def _by_place(reading: StoredReading, indexes: KeptIndexes, sorting: WindowOrder) -> ByPlace | None:
    column = sorting_column(reading, sorting)
    index = None if column is None else indexes.known([column])
    if index is None or reading.reach is None or not indexes.is_placed_soon(sorting, reading.reach):
        return None
    return ByPlace(index, sorting, reading.reach)


def _probe(reading: StoredReading, indexes: KeptIndexes | None, before: Collection[str]) -> ByProbe | None:
    """With the values of a window that is read before, and whose rows are here."""
    fitting = [
        (index, link)
        for link in reading.links
        if link.other in before and indexes is not None and (index := indexes.known([link.column])) is not None
    ]
    return ByProbe(*fitting[0]) if fitting else None


def _rank(way: Access | None, reading: StoredReading) -> tuple[int, int]:
    """Which of the windows of a stream is read next: the one with fewest rows, as far as that can be told."""
    order = 0 if isinstance(way, ByValue) else 1 if way is not None else 2
    return order, reading.reach or 0


# -- reading ---------------------------------------------------------------------------------------


def common_time(stored: Iterable[StoredRows]) -> Micros | None:
    """The least time of the streams that go on; when all have ended, the greatest."""
    every = list(stored)
    going = [each.as_of for each in every if not each.has_ended]
    return min(going) if going else max((each.as_of for each in every), default=None)


def read_question(question: StoredQuestion, kept: Mapping[str, KeptWindow]) -> dict[str, StoredRows]:
    """What each window is cut out of, by view. A stream that is read twice is read once, as of one time."""
    by_name = {each.stream.name: each for each in kept.values()}
    indexes = {name: each.indexes if each.has_begun else None for name, each in by_name.items()}
    access = choose_access(question, lambda stream: indexes[stream.name])
    reader = _Reader(question, access, several=len(by_name) > 1)
    for name, views in by_stream(question, list(access)).items():
        reader.read(by_name[name], indexes[name], views)
    return reader.found


def read_stored(
    kept: KeptWindow, reach: int | None, wanted: Callable[[pa.Table], pa.Table] | None = None
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
    """Where there are `several` streams, all that is stored is read: only then it is known as of when."""

    question: StoredQuestion
    access: Mapping[str, Access | None]
    several: bool
    found: dict[str, StoredRows] = field(default_factory=dict)

    def read(self, kept: KeptWindow, indexes: KeptIndexes | None, views: Sequence[str]) -> None:
        needed = [access.index for view in views if (access := self.access[view]) is not None]
        if indexes is not None and needed:
            try:
                self.found |= indexes.read(needed, partial(self._by_indexes, kept, indexes, views))
                return
            except IndexGoneError:
                pass
        self.found |= self._by_scan(kept, views)

    def _by_scan(self, kept: KeptWindow, views: Sequence[str]) -> dict[str, StoredRows]:
        reaches = [self.question.windows[view].reach for view in views]
        known = [reach for reach in reaches if reach is not None]
        reach = None if self.several or len(known) < len(reaches) else max(known)
        sought = self.question.windows[views[0]].sought if len(views) == 1 else ()
        # Files are not looked into here: Spark finds what is sought in them.
        wanted = partial(having, sought) if sought and kept.files is None else None
        return dict.fromkeys(views, read_stored(kept, reach, wanted))

    # -- one state of a stream, which may be read again ----------------------------------------------

    def _by_indexes(self, kept: KeptWindow, state: KeptIndexes, views: Sequence[str]) -> dict[str, StoredRows]:
        found: dict[str, StoredRows] = {}
        for view in views:
            rows = self._rows(view, kept, state, {**self.found, **found})
            found[view] = self._stored(view, kept, state, rows)
        return found

    def _stored(self, view: str, kept: KeptWindow, state: KeptIndexes, rows: pa.Table) -> StoredRows:
        return kept.stored(rows, state.now, None if self.several else self.question.windows[view].reach)

    def _rows(self, view: str, kept: KeptWindow, state: KeptIndexes, before: Mapping[str, StoredRows]) -> pa.Table:
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
        """What a window is probed with: of rows that are in the other window, as far as that is known."""
        reading = self.question.windows[link.other]
        rows = stored.rows if self.several else window_rows(reading, stored, stored.as_of)[0]
        return having(reading.sought, rows)[link.other_column].unique().drop_null()

    def _leading(self, view: str, kept: KeptWindow, state: KeptIndexes, way: ByOrder) -> pa.Table:
        """The first rows of the index until there are enough of the window, which may be a part of what is stored."""
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
