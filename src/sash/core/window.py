"""Windows: (t - w, t] as of t, or [t - w, t) on a stream that is CLOSED LEFT; or the last w rows.

A row-based window is the same arithmetic in another unit: positions in the stream instead of event time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sash.core.interned import InternedValue
from sash.core.time import Micros, format_duration

# The length of a window that keeps all tuples; no event time lies further back.
FOREVER: Micros = 1 << 61


@dataclass(frozen=True, eq=False)
class Window(InternedValue):
    """The common part of both kinds of window; a one-time query has no slide."""

    length: int
    slide: int | None = None
    lag: int = 0
    exactly: bool = False

    @cached_property
    def unbounded(self) -> bool:
        return self.length == FOREVER

    @cached_property
    def reach(self) -> int:
        """How far back from now a query with this window looks."""
        return self.length + self.lag

    @property
    def per_tuple(self) -> int:
        """How many windows a tuple falls into: Spark's `window()` makes as many rows of it."""
        return 1 if self.slide is None or self.unbounded else -(-self.length // self.slide)

    @cached_property
    def resolution(self) -> int:
        """The longest pane whose multiples are all this window's edges; 0 if it has no edge."""
        return math.gcd(0 if self.unbounded else self.length, self.slide or 0, self.lag)


class TimeWindow(Window):
    """`[WINDOW length SLIDE [EXACTLY] slide LAG lag]` in microseconds, or `[UNBOUNDED SLIDE ..]`."""

    def __str__(self) -> str:
        words = ["UNBOUNDED" if self.unbounded else f"WINDOW {format_duration(self.length)}"]
        if self.slide is not None:
            words.append(f"SLIDE {'EXACTLY ' if self.exactly else ''}{format_duration(self.slide)}")
        if self.lag:
            words.append(f"LAG {format_duration(self.lag)}")
        return f"[{' '.join(words)}]"


class RowWindow(Window):
    """`[ROWS length SLIDE [EXACTLY] slide LAG lag]` in tuples, counted before WHERE."""

    def __str__(self) -> str:
        words = [f"ROWS {self.length}"]
        if self.slide is not None:
            words.append(f"SLIDE {'EXACTLY ' if self.exactly else ''}{self.slide}")
        if self.lag:
            words.append(f"LAG {self.lag}")
        return f"[{' '.join(words)}]"


def pane_length(windows: Iterable[Window]) -> int:
    """The greatest common divisor of the windows, slides and lags that use a synopsis.

    >>> pane_length([TimeWindow(10, 4), TimeWindow(6, 2)])
    2
    """
    return math.gcd(*(window.resolution for window in windows))
