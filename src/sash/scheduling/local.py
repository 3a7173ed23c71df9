"""The local scheduler: earliest deadline first over the tasks of one set of synopses (thesis, sections 8.4.2, 8.4.3).

    outer heap: groups by their most urgent task          inner heaps: the tasks of one group by deadline
         packets/bytes  (12:04)  ────────────────────────►  SLIDE 2 min (12:04)  SLIDE 4 min (12:04)  ...
         packets/ports  (12:05)  ────────────────────────►  SLIDE 5 min (12:05)  ...

Two levels, because joint execution is within a group: the partners of the most urgent task are found without
touching the tasks of other groups. A decision is O(log n) amortised, per task that it executes.

Invariants:
- A query is a member of exactly one task, that of its (group, SLIDE, OFFSET, EXACTLY).
- Nothing runs before its deadline, unless `gated=False`; an EXACTLY task not even then.
- An execution answers an ordinary task as of now, and an EXACTLY task as of its own deadline, late or not. The next
  deadline is as_of + period: no catching up for ordinary tasks (that could make an overload worse), every
  multiple for EXACTLY ones. Tasks join only when they are answered as of the same time: one scan, one state.
- Not for several threads at once: the engine calls it from the thread that applies updates.
- `decide` changes nothing; only `done` does. An execution that failed half-way is simply decided again.

Resting (a gap without tuples) is per task: windows of one task may become empty at different times, so the engine
leaves out the members that rest, and calls `postpone` when all of them do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sash.core.time import Micros, multiple_at_or_after
from sash.scheduling.deadlines import DeadlineQueue
from sash.scheduling.group import Group
from sash.scheduling.policies import Policy
from sash.scheduling.subgroup import Member, SubGroup
from sash.scheduling.task import Due, Execution, Task, TaskKey


class LocalScheduler:
    """Runs the queries of one set of synopses.

    >>> from sash.scheduling.policies import policy
    >>> scheduler = LocalScheduler(policy("conservative"))
    >>> scheduler.add("q1", "max", 2, now=0)
    >>> scheduler.add("q2", "max", 3, now=0)
    >>> for now in range(1, 7):
    ...     while (execution := scheduler.decide(now)) is not None:
    ...         print(now, *execution.members)
    ...         scheduler.done(execution)
    2 q1
    3 q2
    4 q1
    6 q1 q2
    """

    def __init__(self, policy: Policy, gated: bool = True) -> None:
        """`gated=False` is the algorithm as printed: it refreshes tasks before their deadlines when idle."""
        self._policy = policy
        self._gated = gated
        self._groups: dict[str, Group] = {}
        self._by_query: dict[str, SubGroup] = {}
        self._urgent: DeadlineQueue[str] = DeadlineQueue()

    def add(
        self,
        query: str,
        group: str,
        slide: Micros,
        *,
        now: Micros,
        offset: Micros = 0,
        exactly: bool = False,
        priority: int = 0,
        window: Micros = 0,
        first: Micros | None = None,
    ) -> None:
        """Schedule a query. It joins its sub-group at the sub-group's next deadline, whose phase stays as it is.

        A new sub-group's deadlines start at the least multiple of its period at or after `first`, by default the
        least one after `now`. `window` is how far back the query looks, for policies that weigh costs.
        It is an error to add a query twice, or one whose SLIDE is not positive.
        """
        if slide <= 0:
            raise ValueError(f"the SLIDE of query '{query}' must be positive, got {slide}")
        if query in self._by_query:
            raise ValueError(f"query '{query}' is scheduled already")
        earliest = now + 1 if first is None else first
        key = TaskKey(group, slide, offset, exactly)
        home = self._groups.setdefault(group, Group())
        subgroup = self._by_query[query] = home.subgroups.setdefault(key, SubGroup(key))
        subgroup.add(Member(query, priority, window, multiple_at_or_after(earliest, slide, offset)))
        home.assign_periods(self._policy, now)
        if len(subgroup.members) == 1:
            subgroup.deadline = multiple_at_or_after(earliest, subgroup.period, offset)
        elif subgroup.resting:
            subgroup.deadline = min(subgroup.deadline, multiple_at_or_after(earliest, subgroup.period, offset))
        self._enqueue(subgroup)

    def remove(self, query: str, now: Micros | None = None) -> None:
        """Forget a query; a sub-group without members is gone, so that a later one starts aligned again."""
        subgroup = self._by_query.pop(query)
        home = self._groups[subgroup.key.group]
        subgroup.remove(query)
        if subgroup.members:
            home.enqueue(subgroup)
        else:
            home.drop(subgroup)
        home.assign_periods(self._policy, now)
        self._promote(subgroup.key.group)

    def next_due(self, limit: Micros) -> Micros | None:
        """The earliest deadline, if it is at most `limit`: updates before it need no decision."""
        top = self._urgent.peek()
        return top[0][0] if top is not None and top[0][0] <= limit else None

    def decide(self, now: Micros) -> Execution | None:
        """What to execute now that the synopses are as of `now`, or None: lowest d, highest priority, then name."""
        chosen = self._most_urgent(now)
        if chosen is None:
            return None
        as_of = chosen.as_of(now)
        limit = self._policy.joint_until(chosen.deadline, now)
        if limit is None:
            joint = [chosen]
        else:
            joint = sorted(self._groups[chosen.key.group].partners(chosen, limit, now), key=SubGroup.urgency)
        return Execution(as_of, tuple(Due(subgroup.task(as_of), subgroup.deadline, now) for subgroup in joint))

    def done(self, execution: Execution) -> None:
        """Reset d to the period, counted from the state that the answers reflect; a task removed meanwhile is none."""
        for due in execution.tasks:
            subgroup = self._find(due.task.key)
            if subgroup is not None:
                subgroup.resume_at(execution.as_of + subgroup.period)
                self._enqueue(subgroup)

    def postpone(self, task: Task, until: Micros) -> None:
        """Let a task rest whose members all rest: its next deadline is its least own multiple at or after `until`.

        A deadline that is at or after `until` anyway stays.
        """
        subgroup = self._find(task.key)
        if subgroup is not None and subgroup.deadline < until:
            subgroup.rest_until(multiple_at_or_after(until, subgroup.period, subgroup.key.offset))
            self._enqueue(subgroup)

    def task_of(self, query: str) -> Task:
        return self._by_query[query].task()

    def deadline_of(self, query: str) -> Micros:
        return self._by_query[query].deadline

    def tasks(self) -> list[Task]:
        """All tasks by name, for EXPLAIN and statistics."""
        return [subgroup.task() for subgroup in sorted(self._all(), key=lambda each: each.key)]

    def snapshot(self) -> dict[str, Any]:
        """Everything that recovery needs, as JSON."""
        return {"subgroups": [subgroup.snapshot() for subgroup in self._all()]}

    @classmethod
    def restore(cls, snapshot: dict[str, Any], policy: Policy, gated: bool = True) -> LocalScheduler:
        """A scheduler that continues where `snapshot` was taken, under the same policy."""
        scheduler = cls(policy, gated)
        for saved in snapshot["subgroups"]:
            subgroup = SubGroup.restore(saved)
            scheduler._by_query.update((query, subgroup) for query in subgroup.members)
            scheduler._enqueue(subgroup)
        return scheduler

    def _most_urgent(self, now: Micros) -> SubGroup | None:
        top = self._urgent.peek()
        if top is not None and top[0][0] <= now:
            return self._find(top[0][2])
        if self._gated:
            return None
        early = (each for each in self._all() if not each.key.exactly and not each.resting)
        return min(early, key=SubGroup.urgency, default=None)

    def _all(self) -> Iterator[SubGroup]:
        return (subgroup for group in self._groups.values() for subgroup in group.subgroups.values())

    def _find(self, key: TaskKey) -> SubGroup | None:
        group = self._groups.get(key.group)
        return None if group is None else group.subgroups.get(key)

    def _enqueue(self, subgroup: SubGroup) -> None:
        self._groups.setdefault(subgroup.key.group, Group()).enqueue(subgroup)
        self._promote(subgroup.key.group)

    def _promote(self, group: str) -> None:
        """Keep the outer heap's view of a group: the urgency of its most urgent task."""
        top = self._groups[group].top()
        if top is None:
            del self._groups[group]
            self._urgent.discard(group)
        else:
            self._urgent.set(group, top)
