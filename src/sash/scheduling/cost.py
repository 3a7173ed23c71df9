"""The analytic cost of executions over a basic interval synopsis (thesis, section 8.4.4).

A joint execution scans the youngest intervals once, as far back as its longest window; answers over shorter
windows come for free along the way. Combining k intervals takes k - 1 comparisons (for MAX; any aggregate's
combine counts the same). Post-processing (sorting, building answers) is nobody's but the sub-group's own.
Maintenance costs are left out: they are the same under every schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sash.core.time import Micros
from sash.scheduling.coverage import uncovered


def intervals_scanned(windows: Iterable[Micros], s: Micros) -> int:
    """How many intervals of length s the longest of these windows covers; a part of one counts whole.

    >>> intervals_scanned([10, 5, 6], s=1)
    10
    """
    return max((-(-window // s) for window in windows), default=0)


def joint_cost(windows: Iterable[Micros], s: Micros) -> int:
    """Cost of executing queries over these windows together.

    >>> joint_cost([10, 5, 6], s=1)
    9
    """
    return max(0, intervals_scanned(windows, s) - 1)


def separate_cost(windows: Iterable[Micros], s: Micros) -> int:
    """Cost of executing each of these queries on its own."""
    return sum(joint_cost((window,), s) for window in windows)


@dataclass(frozen=True)
class SubGroupCost:
    """What one execution of a sub-group costs: those executed jointly pay the largest access and the sum of post."""

    slide: Micros
    access: float
    post: float = 0.0
    exactly: bool = False


def cost_per_time(subgroups: Sequence[SubGroupCost], periods: Sequence[Micros]) -> Fraction:
    """What a group costs per unit of time when each of its sub-groups is executed at the multiples of its period.

    Where several meet, the largest access is paid; so in descending order of access, a period pays for those of its
    multiples that no earlier one has paid for. Exact unless very many periods, none a multiple of another, meet.

    >>> seven = [SubGroupCost(2, 9), SubGroupCost(3, 14), SubGroupCost(5, 29)]
    >>> cost_per_time(seven, [2, 3, 5]), cost_per_time(seven, [2, 2, 5])
    (Fraction(179, 15), Fraction(57, 5))
    """
    access: dict[Micros, float] = {}
    total = Fraction(0)
    for subgroup, period in zip(subgroups, periods, strict=True):
        access[period] = max(access.get(period, 0), subgroup.access)
        total += Fraction(subgroup.post) / period
    by_access = sorted(access, key=lambda period: (-access[period], period))
    for place, period in enumerate(by_access):
        total += Fraction(access[period]) / period * uncovered(period, by_access[:place])
    return total
