"""Reads the windows of a question out of what is stored, all of one stream as of one time.

A stream of which an index serves a window is read through its indexes, which see one state of it; any other by a scan
of its sub-windows, as the isolation level says. Windows are cut out of the rows later, when it is known as of when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sash.core.errors import SashError
from sash.core.time import Micros
from sash.runtime.stored.stored_access import Access, ByOrder, ByPlace, ByProbe, ByValue, by_stream, choose_access
from sash.runtime.stored.stored_indexes import IndexedWindow, IndexGoneError, KeptIndexes
from sash.runtime.stored.stored_window import KeptWindow, StoredRows
from sash.runtime.stored.stored_windows import window_rows
from sash.runtime.streams.running_stream import RunningStream
from sash.sql import Link, Sought, StoredQuestion


def common_time(stored: Iterable[StoredRows]) -> Micros | None:
    """The least time of the streams that go on; when all have ended, the greatest."""
    every = list(stored)
    going = [each.as_of for each in every if not each.has_ended]
    return min(going) if going else max((each.as_of for each in every), default=None)


def read_question(question: StoredQuestion, streams: Mapping[str, RunningStream]) -> dict[str, StoredRows]:
    """What each window is cut out of, by view. A stream that is read twice is read once, as of one time."""
    kept = {running.stream.name: running.kept for running in streams.values()}
    indexes = {name: each.indexes if each is not None and each.has_begun else None for name, each in kept.items()}
    access = choose_access(question, lambda stream: indexes[stream.name])
    reader = _Reader(question, access, several=len(kept) > 1)
    for name, views in by_stream(question, list(access)).items():
        reader.read(streams[views[0]], indexes[name], views)
    return reader.found


def read_stored(
    running: RunningStream, reach: int | None, wanted: Callable[[pa.Table], pa.Table] | None = None
) -> StoredRows:
    stored = None if running.kept is None else running.kept.read(reach, wanted)
    if stored is None:
        raise SashError(f"no pane of stream '{running.stream.name}' is closed yet: there is nothing to ask")
    return stored


def having(sought: Sequence[Sought], rows: pa.Table) -> pa.Table:
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

    def read(self, running: RunningStream, indexes: KeptIndexes | None, views: Sequence[str]) -> None:
        needed = [access.index for view in views if (access := self.access[view]) is not None]
        if indexes is not None and running.kept is not None and needed:
            try:
                self.found |= indexes.read(needed, partial(self._by_indexes, running.kept, views))
                return
            except IndexGoneError:
                pass
        self.found |= self._by_scan(running, views)

    def _by_scan(self, running: RunningStream, views: Sequence[str]) -> dict[str, StoredRows]:
        reaches = [self.question.windows[view].reach for view in views]
        known = [reach for reach in reaches if reach is not None]
        reach = None if self.several or len(known) < len(reaches) else max(known)
        sought = self.question.windows[views[0]].sought if len(views) == 1 else ()
        # Files are not looked into here: Spark finds what is sought in them.
        is_here = running.kept is not None and running.kept.files is None
        stored = read_stored(running, reach, partial(having, sought) if sought and is_here else None)
        return dict.fromkeys(views, stored)

    # -- one state of a stream, which may be read again ----------------------------------------------

    def _by_indexes(self, kept: KeptWindow, views: Sequence[str], state: IndexedWindow) -> dict[str, StoredRows]:
        found: dict[str, StoredRows] = {}
        for view in views:
            rows = self._rows(view, kept, state, {**self.found, **found})
            found[view] = self._stored(view, kept, state, rows)
        return found

    def _stored(self, view: str, kept: KeptWindow, state: IndexedWindow, rows: pa.Table) -> StoredRows:
        return kept.stored(rows, state.now, None if self.several else self.question.windows[view].reach)

    def _rows(self, view: str, kept: KeptWindow, state: IndexedWindow, before: Mapping[str, StoredRows]) -> pa.Table:
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

    def _leading(self, view: str, kept: KeptWindow, state: IndexedWindow, way: ByOrder) -> pa.Table:
        """The first rows of the index until there are enough of the window, which may be a part of what is stored."""
        least = way.leading.count
        while state.is_few(least):
            rows = state.leading(way.index, way.leading, least)
            inside, _ = window_rows(self.question.windows[view], self._stored(view, kept, state, rows), state.now)
            if len(inside) >= way.leading.count:
                return rows
            least *= 2
        return state.rows()
