"""Wall clocks. Answers of run() depend on none; live, IDLE AFTER, the pace, overload, SHED and max_lag read one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds on a clock that never goes back."""


class SystemClock:
    def now(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that tests turn by hand."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
