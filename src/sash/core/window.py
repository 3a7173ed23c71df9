"""Time windows: (t - w, t] as of t, or [t - w, t) on a stream that is CLOSED LEFT."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sash.core.time import Micros, format_duration


@dataclass(frozen=True)
class TimeWindow:
    """`[WINDOW length SLIDE [EXACTLY] slide LAG lag]`; a one-time query has no slide."""

    length: Micros
    slide: Micros | None = None
    lag: Micros = 0
    exactly: bool = False

    @property
    def reach(self) -> Micros:
        """How far back from now a query with this window looks."""
        return self.length + self.lag

    @property
    def resolution(self) -> Micros:
        """The longest pane whose multiples are all this window's edges."""
        return math.gcd(self.length, self.slide or 0, self.lag)

    def __str__(self) -> str:
        words = [f"WINDOW {format_duration(self.length)}"]
        if self.slide is not None:
            words.append(f"SLIDE {'EXACTLY ' if self.exactly else ''}{format_duration(self.slide)}")
        if self.lag:
            words.append(f"LAG {format_duration(self.lag)}")
        return f"[{' '.join(words)}]"


def pane_length(windows: Iterable[TimeWindow]) -> Micros:
    """The greatest common divisor of the windows, slides and lags that use a synopsis.

    >>> pane_length([TimeWindow(10, 4), TimeWindow(6, 2)])
    2
    """
    return math.gcd(*(window.resolution for window in windows))
