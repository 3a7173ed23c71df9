"""How the rows of each window of a question are found in what is stored: by an index where one helps, else all of them.

    ByValue    WHERE x.src = 42           the rows that have the constants
    ByProbe    WHERE x.k = y.k            the rows of y with values that the rows of x have, which were found before
    ByOrder    ORDER BY length LIMIT 5    the first rows in the order of the index
    ByPlace    ORDER BY length, ts        all rows, with their places in that order

Spark is given these rows instead of all, and the same statement: an index leaves out only what cannot matter. With
places the statement is without ORDER BY, and the answer is put in order here. EXPLAIN tells what is chosen here. A
probe is tried: whether it helps, the number of values says once they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sash.catalog import CLUSTER, StoredIndex, Stream
from sash.core.time import Micros
from sash.rows.value_keys import can_be_indexed
from sash.runtime.stored.stored_indexes import KeptIndexes
from sash.sql import Leading, Link, Sorting, Sought, StoredQuestion, StoredReading

# The indexes of a stream's stored window, if there are any.
IndexesOf = Callable[[Stream], KeptIndexes | None]


@dataclass(frozen=True)
class ByValue:
    index: StoredIndex
    sought: Sought


@dataclass(frozen=True)
class ByProbe:
    index: StoredIndex
    link: Link


@dataclass(frozen=True)
class ByOrder:
    index: StoredIndex
    leading: Leading


@dataclass(frozen=True)
class ByPlace:
    index: StoredIndex
    sorting: Sorting
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
    reading: StoredReading, indexes: KeptIndexes | None, streams: int, sorting: Sorting | None
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


def sorting_column(reading: StoredReading, sorting: Sorting) -> str | None:
    """The column an index on which would give rows their places, if one could."""
    types = [reading.stream.schema.field(term.column).type for term in sorting.terms]
    return sorting.terms[0].column if reading.reach is not None and all(map(can_be_indexed, types)) else None


def _by_place(reading: StoredReading, indexes: KeptIndexes, sorting: Sorting) -> ByPlace | None:
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
