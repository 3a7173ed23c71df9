"""Isolation levels: what a query sees of the window slides that happen while it reads (thesis, chapter 7).

Two kinds of transaction touch a window: a slide writes its sub-windows (the engine applies a pane), and a read
scans them (a scheduled execution or a one-time query). An answer that mixes sub-windows from before and after a
slide is the answer to no window at all; the levels differ in what they allow and in how long a slide waits:

    serial  one transaction at a time
    ws      window-serializable: a read sees the window as of some time up to its end (definition 7.1)
    lws     latest-window-serializable: as of its end; slides never wait, a read in conflict is aborted (algorithm 7)
    ttu     lws with fewer aborts: what is updated last (longest time-to-update) is read first (algorithm 8)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from sash.core.errors import NotSupportedError, SashError, nearest
from sash.transactions.serial import Serial


class Isolation(Protocol):
    def slide(self) -> AbstractContextManager[None]:
        """A window update; the engine applies all changes of one pane inside."""

    def read(self) -> AbstractContextManager[None]:
        """A scheduled execution or a one-time query; it sees one state of the window."""

    def give_way(self) -> None:
        """To be called inside a slide where the window is in a state that others may read: whoever waits goes first."""


ISOLATION_LEVELS: dict[str, type[Isolation]] = {"serial": Serial}
# Every name that a user may know from the documentation.
ISOLATION_NAMES = ("serial", "ws", "lws", "ttu")


def isolation(name: str) -> Isolation:
    """The isolation level of this name; `SashError` if there is none, or none yet."""
    if name in ISOLATION_LEVELS:
        return ISOLATION_LEVELS[name]()
    if name in ISOLATION_NAMES:
        raise NotSupportedError(f"isolation '{name}'; available: {', '.join(ISOLATION_LEVELS)}")
    raise SashError(f"unknown isolation '{name}'{nearest(name, ISOLATION_NAMES)}")
