"""Readings: which pane tables a query reads, over which windows, and which partials it needs there.

Plain aggregates read the pane table of the query's own keys. A holistic aggregate of x reads the table that is grouped
by x as well, and so do TOP, HISTOGRAM and FREQUENT: TOP(k, x, SUM(y)) and SUM(y) GROUP BY x read one table (rule SS1).
FREQUENT may read a table of short lists instead, whose closed panes have only their most frequent items, and COUNT_MIN
one that is grouped by counters of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from sash.core.interned import InternedValue
from sash.core.time import Micros, format_duration
from sash.core.window import RowWindow, TimeWindow, Window
from sash.expr.value_codes import KeyDictionary
from sash.panes.accumulator import Accumulator
from sash.panes.partials import Partial
from sash.plan.expressions import RowExpression


@dataclass(eq=False)
class WindowView:
    """The groups of one window. It is not to be changed; it is not frozen because frozen ones take longer to make.

    `later` folds only the panes that start at or after a time, for readers of partials that came later.
    """

    window: Window
    accumulator: Accumulator
    keys: KeyDictionary
    oldest: Micros
    since: Mapping[Partial, Micros | None]
    later: Callable[[Micros], Accumulator]

    def accumulator_for(self, partials: Iterable[Partial]) -> Accumulator:
        """What to read so that all these partials speak of the same tuples."""
        since = self.oldest
        for partial in partials:
            start = self.since[partial]
            if start is not None and start > since:
                since = start
        return self.accumulator if since == self.oldest else self.later(since)

    @property
    def is_empty(self) -> bool:
        """No group has tuples, by the numbers of rows that were asked for."""
        slots = self.accumulator.slots.items()
        return not any((component > 0).any() for (partial, _), component in slots if partial.kind == "rows")


KeySet = tuple[RowExpression, ...]


@dataclass(frozen=True, eq=False)
class ShortLists(InternedValue):
    """A closed pane has only the k most frequent items of each group (thesis, algorithm 6).

    `item` and `group` are places among the keys of the table; `length` is that of a pane, the sub-window.
    """

    k: int
    item: int
    group: tuple[int, ...]
    length: int


@dataclass(frozen=True, eq=False)
class TableName(InternedValue):
    """The identity of a pane table within its stream.

    `by_rows`: panes are cut by tuples instead of time. `partition` is the PARTITION BY of row-based windows, whose
    expressions are keys too.
    """

    keys: KeySet
    by_rows: bool = False
    partition: KeySet = ()
    lists: ShortLists | None = None

    @cached_property
    def label(self) -> str:
        keys = f"({', '.join(key.sql for key in self.keys)})"
        by = f" per {', '.join(key.sql for key in self.partition)}" if self.partition else ""
        label = f"{keys} in rows{by}" if self.by_rows else keys
        return label if self.lists is None else f"{label}, the {self._listed(self.lists)}"

    def _listed(self, lists: ShortLists) -> str:
        every = f"{lists.length} rows" if self.by_rows else format_duration(lists.length)
        return f"{lists.k} most frequent {self.keys[lists.item].sql} of every {every}"

    @property
    def order(self) -> tuple[object, ...]:
        """Names sort by their contents: the same queries give the same pass."""
        lists = () if self.lists is None else self.lists.values
        return (self.by_rows, [key.sql for key in self.keys], [key.sql for key in self.partition], lists)


def key_set(expressions: Iterable[RowExpression]) -> KeySet:
    """Grouping expressions without order or repetition: queries with equal sets read one pane table."""
    return tuple(sorted(set(expressions), key=lambda expression: expression.sql))


@dataclass(frozen=True)
class Reading:
    """One query's reading of one pane table. `window` is the query's own, with its SLIDE.

    `sensitive`: counting a tuple twice would make a difference (not for minima and maxima). `lists` is a table of short
    lists that answers the reading as well as `table` does.
    """

    table: TableName
    window: Window
    partials: tuple[Partial, ...]
    sub_window: int | None = None
    sensitive: bool = True
    lists: TableName | None = None

    def is_held_by(self, other: Reading) -> bool:
        """Whether the panes of another reading have everything, as far back."""
        window, theirs = self.window, other.window
        reaches = theirs.unbounded or (not window.unbounded and theirs.reach >= window.reach)
        return reaches and self.table == other.table and set(self.partials) <= set(other.partials)

    @cached_property
    def spans(self) -> tuple[Window, ...]:
        """The windows to be scanned as of now: the window, or one for each of its lengths, or its sub-windows.

        Sub-windows stand in order, the youngest first.
        """
        if self.sub_window is None:
            parts = self.window.parts
            return (parts[0].span,) if len(parts) == 1 else tuple(part.span for part in parts)
        kind = RowWindow if isinstance(self.window, RowWindow) else TimeWindow
        steps = range(0, self.window.length, self.sub_window)
        return tuple(kind(self.sub_window, None, self.window.lag + step) for step in steps)


def sub_window_of(window: Window) -> int:
    """The sub-window of FREQUENT: gcd(WINDOW, SLIDE) of the query itself."""
    return math.gcd(window.length, window.slide or 0)
