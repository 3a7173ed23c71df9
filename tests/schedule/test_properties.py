"""What every policy keeps to, whatever queries come and go; with and without overload."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from sash.schedule import POLICY_NAMES, LocalScheduler, ScheduledTask, policy, simulate
from tests.schedule.examples import drain
from tests.schedule.workloads import GROUP_NAMES, ORDINARY, PRICES, QUERY, WORKLOADS, Query, fill
from tests.support.examples import examples

every_policy = pytest.mark.parametrize("name", POLICY_NAMES)


class Churn(RuleBasedStateMachine):
    """Everything that can happen without overload; each update is followed by all that is due."""

    policy_name: str

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = LocalScheduler(policy(self.policy_name))
        self.queries: dict[str, Query] = {}
        self.last: dict[str, int] = {}
        self.now = 0
        self.count = 0

    @rule(query=QUERY)
    def add(self, query: Query) -> None:
        self.count += 1
        name = f"q{self.count}"
        query.add_to(self.scheduler, name, self.now)
        self.queries[name], self.last[name] = query, self.now

    @precondition(lambda self: self.queries)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.queries)))
        self.scheduler.remove(name, self.now)
        del self.queries[name], self.last[name]

    @precondition(lambda self: self.queries)
    @rule(data=st.data(), group=GROUP_NAMES)
    def regroup(self, data: st.DataObject, group: str) -> None:
        self.scheduler.regroup(data.draw(st.sampled_from(sorted(self.queries))), group, self.now)

    @precondition(lambda self: self.queries)
    @rule(data=st.data(), price=PRICES)
    def reprice(self, data: st.DataObject, price: tuple[float, float]) -> None:
        self.scheduler.reprice({data.draw(st.sampled_from(sorted(self.queries))): price}, self.now)

    @rule(name=st.sampled_from(POLICY_NAMES))
    def recover_under_another_policy(self, name: str) -> None:
        self.scheduler = LocalScheduler.restore(json.loads(json.dumps(self.scheduler.snapshot())), policy(name))

    @precondition(lambda self: self.queries)
    @rule()
    def refresh(self) -> None:
        execution = self.scheduler.decide_early(self.now)
        if execution is not None:
            assert not any(due.task.exactly for due in execution.tasks)
            self.scheduler.done(execution)
            self.last.update(dict.fromkeys(execution.members, self.now))

    @precondition(lambda self: self.queries)
    @rule(updates=st.integers(1, 6))
    def update(self, updates: int) -> None:
        for _ in range(updates):
            self.now += 1
            answered = [query for execution in drain(self.scheduler, self.now) for query in execution.members]
            assert len(answered) == len(set(answered))
            self.last.update(dict.fromkeys(answered, self.now))
            for query in self.queries:
                assert self.now - self.last[query] <= self.queries[query].slide
                if self.queries[query].exactly:
                    assert (query in answered) == (self.now % self.queries[query].slide == 0)


@every_policy
def test_never_more_than_n_updates_between_executions_and_exactly_n_for_exactly(name: str) -> None:
    class ChurnUnderPolicy(Churn):
        policy_name = name

    run_state_machine_as_test(ChurnUnderPolicy, settings=settings(max_examples=examples(60), deadline=None))


@every_policy
@given(workload=WORKLOADS, services=st.lists(st.integers(0, 2), min_size=60, max_size=60))
def test_exactly_queries_answer_exactly_their_multiples_however_late(
    name: str, workload: list[Query], services: list[int]
) -> None:
    """`services` is how many executions the machine manages at each update: overload whenever it is few."""
    scheduler = fill(LocalScheduler(policy(name)), workload)
    answered = defaultdict(list)
    for now, budget in enumerate(services, 1):
        for _ in range(budget):
            if (execution := scheduler.decide(now)) is not None:
                for query in execution.members:
                    answered[query].append(execution.as_of)
                scheduler.done(execution)
    for number, asked in enumerate(workload):
        times = answered[f"q{number}"]
        if asked.exactly:
            assert times == [asked.slide * multiple for multiple in range(1, len(times) + 1)]
        else:
            assert all(later > earlier for earlier, later in pairwise(times))


COSTS = st.lists(st.integers(1, 20), min_size=10, max_size=10)


@every_policy
@settings(deadline=None)
@given(workload=st.lists(ORDINARY, min_size=1, max_size=8), costs=COSTS)
def test_in_overload_nobody_starves(name: str, workload: list[Query], costs: list[int]) -> None:
    """From being due to being executed: all others once, and the execution in progress."""
    scheduler = fill(LocalScheduler(policy(name)), workload)
    # Several queries of one SLIDE are one task; its cost is that of its most expensive query.
    dearest: dict[tuple[str, int], int] = {}
    for query, cost in zip(workload, costs, strict=False):
        dearest[query.group, query.slide] = max(cost, dearest.get((query.group, query.slide), 0))

    def longest(_: str, execution: ScheduledTask) -> int:
        return max(dearest[due.task.group, due.task.key.slide] for due in execution.tasks)

    until, bound = 600, sum(dearest.values()) + max(dearest.values())
    runs = simulate({"": scheduler}, longest, s=1, until=until)
    for run in runs:
        for due in run.execution.tasks:
            own = dearest[due.task.group, due.task.key.slide]
            assert run.start - due.deadline <= bound - own
    assert all(until - scheduler.deadline_of(f"q{number}") <= bound for number in range(len(workload)))


@every_policy
@settings(deadline=None)
@given(workload=st.lists(ORDINARY, min_size=1, max_size=6), costs=COSTS, hog=st.integers(1, 20))
def test_nobody_starves_beside_an_exactly_query_that_cannot_keep_up(
    name: str, workload: list[Query], costs: list[int], hog: int
) -> None:
    """It owes ever more multiples, and has every second turn at most: then all others once takes twice as long."""
    scheduler = fill(LocalScheduler(policy(name)), workload)
    scheduler.add("hog", "hog", 1, exactly=True, now=0)
    cost = {f"q{number}": price for number, price in zip(range(len(workload)), costs, strict=False)} | {"hog": hog}

    def longest(_: str, execution: ScheduledTask) -> int:
        return max(cost[query] for query in execution.members)

    runs = simulate({"": scheduler}, longest, s=1, until=600)
    bound = sum(cost.values()) + max(cost.values()) + hog * (len(workload) + 2)
    for run in runs:
        for due in (due for due in run.execution.tasks if not due.task.exactly):
            assert run.start - due.deadline <= bound


@every_policy
@settings(deadline=None)
@given(workload=WORKLOADS, overload=st.integers(1, 40))
def test_after_overload_everybody_is_on_time_again(name: str, workload: list[Query], overload: int) -> None:
    s, end = 1_000, 20_000

    def cost(_: str, execution: ScheduledTask) -> int:
        return overload * 100 if execution.tasks[0].now < end else 1

    scheduler = LocalScheduler(policy(name))
    for number, query in enumerate(workload):
        scheduler.add(f"q{number}", query.group, query.slide * s, exactly=query.exactly, now=0)
    runs = simulate({"": scheduler}, cost, s=s, until=3 * end)
    recovered = end + overload * 100 + 2 * s
    assert all(due.on_time for run in runs if run.start >= recovered for due in run.execution.tasks)
    assert {query for run in runs if run.start >= recovered for query in run.execution.members} == {
        f"q{number}" for number in range(len(workload))
    }


@every_policy
@settings(deadline=None)
@given(
    workload=WORKLOADS,
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.integers(0, 9)), max_size=40),
)
def test_restoring_equals_no_restart_and_removed_queries_stay_removed(
    name: str, workload: list[Query], steps: list[tuple[int, int, bool, int]]
) -> None:
    """Each step: updates, executions the machine manages, a restart, and a query that leaves during the last one."""
    steady, restarted = (fill(LocalScheduler(policy(name)), workload) for _ in range(2))
    left = {f"q{number}" for number in range(len(workload))}
    now = 0
    for updates, budget, restart, leaving in steps:
        now += updates
        if restart:
            restarted = LocalScheduler.restore(json.loads(json.dumps(restarted.snapshot())), policy(name))
        for _ in range(budget):
            execution = steady.decide(now)
            assert execution == restarted.decide(now)
            if execution is None:
                break
            assert execution.members and set(execution.members) <= left
            if f"q{leaving}" in left and f"q{leaving}" in execution.members:
                left.remove(f"q{leaving}")
                steady.remove(f"q{leaving}", now)
                restarted.remove(f"q{leaving}", now)
            steady.done(execution)
            restarted.done(execution)
        assert steady.decide_early(now) == restarted.decide_early(now)
    assert steady.snapshot() == restarted.snapshot()
    assert {query for task in steady.tasks() for query in task.members} == left
