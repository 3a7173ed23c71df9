"""How long a stream's input takes: so that micro-batches can be kept short from the next start of its Spark query on.

A source counts in bytes or in offsets (spark/limits.py). What a micro-batch took is divided among its units; recent
micro-batches weigh more.
"""

from __future__ import annotations

from typing import Any

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

    def take(self, units: int, seconds: float) -> tuple[int, float]:
        """A micro-batch; one without input tells nothing. What it was told, for the log."""
        if units > 0:
            self.units += units - _FORGOTTEN * self.units
            self.seconds += seconds - _FORGOTTEN * self.seconds
        return units, seconds

    def save(self) -> dict[str, Any]:
        return {"input": (self.units, self.seconds)}

    def load(self, state: dict[str, Any]) -> None:
        self.units, self.seconds = state.get("input", (0.0, 0.0))

    def most_within(self, seconds: float) -> int | None:
        """How many units a micro-batch may have to take no longer than this, at least one; None: nothing is known."""
        return max(1, int(seconds * self.units / self.seconds)) if self.seconds > 0 else None
