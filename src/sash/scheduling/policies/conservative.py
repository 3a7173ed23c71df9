"""Conservative scheduling (thesis, section 8.4.3, algorithm 10)."""

from __future__ import annotations

from collections.abc import Sequence

from sash.core.time import Micros
from sash.scheduling.cost import SubGroupCost


class Conservative:
    """Nobody is moved; sub-groups of one group are executed jointly when they are due at the same update."""

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        return [each.slide for each in subgroups]

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        return lowest
