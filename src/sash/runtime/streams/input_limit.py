"""The most input of a live micro-batch that keeps to `max_lag`, and when this limit should change.

`InputMeter` measures micro-batches. Spark reads the limit of a source when its query starts, so another limit means
another start (intake.py), and a while without micro-batches. A change pays when

    nothing was known yet         a backlog may come at any time: there is a limit from the first measure on
    one took longer than the lag  and a limit that is a tenth less, or more than that, would do
    the limit holds input back    and twice as much, or more, would be in time

and at most so often that starts take a tenth of the time. Where even small micro-batches take too long, smaller ones
would cost throughput and gain nothing: the limit stays until a micro-batch is in time again.

A source counts in bytes or in offsets (spark/sources.py). The time of a micro-batch is divided among its units; recent
micro-batches weigh more.

A micro-batch is measured before its commit, because its entry in the log has the measure. The time of its commit and of
handing out its answers counts with the next micro-batch.
"""

from __future__ import annotations

import logging

from sash.core.clock import Clock
from sash.core.events import report

# Each micro-batch takes this part of the earlier ones' weight.
_FORGOTTEN = 0.1


class InputMeter:
    """Units of input, and the seconds that their micro-batches took.

    >>> meter = InputMeter()
    >>> meter.take(10, 2.0)
    (10, 2.0)
    >>> meter.most_within(30.0)
    150
    """

    def __init__(self) -> None:
        # Counting takes time, so it is done only on demand.
        self.is_wanted = False
        self.units = 0.0
        self.seconds = 0.0
        # The last micro-batch as a whole, until `InputLimit` has read it.
        self.newest: tuple[int, float] | None = None
        self._measured = (0, 0.0)
        self._after = 0.0

    def take(self, units: int, seconds: float) -> tuple[int, float]:
        """Count a micro-batch; one without input does not count. The result is for the log."""
        self._measured = (units, seconds)
        seconds, self._after = seconds + self._after, 0.0
        if units > 0:
            self.units += units - _FORGOTTEN * self.units
            self.seconds += seconds - _FORGOTTEN * self.seconds
        return units, seconds

    def end(self, seconds: float) -> None:
        """The last micro-batch is committed and took `seconds` in all."""
        units, measured = self._measured
        self.newest, self._after = (units, seconds), max(0.0, seconds - measured)

    def save(self) -> tuple[float, float]:
        return self.units, self.seconds

    def load(self, saved: tuple[float, float]) -> None:
        self.units, self.seconds = saved

    def most_within(self, seconds: float) -> int | None:
        """How many units a micro-batch may have to take at most `seconds`, at least one; None: nothing is known."""
        return max(1, int(seconds * self.units / self.seconds)) if self.seconds > 0 else None


logger = logging.getLogger("sash.runtime")

_LESS, _MORE = 0.9, 2.0
# A micro-batch with this part of the limit is full: the source had more, perhaps a file that did not fit.
_FULL = 0.5
# The time between two changes is this many times the time that the first of them took.
_REST = 10.0


class InputLimit:
    """Call `begin` when a stream starts, `look` after each of its micro-batches, `changed` after a change."""

    def __init__(self, stream: str, meter: InputMeter, lag: float, clock: Clock) -> None:
        """`lag`: the seconds that a micro-batch may take."""
        self._stream = stream
        self._meter = meter
        self._lag = lag
        self._clock = clock
        self.most: int | None = None
        self._not_before = -float("inf")
        self._looked_at = (0, 0.0)
        # The micro-batch that led to a smaller limit, until the next one has shown the effect.
        self._before: tuple[int, float] | None = None
        self._is_out_of_reach = False

    def begin(self) -> int | None:
        """The limit to start with; None: nothing is known."""
        self.most = self._meter.most_within(self._lag)
        return self.most

    def look(self) -> int | None:
        """Another limit, if the current one does not fit the last micro-batch."""
        newest, self._meter.newest = self._meter.newest, None
        if newest is None or newest[0] == 0:
            return None
        self._looked_at = newest
        self._judge(*newest)
        most = self._wanted(*newest)
        return None if most is None or self._clock.now() < self._not_before else most

    def _wanted(self, units: int, seconds: float) -> int | None:
        """By all micro-batches or by the newest, whichever is less: all of them lag behind when work becomes slower."""
        known = self._meter.most_within(self._lag)
        if self.most is None or known is None:
            return known
        most = max(1, min(known, int(units * self._lag / max(seconds, 1e-6))))
        if seconds > self._lag:
            return most if most <= _LESS * self.most and not self._is_out_of_reach else None
        return most if units >= _FULL * self.most and most >= _MORE * self.most else None

    def _judge(self, units: int, seconds: float) -> None:
        """Judge whether the lag can be kept: compare a smaller micro-batch with the one before the change.

        The two show how long a nearly empty micro-batch takes.
        """
        before, self._before = self._before, None
        if seconds <= self._lag:
            self._is_out_of_reach = False
        elif before is not None and units < before[0] and not self._is_out_of_reach:
            each = max(0.0, before[1] - seconds) / (before[0] - units)
            self._is_out_of_reach = seconds - each * units > self._lag
            if self._is_out_of_reach:
                told = "stream %(stream)s: micro-batches take longer than max_lag, %(lag)g s, however little they have"
                report(logger, logging.WARNING, "lag.unreachable", told, stream=self._stream, lag=self._lag)

    def changed(self, most: int, seconds: float) -> None:
        """The stream runs under the limit that `look` gave; the change took `seconds`."""
        self._before = self._looked_at if self.most is None or most < self.most else None
        self.most = most
        self._not_before = self._clock.now() + _REST * seconds
