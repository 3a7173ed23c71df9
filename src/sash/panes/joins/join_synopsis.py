"""The common part of the join synopses: results wait for their pane to close, then each pane is one update.

A result belongs to the pane of its younger tuple. When that pane closes, the result enters the synopsis: into an
interval of any age, because the older tuple may have come long ago. A result that leaves every window before its pane
closes never enters.

Invariant: after `close(t)` every pair of windows is answered as of t, exactly. Earlier states are gone: an interval
takes results after its time, so nothing can be read as of an earlier pane.

A checkpoint has a synopsis as one Arrow table. Rows carry their key values and, for ranked extremes, the values
themselves; only the synopsis that wrote a row knows the meaning of its `part`, `x` and `y`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.core.window import TimeWindow
from sash.expr.value_codes import KeyDictionary, one_array
from sash.panes.accumulator import Accumulator, RankedValues, Slot
from sash.panes.basic_interval import LEAST_COMPACTED
from sash.panes.joins.pairs import Band, Cells, JoinRows, WindowPair, stored_columns
from sash.panes.pane_rows import Ranked, from_column, to_column
from sash.panes.partials import Component, Partial
from sash.panes.readings import WindowView


def to_table(
    parts: Iterable[tuple[int, Cells]], keys: KeyDictionary, partials: Sequence[Partial], ranked: Ranked
) -> pa.Table:
    numbers, every = zip(*parts, strict=True)
    codes = np.concatenate([cells.codes for cells in every])
    columns: dict[str, pa.Array] = {
        "part": pa.array(np.repeat(numbers, [len(cells) for cells in every]), pa.int64()),
        "x": pa.array(np.concatenate([cells.x for cells in every])),
        "y": pa.array(np.concatenate([cells.y for cells in every])),
    }
    columns |= {f"key{i}": column for i, column in enumerate(keys.decode(codes))}
    for number, partial in enumerate(partials):
        for i in range(len(partial.dtypes)):
            stored = np.concatenate([cells.columns[partial, i] for cells in every])
            columns[f"value{number}_{i}"] = to_column(partial, stored, ranked)
    return pa.table(columns)


def from_table(
    table: pa.Table, keys: KeyDictionary, partials: Sequence[Partial], ranked: Ranked
) -> Iterator[tuple[int, Cells]]:
    """The inverse of `to_table`, part by part; groups get codes in the order in which they come."""
    table = table.combine_chunks()
    part, x, y = (np.array(table[name], dtype=np.int64) for name in ("part", "x", "y"))
    codes = keys.encode([one_array(table[f"key{i}"]) for i in range(len(keys.types))], len(table))
    columns: dict[Slot, Component] = {
        (partial, i): from_column(partial, one_array(table[f"value{number}_{i}"]), ranked)
        for number, partial in enumerate(partials)
        for i in range(len(partial.dtypes))
    }
    every = Cells(x, y, codes, columns)
    for number in np.unique(part).tolist():
        yield number, every.take(np.flatnonzero(part == number))


# The part of a saved table that has the results of panes that have not closed.
_PENDING = 0
Needs = Mapping[WindowPair, Sequence[Partial]]


class JoinHistory(ABC):
    """One synopsis of a join's results by group: absorb, close, answer pairs of windows. Not for several threads."""

    def __init__(
        self, key_types: list[pa.DataType], partials: Iterable[Partial], length: int, band: Band, capacity: int
    ) -> None:
        if capacity < 1:
            raise ValueError(f"a capacity of {capacity}: a synopsis keeps one interval at least")
        self.partials = tuple(dict.fromkeys(partials))
        self.length, self.band, self.capacity = length, band, capacity
        self._keys = KeyDictionary(key_types)
        self._ranked = {partial: RankedValues(partial.type) for partial in self.partials if partial.ranked}
        # The number of the youngest closed pane; None before the first.
        self._now: int | None = None
        self._pending: dict[int, list[Cells]] = {}
        self._most_groups = LEAST_COMPACTED

    @property
    def keys(self) -> KeyDictionary:
        return self._keys

    @property
    def groups(self) -> int:
        return len(self._keys)

    def live_groups(self) -> int:
        """How many groups have results in some interval, or in an open pane; `groups` also counts vanished ones."""
        return int(self._kept_groups().sum())

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers it stores per component of a partial, counted in groups."""

    # -- filling -------------------------------------------------------------------------------------

    def absorb(self, rows: JoinRows) -> None:
        """Take results in, of panes that have not closed yet."""
        if not len(rows):
            return
        if rows.length != self.length:
            raise ValueError(f"results in panes of {rows.length}, the synopsis has panes of {self.length}")
        codes = self._keys.encode(rows.keys, len(rows))
        columns = stored_columns(rows, self.partials, self._ranked)
        every = Cells(rows.first // self.length, rows.second // self.length, codes, columns)
        earliest = int(np.maximum(every.x, every.y).min())
        if self._now is not None and earliest <= self._now:
            raise ValueError(f"results of a pane that has closed: {earliest} by {self._now}")
        self._wait(every)

    def _wait(self, every: Cells) -> None:
        younger = np.maximum(every.x, every.y)
        order = np.argsort(younger, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(younger[order])) + 1):
            self._pending.setdefault(int(younger[part[0]]), []).append(every.take(part))

    @property
    def next_pane(self) -> int | None:
        """The number of the next pane with results; pane p ends by (p + 1) x length, wherever multiples begin."""
        return min(self._pending, default=None)

    def close(self, until: Micros) -> None:
        """Close every pane that ends by the end of a pane."""
        last = until // self.length
        for pane in sorted(pane for pane in self._pending if pane <= last):
            self._advance(pane)
            for cells in self._pending.pop(pane):
                self._enter(cells)
        self._advance(last)
        self._forget_groups()

    def _advance(self, pane: int) -> None:
        if self._now is None:
            self._begin(pane)
            self._now = pane
        elif pane > self._now:
            self._slide(pane - self._now)
            self._now = pane

    @abstractmethod
    def _begin(self, pane: int) -> None:
        """Begin with the number of the first pane that closes."""

    def _enter(self, cells: Cells) -> None:
        """Take the results of the closing pane that are in some window at its end."""
        assert self._now is not None
        ages, leads = self.band.place(self._now - cells.x, self._now - cells.y)
        inside = np.flatnonzero(ages < self.capacity)
        if len(inside):
            self._insert(ages[inside], leads[inside], cells if len(inside) == len(ages) else cells.take(inside))

    @abstractmethod
    def _slide(self, panes: int) -> None:
        """Make every interval this many panes older."""

    @abstractmethod
    def _insert(self, ages: NDArray[np.int64], leads: NDArray[np.int64], cells: Cells) -> None:
        """Insert results into intervals of some ages."""

    # -- groups that have vanished -------------------------------------------------------------------

    def _forget_groups(self) -> None:
        """Check whenever the dictionary is twice as large as after the last check, so the cost is amortised."""
        if len(self._keys) <= self._most_groups:
            return
        live = self._kept_groups()
        if 2 * int(live.sum()) <= len(live):
            kept, remap = self._keys.compacted(live)
            self._recode(remap, len(kept))
            self._keys = kept
            for pane, waiting in self._pending.items():
                self._pending[pane] = [Cells(cells.x, cells.y, remap[cells.codes], cells.columns) for cells in waiting]
        self._most_groups = max(LEAST_COMPACTED, 2 * len(self._keys))

    def _kept_groups(self) -> NDArray[np.bool_]:
        live = self._live()
        for cells in (cells for waiting in self._pending.values() for cells in waiting):
            live[cells.codes] = True
        return live

    @abstractmethod
    def _live(self) -> NDArray[np.bool_]:
        """Which groups have results in some interval."""

    @abstractmethod
    def _recode(self, remap: NDArray[np.int32], groups: int) -> None:
        """Give groups other codes: each old code's new one, -1 for groups that are gone; `groups` are left."""

    # -- answering -----------------------------------------------------------------------------------

    def why_not(self, pair: WindowPair) -> str | None:
        """Why it cannot answer a pair, or None if it can."""
        return self.band.why_not(pair, self.capacity)

    def views(self, needs: Needs) -> Iterator[tuple[WindowPair, WindowView]]:
        """Every pair of windows as of the youngest closed pane, in no order."""
        for pair in needs:
            if (why := self.why_not(pair)) is not None:
                raise ValueError(why)
        for pair, accumulator in self._answers(needs):
            yield pair, self._view(pair, accumulator)

    @abstractmethod
    def _answers(self, needs: Needs) -> Iterator[tuple[WindowPair, Accumulator]]: ...

    def _view(self, pair: WindowPair, accumulator: Accumulator) -> WindowView:
        window = TimeWindow(pair.first * self.length)
        since: dict[Partial, Micros | None] = dict.fromkeys(self.partials)
        return WindowView(window, accumulator, self._keys, 0, since, _no_later)

    # -- recovery ------------------------------------------------------------------------------------

    @property
    def now(self) -> int | None:
        """The number of the youngest closed pane, for `load`."""
        return self._now

    def to_table(self) -> pa.Table:
        """All contents, with key values."""
        waiting = [(_PENDING, cells) for pane in sorted(self._pending) for cells in self._pending[pane]]
        return to_table([*self._saved(), *waiting], self._keys, self.partials, self._ranked)

    def load(self, table: pa.Table, now: int | None) -> None:
        """The inverse of `to_table`, into an empty synopsis of the same kind, band and partials."""
        if now is not None:
            self._advance(now)
        for part, cells in from_table(table, self._keys, self.partials, self._ranked):
            if part == _PENDING:
                self._wait(cells)
            else:
                self._load(part, cells)

    @abstractmethod
    def _saved(self) -> Iterable[tuple[int, Cells]]:
        """The contents, in parts that the synopsis numbers from 1 on."""

    @abstractmethod
    def _load(self, part: int, cells: Cells) -> None:
        """The inverse: each part once."""


def _no_later(since: Micros) -> Accumulator:
    raise AssertionError("all partials of a join synopsis are of one time")
