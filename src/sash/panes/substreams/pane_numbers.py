"""Numbers for panes: small integers in the order of time, so that a stamp takes four bytes.

    times      -  -  12  15  16  20                 forgotten: everything up to time 10, panes 1 and 2
    numbers          3   4   5   6
    last_outside(15) = 4: a stamp is newer than time 15 if its number is greater than 4

Number 0 is before all panes. A number never changes its meaning, except in `renumber`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from sash.core.time import Micros


class PaneTimes:
    """When the panes ended. Times only go forward; several updates may bring the same one.

    >>> panes = PaneTimes()
    >>> [panes.number(time) for time in (12, 15, 15, 20)]
    [1, 2, 2, 3]
    >>> panes.last_outside(tau=20, length=5)
    2
    """

    def __init__(self, times: Sequence[Micros] = ()) -> None:
        self.times = list(times)
        # How many numbers are no longer in use: those of panes that ended at or before the horizon.
        self.forgotten = 0
        self.horizon: Micros | None = None

    @property
    def newest(self) -> int:
        return self.forgotten + len(self.times)

    def number(self, time: Micros) -> int:
        """The number of the pane that ends at a time: a new one, unless it is the newest pane's."""
        last = self.times[-1] if self.times else self.horizon
        if last is not None and time < last:
            raise ValueError(f"panes come in the order of time: {time} after {last}")
        if not self.times or time > self.times[-1]:
            self.times.append(time)
        return self.newest

    def last_outside(self, tau: Micros, length: Micros) -> int:
        """The newest pane that is not in (tau - length, tau]."""
        edge = tau - length
        if self.times and tau < self.times[-1]:
            raise ValueError(f"windows end now: {tau} is before the newest pane, {self.times[-1]}")
        if self.horizon is not None and edge < self.horizon:
            raise ValueError(f"a window from {edge} on reaches into what was forgotten, until {self.horizon}")
        return self.forgotten + bisect_right(self.times, edge)

    def forget(self, before: Micros) -> None:
        """Forget panes: no window will begin before a time."""
        if self.horizon is not None and before <= self.horizon:
            return
        gone = bisect_right(self.times, before)
        del self.times[:gone]
        self.forgotten += gone
        self.horizon = before

    def renumber(self) -> int:
        """Start again from 1; every number still in use decreases by the result."""
        shift, self.forgotten = self.forgotten, 0
        return shift
