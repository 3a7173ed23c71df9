"""Indexes over a stored window (sash.rows): they slide with its ring, and have no rows of their own.

    from a value to its rows     ring, aux, bw, db               WHERE src = 42
    from a value to its count    list, tree, hash, unsorted      MEDIAN(x), COUNT(DISTINCT x), HISTOGRAM(x), TOP(k, x)

    ring        [ s5 s6 s2 s3 s4 ]      sub-windows: rows as Arrow, never changed, only replaced
                  ▲
    index       7 ─► (5, 0) (6, 2)      a row is known by its sub-window's number and its place in there

An index is built from the stored rows, and again after a restart. A slide changes the ring and its indexes under one
version (`isolation.Optimistic`). Readers take no lock; a reader that a slide has interrupted reads again, so its result
is as of its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sash.catalog import StoredIndex
from sash.core.errors import SashError
from sash.core.time import Micros
from sash.isolation import SharedWindow
from sash.rows import Further, RowIndex, SetIndex, SubWindow, break_ties, new_slides
from sash.rows.sliding_window import PURGES
from sash.rows.value_keys import Ints
from sash.sql import ROW_KINDS, LeadingRows, SoughtValues, WindowOrder

# The column of stored rows with the event time of a row's tuple.
TIME = "_t"
# Before every event time: the end of a sub-window before the first tuple.
NEVER: Micros = -(2**62)
# EXPLAIN's text for a question that collects rows.
COLLECTED = "if a sub-window that was read leaves the window: dropped before Spark has the rows"
T = TypeVar("T")
# Bits of a row's number for its place in its sub-window; the others are the number of the sub-window.
_PLACE = 32
# With fewer different values than this, a comparing scan is as fast.
_LEAST_VALUES = 8
# Without the index, Spark would get all rows. With up to half of the values, or of the rows, the index was faster in
# every measurement of benchmarks/run_stored_questions.py; more than half was not tried.
_LEAST_VALUES_PROBED = 2
_LEAST_ROWS_ORDERED = 2
# Giving all stored rows their places takes no longer than Spark's sort if there are at most this many rows, plus this
# many for each row of the window. More rows than the most were not tried.
_PLACED_AT_ONCE = 500_000
_PLACED_PER_ROW = 2
_MOST_PLACED = 1_000_000
# To sort rows, Arrow makes one piece of a column, which has room for this many bytes of text.
MOST_TEXT = 2**31 - 1


class IndexGoneError(Exception):
    """The index has been dropped, or nothing is stored yet: a reader scans instead."""


def row_sub_window(number: int, end: Micros, rows: pa.Table) -> SubWindow:
    """The rows of (end - length, end], in order of event time, as the ring and its indexes have them."""
    return SubWindow(number, number << _PLACE, len(rows), rows, {}, end)


def end_of(sub_window: SubWindow) -> Micros:
    assert sub_window.timestamp is not None
    return sub_window.timestamp


class StoredIndexes:
    """The indexes of one stored window; its owner lets one thread at a time change the ring and its indexes."""

    def __init__(self, ring: SharedWindow[SubWindow], length: Micros) -> None:
        self._ring, self._length = ring, length
        self._slides = new_slides()
        self._made: dict[StoredIndex, RowIndex | SetIndex] = {}

    # -- which there are, and how they follow the ring -------------------------------------------------

    def __len__(self) -> int:
        return len(self._made)

    def slide(self, new: SubWindow) -> None:
        """Slide the ring and its indexes. Readers of an index do not wait for the writer's lock."""
        with self._ring.turn(), self._slides.slide():
            left = self._ring.slide(new)
            try:
                for index, made in self._made.items():
                    made.evict(left.number)
                    made.attach(new, index.column)
                    if new.number % max(1, len(self._ring) // PURGES) == 0:
                        made.purge()
            except BaseException:
                # An index may have half of the change.
                self._made = self._of(self._ring.sub_windows())
                raise

    def change(self, sub_windows: Sequence[SubWindow], change: Callable[[], None]) -> None:
        """Change the ring to these sub-windows. Readers have the old indexes while new ones are built."""
        made = self._of(sub_windows)
        with self._ring.turn(), self._slides.slide():
            change()
            self._made = made

    def create(self, index: StoredIndex, type: pa.DataType) -> None:
        try:
            made = self._filled(index, type, self._ring.sub_windows())
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise SashError(f"no {index.kind} index on {index.column}: {error}") from None
        with self._slides.slide():
            self._made[index] = made

    def drop(self, index: StoredIndex) -> None:
        """Drop an index; its readers notice."""
        with self._slides.slide():
            del self._made[index]

    def _of(self, sub_windows: Sequence[SubWindow]) -> dict[StoredIndex, RowIndex | SetIndex]:
        return {index: self._filled(index, made.type, sub_windows) for index, made in self._made.items()}

    def _filled(self, index: StoredIndex, type: pa.DataType, sub_windows: Sequence[SubWindow]) -> RowIndex | SetIndex:
        made = RowIndex(type, index.kind) if index.kind in ROW_KINDS else SetIndex(type, index.kind)
        for each in sub_windows:
            made.attach(each, index.column)
        made.purge()
        return made

    # -- which index helps -----------------------------------------------------------------------------

    def row_index(self, sought: Sequence[SoughtValues]) -> tuple[StoredIndex, SoughtValues] | None:
        """The index that finds the sought values, if one helps: that of the column with most values."""
        fitting = [
            (self.values(index), index, each)
            for each in sought
            for index in list(self._made)
            if index.column == each.column and index.kind in ROW_KINDS
        ]
        helping = [
            (number, index, each) for number, index, each in fitting if number >= _LEAST_VALUES * len(each.values)
        ]
        best = max(helping, key=lambda found: found[0], default=None)
        return None if best is None else best[1:]

    def known(self, columns: Sequence[str]) -> StoredIndex | None:
        """An index on one of these columns, whether it helps or not."""
        indexes = list(self._made)
        return next((each for each in indexes if each.column in columns and each.kind in ROW_KINDS), None)

    def values(self, index: StoredIndex) -> int:
        """About how many different values an index has, including values that wait to be purged."""
        found = self._made.get(index)
        return 0 if found is None else len(found.directory)

    def has_many(self, index: StoredIndex, asked: int) -> bool:
        """Whether it helps to probe an index with this many values."""
        return self.values(index) >= _LEAST_VALUES_PROBED * asked

    def is_few(self, rows: int) -> bool:
        """Whether it helps to pick this many rows."""
        return sum(self._sizes()) >= _LEAST_ROWS_ORDERED * rows

    def is_placed_soon(self, sorting: WindowOrder, reach: Micros) -> bool:
        """Whether it helps to give rows places, for a window with this reach.

        How many rows a condition leaves is unknown: it counts as if it left none.
        """
        rows = sum(self._sizes())
        asked = 0 if sorting.has_condition else rows - self._before(reach)
        most = min(_MOST_PLACED, _PLACED_AT_ONCE + _PLACED_PER_ROW * asked)
        return rows <= most and self.rows().nbytes <= MOST_TEXT

    # -- what they answer ------------------------------------------------------------------------------

    def read(self, needed: Iterable[StoredIndex], reading: Callable[[], T]) -> T:
        """What `reading` finds in one state of the ring, with the needed indexes; it may be called several times."""
        needed = list(needed)

        def checked() -> T:
            if not all(index in self._made for index in needed) or self.now == NEVER:
                raise IndexGoneError
            return reading()

        return self._slides.reading(checked)

    # For readers, within `read`.

    @property
    def now(self) -> Micros:
        return end_of(self._ring.sub_windows()[-1])

    def rows(self) -> pa.Table:
        """All rows, in order of time."""
        return pa.concat_tables([each.rows for each in self._ring.sub_windows()])

    def find(self, index: StoredIndex, values: pa.Array) -> pa.Table:
        """The rows that have one of the values, in order of time."""
        _, ids = self._row_index(index).probe(values.unique())
        return self._take(np.sort(ids))

    def leading(self, index: StoredIndex, order: LeadingRows, least: int) -> pa.Table:
        """The first rows in an order, at least `least` if there are, and rows that are equal to the last of them."""
        ids = self._row_index(index).leading_rows(least, order.descending, order.nulls_first)
        return self._take(np.sort(ids))

    def placed(self, index: StoredIndex, sorting: WindowOrder, reach: Micros) -> pa.Table:
        """The rows of the sub-windows that a window reaches, in order of time, each with its place.

        Places follow the order of a question, which the index begins.
        """
        before, (first, *others) = self._before(reach), sorting.terms
        rows = self.rows().slice(before)
        ids, bounds = self._row_index(index).sorted_runs(first.descending, first.nulls_first)
        order = self._positions(ids) - before
        is_asked = order >= 0
        order, bounds = order[is_asked], np.append(0, np.cumsum(is_asked))[bounds]
        further = [Further(rows[term.column], term.descending, term.nulls_first) for term in others]
        order = break_ties(order, bounds, further)
        places = np.empty(len(rows), dtype=np.int64)
        places[order] = np.arange(len(order))
        return rows.append_column(sorting.place, pa.array(places))

    def counts(self, index: StoredIndex) -> tuple[pa.Array, Ints]:
        """Every value, NULL included, and its count in the window."""
        counted = self._there(index)
        assert isinstance(counted, SetIndex)
        values, counts = counted.items()
        if nulls := counted.count(None):
            values, counts = pa.concat_arrays([values, pa.nulls(1, values.type)]), np.append(counts, nulls)
        return values, counts

    def _sizes(self) -> list[int]:
        return [each.size for each in self._ring.sub_windows()]

    def _before(self, reach: Micros) -> int:
        """How many rows are in the sub-windows before those that a window reaches."""
        return sum(self._sizes()[: -reach // self._length])

    def _take(self, ids: Ints) -> pa.Table:
        return self.rows().take(pa.array(self._positions(ids)))

    def _positions(self, ids: Ints) -> Ints:
        """The positions of rows among all rows of the window."""
        sub_windows = self._ring.sub_windows()
        starts = np.array([*accumulate((each.size for each in sub_windows), initial=0)])
        found: Ints = starts[(ids >> _PLACE) - sub_windows[0].number] + (ids & ((1 << _PLACE) - 1))
        return found

    def _row_index(self, index: StoredIndex) -> RowIndex:
        found = self._there(index)
        assert isinstance(found, RowIndex)
        return found

    def _there(self, index: StoredIndex) -> RowIndex | SetIndex:
        found = self._made.get(index)
        if found is None:
            raise IndexGoneError
        return found
