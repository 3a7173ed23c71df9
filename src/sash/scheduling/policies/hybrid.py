"""Hybrid scheduling (thesis, section 8.4.4)."""

from __future__ import annotations

from collections.abc import Sequence

from sash.core.time import Micros
from sash.scheduling.cost import SubGroupCost
from sash.scheduling.planning import plan_periods
from sash.scheduling.policies.conservative import Conservative


class Hybrid(Conservative):
    """Sub-groups are executed more often than they must be where synchronising them with others is cheaper."""

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        return plan_periods(subgroups)
