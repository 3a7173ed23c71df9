"""A group: queries that may share computation, as sub-groups of one SLIDE each (thesis, section 8.4.3)."""

from __future__ import annotations

from collections.abc import Iterator

from sash.core.time import Micros
from sash.scheduling.deadlines import DeadlineQueue, Urgency
from sash.scheduling.policies import Policy
from sash.scheduling.subgroup import SubGroup
from sash.scheduling.task import TaskKey


class ScheduleGroup:
    """G(i): its sub-groups, and a queue of their deadlines."""

    def __init__(self) -> None:
        self.subgroups: dict[TaskKey, SubGroup] = {}
        self._changed: set[TaskKey] = set()
        self._queue: DeadlineQueue[TaskKey] = DeadlineQueue()

    def subgroup(self, key: TaskKey) -> SubGroup:
        """The sub-group of this key, to be changed; a new one if there is none."""
        self._changed.add(key)
        return self.subgroups.setdefault(key, SubGroup(key))

    def drop(self, key: TaskKey) -> None:
        del self.subgroups[key]
        self._changed.discard(key)
        self._queue.discard(key)

    def enqueue(self, subgroup: SubGroup) -> None:
        """To be called after every change of a sub-group's deadline or priority; what is under way is not in line."""
        if subgroup.under_way:
            self._queue.discard(subgroup.key)
        else:
            self._queue.set(subgroup.key, subgroup.urgency())

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

    def plan(self, policy: Policy, now: Micros | None) -> None:
        """Let the policy assign periods anew, after any number of changes.

        When they differ, the group's tasks get back in step with each other after their next executions.
        """
        for key in self._changed:
            self.subgroups[key].summarise()
        self._changed.clear()
        subgroups = list(self.subgroups.values())
        periods = policy.periods([each.cost for each in subgroups])
        differs = any(each.period != period for each, period in zip(subgroups, periods, strict=True))
        for each, period in zip(subgroups, periods, strict=True):
            each.assign(period, now)
            each.astray = each.astray or (differs and not each.key.exactly)
            self.enqueue(each)
