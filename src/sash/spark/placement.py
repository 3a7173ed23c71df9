"""Where the micro-batches of a stream's continuous plans are processed: in the Sash process, or on the executors.

State is in files that both read, so each micro-batch has a choice, and answers do not depend on it. The choice is by
measured time: the whole time of micro-batches of about the same size, in either place. A place is tried when the other
has taken `PATIENCE` seconds; a place that loses is tried half as often as before.

    process    ████████████████████████████░░░░░██████████████████████████████████████████████████░░░░░███
    executors                               try: slower, so the next one is later                  try

Until there is a measurement, few tuples (`NEAR`) come to the process. Executors of a cluster are tried only if they
have processed a micro-batch before: they may lack Sash, or the directory of the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# With this many tuples, the process takes about as long as the shortest job with an exchange.
NEAR = 500_000
# More raw tuples than this never come to the process.
MOST_NEAR = 4 * NEAR
# The shortest job with an exchange and Python workers: a faster micro-batch has nothing to gain from executors.
SHORTEST_JOB = 0.3
PATIENCE = 30.0
# A try is so many micro-batches. The first one is not counted: workers start, and read the state.
TRY = 3


@dataclass
class PlacedSize:
    """Micro-batches of about one size: the place where the next one is processed, and seconds per tuple by place."""

    near: bool
    seconds: dict[bool, float] = field(default_factory=dict)
    # The seconds and the number of micro-batches since the place was chosen, and when the other one is tried.
    spent: float = 0.0
    stay: int = 0
    patience: float = PATIENCE
    is_try: bool = False

    def take(self, number: int, seconds: float) -> None:
        self.spent += seconds
        self.stay += 1
        if self.stay > 1:
            latest = seconds / number
            self.seconds[self.near] = (latest + self.seconds.get(self.near, latest)) / 2

    def move(self, *, may_leave: bool) -> None:
        """End a try, or begin one."""
        if self.is_try and self.stay >= TRY:
            self.is_try = False
            if self.seconds[self.near] > self.seconds.get(not self.near, 0.0):
                self.patience *= 2
                self._go()
            else:
                self.spent, self.patience = 0.0, PATIENCE
        elif not self.is_try and may_leave and self.spent >= self.patience:
            self.is_try = True
            self._go()

    def _go(self) -> None:
        self.near, self.spent, self.stay = not self.near, 0.0, 0


class PlaceChoice:
    """`most` is the user's choice: more tuples than this go to the executors, whatever they cost.

    >>> placement = PlaceChoice(is_local=True)
    >>> for _ in range(100):
    ...     placement.took(400_000, placement.is_near(400_000), 1.0 if placement.is_near(400_000) else 0.6)
    >>> placement.is_near(400_000), placement.is_near(1_000)
    (False, True)
    """

    def __init__(self, most: int | None = None, *, is_local: bool) -> None:
        self._most = most
        self._has_executors = is_local
        self._sizes: dict[int, PlacedSize] = {}

    def is_near(self, number: int) -> bool:
        """Whether this many tuples are processed in the Sash process."""
        if self._most is not None:
            return number <= self._most
        return number <= MOST_NEAR and self._size(number).near

    def took(self, number: int, near: bool, seconds: float) -> None:
        """Take the time of a micro-batch."""
        self._has_executors |= not near
        size = self._size(number)
        # The place of a micro-batch is chosen by the number of tuples before it, if that is enough.
        if self._most is not None or not 0 < number <= MOST_NEAR or near is not size.near:
            return
        size.take(number, seconds)
        size.move(may_leave=not near or (self._has_executors and seconds > SHORTEST_JOB))

    def _size(self, number: int) -> PlacedSize:
        size = number.bit_length()
        if size not in self._sizes:
            self._sizes[size] = PlacedSize(near=number <= NEAR)
        return self._sizes[size]
