"""Hybrid scheduling (thesis, section 8.4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sash.core.time import Micros
from sash.scheduling.cost import SubGroupCost
from sash.scheduling.planning import plan_periods
from sash.scheduling.policies.conservative import Conservative

# So many groups of sub-groups are remembered with their plans.
_REMEMBERED = 64


class Hybrid(Conservative):
    """Sub-groups are executed more often than they must be where synchronising them with others is cheaper."""

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        return list(_planned(tuple(subgroups)))


@lru_cache(maxsize=_REMEMBERED)
def _planned(subgroups: tuple[SubGroupCost, ...]) -> tuple[Micros, ...]:
    """A plan takes thousands of steps, and is asked for again: by the late variants, and by every look at policies."""
    return tuple(plan_periods(subgroups))
