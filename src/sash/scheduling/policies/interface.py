"""What a scheduling policy decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sash.core.time import Micros
from sash.scheduling.cost import SubGroupCost


class Policy(Protocol):
    def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
        """The period of each sub-group of one group, in the same order.

        Called when the group has changed. A period is at most its SLIDE, since SLIDE bounds the updates between two
        re-executions (section 8.4.1); an EXACTLY sub-group keeps its SLIDE. Equal groups must get equal periods.
        """

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        """V(T): tasks with a deadline up to this one may join the task with the lowest; None: nobody joins."""
