"""No sharing: the baseline of the experiments (thesis, algorithm 9 and section 8.5.1)."""

from __future__ import annotations

from collections.abc import Sequence

from sash.core.time import Micros
from sash.scheduling.cost import SubGroupCost


class NoSharing:
    """Each sub-group is executed on its own, even when others of its group are due at the same update."""

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        return [each.slide for each in subgroups]

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        return None
