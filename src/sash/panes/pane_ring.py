"""The ring of closed panes: columnar, contiguous, oldest first.

    rows      | pane 1          | pane 2     | pane 3                |
    codes     | 0 1 2 5         | 0 2        | 1 2 3 4 5             |     which group
    columns   | one array per component of a partial                  |     its value in that pane
              ^ head moves right as panes expire; the dead part is cut off when the arrays are full

A pane covers (start, end]. Panes are kept in the order of their ends. They may be of different lengths (finer ones came
with a finer query) and may even overlap in time: each tuple is in exactly one of them. A column is an array of int64 or
float64, or of objects: the bytes of sketches, None where there is none.

`frozen` lends the current panes to another thread without a copy. New panes are written behind the lent rows. A change
of existing rows (late panes, merged ones, new codes) goes to fresh arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.expr.value_codes import Codes

# int64, float64 or objects
Column = NDArray[Any]
Dtype = type[np.int64] | type[np.float64] | type[np.object_]


LEAST_CAPACITY = 1024
# From so many rows on memory is dearer than moving them: a third of them has room instead of as many again.
MANY_ROWS = 100_000
# The codes, among the names of columns.
_CODES = object()


@dataclass(frozen=True)
class Pane:
    """One pane's rows: a code per group, the components of its partials."""

    start: Micros
    end: Micros
    codes: Codes
    columns: Mapping[Any, Column]


class PaneRing:
    """Append at the young end, expire at the old one, scan slices in between."""

    def __init__(self) -> None:
        self._starts: list[Micros] = []
        self._ends: list[Micros] = []
        self._bounds: list[int] = [0]
        self._codes: Codes = np.empty(0, dtype=np.int32)
        self._columns: dict[Hashable, Column] = {}
        self._fills: dict[Hashable, int | float | None] = {}
        self._nested_until: Micros | None = None
        # How often panes that were there already have changed, and how many panes have expired.
        self.revision, self.expired = 0, 0
        # The columns whose rows somebody else may be reading.
        self._lent: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def rows(self) -> int:
        return self._bounds[-1] - self._bounds[0]

    @property
    def capacity(self) -> int:
        """How many rows the arrays have room for, including dead ones at their head."""
        return len(self._codes)

    @property
    def nested(self) -> bool:
        """Whether some pane lies inside a longer one that ends later: then a window's panes are not contiguous."""
        return self._nested_until is not None and bool(self._starts) and self._starts[0] < self._nested_until

    @property
    def columns(self) -> list[Hashable]:
        return list(self._columns)

    def add_column(self, name: Hashable, dtype: Dtype, fill: int | float | None) -> None:
        """Add a component; panes already stored hold its identity."""
        self._fills[name] = fill
        self._columns[name] = np.full(len(self._codes), fill, dtype=dtype)
        self._lent.discard(name)

    def drop_column(self, name: Hashable) -> None:
        del self._columns[name], self._fills[name]
        self.revision += 1

    # -- lending ---------------------------------------------------------------------------------------

    def frozen(self, names: Collection[Hashable] | None = None) -> PaneRing:
        """The current panes, with some of their columns (None: all). Time: O(panes + columns lent)."""
        lent = self._columns if names is None else {name: self._columns[name] for name in names}
        last = self._bounds[-1]
        other = PaneRing()
        other._starts, other._ends, other._bounds = self._starts.copy(), self._ends.copy(), self._bounds.copy()
        # The arrays end with the lent rows, so an append to the other ring finds them full and takes fresh ones.
        other._codes = self._codes[:last]
        other._columns = {name: column[:last] for name, column in lent.items()}
        other._fills, other._nested_until = {name: self._fills[name] for name in lent}, self._nested_until
        for ring in (self, other):
            ring._lent |= {_CODES, *lent}
        return other

    def _own(self, *names: Hashable) -> None:
        """Call this before changing rows in place: borrowers keep the old arrays."""
        for name in self._lent.intersection(names):
            self._lent.discard(name)
            if name is _CODES:
                self._codes = self._codes.copy()
            else:
                self._columns[name] = self._columns[name].copy()

    # -- panes -----------------------------------------------------------------------------------------

    def insert(self, pane: Pane) -> None:
        """Add a pane; nearly always the youngest, in which case nothing is moved."""
        position = bisect_right(self._ends, pane.end)
        if position and pane.start < self._starts[position - 1]:
            self._note_nesting(pane.end)
        if position < len(self._ends) and self._starts[position] < pane.start:
            self._note_nesting(self._ends[-1])
        if position == len(self._ends):
            self._append(pane)
            return
        self.revision += 1
        younger = [self.pane(i) for i in range(position, len(self))]
        self._own(_CODES, *self._columns)
        self._truncate(position)
        for later in [pane, *younger]:
            self._append(later)

    def replace(self, count: int, panes: list[Pane]) -> None:
        """Put other panes in the place of the oldest ones."""
        self.revision += 1
        younger = [self.pane(i) for i in range(count, len(self))]
        self._own(_CODES, *self._columns)
        self._truncate(0)
        for pane in [*panes, *younger]:
            self._append(pane)

    def _note_nesting(self, until: Micros) -> None:
        self._nested_until = until if self._nested_until is None else max(until, self._nested_until)

    def _truncate(self, panes: int) -> None:
        del self._starts[panes:], self._ends[panes:], self._bounds[panes + 1 :]

    def _append(self, pane: Pane) -> None:
        low, high = self._bounds[-1], self._bounds[-1] + len(pane.codes)
        if high > len(self._codes):
            self._make_room(len(pane.codes))
            low, high = self._bounds[-1], self._bounds[-1] + len(pane.codes)
        self._codes[low:high] = pane.codes
        for name, column in self._columns.items():
            column[low:high] = pane.columns.get(name, self._fills[name])
        self._starts.append(pane.start)
        self._ends.append(pane.end)
        self._bounds.append(high)

    def _make_room(self, extra: int) -> None:
        """Cut off the dead rows at the head; the arrays then have room, so that the cost is amortised."""
        head, size = self._bounds[0], self.rows
        needed = size + extra
        capacity = max(LEAST_CAPACITY, 2 * needed if needed < MANY_ROWS else needed + max(extra, needed // 3))
        self._codes = _moved(self._codes, head, size, capacity)
        for name, column in self._columns.items():
            self._columns[name] = _moved(column, head, size, capacity)
        self._bounds = [bound - head for bound in self._bounds]
        self._lent.clear()

    def expire(self, before: Micros) -> int:
        """Forget the oldest panes that start before a time; the result is how many."""
        gone = 0
        while gone < len(self._starts) and self._starts[gone] < before:
            gone += 1
        if gone:
            head = self._bounds[0]
            del self._starts[:gone], self._ends[:gone], self._bounds[:gone]
            self.expired += gone
            self._let_go(head, self._bounds[0])
        return gone

    def _let_go(self, low: int, high: int) -> None:
        """Clear the objects of dead rows: sketches are large, and dead rows stay until the arrays are full."""
        for name, column in list(self._columns.items()):
            if column.dtype == np.object_:
                self._own(name)
                self._columns[name][low:high] = None

    def pane(self, i: int) -> Pane:
        low, high = self._bounds[i], self._bounds[i + 1]
        columns = {name: column[low:high].copy() for name, column in self._columns.items()}
        return Pane(self._starts[i], self._ends[i], self._codes[low:high].copy(), columns)

    def span(self, i: int) -> tuple[Micros, Micros]:
        return self._starts[i], self._ends[i]

    def position(self, end: Micros) -> int:
        """How many panes end at or before a time."""
        return bisect_right(self._ends, end)

    def first_whole(self, edge: Micros, young: int) -> int:
        """The oldest pane before `young` that lies wholly after an edge."""
        (first,) = self.first_wholes([edge], young)
        return first

    def first_wholes(self, edges: Sequence[Micros], young: int) -> list[int]:
        """The same for several edges."""
        starts, ends, found = self._starts, self._ends, []
        for edge in edges:
            first = bisect_right(ends, edge, 0, young)
            while first < young and starts[first] < edge:
                first += 1
            found.append(first)
        return found

    def cuts(self, panes: list[int]) -> NDArray[np.int64]:
        """Where panes begin among the rows of a slice, which starts with the last of these panes."""
        return np.array([self._bounds[pane] for pane in panes], dtype=np.int64) - self._bounds[panes[-1]]

    def codes(self, first: int, last: int) -> Codes:
        """The codes of panes first .. last - 1."""
        return self._codes[self._bounds[first] : self._bounds[last]]

    def ends_of_rows(self, first: int = 0, last: int | None = None) -> NDArray[np.int64]:
        """The end of each row's pane, of panes first .. last - 1."""
        last = len(self) if last is None else last
        return np.repeat(np.array(self._ends[first:last], dtype=np.int64), np.diff(self._bounds[first : last + 1]))

    def column(self, name: Hashable, first: int, last: int) -> Column:
        """A component of panes first .. last - 1: no copy, and read-only for the caller."""
        return self._columns[name][self._bounds[first] : self._bounds[last]]

    def writable(self, name: Hashable) -> Column:
        """A component of all panes: what is written there is stored."""
        self.revision += 1
        self._own(name)
        return self.column(name, 0, len(self))

    def recode(self, remap: Codes) -> None:
        """Give every row its group's new code."""
        self.revision += 1
        self._own(_CODES)
        low, high = self._bounds[0], self._bounds[-1]
        self._codes[low:high] = remap[self._codes[low:high]]


def _moved(array: Any, head: int, size: int, capacity: int) -> Any:
    fresh = np.empty(capacity, dtype=array.dtype)
    fresh[:size] = array[head : head + size]
    return fresh
