"""What executions really took, against the model of `sharing.prices`: only live, for no two runs take the same time.

Both parts of the model are compared with the time they took, recent executions weighing more. When the ratio of the two
has drifted far from the one that the schedule was planned with, the plan is made anew.
"""

from __future__ import annotations

from sash.sharing.prices import Prices

# Each execution takes this part of the earlier ones' weight.
_FORGOTTEN = 0.02
_ENOUGH = 20
# A plan is made anew when one part costs so many times more of the other than it was planned with.
_DRIFT = 1.5


class Calibration:
    """Seconds per unit of access and of post-processing, as measured."""

    def __init__(self) -> None:
        self._expected = [0.0, 0.0]
        self._took = [0.0, 0.0]
        self._executions = 0

    def observe(self, expected: tuple[float, float], took: tuple[float, float]) -> None:
        """An execution whose two parts were expected to cost, and took, so much."""
        self._executions += 1
        for i in (0, 1):
            self._expected[i] += expected[i] - _FORGOTTEN * self._expected[i]
            self._took[i] += took[i] - _FORGOTTEN * self._took[i]

    def drifted_from(self, prices: Prices) -> Prices | None:
        """Prices that the measurements suggest, if they are far from these."""
        if self._executions < _ENOUGH or min(*self._expected, *self._took) <= 0:
            return None
        access, post = (took / expected for took, expected in zip(self._took, self._expected, strict=True))
        drift = (access / post) / (prices.access / prices.post)
        return Prices(access / post, 1.0) if not 1 / _DRIFT < drift < _DRIFT else None
