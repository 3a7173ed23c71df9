"""Hybrid period assignment: which sub-groups are worth synchronising (thesis, section 8.4.4).

A plan is a set partition of a group's sub-groups; every block is executed at its shortest SLIDE. The sub-groups are
decided one after the other by descending access, because then the cost of a decision is final: a sub-group that
joins a period already chosen pays no access at all, and one that opens a period pays for those of its multiples
that are not covered yet. So this is a dynamic programme over sets of open periods: exact up to `EXACT` sub-groups, and
a beam search when only the most promising sets are kept.

Three choices are enough for a sub-group; any other can be exchanged for one of them without raising the cost,
since at every time the largest access is paid:
- its own SLIDE, and nothing else if that is open already;
- the longest open period below it, which costs no access and the least post-processing;
- a period between these two, the SLIDE of a sub-group still to come, which will then stay there.
A SLIDE EXACTLY sub-group has its own SLIDE only; others may come to it.

Card: up to EXACT sub-groups at most n * 2^n partial plans, each extended in at most n ways; beyond, EFFORT of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nsmallest
from math import gcd

from sash.core.time import Micros
from sash.schedule.cost import HORIZON, SubGroupCost, cost_per_time, multiples, uncovered

EXACT = 8
# Roughly how many partial plans a search visits: each kept plan is extended in up to n ways, n times.
EFFORT = 10_000

Uncovered = Callable[[Micros, tuple[Micros, ...]], float]
Outlook = Callable[["_Partial"], float]


@dataclass(frozen=True, slots=True)
class _Partial:
    """A plan for the sub-groups decided so far; `opened` are its periods in the order in which they were opened."""

    cost: float
    moved: int
    periods: tuple[Micros, ...]
    opened: tuple[Micros, ...]


def plan_periods(subgroups: Sequence[SubGroupCost], exact: int = EXACT) -> list[Micros]:
    """The cheapest periods for the sub-groups of a group; of equally cheap ones, those that move the fewest.

    `exact` is the largest number of sub-groups for which the plan has to be optimal.

    >>> plan_periods([SubGroupCost(2, 9), SubGroupCost(3, 14), SubGroupCost(5, 29)])
    [2, 2, 5]
    """
    if all(each.exactly for each in subgroups):
        return [each.slide for each in subgroups]
    order = sorted(range(len(subgroups)), key=lambda place: _decided_first(subgroups[place]))
    ordered = [subgroups[place] for place in order]
    chosen = _optimum(ordered) if len(ordered) <= exact else _beam_search(ordered)
    periods = dict(zip(order, chosen, strict=True))
    return [periods[place] for place in range(len(subgroups))]


def _decided_first(subgroup: SubGroupCost) -> tuple[float, Micros, bool, float]:
    return (-subgroup.access, subgroup.slide, not subgroup.exactly, -subgroup.post)


def _optimum(ordered: Sequence[SubGroupCost]) -> tuple[Micros, ...]:
    left: Uncovered = cache(lambda period, opened: float(uncovered(period, opened)))
    return _decide(ordered, left, lambda plan: 0.0, width=None)


def _beam_search(ordered: Sequence[SubGroupCost]) -> tuple[Micros, ...]:
    """The cheapest of two searches and two simple plans: to move no sub-group, or all of them.

    A search with an outlook is better where periods rarely meet, one without where they often do.
    """
    left, width = _CountedCoverage(), max(1, EFFORT // len(ordered) ** 2)
    shortest = min(each.slide for each in ordered)
    found = [
        tuple(each.slide for each in ordered),
        tuple(each.slide if each.exactly else shortest for each in ordered),
        *(_decide(ordered, left, outlook, width) for outlook in (_outlook(ordered, left), lambda plan: 0.0)),
    ]
    return min(found, key=lambda periods: cost_per_time(ordered, periods))


def _decide(
    ordered: Sequence[SubGroupCost], left: Uncovered, outlook: Outlook, width: int | None
) -> tuple[Micros, ...]:
    # Sums of floats that are equal on paper must tie.
    grain = 1e-9 * sum((each.access + each.post) / each.slide for each in ordered) or 1.0

    def preference(plan: _Partial) -> tuple[int, int, tuple[Micros, ...]]:
        return (round(plan.cost / grain), plan.moved, plan.periods)

    def promise(plan: _Partial) -> tuple[int, int, tuple[Micros, ...]]:
        return (round((plan.cost + outlook(plan)) / grain), plan.moved, plan.periods)

    plans = [_Partial(0.0, 0, (), ())]
    for place, subgroup in enumerate(ordered):
        later = sorted({each.slide for each in ordered[place + 1 :]})
        cheapest: dict[frozenset[Micros], _Partial] = {}
        for plan in plans:
            for extended in _extensions(plan, subgroup, later, left):
                key = frozenset(extended.opened)
                if key not in cheapest or preference(extended) < preference(cheapest[key]):
                    cheapest[key] = extended
        plans = list(cheapest.values()) if width is None else nsmallest(width, cheapest.values(), key=promise)
    return min(plans, key=preference).periods


def _extensions(plan: _Partial, subgroup: SubGroupCost, later: Sequence[Micros], left: Uncovered) -> Iterator[_Partial]:
    for period in _choices(plan.opened, subgroup, later):
        cost = plan.cost + subgroup.post / period
        opened = plan.opened
        if period not in opened:
            cost += subgroup.access / period * left(period, opened)
            opened = (*opened, period)
        yield _Partial(cost, plan.moved + (period != subgroup.slide), (*plan.periods, period), opened)


def _choices(opened: tuple[Micros, ...], subgroup: SubGroupCost, later: Sequence[Micros]) -> list[Micros]:
    slide = subgroup.slide
    if subgroup.exactly or slide in opened:
        return [slide]
    longest = max((period for period in opened if period < slide), default=0)
    between = [period for period in later if longest < period < slide]
    return [slide, *between, longest] if longest else [slide, *between]


class _CountedCoverage:
    """Within the horizon, one period after the other: partial plans have their beginnings in common."""

    def __init__(self) -> None:
        self._covered: dict[tuple[Micros, tuple[Micros, ...]], int] = {}

    def __call__(self, period: Micros, opened: tuple[Micros, ...]) -> float:
        return 1 - self._multiples(period, opened).bit_count() / HORIZON

    def _multiples(self, period: Micros, opened: tuple[Micros, ...]) -> int:
        if not opened:
            return 0
        known = self._covered.get((period, opened))
        if known is None:
            last = opened[-1]
            known = self._multiples(period, opened[:-1]) | multiples(last // gcd(last, period))
            self._covered[period, opened] = known
        return known


def _outlook(ordered: Sequence[SubGroupCost], left: Uncovered) -> Outlook:
    """The rough cost of the remaining sub-groups: those that are too short to join a plan's open periods.

    The first of these and some after it, each shorter than the one before, will be a block, and so on to the end.
    """
    shorter = [_first_shorter(ordered, place, each.slide) for place, each in enumerate(ordered)]
    ahead = [0.0] * (len(ordered) + 1)
    for place in reversed(range(len(ordered))):
        ahead[place] = min(_blocks_from(place, ordered, shorter, ahead))

    @cache
    def first(decided: int, shortest: Micros) -> int:
        return _first_shorter(ordered, decided - 1, shortest)

    def outlook(plan: _Partial) -> float:
        place = first(len(plan.periods), min(plan.opened))
        return ahead[place] * left(ordered[place].slide, plan.opened) if place < len(ordered) else 0.0

    return outlook


def _first_shorter(ordered: Sequence[SubGroupCost], after: int, slide: Micros) -> int:
    return next((place for place in range(after + 1, len(ordered)) if ordered[place].slide < slide), len(ordered))


def _blocks_from(
    place: int, ordered: Sequence[SubGroupCost], shorter: Sequence[int], ahead: Sequence[float]
) -> Iterator[float]:
    last = place
    while last < len(ordered):
        period, then = ordered[last].slide, shorter[last]
        shared = gcd(period, ordered[then].slide) / period if then < len(ordered) else 0.0
        yield ordered[place].access / period + ahead[then] * (1 - shared)
        last = then
