"""How fast a stream moves: whether an execution may be waited for before the next pane is taken in.

`run()` waits for every one, so that its answers are a function of the data. Live, panes go on arriving while queries
are executed: those of a micro-batch are thought of as arriving evenly over the time until the next one,

    begun |----pane----|----pane----|----pane----|----pane----| the next micro-batch
                 now: half of the time is used ^, two panes are in

and a pane that has arrived is taken in before the next decision. Whoever was due then is late, and is answered as of
the newest pane (thesis 8.4.2): periods lengthen, no query is dropped. While there is time, every pane is a moment of
its own, as in `run()`, and the next is not waited for. (With workers beside slides, a moment lasts until all that is
due at it has been executed, or the next pane has arrived; see `beside`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sash.core.clock import Clock

if TYPE_CHECKING:
    from sash.engine.records.journal import GroupService


class Pace(Protocol):
    @property
    def hurries(self) -> bool:
        """Time passes while queries are executed: decisions are made one by one, and costs are measured."""

    @property
    def services(self) -> Sequence[Sequence[GroupService]] | None:
        """What is to be served, over time and over tuples, as it was before; None: that is decided now."""

    def passed(self) -> float:
        """The part of the time that is used up; 1 or more: there is none left."""

    def seconds_until(self, part: float) -> float | None:
        """How long it takes until so much is used up; None: that is not known, nobody need wait for it."""


class Unhurried:
    hurries = False
    services: Sequence[Sequence[GroupService]] | None = None

    def passed(self) -> float:
        return 0.0

    def seconds_until(self, part: float) -> float | None:
        return None


UNHURRIED = Unhurried()


class UntilNext:
    """The time from now until the next micro-batch is expected."""

    hurries = True
    services = None

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._begun = clock.now()
        self._seconds = max(seconds, 1e-6)

    def passed(self) -> float:
        return (self._clock.now() - self._begun) / self._seconds

    def seconds_until(self, part: float) -> float | None:
        return max(0.0, part * self._seconds - (self._clock.now() - self._begun))
