"""Indexes over a stored window (sash.rows): they slide with it.

    from a value to its rows     ring, aux, bw, db               WHERE src = 42
    from a value to its count    list, tree, hash, unsorted      MEDIAN(x), COUNT(DISTINCT x), HISTOGRAM(x), TOP(k, x)

An index is made of the rows that are stored, here and again after a restart. Readers take no lock; what a slide came
into is read again, so what they find is as of their end.

Sub-windows of a stored window: pieces of equal length, none of which ever changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sash.catalog import StoredIndex, Stream
from sash.core.errors import SashError
from sash.core.time import Micros
from sash.rows import Further, RowIndex, SetIndex, SlidingWindow, break_ties
from sash.sql import ROW_KINDS, Leading, Sorting, Sought

# The column of stored rows that tells when a row's tuple happened.
TIME = "_t"
# What EXPLAIN says of a question that collects rows.
COLLECTED = "if something that was read leaves the window: dropped before Spark has the rows"
# More sub-windows make answers younger by less than anybody notices, and slides more expensive.
_MOST_SUB_WINDOWS = 600


@dataclass(frozen=True)
class RowSubWindow:
    """The rows of (end - length, end], in order of event time."""

    end: Micros
    rows: pa.Table


def sub_window_length(stream: Stream) -> Micros:
    """How long the sub-windows of a stream are: granules, as few as do."""
    assert stream.keep is not None
    return -(-stream.keep // (stream.granule * _MOST_SUB_WINDOWS)) * stream.granule


T = TypeVar("T")
# With fewer different values than this, a scan that compares finds them as fast.
_LEAST_VALUES = 8
# Here the other way is to give Spark all rows. With up to half of the values, or of the rows, the index was faster each
# time that benchmarks/run_stored_questions.py asked; more than half was not tried.
_LEAST_VALUES_PROBED = 2
_LEAST_ROWS_ORDERED = 2
# In the time that Spark takes to sort a window, an index goes through all stored rows if they are no more than so many,
# and so many for each row of the window. More rows than the most were not tried.
_PLACED_AT_ONCE = 500_000
_PLACED_PER_ROW = 2
_MOST_PLACED = 1_000_000
# Arrow makes one piece of a column to put its rows in order, which has room for so many bytes of text.
MOST_TEXT = 2**31 - 1


@dataclass(frozen=True)
class IndexedWindow:
    """A window with its indexes. The sub-window with number k ends k lengths after `base`."""

    window: SlidingWindow
    base: Micros
    length: Micros
    indexes: dict[StoredIndex, RowIndex | SetIndex] = field(default_factory=dict)

    @property
    def now(self) -> Micros:
        return self.base + self.window.sub_windows()[-1].number * self.length

    def slide(self, rows: pa.Table) -> None:
        self.window.add(rows)
        self.window.attach()

    def create(self, index: StoredIndex) -> None:
        type = self.window.schema.field(index.column).type
        try:
            made = RowIndex(type, index.kind) if index.kind in ROW_KINDS else SetIndex(type, index.kind)
            self.indexes[index] = self.window.keep(made, index.column)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise SashError(f"no {index.kind} index on {index.column}: {error}") from None

    # For readers, within `KeptIndexes.read`.

    def rows(self) -> pa.Table:
        """All rows, in order of time."""
        return self.window.rows()

    def find(self, index: StoredIndex, values: pa.Array) -> pa.Table:
        """The rows that have one of the values, in order of time."""
        _, ids = self._row_index(index).probe(values.unique())
        return self.window.take(np.sort(ids))

    def leading(self, index: StoredIndex, order: Leading, least: int) -> pa.Table:
        """The first rows in an order, so many at least if there are, and those that are equal to the last of them."""
        ids = self._row_index(index).leading_rows(least, order.descending, order.nulls_first)
        return self.window.take(np.sort(ids))

    def placed(self, index: StoredIndex, sorting: Sorting, reach: Micros) -> pa.Table:
        """The rows of the sub-windows that a window looks back to, in order of time, and beside each its place.

        Places go by the order of a question, which the index begins.
        """
        before, (first, *others) = self._before(reach), sorting.terms
        rows = self.rows().slice(before)
        ids, bounds = self._row_index(index).sorted_runs(first.descending, first.nulls_first)
        order = ids - self.window.sub_windows()[0].first_row - before
        is_asked = order >= 0
        order, bounds = order[is_asked], np.append(0, np.cumsum(is_asked))[bounds]
        further = [Further(rows[term.column], term.descending, term.nulls_first) for term in others]
        order = break_ties(order, bounds, further)
        places = np.empty(len(rows), dtype=np.int64)
        places[order] = np.arange(len(order))
        return rows.append_column(sorting.place, pa.array(places))

    def values(self, index: StoredIndex) -> int:
        """About how many different values an index has: those that wait to be purged count, too."""
        found = self.indexes.get(index)
        return 0 if found is None else len(found.directory)

    def counts(self, index: StoredIndex) -> tuple[pa.Array, pa.Array]:
        """Every value, and how often it is in the window, NULL included."""
        counted = self._there(index)
        assert isinstance(counted, SetIndex)
        values, counts = counted.items()
        if nulls := counted.count(None):
            values, counts = pa.concat_arrays([values, pa.nulls(1, values.type)]), np.append(counts, nulls)
        return values, pa.array(counts, pa.int64())

    def has_many(self, index: StoredIndex, asked: int) -> bool:
        """Whether it helps to probe an index with so many values."""
        return self.values(index) >= _LEAST_VALUES_PROBED * asked

    def is_few(self, rows: int) -> bool:
        """Whether it helps to pick so many rows."""
        return len(self.window) >= _LEAST_ROWS_ORDERED * rows

    def is_placed_soon(self, sorting: Sorting, reach: Micros) -> bool:
        """Whether it helps to give rows places, for a window that looks back so far.

        How many rows a condition leaves to be sorted, nobody knows: it counts as if it left none.
        """
        rows = len(self.window)
        asked = 0 if sorting.has_condition else rows - self._before(reach)
        most = min(_MOST_PLACED, _PLACED_AT_ONCE + _PLACED_PER_ROW * asked)
        return rows <= most and self.rows().nbytes <= MOST_TEXT

    def _before(self, reach: Micros) -> int:
        """How many rows are in the sub-windows before those that a window looks back to."""
        return sum(each.size for each in self.window.sub_windows()[: -reach // self.length])

    def _row_index(self, index: StoredIndex) -> RowIndex:
        found = self._there(index)
        assert isinstance(found, RowIndex)
        return found

    def _there(self, index: StoredIndex) -> RowIndex | SetIndex:
        found = self.indexes.get(index)
        if found is None:
            raise IndexGoneError
        return found


class IndexGoneError(Exception):
    """It has been dropped, or has nothing yet: whoever asked it scans instead."""


class KeptIndexes:
    """Those of one stored window; its owner sees to it that one thread at a time changes them."""

    def __init__(self, slots: int, schema: pa.Schema, length: Micros) -> None:
        self._slots, self._schema, self._length = slots, schema, length
        self._state = self._made(0)

    def _made(self, base: Micros) -> IndexedWindow:
        return IndexedWindow(SlidingWindow(self._slots, self._schema), base, self._length)

    def fill(self, stored: Sequence[RowSubWindow]) -> None:
        """Anew, from the sub-windows that are there, the oldest first. Readers have the old ones until it is done."""
        made = self._made(stored[0].end if stored else 0)
        for sub in stored:
            made.slide(sub.rows)
        for index in self._state.indexes:
            made.create(index)
        self._state = made

    def slide(self, sub: RowSubWindow) -> None:
        """The sub-window that follows the youngest one."""
        self._state.slide(sub.rows)

    # -- which there are -----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._state.indexes)

    def create(self, index: StoredIndex) -> None:
        self._state.create(index)

    def drop(self, index: StoredIndex) -> None:
        """Who reads it now notices that it is gone, and what it has is forgotten after that."""
        state = self._state
        state.window.drop(state.indexes.pop(index))

    def row_index(self, sought: Sequence[Sought]) -> tuple[StoredIndex, Sought] | None:
        """The index that finds what is sought, if one helps: that of the column with most values."""
        fitting = [
            (self.values(index), index, each)
            for each in sought
            for index in list(self._state.indexes)
            if index.column == each.column and index.kind in ROW_KINDS
        ]
        helping = [
            (number, index, each) for number, index, each in fitting if number >= _LEAST_VALUES * len(each.values)
        ]
        best = max(helping, key=lambda found: found[0], default=None)
        return None if best is None else best[1:]

    def known(self, columns: Sequence[str]) -> StoredIndex | None:
        """An index that finds rows by one of these columns, whether it helps or not."""
        indexes = list(self._state.indexes)
        return next((each for each in indexes if each.column in columns and each.kind in ROW_KINDS), None)

    def set_index(self, column: str) -> StoredIndex | None:
        indexes = list(self._state.indexes)
        return next((each for each in indexes if each.column == column and each.kind not in ROW_KINDS), None)

    def values(self, index: StoredIndex) -> int:
        return self._state.values(index)

    def is_few(self, rows: int) -> bool:
        return self._state.is_few(rows)

    def is_placed_soon(self, sorting: Sorting, reach: Micros) -> bool:
        return self._state.is_placed_soon(sorting, reach)

    # -- what they answer ----------------------------------------------------------------------------

    def find(self, index: StoredIndex, values: pa.Array) -> tuple[pa.Table, Micros]:
        """The rows that have one of the values, in order of time, and as of when."""
        return self.read([index], lambda state: (state.find(index, values), state.now))

    def counts(self, index: StoredIndex) -> tuple[pa.Array, pa.Array, Micros]:
        """Every value, how often it is in the window, NULL included, and as of when."""
        return self.read([index], lambda state: (*state.counts(index), state.now))

    def read(self, needed: Iterable[StoredIndex], reading: Callable[[IndexedWindow], T]) -> T:
        """What is found on one state of the window, in which the needed indexes are; it may be read several times."""
        state, needed = self._state, list(needed)

        def checked() -> T:
            if not all(index in state.indexes for index in needed) or not state.window.sub_windows():
                raise IndexGoneError
            return reading(state)

        return state.window.read(checked)
