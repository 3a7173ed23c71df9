"""Additional sharing during overload, on top of a base policy (thesis, section 8.4.5, algorithm 11)."""

from __future__ import annotations

from collections.abc import Sequence

from sash.core.time import Micros
from sash.scheduling.cost import SubGroupCost
from sash.scheduling.policies.interface import Policy


class LatePending:
    """Once a task is late, all late and pending tasks of its group join it: these will not become late any more."""

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
