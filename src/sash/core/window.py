"""Windows: (t - w, t] as of t, or [t - w, t) on a stream that is CLOSED LEFT; or the last w rows.

A row-based window is the same arithmetic in another unit: positions in the stream instead of event time. The start of
a landmark window does not move, or moves only at midnight (thesis 2.1.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from sash.core.interned import InternedValue
from sash.core.time import BEGINNING, Micros, format_duration, format_instant, multiple_after, multiple_at_or_after

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

    def start(self, now: int) -> int:
        """The old edge as of a time: tuples after it are in the window."""
        return now - self.lag - self.length

    def end(self, now: int) -> int:
        """The young edge as of a time."""
        return now - self.lag

    @cached_property
    def span(self) -> Self:
        """The window without its SLIDE: what an answer covers."""
        return replace(self, slide=None, exactly=False)

    @property
    def parts(self) -> tuple[Window, ...]:
        """The windows that it stands for: itself, or those of several lengths."""
        return (self,)

    @property
    def words(self) -> str:
        """The length and the lag in a sentence.

        >>> RowWindow(600, lag=60).words, TimeWindow(600_000_000).words, TimeWindow(FOREVER).words
        ('600 rows, 60 rows ago', '10 min', 'unbounded')
        """
        return f"{self._words(self.length)}{f', {self._words(self.lag)} ago' if self.lag else ''}"

    def _words(self, length: int) -> str:
        return f"{length} rows"

    @cached_property
    def per_tuple(self) -> int:
        """How many windows a tuple falls into: Spark's `window()` makes as many rows of it."""
        return 1 if self.slide is None or self.unbounded else -(-self.length // self.slide)

    @cached_property
    def resolution(self) -> int:
        """The longest pane whose multiples are all this window's edges; 0 if it has no edge."""
        return math.gcd(0 if self.unbounded else self.length, self.slide or 0, self.lag)


class TimeWindow(Window):
    """`[WINDOW length SLIDE [EXACTLY] slide LAG lag]` in microseconds, or `[UNBOUNDED SLIDE ..]`."""

    @property
    def word(self) -> str:
        """The first word of the clause."""
        return "UNBOUNDED" if self.unbounded else "WINDOW"

    def _words(self, length: int) -> str:
        if length == self.length and (self.unbounded or len(self.parts) > 1):
            return self.extent.lower()
        return format_duration(length)

    @property
    def extent(self) -> str:
        """The clause without SLIDE and LAG."""
        return self.word if self.unbounded else f"WINDOW {format_duration(self.length)}"

    def __str__(self) -> str:
        words = [self.extent]
        if self.slide is not None:
            words.append(f"SLIDE {'EXACTLY ' if self.exactly else ''}{format_duration(self.slide)}")
        if self.lag:
            words.append(f"LAG {format_duration(self.lag)}")
        return f"[{' '.join(words)}]"


# The column of an elastic window that tells the length of each row's window, in seconds.
WINDOW_LENGTH = "window_length"


# The columns that tell the window of an answer, as functions write them: its edges, and both as a struct.
WINDOW_START, WINDOW_END, WINDOW_BOUNDS = "window_start()", "window_end()", "window_bounds()"
WINDOW_COLUMNS = frozenset((WINDOW_START, WINDOW_END, WINDOW_BOUNDS))


@dataclass(frozen=True, eq=False)
class ElasticWindow(TimeWindow):
    """`[WINDOW shortest TO length STEP step ..]`: windows of all these lengths, as of one time (Zhu and Shasha 2003).

    >>> [str(part) for part in ElasticWindow(6_000_000, shortest=2_000_000, step=2_000_000).parts]
    ['[WINDOW 2 sec]', '[WINDOW 4 sec]', '[WINDOW 6 sec]']
    """

    shortest: Micros = 0
    step: Micros = 0

    @property
    def parts(self) -> tuple[Window, ...]:
        lengths = range(self.shortest, self.length + 1, self.step)
        return tuple(TimeWindow(length, self.slide, self.lag, self.exactly) for length in lengths)

    @cached_property
    def per_tuple(self) -> int:
        return sum(part.per_tuple for part in self.parts)

    @property
    def resolution(self) -> int:
        return math.gcd(super().resolution, self.step)

    @property
    def extent(self) -> str:
        lengths = (format_duration(length) for length in (self.shortest, self.length, self.step))
        return "WINDOW {} TO {} STEP {}".format(*lengths)


@dataclass(frozen=True, eq=False)
class LandmarkWindow(TimeWindow):
    """`[SINCE since ..]` and `[FROM since TO until ..]`; with `every`, from the last multiple of it before the end.

    Its length is FOREVER: panes are kept for it as for an unbounded window, but merged only up to its edges. Multiples
    count from `offset`, which is the stream's.

    >>> day = LandmarkWindow(FOREVER, every=10)
    >>> day.start(25), day.start(30), LandmarkWindow(FOREVER, since=5, until=20).end(25)
    (20, 20, 20)
    """

    since: Micros = 0
    until: Micros | None = None
    every: Micros = 0
    offset: Micros = 0

    def start(self, now: int) -> int:
        if not self.every:
            return self.since
        # As of midnight the day that ends there is whole: the next one has no tuple yet.
        return multiple_at_or_after(self.end(now), self.every, self.offset) - self.every

    def end(self, now: int) -> int:
        return now - self.lag if self.until is None else min(now - self.lag, self.until)

    def first_from(self, time: int) -> int:
        """The earliest `now` as of which the window starts at a time or later; FOREVER: never.

        >>> LandmarkWindow(FOREVER, every=10).first_from(15), LandmarkWindow(FOREVER, since=5).first_from(5)
        (21, 5)
        """
        if self.every:
            return multiple_at_or_after(time, self.every, self.offset) + self.lag + 1
        return time if time <= self.since else FOREVER

    @property
    def fixed_edges(self) -> tuple[Micros, ...]:
        edges = (None if self.every else self.since, self.until)
        return tuple(edge for edge in edges if edge is not None)

    @property
    def resolution(self) -> int:
        edges = (edge - self.offset for edge in self.fixed_edges)
        return math.gcd(super().resolution, self.every, *edges)

    @property
    def word(self) -> str:
        return "SINCE" if self.until is None else "FROM"

    @property
    def extent(self) -> str:
        start = "midnight" if self.every else f"'{format_instant(self.since)}'"
        return f"{self.word} {start}" + ("" if self.until is None else f" TO '{format_instant(self.until)}'")


@dataclass(frozen=True, eq=False)
class SessionWindow(TimeWindow):
    """`[SESSION GAP gap MAX most SLIDE slide]`: the sessions of each group that have ended since the last answer.

    Neighbours in a session are at most `gap` apart. A session's window is from the first tuple to `gap` after the last,
    as in Spark. A session longer than `most` is cut at the multiples of `most`. `offset`, from which these count, and
    `closed_left` are the stream's.

    Every multiple of the slide is answered (EXACTLY), so the time of an answer tells which sessions it has. An answer
    looks back to the first tuple of each of its sessions, and far enough to know whether the session is too long.

    >>> window = SessionWindow.of(gap=3, most=10, slide=5)
    >>> str(window), window.reach
    ('[SESSION GAP 0.003 ms MAX 0.01 ms SLIDE 0.005 ms]', 18)
    """

    gap: Micros = 0
    most: Micros = 0
    offset: Micros = 0
    closed_left: bool = False

    @classmethod
    def of(cls, gap: Micros, most: Micros, slide: Micros) -> Self:
        return cls(gap + most, slide, exactly=True, gap=gap, most=most)

    @cached_property
    def reach(self) -> int:
        assert self.slide is not None
        return self.length + self.slide

    def start(self, now: int) -> int:
        return now - self.reach

    @property
    def span(self) -> Self:
        """What an answer covers depends on SLIDE."""
        return self

    @property
    def per_tuple(self) -> int:
        return 1

    @property
    def resolution(self) -> int:
        return math.gcd(self.gap, self.most, self.slide or 0)

    def last_of(self, end: Micros) -> Micros:
        """The time of the answer with all sessions that are open when the input ends."""
        assert self.slide is not None
        return multiple_after(end, self.slide, self.offset)

    def told(self, now: int, ends: Sequence[Micros]) -> tuple[Micros, Micros, Micros]:
        """Which sessions an answer has, where the input has ended before, at these times.

        The answer is made of tuples after the first time. It has the sessions that are final after the second time, and
        not after the third.

        >>> window = SessionWindow.of(gap=3, most=10, slide=5)
        >>> window.told(20, ()) == (BEGINNING, 15, 20), window.told(20, [18]) == (BEGINNING, 15, FOREVER)
        (True, True)
        >>> window.told(25, [18]) == (18, BEGINNING, 25), window.told(30, [18]) == (18, 25, 30)
        (True, True)
        """
        assert self.slide is not None
        since, until, passed = now - self.slide, now, [end for end in ends if self.last_of(end) <= now]
        if passed and self.last_of(passed[-1]) == now:
            passed, until = passed[:-1], FOREVER
        if not passed:
            return BEGINNING, since, until
        # No answer up to that one had sessions of tuples that came after the end.
        return passed[-1], BEGINNING if since <= self.last_of(passed[-1]) else since, until

    @property
    def word(self) -> str:
        return "SESSION"

    @property
    def extent(self) -> str:
        return f"SESSION GAP {format_duration(self.gap)} MAX {format_duration(self.most)}"

    def __str__(self) -> str:
        assert self.slide is not None
        return f"[{self.extent} SLIDE {format_duration(self.slide)}]"


class RowWindow(Window):
    """`[ROWS length SLIDE [EXACTLY] slide LAG lag]` in tuples, counted before WHERE."""

    def __str__(self) -> str:
        words = [f"ROWS {self.length}"]
        if self.slide is not None:
            words.append(f"SLIDE {'EXACTLY ' if self.exactly else ''}{self.slide}")
        if self.lag:
            words.append(f"LAG {self.lag}")
        return f"[{' '.join(words)}]"


class MixedWindow(RowWindow):
    """`[ROWS length SLIDE [EXACTLY] slide]` whose slide is a time: a mixed jumping window (thesis 2.1.1)."""

    def __str__(self) -> str:
        assert self.slide is not None
        return f"[ROWS {self.length} SLIDE {'EXACTLY ' if self.exactly else ''}{format_duration(self.slide)}]"


def pane_length(windows: Iterable[Window]) -> int:
    """The greatest common divisor of the windows, slides and lags that use a synopsis.

    >>> pane_length([TimeWindow(10, 4), TimeWindow(6, 2)])
    2
    """
    return math.gcd(*(window.resolution for window in windows))
