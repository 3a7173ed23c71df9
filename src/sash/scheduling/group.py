"""A group: queries that may share computation, as sub-groups of one SLIDE each (thesis, section 8.4.3)."""

from __future__ import annotations

from collections.abc import Iterator

from sash.core.time import Micros, multiple_after
from sash.scheduling.deadlines import DeadlineQueue, Urgency
from sash.scheduling.policies import Policy
from sash.scheduling.subgroup import SubGroup
from sash.scheduling.task import TaskKey


class Group:
    """G(i): its sub-groups, and a queue of their deadlines."""

    def __init__(self) -> None:
        self.subgroups: dict[TaskKey, SubGroup] = {}
        self._queue: DeadlineQueue[TaskKey] = DeadlineQueue()

    def enqueue(self, subgroup: SubGroup) -> None:
        """To be called after every change of a sub-group's deadline or priority."""
        self.subgroups[subgroup.key] = subgroup
        self._queue.set(subgroup.key, subgroup.urgency())

    def drop(self, subgroup: SubGroup) -> None:
        del self.subgroups[subgroup.key]
        self._queue.discard(subgroup.key)

    def top(self) -> Urgency | None:
        """How urgent the most urgent task is; None when there is none."""
        top = self._queue.peek()
        return None if top is None else top[0]

    def partners(self, chosen: SubGroup, limit: Micros, now: Micros) -> Iterator[SubGroup]:
        """The chosen task and those that may join it: deadline up to `limit`, answered as of the same time.

        So an EXACTLY task joins ordinary ones when it is on time, and only its own kind when it is late.
        """
        for key in self._queue.up_to(limit):
            if self.subgroups[key].as_of(now) == chosen.as_of(now):
                yield self.subgroups[key]

    def assign_periods(self, policy: Policy, now: Micros | None) -> None:
        """Let the policy set the periods; a task whose period changes is aligned anew, but never later than promised.

        Without `now` there is nothing to align to: the pending deadline stays, and the new period counts after it.
        """
        movable = [each for each in self.subgroups.values() if not each.key.exactly]
        longest: dict[Micros, Micros] = {}
        for each in movable:
            longest[each.key.slide] = max(longest.get(each.key.slide, 0), each.longest)
        assigned = policy.periods(longest)
        for each in movable:
            if each.period != assigned[each.key.slide]:
                each.period = assigned[each.key.slide]
                if now is not None:
                    each.deadline = min(each.deadline, multiple_after(now, each.period, each.key.offset))
                self.enqueue(each)
