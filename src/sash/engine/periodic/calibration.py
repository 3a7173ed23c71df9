"""What executions really took, against the model of `sharing.prices`: only live, for no two runs take the same time.

An execution took access * x + post * y seconds: least squares over the executions, recent ones weighing more, give x
and y. What an execution costs once, however many queries it answers, is then in x, wherever in the code it is spent.
When the ratio of the two has drifted far from the one that the schedule was planned with, the plan is made anew.
"""

from __future__ import annotations

import numpy as np

from sash.sharing.prices import Prices

# Each execution takes this part of the earlier ones' weight.
_FORGOTTEN = 0.01
# So many executions are looked at before prices are believed, and again before they may change once more.
_ENOUGH = 100
# A plan is made anew when one part costs so many times more of the other than it was planned with.
_DRIFT = 1.5
# Executions that were all alike do not tell the parts apart: the fit must be at least so well determined.
_MOST_CONDITION = 1e4


class Calibration:
    """Seconds per unit of access and of post-processing, as measured."""

    def __init__(self) -> None:
        self._squares = np.zeros((2, 2))
        self._products = np.zeros(2)
        self._executions = 0

    def observe(self, expected: tuple[float, float], seconds: float) -> None:
        """An execution whose two parts were expected to cost so much, and what it took."""
        parts = np.array(expected)
        self._executions += 1
        self._squares += np.outer(parts, parts) - _FORGOTTEN * self._squares
        self._products += parts * seconds - _FORGOTTEN * self._products

    def drifted_from(self, prices: Prices) -> Prices | None:
        """Prices that the measurements suggest, if they are far from these."""
        if self._executions < _ENOUGH:
            return None
        scale = np.sqrt(np.diagonal(self._squares))
        if not scale.all() or np.linalg.cond(self._squares / np.outer(scale, scale)) > _MOST_CONDITION:
            return None
        access, post = np.linalg.solve(self._squares, self._products)
        if min(access, post) <= 0:
            return None
        drift = (access / post) / (prices.access / prices.post)
        if 1 / _DRIFT < drift < _DRIFT:
            return None
        self._executions = 0
        return Prices(float(access / post), 1.0)
