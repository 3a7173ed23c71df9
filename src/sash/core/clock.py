"""Wall clocks. Live, IDLE AFTER, the pace, overload, SHED and max_lag read one.

Answers of run() depend on none, unless a stream's timestamps are those of arrival.
"""

from __future__ import annotations

import time
from typing import Protocol

from sash.core.time import SECOND, Micros


class Clock(Protocol):
    def now(self) -> float:
        """Seconds on a clock that never goes back."""

    def instant(self) -> Micros:
        """The time of day, as an event time."""


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    def instant(self) -> Micros:
        return time.time_ns() // 1_000


class ManualClock:
    """A clock that tests turn by hand."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def instant(self) -> Micros:
        return round(self._now * SECOND)

    def advance(self, seconds: float) -> None:
        self._now += seconds
