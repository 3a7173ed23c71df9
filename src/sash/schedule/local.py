"""The local scheduler: earliest deadline first over the tasks of one set of synopses (thesis, sections 8.4.2, 8.4.3).

    outer heap: groups by their most urgent task          inner heaps: the tasks of one group by deadline
         packets/bytes  (12:04)  ────────────────────────►  SLIDE 2 min (12:04)  SLIDE 4 min (12:04)  ...
         packets/ports  (12:05)  ────────────────────────►  SLIDE 5 min (12:05)  ...

Two levels, because joint execution is within a group: the partners of the most urgent task are found without
touching the tasks of other groups. A decision is O(log n) amortised, per task that it executes.

Invariants:
- A query is a member of exactly one task, that of its (group, SLIDE, OFFSET, EXACTLY).
- Nothing runs before its deadline, unless the caller wants that (`gated=False`, `decide_early`); an EXACTLY task not
  even then.
- An execution answers an ordinary task as of now, and an EXACTLY task as of its own deadline, late or not. The next
  deadline is as_of + period, or that of its block if that is earlier: no catching up for ordinary tasks (that could
  make an overload worse), every multiple for EXACTLY ones. Tasks join only when they are answered as of the same time:
  one scan, one state.
- A group is planned at the first question after it has changed, once for any number of changes. A new plan
  makes no task due later than promised before.
- Not for several threads at once: the engine calls it from the thread that applies updates.
- `decide` changes nothing; `done` sets the next deadlines. The runtime calls `done` before it computes: the log repairs
  later failures.
- A long execution may `begin` before it is `done`, even as of a later time than decided. Until it is done, `decide`
  skips its tasks.

Resting (a gap without tuples) is per task: windows of one task may become empty at different times, so the engine
leaves out resting members, and calls `postpone` when all members rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any

from sash.core.time import Micros, multiple_at_or_after
from sash.schedule.cost import SubGroupCost
from sash.schedule.policies import Policy
from sash.schedule.subgroup import Member, ScheduleGroup, SubGroup
from sash.schedule.task import DeadlineQueue, Due, ScheduledTask, Task, TaskKey

# By the interpreter itself: each new query looks at some others.
_members = attrgetter("members")


class LocalScheduler:
    """Runs the queries of one set of synopses.

    >>> from sash.schedule.policies import policy
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

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._groups: dict[str, ScheduleGroup] = {}
        self._by_query: dict[str, SubGroup] = {}
        self._exactly: dict[TaskKey, SubGroup] = {}
        self._urgent: DeadlineQueue[str] = DeadlineQueue()
        # Whether the last execution was that of an EXACTLY task which owes multiples. Its deadline stays the lowest as
        # long as it owes some, so another due task has the next turn: an overload must not starve it.
        self._repaid = False
        # The groups that need a new plan, and as of when.
        self._unplanned: dict[str, Micros | None] = {}

    # -- which queries ---------------------------------------------------------------------------------

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
        access: float = 0.0,
        post: float = 0.0,
        first: Micros | None = None,
        promised: Micros | None = None,
    ) -> None:
        """Schedule a query. It joins its sub-group at the sub-group's next deadline, whose phase stays as it is.

        A new sub-group's deadlines start at the least multiple of its period at or after `first`, by default the
        least one after `now`. `access` and `post` are the costs of one execution, for policies that weigh costs.
        `promised`: the query has been answered before, and is due again by this time at the latest.
        It is an error to add a query twice, or one whose SLIDE is not positive.
        """
        if slide <= 0:
            raise ValueError(f"the SLIDE of query '{query}' must be positive, got {slide}")
        if query in self._by_query:
            raise ValueError(f"query '{query}' is scheduled already")
        earliest = now + 1 if first is None else first
        subgroup = self._subgroup(TaskKey(group, slide, offset, exactly), now)
        subgroup.begin_at(earliest)
        if promised is not None:
            subgroup.be_due_by(promised)
        subgroup.add(Member(query, priority, access, post, multiple_at_or_after(earliest, slide, offset)))
        self._by_query[query] = subgroup

    def remove(self, query: str, now: Micros | None = None) -> None:
        """Forget a query; a sub-group without members is gone, so that a later one starts aligned again."""
        key = self._by_query.pop(query).key
        subgroup = self._subgroup(key, now)
        subgroup.remove(query)
        if not subgroup.members:
            self._groups[key.group].drop(key)
            self._exactly.pop(key, None)

    def reprice(self, costs: Mapping[str, tuple[float, float]], now: Micros) -> None:
        """Change the costs (access, post) of queries, and let the policy weigh them anew."""
        for query, (access, post) in costs.items():
            member = self._by_query[query].members[query]
            if (member.access, member.post) != (access, post):
                self._subgroup(self._by_query[query].key, now).reprice(query, access, post)

    def regroup(self, query: str, group: str, now: Micros) -> None:
        """Move a query to another group; it is due there as before, or earlier if its new task is."""
        left = self._by_query[query]
        if left.key.group == group:
            return
        member = left.members[query]
        self.remove(query, now)
        joined = self._by_query[query] = self._subgroup(left.key._replace(group=group), now)
        joined.succeed(left)
        joined.add(member._replace(first=max(member.first, left.deadline)))

    # -- what to execute -------------------------------------------------------------------------------

    def next_due(self, limit: Micros) -> Micros | None:
        """The earliest deadline, if it is at most `limit`: updates before it need no decision."""
        self._plan()
        top = self._urgent.peek()
        return top[0][0] if top is not None and top[0][0] <= limit else None

    def decide(self, now: Micros, gated: bool = True) -> ScheduledTask | None:
        """The tasks to execute when the synopses are as of `now`, or None: lowest d, highest priority, then name.

        `gated=False` is the algorithm as printed: it refreshes tasks before their deadlines when nothing is due.
        """
        self._plan()
        chosen = self._most_urgent(now, gated)
        if chosen is not None and self._repaid and chosen.owes(now):
            chosen = self._most_urgent_ordinary(now) or chosen
        if chosen is None:
            return None
        limit = self._policy.joint_until(chosen.deadline, now)
        home = self._groups[chosen.key.group]
        return _execution([chosen] if limit is None else home.partners(chosen, limit, now), chosen.as_of(now), now)

    def decide_early(self, now: Micros) -> ScheduledTask | None:
        """The tasks to refresh in idle time before they are due: the lowest d that is not answered as of `now` yet.

        If the policy shares, the other stale tasks of its group join it.
        """
        self._plan()
        chosen = min((each for each in self._all() if each.is_stale(now)), key=SubGroup.urgency, default=None)
        if chosen is None:
            return None
        if self._policy.joint_until(chosen.deadline, now) is None:
            return _execution([chosen], now, now)
        home = self._groups[chosen.key.group].subgroups.values()
        return _execution((each for each in home if each.is_stale(now)), now, now)

    def begin(self, execution: ScheduledTask) -> None:
        """The tasks are being executed, until they are `done`."""
        self._plan()
        for due in execution.tasks:
            subgroup = self._find(due.task.key)
            if subgroup is not None:
                subgroup.under_way = True
                self._enqueue(subgroup)

    def done(self, execution: ScheduledTask) -> None:
        """The tasks were executed; a task that was removed meanwhile is skipped."""
        self._plan()
        self._repaid = any(due.task.key.exactly and not due.on_time for due in execution.tasks)
        found = [(self._find(due.task.key), due.task.members) for due in execution.tasks]
        executed = [each for each, members in found if each is not None and not each.members.keys().isdisjoint(members)]
        if executed:
            self._groups[execution.group].executed(executed, execution.as_of)
            self._promote(execution.group)

    def postpone(self, task: Task, until: Micros) -> None:
        """Let a task rest if all its members rest: its next deadline is its least own multiple at or after `until`.

        A deadline at or after `until` stays.
        """
        self._plan()
        subgroup = self._find(task.key)
        if subgroup is not None and subgroup.deadline < until:
            subgroup.rest_until(until)
            self._enqueue(subgroup)

    # -- the state -------------------------------------------------------------------------------------

    def fit(self, pane: Micros, offset: Micros, after: Micros) -> None:
        """Panes have become longer: deadlines that now lie inside one move to its beginning, or else to its end."""
        for subgroup in [each for each in self._all() if (each.deadline - offset) % pane]:
            end = multiple_at_or_after(subgroup.deadline, pane, offset)
            subgroup.deadline = end - pane if end - pane > after else end
            self._enqueue(subgroup)

    def late_exactly(self, now: Micros) -> Micros | None:
        """The earliest deadline before a time as of which some EXACTLY task still needs an answer."""
        deadlines = [each.deadline for each in self._exactly.values()]
        return min((deadline for deadline in deadlines if deadline < now), default=None)

    def queries_of(self, group: str) -> Iterator[str]:
        """The queries of a group, sub-group by sub-group."""
        found = self._groups.get(group)
        return chain.from_iterable(map(_members, () if found is None else found.subgroups.values()))

    def plan_of(self, group: str) -> list[tuple[SubGroupCost, Micros]]:
        """The costs of a group's sub-groups, and the periods that the policy has given them."""
        self._plan()
        return [(each.cost, each.period) for _, each in sorted(self._groups[group].subgroups.items())]

    def key_of(self, query: str) -> TaskKey:
        return self._by_query[query].key

    def task_of(self, query: str) -> Task:
        self._plan()
        return self._by_query[query].task()

    def deadline_of(self, query: str) -> Micros:
        self._plan()
        return self._by_query[query].deadline

    def tasks(self) -> list[Task]:
        """All tasks by name, for EXPLAIN and statistics."""
        self._plan()
        return [subgroup.task() for subgroup in sorted(self._all(), key=lambda each: each.key)]

    def snapshot(self) -> dict[str, Any]:
        """Everything that recovery needs, as JSON."""
        self._plan()
        return {"subgroups": [subgroup.snapshot() for subgroup in self._all()], "repaid": self._repaid}

    @classmethod
    def restore(cls, snapshot: dict[str, Any], policy: Policy) -> LocalScheduler:
        """A scheduler that continues from `snapshot`; another policy than before assigns other periods."""
        scheduler = cls(policy)
        for saved in snapshot["subgroups"]:
            subgroup = SubGroup.restore(saved)
            home = scheduler._groups.setdefault(subgroup.key.group, ScheduleGroup())
            home.subgroups[subgroup.key] = subgroup
            if subgroup.key.exactly:
                scheduler._exactly[subgroup.key] = subgroup
            scheduler._by_query.update((query, subgroup) for query in subgroup.members)
        scheduler._repaid = snapshot["repaid"]
        scheduler._unplanned = dict.fromkeys(scheduler._groups)
        return scheduler

    # -- helpers ---------------------------------------------------------------------------------------

    def _plan(self) -> None:
        for group, now in self._unplanned.items():
            self._groups[group].plan(self._policy, now)
            self._promote(group)
        self._unplanned.clear()

    def _most_urgent(self, now: Micros, gated: bool) -> SubGroup | None:
        top = self._urgent.peek()
        if top is not None and top[0][0] <= now:
            return self._find(top[0][2])
        if gated:
            return None
        return min((each for each in self._all() if each.may_run_early()), key=SubGroup.urgency, default=None)

    def _most_urgent_ordinary(self, now: Micros) -> SubGroup | None:
        due = (each for each in self._all() if not (each.key.exactly or each.under_way) and each.deadline <= now)
        return min(due, key=SubGroup.urgency, default=None)

    def _all(self) -> Iterator[SubGroup]:
        return (subgroup for group in self._groups.values() for subgroup in group.subgroups.values())

    def _find(self, key: TaskKey) -> SubGroup | None:
        group = self._groups.get(key.group)
        return None if group is None else group.subgroups.get(key)

    def _subgroup(self, key: TaskKey, now: Micros | None) -> SubGroup:
        """The sub-group of this key, to be changed as of now; its group is planned before the next question."""
        self._unplanned[key.group] = self._unplanned.get(key.group) if now is None else now
        if key.group not in self._groups:
            self._groups[key.group] = ScheduleGroup()
        subgroup = self._groups[key.group].subgroup(key)
        if key.exactly:
            self._exactly[key] = subgroup
        return subgroup

    def _enqueue(self, subgroup: SubGroup) -> None:
        self._groups[subgroup.key.group].enqueue(subgroup)
        self._promote(subgroup.key.group)

    def _promote(self, group: str) -> None:
        """Keep the outer heap's view of a group: the urgency of its most urgent task."""
        top = self._groups[group].top()
        if top is not None:
            self._urgent.set(group, top)
            return
        self._urgent.discard(group)
        if not self._groups[group].subgroups:
            del self._groups[group]


def _execution(joint: Iterable[SubGroup], as_of: Micros, now: Micros) -> ScheduledTask:
    ordered = sorted(joint, key=SubGroup.urgency)
    return ScheduledTask(as_of, tuple([Due(subgroup.task(as_of), subgroup.deadline, now) for subgroup in ordered]))
