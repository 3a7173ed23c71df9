"""A window of sub-windows that come counted: values and how often each occurs, but no tuples.

    panes          ┌─────┬─────┬─────┬─────┐
    of a window    │ 9:2 │  -  │ 4:1 │ 9:1 │   ──►  index, on this window's side:  4:1  9:3
                   └──▲──┴─────┴─────┴──▲──┘
                      evict up to     attach

Whoever counts has aggregated the tuples elsewhere. The counts live in the index alone, as the links of its
sub-windows: the window knows when each ends, and when it is to go. Panes without tuples are no sub-windows, so time may
jump. Several windows may share an index, each with its own side and its own length.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from sash.core.time import Micros
from sash.storage.window.sliding_window import PURGES
from sash.storage.window.subwindows import ValueCounts


class CountingIndex(Protocol):
    """What such a window needs of an index."""

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
        """The next sub-window, which ends later than all that are there."""
        if self.ends and end <= self.ends[-1]:
            raise ValueError("sub-windows are attached in the order of their ends")
        self._index.add_counts(end, counts, self._side)
        self.remember(end)

    def remember(self, end: Micros) -> None:
        """A sub-window that is in the index already."""
        self.ends.append(end)
        self._attached += 1
        if self._attached % self._purge_every == 0:
            self._index.purge()

    def evict(self, until: Micros) -> None:
        """Take back the sub-windows that end at or before a time."""
        while self.ends and self.ends[0] <= until:
            self._index.evict(self.ends.popleft(), self._side)
