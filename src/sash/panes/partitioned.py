"""Windows of the last rows of each partition: `[PARTITION BY k ROWS n]`.

A partition's window may begin at any of its tuples, so no two tuples can be combined in advance: the synopsis keeps the
partials of single tuples, in the order of their numbers, and drops a tuple when its partition has n younger ones.

Needs: any aggregate. Time: one walk over the tuples kept for all windows together, then one fold per window.
Space: the greatest n + LAG tuples of each partition.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Any

import numba
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.window import Window
from sash.expr.value_codes import KeyDictionary
from sash.panes.accumulator import Accumulator
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.pane_ring import Pane
from sash.panes.pane_rows import PaneRows
from sash.panes.partials import Partial
from sash.panes.readings import WindowView

# The column of row numbers, beside those of the partials.
_NUMBER = "number"
# Rows that no window reaches are dropped when they are as many as the others, and at least this many.
LEAST_DROPPED = 1024


@numba.njit(cache=True, nogil=True)
def kernel_ages(partitions: Any, last: int, seen: Any, ages: Any) -> None:
    # A row's age is how many rows of its partition are at least as young, among the first `last` rows.
    for row in range(last - 1, -1, -1):
        seen[partitions[row]] += 1
        ages[row] = seen[partitions[row]]


class PartitionedSynopsis(BasicIntervalSynopsis):
    """`group` and `partition` are the places of both among the keys of the pane table."""

    def __init__(self, key_types: list[pa.DataType], group: tuple[int, ...], partition: tuple[int, ...]) -> None:
        super().__init__(key_types)
        self._group = group
        self._partition = partition
        self._kept = 0
        # A window has other panes in each partition.
        self._sums = None

    def absorb(self, rows: PaneRows, closed_until: int | None = None) -> None:
        """Rows arrive with growing numbers; several lanes of one pass bring different partials of the same rows."""
        if not len(rows.ends):
            return
        order = np.argsort(rows.ends, kind="stable")
        codes = self._keys.encode(rows.keys, len(rows.ends))[order]
        columns = {
            (p, i): c[order] for p, parts in rows.lifted.items() for i, c in enumerate(self._store(p, rows, parts))
        }
        numbers = rows.ends[order]
        span = (int(numbers[0]) - 1, int(numbers[-1]))
        known = self._open.setdefault(span, [])
        if known:
            known[0] = Pane(*span, known[0].codes, {**known[0].columns, **columns})
        else:
            known.append(Pane(*span, codes, {**columns, _NUMBER: numbers}))

    def close(self, until: int) -> None:
        """Close rows: a numbered row is final, so chunks of rows are taken in whole, and read up to a number."""
        for span in sorted(self._open):
            (pane,) = self._open.pop(span)
            if _NUMBER not in self._ring.columns:
                self._ring.add_column(_NUMBER, np.int64, 0)
            self._ring.insert(pane)

    def _columns_of(self, partials: Iterable[Partial]) -> list[Hashable]:
        numbered = _NUMBER in self._ring.columns
        return [*super()._columns_of(partials), *([_NUMBER] if numbered else [])]

    def expire(self, before: int) -> None:
        """Drop the rows that no window reaches as of `before + reach`."""
        self.close(before)
        rows = self._ring.rows
        if rows - self._kept < max(LEAST_DROPPED, self._kept):
            return
        ages, last = self._ages(before + self.reach)
        keep = np.ones(rows, dtype=np.bool_)
        keep[:last] = ages[:last] <= self.reach
        whole = self._whole()
        columns = {name: column[keep] for name, column in whole.columns.items()}
        self._ring.replace(len(self._ring), [Pane(whole.start, whole.end, whole.codes[keep], columns)])
        self._kept = int(keep.sum())
        self._forget_groups()
        for partial in self.ranked:
            self._forget_values(partial)

    def _whole(self) -> Pane:
        """All rows as one pane."""
        panes = len(self._ring)
        columns = {name: self._ring.column(name, 0, panes).copy() for name in self._ring.columns}
        return Pane(self._ring.span(0)[0], self._ring.span(panes - 1)[1], self._ring.codes(0, panes).copy(), columns)

    def merge(self, before: int, edges: Collection[int] = ()) -> None:
        raise AssertionError("a partitioned window is bounded")

    def _ages(self, now: int) -> tuple[NDArray[np.int64], int]:
        """The ages of the rows as of a number, and how many rows have a number up to it."""
        panes = len(self._ring)
        last = int(np.searchsorted(self._numbers, now, side="right")) if panes else 0
        partitions = self._owners(self._partition)[0][self._ring.codes(0, panes)]
        ages = np.zeros(len(partitions), dtype=np.int64)
        kernel_ages(partitions, last, np.zeros(len(self._keys), dtype=np.int64), ages)
        return ages, last

    @property
    def _numbers(self) -> NDArray[np.int64]:
        return self._ring.column(_NUMBER, 0, len(self._ring))

    def _owners(self, places: tuple[int, ...]) -> tuple[NDArray[np.int32], KeyDictionary]:
        """For each code of all keys together, the code of some of the keys alone."""
        return self._keys.derived(("owners", places), lambda: self._make_owners(places))

    def _make_owners(self, places: tuple[int, ...]) -> tuple[NDArray[np.int32], KeyDictionary]:
        columns = self._keys.decode_all()
        some = KeyDictionary([self._keys.types[place] for place in places])
        return some.encode([columns[place] for place in places], len(self._keys)), some

    # -- answering -----------------------------------------------------------------------------------

    def is_empty(self, window: Window, now: int) -> bool:
        return not len(self._ring) or int(self._numbers[0]) > now

    def next_end(self, after: int) -> int | None:
        """The number of the next row after a number, open or closed."""
        numbers = [*self._open_numbers(), self._numbers] if len(self._ring) else self._open_numbers()
        later = [int(each[each > after].min()) for each in numbers if (each > after).any()]
        return min(later, default=None)

    def _open_numbers(self) -> list[NDArray[np.int64]]:
        return [pane.columns[_NUMBER] for pane in self._open_panes()]

    def straddles(self, edge: int) -> bool:
        return False

    def scan(self, needs: dict[Window, list[Partial]], now: int) -> Iterator[WindowView]:
        ages, last = self._ages(now)
        owners, groups = self._owners(self._group)
        for window, partials in needs.items():
            inside = np.flatnonzero((ages[:last] > window.lag) & (ages[:last] <= window.reach))
            fold = functools.partial(self._folded_rows, partials, inside, owners, len(groups))
            yield WindowView(window, fold(None), groups, -1, self.since, fold)

    def _folded_rows(
        self,
        partials: list[Partial],
        inside: NDArray[np.int64],
        owners: NDArray[np.int32],
        groups: int,
        since: int | None,
    ) -> Accumulator:
        whole = partials
        if since is not None:
            inside = inside[self._numbers[inside] > since]
            whole = [p for p in partials if (start := self.since[p]) is None or start <= since]
        accumulator = Accumulator(groups, whole, self.ranked)
        codes = owners[self._ring.codes(0, len(self._ring))[inside]]
        accumulator.fold(whole, codes, lambda slot: self._ring.column(slot, 0, len(self._ring))[inside])
        return accumulator

    # -- recovery ------------------------------------------------------------------------------------

    def to_table(self) -> pa.Table:
        self.close(0)
        numbers = self._numbers if len(self._ring) else np.empty(0, dtype=np.int64)
        return super().to_table().append_column(_NUMBER, pa.array(numbers))

    def load(self, table: pa.Table, since: list[list[object]]) -> None:
        super().load(table.drop_columns([_NUMBER]), since)
        if len(table):
            self._ring.add_column(_NUMBER, np.int64, 0)
            self._ring.writable(_NUMBER)[:] = np.asarray(table[_NUMBER])
