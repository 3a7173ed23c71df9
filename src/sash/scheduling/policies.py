"""Scheduling policies: the period that each sub-group gets, and which tasks are executed jointly.

All policies of the thesis (section 8.4, table 8.1) are earliest-deadline-first and differ in these two choices:

    policy        period of a sub-group        joins the most urgent task, if of its group
    no-sharing    its SLIDE                    nobody (algorithm 9 over sub-groups)
    conservative  its SLIDE                    equal d (algorithm 10)
    aggressive    the shortest in its group    equal d
    hybrid        the cheapest assignment      equal d
    ...-late          as its base              every d < 0 once the lowest is
    ...-late-pending  as its base              every d <= 0 once the lowest is < 0 (algorithm 11)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sash.core.errors import NotSupportedError, SashError, nearest
from sash.core.time import Micros


class Policy(Protocol):
    def periods(self, longest: Mapping[Micros, Micros]) -> Mapping[Micros, Micros]:
        """The period for each SLIDE of a group, given the longest window of each sub-group.

        Called when a group gains or loses a query; SLIDE EXACTLY queries are not among them. A period is at most
        its SLIDE, since SLIDE bounds the updates between two re-executions (section 8.4.1).
        """

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        """V(T): tasks with a deadline up to this one may join the task with the lowest; None: nobody joins."""


class EarliestDeadlineFirst:
    """Algorithm 9: each task is executed on its own. The base that the others refine, and the no-sharing baseline."""

    def periods(self, longest: Mapping[Micros, Micros]) -> Mapping[Micros, Micros]:
        return {slide: slide for slide in longest}

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        return None


class Conservative(EarliestDeadlineFirst):
    """Algorithm 10: tasks of one group are executed jointly when they are due at the same update."""

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        return lowest


POLICIES: dict[str, type[Policy]] = {"conservative": Conservative}
# Every name that a user may know from the documentation.
POLICY_NAMES = (
    "no-sharing",
    "aggressive",
    "conservative",
    "conservative-late",
    "conservative-late-pending",
    "hybrid",
    "hybrid-late",
    "hybrid-late-pending",
)


def policy(name: str) -> Policy:
    """The policy of this name; `SashError` if there is none, or none yet."""
    if name in POLICIES:
        return POLICIES[name]()
    if name in POLICY_NAMES:
        raise NotSupportedError(f"policy '{name}'; available: {', '.join(POLICIES)}")
    raise SashError(f"unknown policy '{name}'{nearest(name, POLICY_NAMES)}")
