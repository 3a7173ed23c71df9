"""Scheduling policies: the period that each sub-group gets, and which tasks are executed jointly.

All policies of the thesis (section 8.4, table 8.1) are earliest-deadline-first and differ in these two choices;
docs/architecture/schedule.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol

from sash.core.errors import SashError, nearest
from sash.core.time import Micros
from sash.schedule.cost import SubGroupCost, cost_per_time
from sash.schedule.planning import plan_periods

# How many plans are remembered.
_REMEMBERED = 64


class Policy(Protocol):
    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        """The period of each sub-group of one group, in the same order.

        Called when the group has changed. A period is at most its SLIDE, since SLIDE bounds the updates between two
        re-executions (section 8.4.1); an EXACTLY sub-group keeps its SLIDE. Equal groups must get equal periods.
        """

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        """V(T): tasks with a deadline up to this one may join the task with the lowest; None: no task joins."""


class NoSharing:
    """Each sub-group is executed on its own, even when others of its group are due at the same update.

    The baseline of the experiments (algorithm 9 and section 8.5.1).
    """

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        return [each.slide for each in subgroups]

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        return None


class Conservative:
    """Each sub-group keeps its SLIDE; those of one group are executed jointly when due at the same update (8.4.3)."""

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        return [each.slide for each in subgroups]

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        return lowest


class Aggressive(Conservative):
    """A whole group is executed at its shortest SLIDE (8.4.3): every scan is shared, many answers come needlessly."""

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        shortest = min((each.slide for each in subgroups), default=0)
        return [each.slide if each.exactly else shortest for each in subgroups]


class Hybrid(Conservative):
    """Sub-groups are executed more often than they must be where synchronising them with others is cheaper (8.4.4)."""

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        return list(hybrid_periods(tuple(subgroups)))


@lru_cache(maxsize=_REMEMBERED)
def hybrid_periods(subgroups: tuple[SubGroupCost, ...]) -> tuple[Micros, ...]:
    """The periods of `Hybrid`, cached: a plan takes thousands of steps, and many callers need the same one."""
    return tuple(plan_periods(subgroups))


class LatePending:
    """Once a task is late, all late and pending tasks of its group join it, so that these do not become late.

    Additional sharing during overload, on top of a base policy (8.4.5).
    """

    def __init__(self, base: Policy) -> None:
        self._base = base

    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        return self._base.periods(subgroups)

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        return now if lowest < now else self._base.joint_until(lowest, now)


class Late(LatePending):
    """Once a task is late, all late tasks of its group join it."""

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        return now - 1 if lowest < now else self._base.joint_until(lowest, now)


POLICIES: dict[str, Callable[[], Policy]] = {
    "no-sharing": NoSharing,
    "aggressive": Aggressive,
    "conservative": Conservative,
    "conservative-late": lambda: Late(Conservative()),
    "conservative-late-pending": lambda: LatePending(Conservative()),
    "hybrid": Hybrid,
    "hybrid-late": lambda: Late(Hybrid()),
    "hybrid-late-pending": lambda: LatePending(Hybrid()),
}
POLICY_NAMES = tuple(POLICIES)


def policy(name: str) -> Policy:
    """The policy of this name; `SashError` if there is none.

    >>> from sash.schedule.cost import SubGroupCost
    >>> policy("hybrid").periods([SubGroupCost(2, 9), SubGroupCost(3, 14), SubGroupCost(5, 29)])
    [2, 2, 5]
    """
    if name not in POLICIES:
        raise SashError(f"unknown policy '{name}'{nearest(name, POLICY_NAMES)}")
    return POLICIES[name]()


class PredictedQuery(NamedTuple):
    """A query: its group, how often it is asked, and the cost of an execution."""

    group: str
    slide: Micros
    exactly: bool
    access: float
    post: float


def predicted_cost(jobs: Iterable[PredictedQuery], policy: Policy) -> float:
    """The cost of queries per unit of time, by the analytic model (8.4.4). Tasks are assumed to be on time: a late
    variant has the cost of its base policy.

    >>> jobs = [PredictedQuery("G1", 2, False, 10.0, 1.0), PredictedQuery("G1", 4, False, 20.0, 1.0)]
    >>> [predicted_cost(jobs, policy(name)) for name in ("no-sharing", "conservative")]
    [10.75, 8.25]
    """
    shares = policy.joint_until(0, 0) is not None
    groups: dict[str, dict[tuple[Micros, bool], list[PredictedQuery]]] = {}
    for job in jobs:
        groups.setdefault(job.group, {}).setdefault((job.slide, job.exactly), []).append(job)
    return float(sum(_cost(tasks, policy, shares) for tasks in groups.values()))


def _cost(tasks: dict[tuple[Micros, bool], list[PredictedQuery]], policy: Policy, shares: bool) -> Fraction:
    """The cost of one group of similar queries, by SLIDE and EXACTLY; without sharing no scan helps another task."""
    subgroups = [
        SubGroupCost(slide, max(job.access for job in jobs), sum(job.post for job in jobs), exactly)
        for (slide, exactly), jobs in sorted(tasks.items())
    ]
    periods = policy.periods(subgroups)
    if shares:
        return cost_per_time(subgroups, periods)
    return sum(
        (Fraction(each.access + each.post) / period for each, period in zip(subgroups, periods, strict=True)),
        Fraction(0),
    )
