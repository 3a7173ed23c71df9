"""The queries of one group of synopses in time: which are scheduled, which read another's output, which have ended.

The local scheduler decides about tasks. This module decides which queries it schedules: of identical queries only the
fastest (`Outputs`). A query's scheduling group and its cost follow from the synopses that answer it.

By rule CS8 (thesis 8.4.3) a query that is identical to a faster one, but for its period, reads the faster one's output.
Of identical queries only the fastest, the leader, is scheduled; the others get each of its answers, too. When the
leader goes, the next fastest leads, with its own period. SLIDE EXACTLY queries take no part: nothing moves their
executions, and a leader would have to keep the promises of the others.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from sash.plan.nodes import AnswerUnion, Node, StreamWindow
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.active import ActiveQuery
from sash.runtime.periodic.joint_queries import JointQueries
from sash.schedule import LocalScheduler, Policy, PredictedQuery, ScheduledTask, Task, TaskKey, predicted_cost
from sash.schedule.policies import Conservative
from sash.sharing.choose import CLUSTER, Prices
from sash.sharing.rules import Computation, Decision, QueryOutput, compute_together, shares_output

# How many of the queries that are executed with a query the rules look at: EXPLAIN names no more of them.
_DESCRIBED = 6


class Outputs:
    """The leaders and followers among some queries."""

    def __init__(self) -> None:
        # Identical queries are one object. It is found by identity and, on the path of every execution, by name.
        self._by_identity: dict[Hashable, _Identical] = {}
        self._by_name: dict[str, _Identical] = {}

    def trial(self) -> Outputs:
        """A copy with the same queries."""
        other = Outputs()
        other._by_identity = {identity: same.trial() for identity, same in self._by_identity.items()}
        other._by_name = {name: same for same in other._by_identity.values() for name in same.queries}
        return other

    def add(self, active: ActiveQuery) -> None:
        identity = identity_of(active.compiled)
        same = self._by_name[active.name] = self._by_identity.setdefault(identity, _Identical(identity))
        same.add(active)

    def remove(self, active: ActiveQuery) -> list[ActiveQuery]:
        """Forget a query; the result is the queries that were identical to it."""
        same = self._by_name.pop(active.name)
        same.remove(active)
        if not same.queries:
            del self._by_identity[same.identity]
        return list(same.queries.values())

    def leader(self, active: ActiveQuery) -> ActiveQuery:
        """The query whose output a query reads: often the query itself."""
        return self._by_name[active.name].leader

    def with_followers(self, leaders: Iterable[ActiveQuery]) -> list[ActiveQuery]:
        """Leaders, each before the queries that read its output."""
        found = []
        for leader in leaders:
            found += [leader, *self.followers(leader)]
        return found

    def decision(self, active: ActiveQuery) -> Decision | None:
        """What CS8 says about a query and the fastest of the others that ask the same; None: equal speed."""
        same = self._by_name[active.name]
        other = same.fastest_but(active)
        if other is None or (self.leader(active) is active and other.compiled.slide == active.compiled.slide):
            return None
        return shares_output(*(same.output(each) for each in (other, active)))

    def is_alone(self, active: ActiveQuery) -> bool:
        """Whether no other query asks the same."""
        return len(self._by_name[active.name].queries) == 1

    def followers(self, leader: ActiveQuery) -> list[ActiveQuery]:
        """The queries that read a leader's output."""
        same = self._by_name[leader.name].queries
        return [each for each in same.values() if each is not leader] if len(same) > 1 else []


class _Identical:
    """Queries that ask the same, in the order of speed: a search for a leader does not compare them all."""

    def __init__(self, identity: Hashable) -> None:
        self.identity = identity
        self.queries: dict[str, ActiveQuery] = {}
        self._by_speed: list[tuple[int, int, str]] = []

    def trial(self) -> _Identical:
        other = copy.copy(self)
        other.queries, other._by_speed = dict(self.queries), list(self._by_speed)
        return other

    def add(self, active: ActiveQuery) -> None:
        self.queries[active.name] = active
        insort(self._by_speed, _speed(active))
        self._lead()

    def remove(self, active: ActiveQuery) -> None:
        del self.queries[active.name]
        del self._by_speed[bisect_left(self._by_speed, _speed(active))]
        if self.queries:
            self._lead()

    def output(self, active: ActiveQuery) -> QueryOutput:
        slide = active.compiled.slide
        assert slide is not None
        return QueryOutput(active.name, self.identity, slide, active.home.name.by_rows)

    def _lead(self) -> None:
        self.leader = self.queries[self._by_speed[0][2]]

    def fastest_but(self, active: ActiveQuery) -> ActiveQuery | None:
        names = (name for _, _, name in self._by_speed if name != active.name)
        return next((self.queries[name] for name in names), None)


def _speed(active: ActiveQuery) -> tuple[int, int, str]:
    slide = active.compiled.slide
    assert slide is not None
    return slide, active.compiled.serial, active.name


def identity_of(query: CompiledQuery) -> Hashable:
    """What identical queries have in common: everything but SLIDE, priority and lifetime.

    An EXACTLY query is identical to none. Nor is FREQUENT, which cuts its window by its own SLIDE. STORED IN CLUSTER is
    no difference: it says where the panes are that all of them read.
    """
    if query.exactly:
        return query.name
    if any(leaf.items is not None and leaf.items.function == "frequent" for leaf in query.leaves):
        return query.name
    return None if query.synopsis == CLUSTER else query.synopsis, _without_slide(query.plan)


def _without_slide(node: Node) -> Node:
    if isinstance(node, StreamWindow):
        return replace(node, window=replace(node.window, slide=None))
    names = [name for name in ("input", "left", "right", "query") if hasattr(node, name)]
    below: dict[str, Any] = {name: _without_slide(getattr(node, name)) for name in names}
    if isinstance(node, AnswerUnion):
        below["parts"] = tuple(_without_slide(part) for part in node.parts)
    return replace(node, **below) if below else node


class SchedulePlace(NamedTuple):
    """Where a query is scheduled: with the queries that share its computation (rules CS1 to CS7), and at what cost."""

    computation: Computation
    access: float
    post: float


Place = Callable[[ActiveQuery], SchedulePlace]


class _Meeting(NamedTuple):
    """What was decided about a query and the mates that it met when it was placed."""

    mates: list[Computation]
    decision: Decision


class Schedule:
    """`place` gives a query's place for the current synopses of its group; multiples count from `offset`."""

    def __init__(self, policy: Policy, offset: int, place: Place) -> None:
        self._policy = policy
        # Without sharing, identical queries do not share output either.
        self.shares = policy.joint_until(0, 0) is not None
        # Plain: every query has its own SLIDE, and none reads another's output.
        self.is_plain = False
        self.local = LocalScheduler(policy)
        self._offset = offset
        self._place = place
        self._outputs = Outputs()
        self._mortal: dict[str, ActiveQuery] = {}
        self._places: dict[str, SchedulePlace] = {}
        # The scheduled queries, by the data that they read; and which were put together with others, or apart.
        self._by_data: dict[str, dict[str, None]] = {}
        self._meetings: dict[str, _Meeting] = {}
        self.prices = Prices()
        self.queries: dict[str, ActiveQuery] = {}
        # The weight of all queries; None when a query has come or gone.
        self._weight: float | None = None
        self.leaders: set[str] = set()
        # The queries of tasks that were executed, until queries come or go.
        self._joint: dict[TaskKey, JointQueries] = {}

    def trial(self, place: Place) -> Schedule:
        """A copy with the same queries, by the policy even while this schedule is plain."""
        other = Schedule(self._policy, self._offset, place)
        other.prices = self.prices
        if self.is_plain:
            for active in self.queries.values():
                other.add(active, 0)
            return other
        other.local = LocalScheduler.restore(self.local.snapshot(), self._policy)
        other.queries, other.leaders, other._mortal = dict(self.queries), set(self.leaders), dict(self._mortal)
        other._places, other._meetings = dict(self._places), dict(self._meetings)
        other._by_data = {data: dict(names) for data, names in self._by_data.items()}
        other._outputs = self._outputs.trial()
        return other

    @property
    def _follows(self) -> bool:
        return self.shares and not self.is_plain

    # -- its queries -----------------------------------------------------------------------------------

    def add(self, active: ActiveQuery, now: int) -> None:
        """Schedule a query, or let it follow a faster identical one."""
        self._know(active)
        if not self._follows or self._outputs.is_alone(active):
            self._schedule(active, now, None)
            return
        output = self.output(active)
        if output is not None and output.allowed:
            self._forget_task_of(self.leader(active))
            self._raise_priority(self.leader(active), now)
            return
        slower = [each for each in self.followers(active) if each.name in self.leaders]
        promised = min((self.local.deadline_of(each.name) for each in slower), default=None)
        for each in slower:
            self._unschedule(each, now)
        self._schedule(active, now, promised)

    def _know(self, active: ActiveQuery) -> None:
        self.queries[active.name] = active
        self._weight = None
        self.watch(active)
        if self._follows:
            self._outputs.add(active)

    def watch(self, active: ActiveQuery) -> None:
        """Note when a query ends that is not scheduled."""
        if active.compiled.is_mortal:
            self._mortal[active.name] = active

    def remove(self, name: str, now: int | None) -> bool:
        """Forget a query. The readers of its output are scheduled again, not later than they were promised."""
        active, mortal = self.queries.pop(name, None), self._mortal.pop(name, None)
        if active is None:
            return mortal is not None
        self._weight = None
        left = self._outputs.remove(active) if self._follows else []
        if name not in self.leaders:
            self._forget_task_of(self.leader(left[0]))
            return True
        self._unschedule(active, now)
        if left:
            assert now is not None
            ends = [each.answered + (each.compiled.slide or 0) for each in left if each.answered is not None]
            self._schedule(self.leader(left[0]), now, min(ends, default=None))
        return True

    def leader(self, active: ActiveQuery) -> ActiveQuery:
        """The query whose output a query reads: itself, unless an identical query is faster."""
        return self._outputs.leader(active) if self._follows and active.name in self.queries else active

    def output(self, active: ActiveQuery) -> Decision | None:
        """Whether a query reads the output of an identical one, as CS8 decides; None: no other query asks the same."""
        return self._outputs.decision(active) if self._follows and active.name in self.queries else None

    def followers(self, leader: ActiveQuery) -> list[ActiveQuery]:
        return self._outputs.followers(leader) if self._follows else []

    def _schedule(self, active: ActiveQuery, now: int, promised: int | None) -> None:
        compiled, place = active.compiled, self._place(active)
        assert compiled.slide is not None
        self._put(active, place)
        access, post = self._priced(place)
        self.local.add(
            active.name,
            place.computation.group,
            compiled.slide,
            now=now,
            offset=self._offset,
            exactly=compiled.exactly,
            priority=self._priority(active),
            access=access,
            post=post,
            promised=promised,
        )
        self.leaders.add(active.name)

    def _put(self, active: ActiveQuery, place: SchedulePlace) -> None:
        """Put a query at a place: with the queries of its group, or apart from one that reads the same data."""
        self._places[active.name], mine = place, place.computation
        same = self._by_data.setdefault(mine.data, {})
        places, others = self._places, islice(self.local.queries_of(mine.group), _DESCRIBED)
        mates = [places[name].computation for name in others if name in places and name != mine.query]
        if not mates and same:
            mates = [places[name].computation for name in islice(same, 1)]
        if mates:
            self._meetings[active.name] = _Meeting(mates, compute_together(mine, mates))
        same[active.name] = None

    def together(self, active: ActiveQuery) -> Decision | None:
        """The decision about a query and its mates, anew if mates have left or moved; None: it has no mates."""
        meeting = self._meetings.get(active.name)
        if meeting is None:
            return None
        mine, names = self._places[active.name].computation, [mate.query for mate in meeting.mates]
        now = [self._places[name].computation for name in names if name in self._places]
        left = [mate for mate in now if mate.data == mine.data]
        if left != meeting.mates:
            meeting = self._meetings[active.name] = _Meeting(left, compute_together(mine, left))
        return meeting.decision if left else None

    def _take_away(self, name: str) -> None:
        data = self._places.pop(name).computation.data
        self._meetings.pop(name, None)
        del self._by_data[data][name]
        if not self._by_data[data]:
            del self._by_data[data]

    def _priority(self, leader: ActiveQuery) -> int:
        followers = self.followers(leader)
        return max([each.compiled.priority for each in (leader, *followers)]) if followers else leader.compiled.priority

    def _raise_priority(self, leader: ActiveQuery, now: int) -> None:
        if self.local.task_of(leader.name).priority < self._priority(leader):
            promised = self.local.deadline_of(leader.name)
            self._unschedule(leader, now)
            self._schedule(leader, now, promised)

    def _unschedule(self, active: ActiveQuery, now: int | None) -> None:
        self.leaders.discard(active.name)
        self._take_away(active.name)
        self._forget_task_of(active)
        self.local.remove(active.name, now)

    def _forget_task_of(self, leader: ActiveQuery) -> None:
        """A query of this task comes or goes."""
        self._joint.pop(self.local.key_of(leader.name), None)

    def _priced(self, place: SchedulePlace) -> tuple[float, float]:
        return self.prices.access * place.access, self.prices.post * place.post

    def expected(self, joint: Iterable[JointQueries]) -> tuple[float, float]:
        """The expected cost of a joint execution, before prices: one access, and each leader's own part."""
        places = [self._places[name] for each in joint for name in each.names if name in self._places]
        return max((place.access for place in places), default=0.0), sum(place.post for place in places)

    def predicted(self, policies: Sequence[Policy]) -> list[float]:
        """The cost of these queries per unit of time under some policies, by the analytic model and the current prices.

        Identical queries count once if anything is shared.
        """
        shares = [policy.joint_until(0, 0) is not None for policy in policies]
        jobs = {sharing: [self._job(active) for active in self._leading(sharing)] for sharing in set(shares)}
        return [predicted_cost(jobs[sharing], policy) for sharing, policy in zip(shares, policies, strict=True)]

    def _job(self, active: ActiveQuery) -> PredictedQuery:
        place, compiled = self._place(active), active.compiled
        assert compiled.slide is not None
        return PredictedQuery(place.computation.group, compiled.slide, compiled.exactly, *self._priced(place))

    def _leading(self, shares: bool) -> list[ActiveQuery]:
        """The queries that would be scheduled with or without shared output, whatever is shared now."""
        if not shares:
            return list(self.queries.values())
        outputs = self._outputs if self._follows else Outputs()
        if not self._follows:
            for active in self.queries.values():
                outputs.add(active)
        return [active for active in self.queries.values() if outputs.leader(active) is active]

    def reconsider(self, now: int) -> None:
        """The synopses, or their load, have changed: renew the groups and costs."""
        moved = list[str]()
        for name in sorted(self.leaders):
            before, place = self._places[name], self._place(self.queries[name])
            if before.computation.group == place.computation.group:
                self._places[name] = place
                continue
            self._take_away(name)
            self._forget_task_of(self.queries[name])
            self.local.regroup(name, place.computation.group, now)
            self._places[name] = place
            moved.append(name)
        # Every query is where it belongs: now it meets its mates.
        for name in moved:
            self._put(self.queries[name], self._places[name])
        self.local.reprice({name: self._priced(place) for name, place in self._places.items()}, now)

    @property
    def weight(self) -> float:
        """The weight of a group's share of the time: its queries, each by its priority."""
        if self._weight is None:
            priorities = [each.compiled.priority for each in self.queries.values()]
            self._weight = float(max(1, sum([1 + max(0, priority) for priority in priorities])))
        return self._weight

    def ended(self, clock: int | None) -> list[str]:
        """The queries whose lifetimes are over at an event time, and those that have told all.

        A life begins with the stream's first time.
        """
        if clock is None:
            return []
        for active in self._mortal.values():
            if active.ends_at is None and active.compiled.lifetime is not None:
                active.ends_at = clock + active.compiled.lifetime
        return [active.name for active in self._mortal.values() if active.has_told_all or self._is_over(active, clock)]

    def _is_over(self, active: ActiveQuery, clock: int) -> bool:
        return active.ends_at is not None and active.ends_at < clock and not self._owes(active)

    def _owes(self, active: ActiveQuery) -> bool:
        """Whether a late SLIDE EXACTLY query still owes answers at multiples within its lifetime."""
        late = active.compiled.exactly and active.name in self.leaders
        return late and self.local.deadline_of(active.name) <= (active.ends_at or 0)

    def restore(
        self, saved: dict[str, Any], leaders: Iterable[str], queries: Iterable[ActiveQuery], now: int, plain: bool
    ) -> None:
        """Go on from a snapshot."""
        self.is_plain = plain
        self.local = LocalScheduler.restore(saved, self._planned_by)
        self.leaders = set(leaders)
        for active in queries:
            self._know(active)
        for name in sorted(self.leaders, key=lambda name: self.queries[name].compiled.serial):
            place = self._place(self.queries[name])
            self._put(self.queries[name], place)
            if self.local.task_of(name).group != place.computation.group:
                # An older version has put the query into another group.
                self.local.regroup(name, place.computation.group, now)
        self._let_leaders_lead(now)

    def use(self, policy: Policy, now: int) -> None:
        """Use another policy from now on; deadlines that were promised stay."""
        self._policy, self.shares = policy, policy.joint_until(0, 0) is not None
        self._begin_anew(now)

    def stay_plain(self, plain: bool, now: int) -> None:
        """Execute every query at its own SLIDE for a while, or follow the policy again."""
        self.is_plain = plain
        self._begin_anew(now)

    @property
    def _planned_by(self) -> Policy:
        return Conservative() if self.is_plain and self.shares else self._policy

    def _begin_anew(self, now: int) -> None:
        self.local = LocalScheduler.restore(self.local.snapshot(), self._planned_by)
        self.forget_joint()
        self._outputs = Outputs()
        for active in self.queries.values():
            self._know(active)
        self._let_leaders_lead(now)

    def _let_leaders_lead(self, now: int) -> None:
        """Schedule the queries that read no other's output, and only those."""
        for leader in [active for active in self.queries.values() if self.leader(active) is active]:
            same = [leader, *self.followers(leader)]
            if [each.name for each in same if each.name in self.leaders] == [leader.name]:
                continue
            promised = [self._promised_to(each) for each in same]
            for each in same:
                if each.name in self.leaders:
                    self._unschedule(each, now)
            self._schedule(leader, now, min((time for time in promised if time is not None), default=None))

    def _promised_to(self, active: ActiveQuery) -> int | None:
        if active.name in self.leaders:
            return self.local.deadline_of(active.name)
        return None if active.answered is None else active.answered + (active.compiled.slide or 0)

    # -- what is due -----------------------------------------------------------------------------------

    def take(self, now: int, early: bool, one_by_one: bool) -> list[ScheduledTask]:
        """What to execute now: one joint execution, or everything that is due as of one time. Its tasks start anew."""
        taken: list[ScheduledTask] = []
        while True:
            execution = self.local.decide_early(now) if early else self.local.decide(now)
            if execution is None or (taken and execution.as_of != taken[0].as_of):
                return taken
            self.local.done(execution)
            taken.append(execution)
            # A scan for several groups at once costs less than one scan each, but it cannot be interrupted.
            if one_by_one or early:
                return taken

    def begin(self, now: int) -> list[ScheduledTask]:
        """What to execute now, where an execution may take its time; its tasks are done when it says so.

        SLIDE EXACTLY tasks are apart from the others, because the others may end up as of a later time.
        """
        decided = self.local.decide(now)
        if decided is None:
            return []
        self.local.begin(decided)
        parts = [tuple(due for due in decided.tasks if due.task.exactly == exactly) for exactly in (True, False)]
        return [replace(decided, tasks=tasks) for tasks in parts if tasks]

    def joint(self, execution: ScheduledTask) -> list[JointQueries]:
        """The queries that an execution answers, task by task, without queries that have ended meanwhile."""
        return [found for due in execution.tasks if (found := self._joint_queries(due.task)) is not None]

    def _joint_queries(self, task: Task) -> JointQueries | None:
        known = self._joint.get(task.key)
        if known is not None and known.members == task.members:
            return known
        leaders = [self.queries[name] for name in task.members if name in self.queries]
        if not leaders:
            return None
        found = JointQueries(self._with_followers(leaders), self.leader, task.members)
        if len(leaders) == len(task.members):
            self._joint[task.key] = found
        return found

    def forget_joint(self) -> None:
        """What the queries of tasks have in common has changed."""
        self._joint.clear()

    def answered_by(self, leaders: Iterable[str]) -> list[str]:
        """These queries, and those that read their output."""
        return [each.name for each in self._with_followers([self.queries[name] for name in leaders])]

    def _with_followers(self, leaders: list[ActiveQuery]) -> list[ActiveQuery]:
        return self._outputs.with_followers(leaders) if self._follows else leaders
