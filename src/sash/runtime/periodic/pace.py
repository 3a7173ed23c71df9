"""How fast a live stream moves, and how long executions really take.

The pace says whether the stream waits for an execution before it takes the next pane in. `run()` waits for every
execution, so that its answers are a function of the data. Live, panes go on arriving while queries are executed: those
of a micro-batch arrive, by assumption, evenly over the time until the next one,

    begun |----pane----|----pane----|----pane----|----pane----| the next micro-batch
                 now: half of the time is used ^, two panes are in

and an arrived pane is taken in before the next decision. A query that was due then is late, and its answer is as of the
newest pane (thesis 8.4.2): periods lengthen, no query is dropped. While there is time, every pane is a moment of its
own, as in `run()`, and nobody waits for the next pane.

Live, measured times correct the model of sharing/choose.py; not in `run()`, because no two runs take the same time. An
execution took access * x + post * y seconds: least squares over the executions, recent ones weighing more, give x and
y. So x includes the fixed cost of an execution, wherever in the code it is spent. When the ratio of the two has drifted
far from the ratio of the plan, the schedule is planned anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sash.core.clock import Clock
from sash.sharing.choose import Prices

if TYPE_CHECKING:
    from sash.runtime.records.journal import GroupService

# Each execution takes this part of the earlier ones' weight.
_FORGOTTEN = 0.01
# Prices are believed after this many executions, and may change again after as many more.
_ENOUGH = 100
# An execution counts as at most this many times its expected seconds.
_SLOWEST = 2.0
# The schedule is planned anew when the ratio of the prices has changed by this factor.
_DRIFT = 1.5
# Executions that are all alike do not tell the two parts apart: the condition of the fit must be at most this.
_MOST_CONDITION = 1e4


class Calibration:
    """Seconds per unit of access and of post-processing, as measured.

    An execution that took much longer than expected counts as twice the expected seconds: a pause of the machine
    must not change the plan, and if executions really have become slow, the others say so too.
    """

    def __init__(self) -> None:
        self._squares = np.zeros((2, 2))
        self._products = np.zeros(2)
        self._executions = 0
        self._seen = 0

    def observe(self, expected: tuple[float, float], seconds: float) -> None:
        """Note an execution: the expected cost of its two parts, and the seconds that it took."""
        parts = np.array(expected)
        if self._seen >= _ENOUGH and (prices := self._fitted()) is not None:
            seconds = min(seconds, _SLOWEST * (expected[0] * prices[0] + expected[1] * prices[1]))
        self._executions += 1
        self._seen += 1
        self._squares += np.outer(parts, parts) - _FORGOTTEN * self._squares
        self._products += parts * seconds - _FORGOTTEN * self._products

    def drifted_from(self, prices: Prices) -> Prices | None:
        """The measured prices, if they are far from these."""
        if self._executions < _ENOUGH or (fitted := self._fitted()) is None:
            return None
        access, post = fitted
        drift = (access / post) / (prices.access / prices.post)
        if 1 / _DRIFT < drift < _DRIFT:
            return None
        self._executions = 0
        return Prices(access / post, 1.0)

    def _fitted(self) -> tuple[float, float] | None:
        """Seconds per unit of each part; None if the executions do not tell."""
        (first, mixed), (_, second) = self._squares.tolist()
        # Of two parts brought to one scale, the condition is (1 + r) / (1 - r) with their correlation r.
        alike = mixed / math.sqrt(first * second) if first and second else 1.0
        if 1 + alike > _MOST_CONDITION * (1 - alike):
            return None
        access, post = self._products.tolist()
        found = (second * access - mixed * post, first * post - mixed * access)
        unit = first * second - mixed * mixed
        return (found[0] / unit, found[1] / unit) if min(found) > 0 else None


class Pace(Protocol):
    @property
    def hurries(self) -> bool:
        """Whether time passes while queries are executed: decisions are made one by one, and costs measured."""

    @property
    def services(self) -> Sequence[Sequence[GroupService]] | None:
        """The recorded services, over time and over tuples; None: they are decided now."""

    def passed(self) -> float:
        """The part of the time that is used up; 1 or more: no time is left."""

    def part(self, seconds: float) -> float:
        """Which part of the time some seconds are."""


class UnhurriedPace:
    hurries = False
    services: Sequence[Sequence[GroupService]] | None = None

    def passed(self) -> float:
        return 0.0

    def part(self, seconds: float) -> float:
        return 0.0


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
        return self.part(self._clock.now() - self._begun)

    def part(self, seconds: float) -> float:
        return seconds / self._seconds
