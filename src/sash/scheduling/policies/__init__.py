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

from collections.abc import Callable

from sash.core.errors import SashError, nearest
from sash.scheduling.policies.aggressive import Aggressive
from sash.scheduling.policies.conservative import Conservative
from sash.scheduling.policies.hybrid import Hybrid
from sash.scheduling.policies.interface import Policy
from sash.scheduling.policies.late import Late, LatePending
from sash.scheduling.policies.no_sharing import NoSharing

__all__ = [
    "POLICIES",
    "POLICY_NAMES",
    "Aggressive",
    "Conservative",
    "Hybrid",
    "Late",
    "LatePending",
    "NoSharing",
    "Policy",
    "policy",
]

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

    >>> from sash.scheduling.cost import SubGroupCost
    >>> policy("hybrid").periods([SubGroupCost(2, 9), SubGroupCost(3, 14), SubGroupCost(5, 29)])
    [2, 2, 5]
    """
    if name not in POLICIES:
        raise SashError(f"unknown policy '{name}'{nearest(name, POLICY_NAMES)}")
    return POLICIES[name]()
