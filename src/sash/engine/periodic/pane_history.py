"""Writes down what executions beside slides do to the panes of one group, as a history that `transactions` can judge.

A pane is a sub-window, and the ring has as many slots as the longest window has panes. Slides are numbered from the
time at which the writing began. Each window length of a flight is a transaction of its own: it reads its own panes.
SLIDE EXACTLY is left out, being as of its own time under every level.

For tests and for looking into a problem: memory for ever. Belongs to one group, from a time at which nothing is under
way; its windows have no LAG.
"""

from __future__ import annotations

from sash.engine.periodic.flight import Flight
from sash.engine.periodic.group import PaneGroup
from sash.transactions import History, Recorder


class PaneHistory:
    """All calls come from the thread that moves the group."""

    def __init__(self, group: PaneGroup, slots: int) -> None:
        self.group = group
        self._slots = slots
        self._recorder = Recorder()
        self._recorder.begin(slots, filled=slots - 1)
        self._youngest, self._seen = slots - 1, group.clock.position
        # The transactions of a flight that are under way, by the lengths of their windows.
        self._open: dict[int, dict[int, str]] = {}
        # As of when a flight has read ahead.
        self._ahead: dict[int, int] = {}
        self._begun = 0

    @property
    def history(self) -> History:
        return self._recorder.history

    def catch_up(self) -> None:
        """Slides since the last call; a group that goes on by several panes slides several times."""
        while self._seen < self.group.clock.position:
            self._seen += self.group.clock.length
            self._youngest += 1
            self._recorder.wrote(str(self._youngest), [self._youngest % self._slots])

    def read(self, flight: Flight) -> None:
        """All panes, as of now."""
        for length, name in self._begin(flight).items():
            self._read(name, flight.as_of - length, flight.as_of)

    def read_ahead(self, flight: Flight) -> None:
        """All but the oldest."""
        self._ahead[id(flight)] = flight.as_of
        for length, name in self._begin(flight).items():
            self._read(name, flight.as_of - length + self.group.clock.length, flight.as_of)

    def read_rest(self, flight: Flight) -> None:
        """The oldest, or one that has come since; with that it is committed, and what follows is no read."""
        before, now = self._ahead.pop(id(flight)), flight.as_of
        for length, name in self._open[id(flight)].items():
            self._read(name, now - length, before - length + self.group.clock.length)
            self._read(name, before, now)
        self.committed(flight)

    def aborted(self, flight: Flight) -> None:
        self._ahead.pop(id(flight), None)
        for name in self._open.pop(id(flight)).values():
            self._recorder.did("a", name)

    def committed(self, flight: Flight) -> None:
        """If that was not said before."""
        for name in self._open.pop(id(flight), {}).values():
            self._recorder.did("c", name)

    def _begin(self, flight: Flight) -> dict[int, str]:
        self.catch_up()
        lengths = {window.length for active in flight.queries for window in active.compiled.windows}
        names = {length: f"Q{self._begun + i}" for i, length in enumerate(sorted(lengths))}
        self._begun += len(names)
        self._open[id(flight)] = names
        return names

    def _read(self, name: str, since: int, until: int) -> None:
        for end in range(since + self.group.clock.length, until + 1, self.group.clock.length):
            number = self._youngest - (self._seen - end) // self.group.clock.length
            self._recorder.did("r", name, number % self._slots)
