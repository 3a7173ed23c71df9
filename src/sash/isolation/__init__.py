"""Isolation of window slides and reads: how window slides during a read affect a query (thesis, chapter 7).

Two kinds of transaction touch a window: a slide writes its sub-windows (the engine applies a pane), and a read
scans them (a scheduled execution or a one-time query). An answer that mixes sub-windows from before and after a
slide is the answer to no window at all; the levels differ in what they allow and in how long a slide waits:

    serial  one transaction at a time
    ws      window-serializable: a read sees the window as of some time up to its end (definition 7.1)
    lws     latest-window-serializable: as of its end; slides never wait, a read in conflict is aborted (algorithm 7)
    ttu     lws with fewer aborts: what is updated last (longest time-to-update) is read first (algorithm 8)

There are two implementations. If sub-windows are values that are replaced, `SharedWindow` has all four. If a slide
changes arrays in place, a level of `ISOLATION_LEVELS` guards it: a lock for reads that need one; `taking` for reads
that take panes in a moment and compute with them afterwards, and `reading` for reads that can be repeated on any state.
Under all levels but serial, both compute without a lock.

history         operations and histories, in the thesis' notation; `Recorder` writes them down
checker         classifies a history: serializable, WS, LWS, CPS
shared_window   a window of sub-windows that threads slide and read (`reading` is a part of it)
levels          the levels for state that is changed in place
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol, TypeVar

from sash.core.errors import SashError, nearest
from sash.isolation.checker import Verdict, classify
from sash.isolation.history import History, Recorder
from sash.isolation.levels import Optimistic, Serial, Take, TakenWindow
from sash.isolation.shared_window import SharedWindow, WindowRead

__all__ = [
    "ISOLATION_LEVELS",
    "History",
    "Isolation",
    "Optimistic",
    "Recorder",
    "Serial",
    "SharedWindow",
    "TakenWindow",
    "Verdict",
    "WindowRead",
    "classify",
    "isolation",
]

Result = TypeVar("Result")


class Isolation(Protocol):
    def slide(self) -> AbstractContextManager[None]:
        """A window update; the engine applies all changes of one pane inside."""

    def read(self) -> AbstractContextManager[None]:
        """A scheduled execution or a one-time query; it sees one state of the window, and slides wait for it."""

    def reading(self, function: Callable[[], Result]) -> Result:
        """A read that may be repeated: the function's result on one state of the window."""

    def taking(self, take: Take[Result]) -> Result | None:
        """A read in two steps: `take` under the lock, then `compute`; None if there is nothing to take."""

    def give_way(self) -> None:
        """Let waiting threads go first. Call it inside a slide when others may read the window's state."""

    def away(self) -> AbstractContextManager[None]:
        """Let others have the window while the slide waits for something else."""


ISOLATION_LEVELS: dict[str, Callable[[], Isolation]] = {
    "serial": Serial,
    "ws": partial(Optimistic, latest=False),
    "lws": Optimistic,
    "ttu": Optimistic,
}


def isolation(name: str) -> Isolation:
    """The isolation level of this name; `SashError` if there is none."""
    if name not in ISOLATION_LEVELS:
        raise SashError(f"unknown isolation '{name}'{nearest(name, ISOLATION_LEVELS)}")
    return ISOLATION_LEVELS[name]()
