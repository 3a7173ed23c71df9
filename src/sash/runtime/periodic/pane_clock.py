"""The clock of a pane table: the length of its panes, where its data begin, and which pane was closed last.

All times are multiples of the pane length: microseconds, or tuples for row-based windows. `now` is the end of the
youngest closed pane: the time as of which queries are answered. `origin` is where the stream's data begin.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from sash.catalog import Stream
from sash.core.time import Micros, multiple_after, multiple_at_or_after, to_datetime
from sash.panes.pane_rows import PaneRows


class PaneClock:
    """The panes of one table in time. `by_rows`: time is the number of tuples counted."""

    def __init__(self, stream: Stream, by_rows: bool) -> None:
        self.by_rows = by_rows
        # Multiples count from here.
        self.offset = 0 if by_rows else stream.offset
        self._closed_left = stream.closed_left and not by_rows
        self.length: int = 1 if by_rows else stream.granule
        self.now: int | None = None
        self.origin: int | None = None
        # Panes that start before this are gone.
        self.retained_from: int | None = None
        # Panes of these lengths were cut until these times; a finer window is valid only after them.
        self.coarse: list[tuple[int, int]] = []
        # In a table by rows: when the last tuples of its panes came.
        self.stamps = Stamps()

    @property
    def position(self) -> int:
        """The end of the youngest closed pane, or where the data begin."""
        return self.now if self.now is not None else self.origin if self.origin is not None else 0

    @property
    def has_closed(self) -> bool:
        """Whether some pane since the beginning of the data is closed: then there is an answer."""
        return self.origin is not None and self.now is not None and self.now > self.origin

    def begin(self, origin: int) -> None:
        """Let the data begin here."""
        self.origin = self.retained_from = origin

    @property
    def gone_until(self) -> int | None:
        """The time until which panes are gone; None: all panes since the origin exist."""
        gone = self.origin is not None and self.retained_from is not None and self.retained_from > self.origin
        return self.retained_from if gone else None

    # -- the ends of panes -----------------------------------------------------------------------------

    def closed_by(self, watermark: int) -> int:
        """The end of the youngest pane that a watermark (or a number of tuples) closes."""
        if self.by_rows or self._closed_left:
            return self.floor(watermark)
        return self.end_from(watermark) - self.length

    def ends_after(self, latest: int) -> int:
        """The end of the pane that holds a timestamp (or a tuple's number)."""
        return multiple_after(latest, self.length, self.offset) if self._closed_left else self.end_from(latest)

    def floor(self, time: int) -> int:
        """The end of the youngest pane that ends by a time."""
        return multiple_after(time, self.length, self.offset) - self.length

    def end_from(self, time: int) -> int:
        """The end of the oldest pane that does not end before a time."""
        return multiple_at_or_after(time, self.length, self.offset)

    def is_multiple(self, slide: int | None, time: int) -> bool:
        """Whether a time is one of the multiples of a SLIDE."""
        return slide is not None and (time - self.offset) % slide == 0

    # -- panes of several lengths ----------------------------------------------------------------------

    def cut(self, length: int, latest: int | None) -> None:
        """Give panes this length from now on; panes that may have tuples up to `latest` keep theirs."""
        if length != self.length and latest is not None and self.origin is not None:
            self.coarse.append((self.length, self.ends_after(latest)))
        self.length = length

    def fits_from(self, resolution: int) -> int | None:
        """Since when the edges of windows of a resolution lie between panes; None: always."""
        return max((until for length, until in self.coarse if resolution % length), default=None)

    def cuts(self, edge: int) -> bool:
        """Whether a time may lie inside of a pane that was cut before a finer query came."""
        return any(edge < until and (edge - self.offset) % length for length, until in self.coarse)

    def forget(self, before: int) -> None:
        """Forget the panes that start before a time."""
        self.retained_from = before
        self.coarse = [(length, until) for length, until in self.coarse if until > before]
        self.stamps.forget(before)

    # -- event time ------------------------------------------------------------------------------------

    def event_time(self, now: int) -> int | None:
        """The event time of a position: the position itself, or the time of the last tuple counted."""
        return self.stamps.at(now) if self.by_rows else now

    def moment(self, now: int) -> datetime:
        clock = self.event_time(now)
        assert clock is not None, "no tuple has been counted"
        return to_datetime(clock)


class Stamps:
    """The event times of numbers of tuples: the ends of panes of rows, and when their last tuples came."""

    def __init__(self) -> None:
        # Ends, ascending, and under each the greatest timestamp of its pane.
        self._stamps: NDArray[np.int64] = np.empty((2, 0), dtype=np.int64)

    def note(self, rows: PaneRows) -> None:
        ends, places = np.unique(np.concatenate([self._stamps[0], rows.ends]), return_inverse=True)
        latest = np.full(len(ends), np.iinfo(np.int64).min)
        np.maximum.at(latest, places, np.concatenate([self._stamps[1], rows.latest]))
        self._stamps = np.stack([ends, latest])

    def at(self, number: int) -> Micros | None:
        """When the last of `number` tuples came; None before any pane has ended."""
        place = int(np.searchsorted(self._stamps[0], number, side="right")) - 1
        return int(self._stamps[1, place]) if place >= 0 else None

    def forget(self, before: int) -> None:
        self._stamps = self._stamps[:, self._stamps[0] >= before]

    def save(self) -> list[list[int]]:
        return [row.tolist() for row in self._stamps]

    def load(self, saved: list[list[int]]) -> None:
        self._stamps = np.array(saved, dtype=np.int64).reshape(2, -1)
