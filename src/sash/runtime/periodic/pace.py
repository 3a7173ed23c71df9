"""How fast a live stream moves, and what executions really take.

The pace says whether an execution may be waited for before the next pane is taken in. `run()` waits for every one, so
that its answers are a function of the data. Live, panes go on arriving while queries are executed: those of a
micro-batch are thought of as arriving evenly over the time until the next one,

    begun |----pane----|----pane----|----pane----|----pane----| the next micro-batch
                 now: half of the time is used ^, two panes are in

and a pane that has arrived is taken in before the next decision. Whoever was due then is late, and is answered as of
the newest pane (thesis 8.4.2): periods lengthen, no query is dropped. While there is time, every pane is a moment of
its own, as in `run()`, and the next is not waited for. (With workers beside slides, a moment lasts until all that is
due at it has been executed, or the next pane has arrived; see `beside`.)

What executions really took corrects the model of sharing/choose.py, only live: no two runs take the same time. An
execution took access * x + post * y seconds: least squares over the executions, recent ones weighing more, give x
and y. What an execution costs once, however many queries it answers, is then in x, wherever in the code it is spent.
When the ratio of the two has drifted far from the one that the schedule was planned with, the plan is made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sash.core.clock import Clock
from sash.sharing.choose import Prices

if TYPE_CHECKING:
    from sash.runtime.records.journal import GroupService

# Each execution takes this part of the earlier ones' weight.
_FORGOTTEN = 0.01
# So many executions are looked at before prices are believed, and again before they may change once more.
_ENOUGH = 100
# A plan is made anew when one part costs so many times more of the other than it was planned with.
_DRIFT = 1.5
# Executions that were all alike do not tell the parts apart: the fit must be at least so well determined.
_MOST_CONDITION = 1e4


class Calibration:
    """Seconds per unit of access and of post-processing, as measured."""

    def __init__(self) -> None:
        self._squares = np.zeros((2, 2))
        self._products = np.zeros(2)
        self._executions = 0

    def observe(self, expected: tuple[float, float], seconds: float) -> None:
        """An execution whose two parts were expected to cost so much, and what it took."""
        parts = np.array(expected)
        self._executions += 1
        self._squares += np.outer(parts, parts) - _FORGOTTEN * self._squares
        self._products += parts * seconds - _FORGOTTEN * self._products

    def drifted_from(self, prices: Prices) -> Prices | None:
        """Prices that the measurements suggest, if they are far from these."""
        if self._executions < _ENOUGH:
            return None
        scale = np.sqrt(np.diagonal(self._squares))
        if not scale.all() or np.linalg.cond(self._squares / np.outer(scale, scale)) > _MOST_CONDITION:
            return None
        access, post = np.linalg.solve(self._squares, self._products)
        if min(access, post) <= 0:
            return None
        drift = (access / post) / (prices.access / prices.post)
        if 1 / _DRIFT < drift < _DRIFT:
            return None
        self._executions = 0
        return Prices(float(access / post), 1.0)


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


class UnhurriedPace:
    hurries = False
    services: Sequence[Sequence[GroupService]] | None = None

    def passed(self) -> float:
        return 0.0

    def seconds_until(self, part: float) -> float | None:
        return None


UNHURRIED = UnhurriedPace()


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
