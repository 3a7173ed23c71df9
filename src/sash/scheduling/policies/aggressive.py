"""Aggressive scheduling (thesis, section 8.4.3)."""

from __future__ import annotations

from collections.abc import Sequence

from sash.core.time import Micros
from sash.scheduling.cost import SubGroupCost
from sash.scheduling.policies.conservative import Conservative


class Aggressive(Conservative):
    """A whole group is executed at its shortest SLIDE: every scan is shared, and many answers come needlessly often."""

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        shortest = min((each.slide for each in subgroups), default=0)
        return [each.slide if each.exactly else shortest for each in subgroups]
