"""How long a stream's input takes: so that micro-batches can be kept short (input_limit.py).

A source counts in bytes or in offsets (spark/limits.py). What a micro-batch took is divided among its units; recent
micro-batches weigh more.

A micro-batch is measured before it is committed, as its entry in the log tells what was measured. What it takes to
commit it and to hand out its answers counts with the next one.
"""

from __future__ import annotations

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
        # Counting takes a while: only where somebody wants to know.
        self.is_wanted = False
        self.units = 0.0
        self.seconds = 0.0
        # The last micro-batch as a whole, until somebody has looked at it.
        self.newest: tuple[int, float] | None = None
        self._measured = (0, 0.0)
        self._after = 0.0

    def take(self, units: int, seconds: float) -> tuple[int, float]:
        """A micro-batch; one without input tells nothing. What is counted, for the log."""
        self._measured = (units, seconds)
        seconds, self._after = seconds + self._after, 0.0
        if units > 0:
            self.units += units - _FORGOTTEN * self.units
            self.seconds += seconds - _FORGOTTEN * self.seconds
        return units, seconds

    def end(self, seconds: float) -> None:
        """The micro-batch that was just taken is committed and took so long in all."""
        units, measured = self._measured
        self.newest, self._after = (units, seconds), max(0.0, seconds - measured)

    def save(self) -> tuple[float, float]:
        return self.units, self.seconds

    def load(self, saved: tuple[float, float]) -> None:
        self.units, self.seconds = saved

    def most_within(self, seconds: float) -> int | None:
        """How many units a micro-batch may have to take no longer than this, at least one; None: nothing is known."""
        return max(1, int(seconds * self.units / self.seconds)) if self.seconds > 0 else None
