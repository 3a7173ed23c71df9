"""The analytic cost of executions over a basic interval synopsis (thesis, section 8.4.4).

A joint execution scans the youngest intervals once, as far back as its longest window; answers over shorter
windows come for free along the way. Combining k intervals takes k - 1 comparisons (for MAX; any aggregate's
combine counts the same). Post-processing (sorting, building answers) is never shared between sub-groups.
Maintenance costs are left out: they are the same under every schedule.

A synchronised schedule shares its scans where one period falls on multiples of others. Of the multiples of p, those
that are multiples of q are every q / gcd(q, p)-th; so what several periods cover together is the density of a union of
multiples. Nothing here walks through a least common multiple, which is astronomically long for the periods 1 to 50.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from math import gcd

from sash.core.time import Micros

# Highly composite, so that the short steps, which cover the most, are counted without a remainder.
HORIZON = 5040
# Larger sets are counted within the horizon: inclusion and exclusion may double its work with every step.
EXACT_STEPS = 10


def uncovered(period: Micros, others: Iterable[Micros]) -> Fraction:
    """Which part of the multiples of a period are not multiples of any of the others.

    >>> uncovered(6, [4, 9]), uncovered(6, [5, 7]), uncovered(6, [3])
    (Fraction(1, 3), Fraction(24, 35), Fraction(0, 1))
    """
    steps = primitive(other // gcd(other, period) for other in others)
    return _exactly_uncovered(steps) if len(steps) <= EXACT_STEPS else _counted_uncovered(steps)


def primitive(steps: Iterable[int]) -> tuple[int, ...]:
    """The steps, ascending, without multiples of other steps: they cover nothing new.

    >>> primitive([6, 4, 2, 9, 2])
    (2, 9)
    """
    kept: list[int] = []
    for step in sorted(set(steps)):
        if all(step % shorter for shorter in kept):
            kept.append(step)
    return tuple(kept)


@lru_cache(maxsize=1 << 14)
def _exactly_uncovered(steps: tuple[int, ...]) -> Fraction:
    """By inclusion and exclusion: the longest step covers its share of what the others leave uncovered.

    Its share of its own multiples, that is; if it is coprime to the others, that share is the same everywhere.
    """
    if not steps:
        return Fraction(1)
    *others, longest = steps
    left = _exactly_uncovered(tuple(others))
    within = primitive(other // gcd(other, longest) for other in others)
    return left - (left if within == tuple(others) else _exactly_uncovered(within)) / longest


def _counted_uncovered(steps: tuple[int, ...]) -> Fraction:
    covered = 0
    for step in steps:
        covered |= multiples(step)
    return Fraction(HORIZON - covered.bit_count(), HORIZON)


def multiples(step: int) -> int:
    """The multiples of a step among the positions 1 to HORIZON, as the bits of an integer.

    >>> bin(multiples(2000))[2:] == "1" + "0" * 1999 + "1" + "0" * 2000
    True
    """
    return _short_multiples(step) if step <= HORIZON else 0


@cache
def _short_multiples(step: int) -> int:
    # A one in every step-th bit, by the sum of a geometric series.
    return (((1 << (HORIZON // step * step)) - 1) // ((1 << step) - 1)) << step


def intervals_scanned(windows: Iterable[Micros], s: Micros) -> int:
    """How many intervals of length s the longest of these windows covers; a part of one counts whole.

    >>> intervals_scanned([10, 5, 6], s=1)
    10
    """
    return max([-(-window // s) for window in windows], default=0)


def joint_cost(windows: Iterable[Micros], s: Micros) -> int:
    """Cost of executing queries over these windows together.

    >>> joint_cost([10, 5, 6], s=1)
    9
    """
    return max(0, intervals_scanned(windows, s) - 1)


def separate_cost(windows: Iterable[Micros], s: Micros) -> int:
    """Cost of executing each of these queries on its own."""
    return sum([max(0, -(-window // s) - 1) for window in windows])


@dataclass(frozen=True)
class SubGroupCost:
    """The cost of one execution of a sub-group: a joint execution pays the largest access and the sum of post."""

    slide: Micros
    access: float
    post: float = 0.0
    exactly: bool = False


def cost_per_time(subgroups: Sequence[SubGroupCost], periods: Sequence[Micros]) -> Fraction:
    """The cost of a group per unit of time when each of its sub-groups is executed at the multiples of its period.

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
