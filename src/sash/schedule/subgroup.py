"""The running state of one task, and of a group: queries that may share computation, in sub-groups of one SLIDE each.

Thesis, section 8.4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sash.core.time import Micros, multiple_after, multiple_at_or_after
from sash.schedule.cost import SubGroupCost
from sash.schedule.policies import Policy
from sash.schedule.task import DeadlineQueue, Task, TaskKey, Urgency


class Member(NamedTuple):
    """A query in a sub-group; `first` is the first multiple at which it may be answered."""

    query: str
    priority: int
    access: float
    post: float
    first: Micros


class SubGroup:
    """G(i,j) of section 8.4.3; it has a deadline as long as it has members.

    An EXACTLY sub-group served late has deadlines in the past. A query that joins it then is not answered at those: its
    own multiples begin with `first`. Ordinary sub-groups answer as of now, so there all members take part.

    Members come and go without notice to the scheduler's heaps; `summarise` and `assign` update the rest.
    """

    def __init__(self, key: TaskKey) -> None:
        self.key = key
        self.period = key.slide
        self.deadline: Micros = 0
        # The time up to which its members are answered.
        self.answered: Micros | None = None
        self.resting = False
        # Whether it is off the multiples of its period since the plan changed; its next execution returns to them.
        self.astray = False
        # Whether its execution has begun and is not done: until then it is not decided again.
        self.under_way = False
        # Where its deadlines start, until the first plan gives it a period.
        self.start: Micros | None = None
        self.members: dict[str, Member] = {}
        self.priority = 0
        self.cost = SubGroupCost(key.slide, 0.0, 0.0, key.exactly)
        # Between the earliest and the latest `first` of its members, an execution concerns only some of them.
        self._firsts: tuple[Micros, Micros] = (0, 0)
        self._task: Task | None = None

    def begin_at(self, earliest: Micros) -> None:
        """Give a sub-group without a plan, or a resting one, its next deadline at or after this time."""
        deadline = multiple_at_or_after(earliest, self.period, self.key.offset)
        if not self.members:
            self.start, self.deadline = earliest, deadline
        elif self.start is not None:
            self.start, self.deadline = min(self.start, earliest), min(self.deadline, deadline)
        elif self.resting:
            self.deadline = min(self.deadline, deadline)

    def be_due_by(self, promised: Micros) -> None:
        """A new member was promised an answer by this time."""
        if promised < self.deadline:
            self.start, self.deadline, self.astray, self.resting = None, promised, True, False

    def add(self, member: Member) -> None:
        self.members[member.query] = member
        self.answered = None
        self._task = None

    def remove(self, query: str) -> None:
        del self.members[query]
        self._task = None

    def reprice(self, query: str, access: float, post: float) -> None:
        self.members[query] = self.members[query]._replace(access=access, post=post)

    def succeed(self, left: SubGroup) -> None:
        """Be due when `left` was, at the latest: a query comes from there.

        EXACTLY members are not answered at multiples that they have passed.
        """
        if self.members and self.deadline <= left.deadline:
            return
        if self.key.exactly:
            for query, member in self.members.items():
                self.members[query] = member._replace(first=max(member.first, self.deadline))
        self.start, self.deadline, self.resting = None, left.deadline, left.resting
        self.astray = not self.key.exactly

    def summarise(self) -> None:
        """Derive the facts of the sub-group from its members."""
        members = self.members.values()
        self.priority = max(member.priority for member in members)
        access, post = max(member.access for member in members), sum(member.post for member in members)
        self.cost = SubGroupCost(self.key.slide, access, post, self.key.exactly)
        firsts = [member.first for member in members]
        self._firsts = (min(firsts), max(firsts))
        self._task = None

    def assign(self, period: Micros, now: Micros | None) -> None:
        """Take a period; align to the multiples of a new one, but never be due later than promised.

        Without `now` there is nothing to align to: the pending deadline stays, and the new period counts after it.
        """
        if self.start is not None:
            self.deadline = multiple_at_or_after(self.start, period, self.key.offset)
            self.start = None
        elif period != self.period and now is not None and not self.resting:
            self.deadline = min(self.deadline, multiple_after(now, period, self.key.offset))
        self.period = period
        if self.key.exactly:
            self.deadline = max(self.deadline, self._firsts[0])

    def executed(self, as_of: Micros) -> None:
        """Set the next deadline a period after the time of the answers, unless it has to get back in step."""
        if self.key.exactly:
            self.deadline = max(as_of + self.period, self._firsts[0])
        elif self.astray:
            self.deadline = multiple_after(as_of, self.period, self.key.offset)
        else:
            self.deadline = as_of + self.period
        self.answered = as_of
        self.resting = self.astray = self.under_way = False

    def rest_until(self, until: Micros) -> None:
        self.deadline = multiple_at_or_after(until, self.period, self.key.offset)
        self.resting = True

    def owes(self, now: Micros) -> bool:
        """Whether a late EXACTLY sub-group must be answered as of each of the multiples that it missed."""
        return self.key.exactly and self.deadline < now

    def urgency(self) -> Urgency:
        return (self.deadline, -self.priority, self.key)

    def as_of(self, now: Micros) -> Micros:
        """The time of the answers of an execution now."""
        return self.deadline if self.key.exactly else now

    def may_run_early(self) -> bool:
        return not (self.key.exactly or self.resting or self.under_way)

    def is_stale(self, now: Micros) -> bool:
        """Whether an execution before the deadline would give a new answer."""
        return self.may_run_early() and (self.answered is None or self.answered < now)

    def task(self, as_of: Micros | None = None) -> Task:
        """The task with all its members, or with those that an execution as of this time answers."""
        if self._task is None or self._task.period != self.period:
            self._task = Task(self.key, self.period, self.priority, tuple(self.members))
        if as_of is None or not self.key.exactly or self._firsts[1] <= as_of:
            return self._task
        concerned = tuple(query for query, member in self.members.items() if member.first <= as_of)
        return Task(self.key, self.period, self.priority, concerned)

    def snapshot(self) -> dict[str, Any]:
        return {
            "key": list(self.key),
            "period": self.period,
            "deadline": self.deadline,
            "answered": self.answered,
            "resting": self.resting,
            "astray": self.astray,
            "members": [member._asdict() for member in self.members.values()],
        }

    @classmethod
    def restore(cls, snapshot: dict[str, Any]) -> SubGroup:
        subgroup = cls(TaskKey(*snapshot["key"]))
        for member in snapshot["members"]:
            subgroup.add(Member(**member))
        subgroup.summarise()
        for field in ("period", "deadline", "answered", "resting", "astray"):
            setattr(subgroup, field, snapshot[field])
        return subgroup


class ScheduleGroup:
    """G(i): its sub-groups, and a queue of their deadlines."""

    def __init__(self) -> None:
        self.subgroups: dict[TaskKey, SubGroup] = {}
        # The blocks of the plan that have several sub-groups, by the key of each of their sub-groups.
        self._blocks: dict[TaskKey, list[SubGroup]] = {}
        self._changed: set[TaskKey] = set()
        self._queue: DeadlineQueue[TaskKey] = DeadlineQueue()

    def subgroup(self, key: TaskKey) -> SubGroup:
        """The sub-group of this key, to be changed; a new one if there is none."""
        self._changed.add(key)
        if key not in self.subgroups:
            self.subgroups[key] = SubGroup(key)
        return self.subgroups[key]

    def drop(self, key: TaskKey) -> None:
        subgroup = self.subgroups.pop(key)
        if key in self._blocks:
            self._blocks.pop(key).remove(subgroup)
        self._changed.discard(key)
        self._queue.discard(key)

    def enqueue(self, subgroup: SubGroup) -> None:
        """Call this after every change of a sub-group's deadline or priority; one under way is not in the queue."""
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

    def executed(self, subgroups: Sequence[SubGroup], as_of: Micros) -> None:
        """These sub-groups were executed together; a sub-group that has left its block meanwhile returns to it."""
        for each in subgroups:
            each.executed(as_of)
        if self._blocks:
            blocks = {id(block): block for each in subgroups if (block := self._blocks.get(each.key))}
            for block in blocks.values():
                self._bring_in_step(each for each in block if each.deadline > as_of)
        for each in subgroups:
            self.enqueue(each)

    def plan(self, policy: Policy, now: Micros | None) -> None:
        """Let the policy assign periods anew, after any number of changes.

        Sub-groups with the same period are a block (8.4.4): one deadline, the earliest of theirs, and one execution.
        When periods differ from those before, the blocks return to their multiples after their next executions.
        A plan without `now` and with the same periods is that of a restored group, whose deadlines stay.
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
        self._form_blocks(subgroups)
        if differs or now is not None:
            for block in {id(block): block for block in self._blocks.values()}.values():
                self._bring_in_step(block)
        for each in subgroups:
            self.enqueue(each)

    def _form_blocks(self, subgroups: Iterable[SubGroup]) -> None:
        together: dict[tuple[Micros, Micros], list[SubGroup]] = {}
        for each in subgroups:
            if not each.key.exactly:
                together.setdefault((each.period, each.key.offset), []).append(each)
        blocks = [block for block in together.values() if len(block) > 1]
        self._blocks = {each.key: block for block in blocks for each in block}

    def _bring_in_step(self, block: Iterable[SubGroup]) -> None:
        """Give sub-groups of one block the earliest of their deadlines; so none is due later than promised."""
        waiting = [each for each in block if not (each.resting or each.under_way)]
        earliest = min((each.deadline for each in waiting), default=0)
        for each in waiting:
            if each.deadline != earliest:
                each.deadline = earliest
                self.enqueue(each)
