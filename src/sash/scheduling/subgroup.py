"""The running state of one task: its members, its period and its deadline."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sash.core.time import Micros
from sash.scheduling.deadlines import Urgency
from sash.scheduling.task import Task, TaskKey


@dataclass(frozen=True)
class Member:
    """A query in a sub-group; `first` is the first multiple that it may be answered at."""

    query: str
    priority: int
    window: Micros
    first: Micros


class SubGroup:
    """G(i,j) of section 8.4.3; it has a deadline as long as it has members.

    An EXACTLY sub-group served late has deadlines in the past. A query that joins it then has no part in those:
    its own multiples begin with `first`. Ordinary sub-groups answer as of now, so there everybody takes part.
    """

    def __init__(self, key: TaskKey) -> None:
        self.key = key
        self.period = key.slide
        self.deadline: Micros = 0
        self.resting = False
        self.members: dict[str, Member] = {}
        self.priority = 0
        self.longest: Micros = 0
        self._task: Task | None = None

    def add(self, member: Member) -> None:
        self.priority = max(self.priority, member.priority) if self.members else member.priority
        self.members[member.query] = member
        self.longest = max(self.longest, member.window)
        self._task = None

    def remove(self, query: str) -> None:
        del self.members[query]
        self._task = None
        if self.members:
            self.priority = max(member.priority for member in self.members.values())
            self.longest = max(member.window for member in self.members.values())
            if self.key.exactly:
                self.deadline = max(self.deadline, min(member.first for member in self.members.values()))

    def resume_at(self, deadline: Micros) -> None:
        self.deadline = deadline
        self.resting = False

    def rest_until(self, deadline: Micros) -> None:
        self.deadline = deadline
        self.resting = True

    def urgency(self) -> Urgency:
        return (self.deadline, -self.priority, self.key)

    def as_of(self, now: Micros) -> Micros:
        """The time that an execution now answers as of."""
        return self.deadline if self.key.exactly else now

    def task(self, as_of: Micros | None = None) -> Task:
        """The task with all its members, or with those that an execution as of this time concerns."""
        if self._task is None or self._task.period != self.period:
            self._task = Task(self.key, self.period, self.priority, tuple(self.members))
        if as_of is None or not self.key.exactly or all(member.first <= as_of for member in self.members.values()):
            return self._task
        concerned = tuple(query for query, member in self.members.items() if member.first <= as_of)
        return Task(self.key, self.period, self.priority, concerned)

    def snapshot(self) -> dict[str, Any]:
        return {
            "key": list(self.key),
            "period": self.period,
            "deadline": self.deadline,
            "resting": self.resting,
            "members": [asdict(member) for member in self.members.values()],
        }

    @classmethod
    def restore(cls, snapshot: dict[str, Any]) -> SubGroup:
        subgroup = cls(TaskKey(*snapshot["key"]))
        for member in snapshot["members"]:
            subgroup.add(Member(**member))
        subgroup.period = snapshot["period"]
        subgroup.deadline = snapshot["deadline"]
        subgroup.resting = snapshot["resting"]
        return subgroup
