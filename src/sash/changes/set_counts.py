"""INTERSECT and EXCEPT of two windows at the multiples of SLIDE, from one index with two counts per value.

Spark counts (side, pane, value). At a multiple the index takes back the sub-windows that have left either window,
attaches those that are over by then, and answers by one pass over its values (Golab, Garg and Özsu 2003, 7.2.3). No
tuple comes here. A relation that has become empty answers once and then rests; while the windows are empty, time jumps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.changes.stateless import columns_of
from sash.core.changes import EmptyOnce
from sash.core.time import Micros, multiple_at_or_after
from sash.expr.evaluate import evaluate
from sash.expr.value_codes import canonical
from sash.plan.continuous import Map
from sash.plan.set_windows import Side, WindowedSet
from sash.rows.grouped_set_index import GroupedCounts, GrowingGroupIndex
from sash.rows.set_index import SetIndex
from sash.rows.sliding_window import CountedWindow
from sash.rows.subwindows import ValueCounts

_SIDE, _PANE, _VALUE, _COUNT = "side", "pane", "value", "count"


def counts_schema(type: pa.DataType) -> pa.Schema:
    """How often a value is in a pane of one of the two windows. NULL is a value."""
    return pa.schema([(_SIDE, pa.int32()), (_PANE, pa.int64()), (_VALUE, type), (_COUNT, pa.int64())])


class SetWindows:
    """One query. `absorb` counts, then `advance` to a time by which all of them have come."""

    def __init__(self, asked: WindowedSet) -> None:
        self._asked = asked
        self._index: SetIndex | GrowingGroupIndex = (
            SetIndex(asked.type, sides=2) if asked.groups is None else GrowingGroupIndex(asked.type, asked.groups, 2)
        )
        self._windows = [
            CountedWindow(self._index, number, side.length // asked.pane) for number, side in enumerate(asked.sides)
        ]
        # The counts of panes that are not over, by the ends of panes and by side.
        self._waiting: dict[Micros, dict[int, list[pa.Table]]] = {}
        self._now: Micros | None = None
        self.empty = EmptyOnce()

    @property
    def index(self) -> SetIndex | GrowingGroupIndex:
        return self._index

    @property
    def rows(self) -> int:
        """How many values are kept, by side and pane."""
        waiting = (table for sides in self._waiting.values() for tables in sides.values() for table in tables)
        return self._index.links + sum(map(len, waiting))

    # -- counts come ---------------------------------------------------------------------------------

    def counts(self, side: int, panes: pa.Array, column: pa.Array, counts: pa.Array) -> pa.Table:
        """Convert a window's own column to the values of the set operation; see `counts_schema`."""
        asked = self._asked.sides[side]
        values, kept = _values(asked, column)
        rows = pa.table([panes, counts], names=[_PANE, _COUNT]).take(pa.array(kept))
        sides = pa.repeat(pa.scalar(side, pa.int32()), len(kept))
        return pa.table([sides, rows[_PANE], values, rows[_COUNT]], schema=counts_schema(self._asked.type))

    def absorb(self, counts: pa.Table) -> None:
        """Take counts in any order; a value may come more than once."""
        if not len(counts):
            return
        panes, sides = (np.asarray(counts[name], dtype=np.int64) for name in (_PANE, _SIDE))
        order = np.lexsort((sides, panes))
        rows = counts.select([_VALUE, _COUNT]).take(pa.array(order))
        keys = np.column_stack([panes[order], sides[order]])
        starts = np.append(0, np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1)
        for start, end in zip(starts, [*starts[1:], len(keys)], strict=True):
            pane, side = keys[start].tolist()
            self._waiting.setdefault(pane, {}).setdefault(side, []).append(rows.slice(start, end - start))

    # -- time goes on --------------------------------------------------------------------------------

    def advance(
        self, now: Micros, begins: Micros | None, again: Micros | None = None
    ) -> Iterator[tuple[Micros, pa.Table]]:
        """The answers at the multiples up to a time, in order; the first tuple comes after `begins`.

        An empty answer is given once, also as the first one; once more at the first multiple from `again` on, for
        a query that had none yet.
        """
        over = sorted((pane for pane in self._waiting if pane <= now), reverse=True)
        wakes = again if self.empty.rests else None
        while (multiple := self._next_multiple(over, begins, wakes)) is not None and multiple <= now:
            self._slide(multiple, over)
            self._now = multiple
            answer = self._answer()
            if self.empty.tells(answer.num_rows) or (wakes is not None and multiple >= wakes):
                yield multiple, answer
                wakes = None

    def _next_multiple(self, over: Sequence[Micros], begins: Micros | None, wakes: Micros | None) -> Micros | None:
        """The next multiple at which there may be an answer."""
        after = over[-1:]
        if self._now is None:
            after = [*after, begins + 1] if begins is not None else after
        elif not self.empty.rests or any(window.ends for window in self._windows):
            after = [self._now + 1]
        elif wakes is not None:
            after = [*after, max(self._now + 1, wakes)]
        return multiple_at_or_after(min(after), self._asked.slide, self._asked.offset) if after else None

    def _slide(self, multiple: Micros, over: list[Micros]) -> None:
        """Slide both windows to a multiple; `over` are panes that have waited, the oldest last."""
        begins = [multiple - side.length for side in self._asked.sides]
        for window, begin in zip(self._windows, begins, strict=True):
            window.evict(begin)
        while over and over[-1] <= multiple:
            pane = over.pop()
            for side, tables in sorted(self._waiting.pop(pane).items()):
                if pane > begins[side]:
                    self._windows[side].attach(pane, _value_counts(tables))

    def _answer(self) -> pa.Table:
        if isinstance(self._index, GrowingGroupIndex):
            return self._index.intersection().cast(self._asked.schema)
        found = self._index.difference() if self._asked.negated else self._index.intersection()
        return pa.table([found], schema=self._asked.schema)

    # -- recovery ------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state for a checkpoint: sub-windows as values (or groups) and counts, from which `load` makes the
        index."""
        state: dict[str, Any] = {"now": self._now, "had_rows": not self.empty.rests}
        if isinstance(self._index, GrowingGroupIndex):
            state["shift"] = self._index.shift
        waiting = [
            self._labelled(table[_VALUE], table[_COUNT], side, pane, self._asked.type)
            for pane, sides in self._waiting.items()
            for side, tables in sides.items()
            for table in tables
        ]
        inside = [self._stored(side, end) for side, window in enumerate(self._windows) for end in window.ends]
        stored = self._asked.type if self._asked.groups is None else pa.int64()
        return state, [_together(inside, stored), _together(waiting, self._asked.type)]

    def _stored(self, side: int, end: Micros) -> pa.Table:
        if isinstance(self._index, GrowingGroupIndex):
            part = self._index.groups_of(end, side)
            return self._labelled(pa.array(part.groups), pa.array(part.counts), side, end, pa.int64())
        found = self._index.counts_of(end, side)
        values, counts = found.values, found.counts
        if found.nulls:
            values, counts = pa.concat_arrays([values, pa.nulls(1, values.type)]), np.append(counts, found.nulls)
        return self._labelled(values, pa.array(counts), side, end, self._asked.type)

    def _labelled(self, values: Any, counts: Any, side: int, pane: Micros, type: pa.DataType) -> pa.Table:
        places = (pa.repeat(pa.scalar(side, pa.int32()), len(values)), pa.repeat(pane, len(values)))
        return pa.table([*places, values, counts], schema=counts_schema(type))

    def load(self, state: Mapping[str, Any], tables: Sequence[pa.Table]) -> None:
        """The inverse of `save`, into empty windows."""
        inside, waiting = tables
        self.absorb(inside)
        stored, self._waiting = self._waiting, {}
        if isinstance(self._index, GrowingGroupIndex):
            self._index.shift = state["shift"]
        for pane in sorted(stored):
            for side, parts in stored[pane].items():
                self._restore(side, pane, parts)
        self.absorb(waiting)
        self._now, self.empty.rests = state["now"], not state["had_rows"]

    def _restore(self, side: int, pane: Micros, parts: list[pa.Table]) -> None:
        if not isinstance(self._index, GrowingGroupIndex):
            self._windows[side].attach(pane, _value_counts(parts))
            return
        (part,) = parts
        groups, counts = (np.asarray(part[name], dtype=np.int64) for name in (_VALUE, _COUNT))
        self._index.add_groups(pane, GroupedCounts.of(groups, counts), side)
        self._windows[side].remember(pane)


def _values(side: Side, column: pa.Array) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.int64]]]:
    """A column after the projections and selections of its side, and which rows are left."""
    rows = pa.table([column], names=side.window.schema.names)
    kept = np.arange(len(rows))
    for step in side.steps:
        columns = columns_of(rows)
        if isinstance(step, Map):
            rows = pa.table([evaluate(made, columns, len(rows)) for _, made in step.outputs], schema=step.schema)
        else:
            found = evaluate(step.condition, columns, len(rows))
            passed = np.flatnonzero(np.asarray(found.fill_null(False), dtype=np.bool_))
            rows, kept = rows.take(pa.array(passed)), kept[passed]
    (array,) = columns_of(rows).values()
    return canonical(array), kept


def _value_counts(tables: Sequence[pa.Table]) -> ValueCounts:
    """Each value once."""
    every = pa.concat_tables(tables)
    if len(tables) > 1:
        every = every.group_by(_VALUE).aggregate([(_COUNT, "sum")]).rename_columns([_VALUE, _COUNT])
    columns = columns_of(every)
    values, counts = columns[_VALUE], np.asarray(columns[_COUNT], dtype=np.int64)
    known = np.asarray(values.is_valid())
    return ValueCounts(values.drop_null(), counts[known], int(counts[~known].sum()))


def _together(parts: Sequence[pa.Table], type: pa.DataType) -> pa.Table:
    return pa.concat_tables([counts_schema(type).empty_table(), *parts])
