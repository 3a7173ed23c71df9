"""IJ, RJ and the table of running sums over all components of a join's partials: pairs of windows are looked up (CS4).

Each component is a synopsis of vectors over groups. Nothing is stored beside them: the join itself holds the tuples of
its windows, should another synopsis have to be built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.panes.accelerator import refusal
from sash.panes.accumulator import Accumulator
from sash.panes.joins.join_synopsis import JoinHistory, Needs, Saved
from sash.panes.joins.pairs import Band, Cells, WindowPair
from sash.panes.joins.sum_table import RunningTable
from sash.panes.joins.vectors import JoinVectors
from sash.panes.partials import Partial

# Groups are given this much room to grow into, so that a synopsis is not copied for each new one.
_ROOM = 1.5


def join_refusal(kind: str, partial: Partial) -> str | None:
    """Why a kind of join synopsis (basic, interval, running, table) cannot hold a partial, or None if it can."""
    return refusal("running" if kind == "table" else kind, partial)


class JoinLookups(JoinHistory):
    """`kind` is interval (IJ), running (RJ) or table; a table answers every pair that fits into its band."""

    def __init__(
        self,
        kind: str,
        key_types: list[pa.DataType],
        partials: Iterable[Partial],
        length: int,
        band: Band,
        capacity: int,
    ) -> None:
        super().__init__(key_types, partials, length, band, capacity)
        for partial in self.partials:
            if (why := join_refusal(kind, partial)) is not None:
                raise ValueError(why)
        self.kind = kind
        self._synopses = {(p, i): self._made(p, i) for p in self.partials for i in range(len(p.dtypes))}
        self._room = 1

    def _made(self, partial: Partial, component: int) -> JoinVectors | RunningTable:
        if self.kind == "table":
            return RunningTable(longest_pair(self.band), 1)
        return JoinVectors(self.kind, self.band, self.capacity, 1, partial.combine, partial.dtypes[component])

    @property
    def numbers(self) -> int:
        first = next(iter(self._synopses.values()))
        return first.numbers * len(self._keys)

    def why_not(self, pair: WindowPair) -> str | None:
        longest = longest_pair(self.band)
        if self.kind == "table" and (pair.first > longest.first or pair.second > longest.second):
            kept = f"the synopsis keeps {longest.first} and {longest.second}"
            return f"a join of windows of {pair.first} and {pair.second} panes: {kept}"
        return super().why_not(pair)

    # -- filling -------------------------------------------------------------------------------------

    def _begin(self, pane: int) -> None:
        for synopsis in self._synopses.values():
            if isinstance(synopsis, JoinVectors):
                synopsis.begin(pane)

    def _slide(self, panes: int) -> None:
        for synopsis in self._synopses.values():
            synopsis.slide(panes)

    def _insert(self, ages: NDArray[np.int64], leads: NDArray[np.int64], cells: Cells) -> None:
        assert self._now is not None
        self._make_room()
        codes = cells.codes.astype(np.int64)
        for slot, synopsis in self._synopses.items():
            if isinstance(synopsis, JoinVectors):
                synopsis.insert(ages, leads, codes, cells.columns[slot])
            else:
                synopsis.insert(self._now - cells.first, self._now - cells.second, codes, cells.columns[slot])

    def _make_room(self) -> None:
        if len(self._keys) > self._room:
            self._room = int(len(self._keys) * _ROOM)
            for synopsis in self._synopses.values():
                synopsis.grow_groups(self._room)

    def _live(self) -> NDArray[np.bool_]:
        """A group that a pair with the longest windows has rows of, under some predicate."""
        live = np.zeros(len(self._keys), dtype=np.bool_)
        for (partial, _), synopsis in self._synopses.items():
            if partial.kind == "rows":
                found = synopsis.everything()[: len(live)] > 0
                live[: len(found)] |= found
        return live

    def _recode(self, remap: NDArray[np.int32], groups: int) -> None:
        places = np.full(self._room, -1, dtype=np.int64)
        places[: min(len(remap), self._room)] = remap[: self._room]
        self._room = max(1, int(groups * _ROOM))
        for synopsis in self._synopses.values():
            synopsis.reorder(places, self._room)

    def _saved(self) -> Iterator[Saved]:
        """What the vectors hold, for groups that have something there."""
        self._make_room()
        kept = {slot: synopsis.dump()[:, : len(self._keys)] for slot, synopsis in self._synopses.items()}
        shape = next(iter(kept.values())).shape
        there = np.zeros(shape, dtype=np.bool_)
        for (partial, i), rows in kept.items():
            nothing = partial.identity(i)
            there |= ~np.isnan(rows) if nothing != nothing else rows != nothing
        places, codes = np.nonzero(there)
        columns = {slot: rows[places, codes] for slot, rows in kept.items()}
        yield Saved(1, places, np.zeros(len(places), dtype=np.int64), codes.astype(np.int32), columns)

    def _load(self, saved: Saved) -> None:
        self._make_room()
        for (partial, i), synopsis in self._synopses.items():
            rows = np.full((synopsis.places, self._room), partial.identity(i), dtype=partial.dtypes[i])
            rows[saved.x, saved.codes] = saved.columns[partial, i]
            synopsis.restore(rows)

    # -- answering -----------------------------------------------------------------------------------

    def _answers(self, needs: Needs) -> Iterator[tuple[WindowPair, Accumulator]]:
        self._make_room()
        for pair, partials in needs.items():
            accumulator = Accumulator(len(self._keys), (), self._ranked)
            for partial in partials:
                for i in range(len(partial.dtypes)):
                    accumulator.slots[partial, i] = self._synopses[partial, i].lookup(pair)[: len(self._keys)]
            yield pair, accumulator


def longest_pair(band: Band) -> WindowPair:
    """The windows of a table that answers every pair of up to so many panes each."""
    return WindowPair(band.high + 1, 1 - band.low)
