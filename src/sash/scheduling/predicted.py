"""What a set of queries is expected to cost under a policy, by the analytic model (thesis 8.4.4)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from sash.core.time import Micros
from sash.scheduling.cost import SubGroupCost, cost_per_time
from sash.scheduling.policies import Policy


class Job(NamedTuple):
    """A query: with whom it shares computation, how often it is asked, and what an execution costs."""

    group: str
    slide: Micros
    exactly: bool
    access: float
    post: float


def predicted_cost(jobs: Iterable[Job], policy: Policy) -> float:
    """Per unit of time. Tasks are thought to be on time: a late variant costs what its base policy costs.

    >>> from sash.scheduling import policy
    >>> jobs = [Job("G1", 2, False, 10.0, 1.0), Job("G1", 4, False, 20.0, 1.0)]
    >>> [predicted_cost(jobs, policy(name)) for name in ("no-sharing", "conservative")]
    [10.75, 8.25]
    """
    shares = policy.joint_until(0, 0) is not None
    groups: dict[str, dict[tuple[Micros, bool], list[Job]]] = {}
    for job in jobs:
        groups.setdefault(job.group, {}).setdefault((job.slide, job.exactly), []).append(job)
    return float(sum(_cost(tasks, policy, shares) for tasks in groups.values()))


def _cost(tasks: dict[tuple[Micros, bool], list[Job]], policy: Policy, shares: bool) -> Fraction:
    """Of one group of similar queries, by SLIDE and EXACTLY; without sharing nobody's scan helps another task."""
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
