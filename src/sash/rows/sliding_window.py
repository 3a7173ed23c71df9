"""A sliding window as a circular array of sub-windows.

                     ┌─────┬─────┬─────┬─────┐
    slots            │  5  │  6  │  3  │  4  │   ◄── queries and indexes see these
                     └─────┴─────┴──▲──┴─────┘
                                    │ attach: the buffer becomes sub-window 7 and takes the oldest one's place
    buffer                       ┌──┴──┐
                                 │ 7 ..│           ◄── new tuples; nobody sees them
                                 └─────┘

The buffer's owner decides when it is full, by number of tuples or by time. So the window jumps by whole sub-windows: a
tuple is seen only when its sub-window is attached, and expiry examines no tuples.

Rows are Arrow tables, one chunk or several per sub-window, which are never copied. A row's id is its number in the
stream, from 0. Indexes get the evicted sub-window and the new one.

One writer changes a window and its indexes, in `attach` alone. Readers take no lock and read again when a slide came
between (`isolation.Optimistic`). Windows that share an index share its version as well. A kernel is never interrupted,
because it holds Python's lock, and leaves lists, trees and rings whole: a reader may find outdated entries there, but
comes to an end. So this needs a Python with the lock.

Reference: Golab, Garg and Özsu 2003, section 3.1.

`CountedWindow` has no tuples: its sub-windows come as values and how often each occurs.

    panes          ┌─────┬─────┬─────┬─────┐
    of a window    │ 9:2 │  -  │ 4:1 │ 9:1 │   ──►  index, on this window's side:  4:1  9:3
                   └──▲──┴─────┴─────┴──▲──┘
                      evict up to     attach

The caller has counted the tuples elsewhere. The counts live in the index alone, as the links of its sub-windows: the
window knows the end of each, and when it must go. Panes without tuples are no sub-windows, so time may jump. Several
windows may share an index, each with its own side and its own length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from sash.core.time import Micros
from sash.isolation import Optimistic
from sash.rows.subwindows import Group, Hash, Storage, SubWindow, ValueCounts
from sash.rows.value_keys import Ints, keys_of

T = TypeVar("T")

# Zero counts are purged this many times while the whole window is replaced once, as in the report (7.1).
PURGES = 5
# A reader that is overtaken this many times in a row makes the writer wait.
_MOST_RETRIES = 16


class WindowIndex(Protocol):
    """The interface of an index for a window. `taken` has the slides of the window on each side that has one."""

    sides: int
    taken: dict[int, Optimistic]

    def refuse(self, column: str, storage: Storage | None) -> None: ...

    def attach(self, sub_window: SubWindow, column: str, side: int = 0) -> None: ...

    def evict(self, number: int, side: int = 0) -> None: ...

    def clear(self, side: int = 0) -> None: ...

    def purge(self) -> None: ...


@dataclass(frozen=True)
class _ColumnIndex:
    index: WindowIndex
    column: str
    side: int


def new_slides() -> Optimistic:
    """The version of a window, or of several that share indexes."""
    return Optimistic(retries=_MOST_RETRIES)


class SlidingWindow:
    """The last `slots` sub-windows of a stream, the buffer of the next one, and indexes.

    `storage` says which columns are not kept as rows (AGGR, HASH, GROUP); all others are LIST. One thread adds and
    attaches; others read through `read`. Windows that share an index are given the same `slides`.

    >>> from sash.rows import SetIndex
    >>> window = SlidingWindow(2, pa.schema({"src": pa.int64()}))
    >>> index = window.keep(SetIndex(pa.int64()), "src")
    >>> for values in ([1, 1], [2], [3, 2]):
    ...     window.add(pa.table({"src": values}))
    ...     attached = window.attach()
    >>> window.rows()["src"].to_pylist(), index.items()[1].tolist()
    ([2, 3, 2], [2, 1])
    """

    def __init__(
        self,
        slots: int,
        schema: pa.Schema,
        storage: Mapping[str, Storage] | None = None,
        slides: Optimistic | None = None,
    ) -> None:
        if slots < 1:
            raise ValueError(f"a window needs at least 1 sub-window, not {slots}")
        self.schema, self.storage = schema, dict(storage or {})
        self.slides = slides or new_slides()
        self._check_storage()
        self._slots: list[SubWindow | None] = [None] * slots
        self._number = self._next_row = 0
        self._buffer: list[pa.Table] = []
        self._indexes: list[_ColumnIndex] = []
        self._listed = [name for name in schema.names if name not in self.storage]

    def _check_storage(self) -> None:
        for column, storage in self.storage.items():
            type = self.schema.field(column).type
            if isinstance(storage, Hash) and not keys_of(type).ordered:
                raise TypeError(f"HASH cannot store {column!r}, a column of {type}: use AGGR")
            if isinstance(storage, Group) and storage.groups.type != type:
                raise TypeError(f"the groups for {column!r} are of {storage.groups.type}, the column is of {type}")

    @property
    def version(self) -> int:
        """Odd while a slide is being applied."""
        return self.slides.version

    # The writer.

    def add(self, rows: pa.Table) -> None:
        """Add tuples to the sub-window that is being filled, in order of arrival."""
        if not rows.schema.equals(self.schema):
            raise TypeError(f"the window has columns {self.schema}, not {rows.schema}")
        self._buffer.append(rows)

    @property
    def waiting(self) -> int:
        """Tuples in the buffer."""
        return sum(rows.num_rows for rows in self._buffer)

    def attach(self, timestamp: Micros | None = None) -> SubWindow:
        """Let the buffer, which may be empty, take the place of the oldest sub-window.

        The timestamp, of its oldest tuple for instance, is for readers of the sub-window: tuples have none here.
        """
        fresh, place = self._close_buffer(timestamp), self._number % len(self._slots)
        evicted = self._slots[place]
        with self.slides.slide():
            try:
                self._inform(fresh, evicted)
            except BaseException:
                # An index may have half of the change: restore all indexes, and the buffer.
                for kept in self._indexes:
                    self._fill(kept)
                raise
            self._slots[place] = fresh
            self._number += 1
            self._next_row += fresh.size
            self._buffer = []
        return fresh

    def _close_buffer(self, timestamp: Micros | None) -> SubWindow:
        rows = pa.concat_tables(self._buffer) if self._buffer else self.schema.empty_table()
        summaries = {column: storage.summarise(rows[column]) for column, storage in self.storage.items()}
        kept = rows.select(self._listed)
        return SubWindow(self._number, self._next_row, rows.num_rows, kept, summaries, timestamp)

    def _inform(self, fresh: SubWindow, evicted: SubWindow | None) -> None:
        purge = fresh.number % max(1, len(self._slots) // PURGES) == 0
        for kept in self._indexes:
            if evicted is not None:
                kept.index.evict(evicted.number, kept.side)
            kept.index.attach(fresh, kept.column, kept.side)
            if purge:
                kept.index.purge()

    # Indexes.

    def keep(self, index: Any, column: str, side: int = 0) -> Any:
        """Keep an index of a column from now on, also of the current window; returns the index."""
        self.schema.field(column)
        index.refuse(column, self.storage.get(column))
        self._take_side(index, side)
        kept = _ColumnIndex(index, column, side)
        with self.slides.slide():
            self._fill(kept)
            self._indexes.append(kept)
        return index

    def _take_side(self, index: WindowIndex, side: int) -> None:
        if not 0 <= side < index.sides or side in index.taken:
            raise ValueError(f"the index has no side {side} for a window, or has one there already")
        if any(slides is not self.slides for slides in index.taken.values()):
            raise ValueError("windows that share an index must be given the same slides: readers rely on it")
        index.taken[side] = self.slides

    def drop(self, index: WindowIndex) -> None:
        """No longer keep an index, and remove this window from it."""
        with self.slides.slide():
            for kept in [kept for kept in self._indexes if kept.index is index]:
                self._indexes.remove(kept)
                index.clear(kept.side)
                del index.taken[kept.side]

    def _fill(self, kept: _ColumnIndex) -> None:
        kept.index.clear(kept.side)
        for sub_window in self.sub_windows():
            kept.index.attach(sub_window, kept.column, kept.side)
        kept.index.purge()

    # Readers.

    def read(self, reading: Callable[[], T]) -> T:
        """The result of a function on one state of the window and its indexes; it may be called several times."""
        return self.slides.reading(reading)

    def sub_windows(self) -> list[SubWindow]:
        """From the oldest to the newest."""
        return sorted((one for one in self._slots if one is not None), key=lambda one: one.number)

    def __len__(self) -> int:
        """Tuples in the window."""
        return sum(one.size for one in self.sub_windows())

    def rows(self) -> pa.Table:
        """All rows in order of arrival, without a copy, with the columns that are kept as rows."""
        tables = [one.rows for one in self.sub_windows()]
        return pa.concat_tables(tables) if tables else self.schema.empty_table().select(self._listed)

    def take(self, row_ids: Ints) -> pa.Table:
        """Rows by their ids, in the order of the ids."""
        found = self.sub_windows()
        first = found[0].first_row if found else self._next_row
        if len(row_ids) and not first <= int(row_ids.min()) <= int(row_ids.max()) < first + len(self):
            raise IndexError("a row has left the window, or is not in it yet")
        return self.rows().take(pa.array(np.asarray(row_ids) - first))


class CountingIndex(Protocol):
    """The interface of an index for a counted window."""

    def add_counts(self, number: int, counts: ValueCounts, side: int = 0) -> None: ...

    def evict(self, number: int, side: int = 0) -> None: ...

    def purge(self) -> None: ...


class CountedWindow:
    """The sub-windows of one side of an index, by their ends. `panes` is how many fit into the window."""

    def __init__(self, index: CountingIndex, side: int, panes: int) -> None:
        self._index, self._side = index, side
        self._purge_every = max(1, panes // PURGES)
        self._attached = 0
        self.ends: deque[Micros] = deque()

    def attach(self, end: Micros, counts: ValueCounts) -> None:
        """Attach the next sub-window, which ends later than all others."""
        if self.ends and end <= self.ends[-1]:
            raise ValueError("sub-windows are attached in the order of their ends")
        self._index.add_counts(end, counts, self._side)
        self.remember(end)

    def remember(self, end: Micros) -> None:
        """Note a sub-window that the index has already."""
        self.ends.append(end)
        self._attached += 1
        if self._attached % self._purge_every == 0:
            self._index.purge()

    def evict(self, until: Micros) -> None:
        """Take back the sub-windows that end at or before a time."""
        while self.ends and self.ends[0] <= until:
            self._index.evict(self.ends.popleft(), self._side)
