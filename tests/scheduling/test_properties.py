"""Properties of the scheduler, and the heaps against a scan of all d-values."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sash.scheduling import Conservative, LocalScheduler
from tests.scheduling.examples import drain

# (group, slide, exactly) of a query
QUERY = st.tuples(st.sampled_from(["G1", "G2"]), st.integers(1, 12), st.booleans())
WORKLOADS = st.lists(QUERY, min_size=1, max_size=12)


def scheduler_of(workload: list[tuple[str, int, bool]], now: int) -> LocalScheduler:
    scheduler = LocalScheduler(Conservative())
    for number, (group, slide, exactly) in enumerate(workload):
        scheduler.add(f"q{number}", group, slide, exactly=exactly, now=now)
    return scheduler


@given(WORKLOADS, WORKLOADS, st.integers(0, 20))
def test_without_overload_never_more_than_n_updates_between_executions(
    early: list[tuple[str, int, bool]], late: list[tuple[str, int, bool]], start: int
) -> None:
    workload = early + late
    scheduler = scheduler_of(early, start)
    last = dict.fromkeys((f"q{number}" for number in range(len(early))), start)
    for now in range(start + 1, start + 40):
        if now == start + 7:
            for number, (group, slide, exactly) in enumerate(late, len(early)):
                scheduler.add(f"q{number}", group, slide, exactly=exactly, now=now - 1)
                last[f"q{number}"] = now - 1
        for execution in drain(scheduler, now):
            last.update(dict.fromkeys(execution.members, now))
        assert all(now - at <= workload[int(query[1:])][1] for query, at in last.items())


@given(WORKLOADS, st.lists(st.integers(0, 2), min_size=60, max_size=60))
def test_exactly_queries_answer_exactly_their_multiples_however_late(
    workload: list[tuple[str, int, bool]], services: list[int]
) -> None:
    """`services` is how many executions the machine manages at each update: overload whenever it is few."""
    scheduler = scheduler_of(workload, now=0)
    answered = defaultdict(list)
    for now, budget in enumerate(services, 1):
        for _ in range(budget):
            if (execution := scheduler.decide(now)) is not None:
                for query in execution.members:
                    answered[query].append(execution.as_of)
                scheduler.done(execution)
    for number, (_, slide, exactly) in enumerate(workload):
        times = answered[f"q{number}"]
        if exactly:
            assert times == [slide * multiple for multiple in range(1, len(times) + 1)]
        else:
            assert all(later > earlier for earlier, later in pairwise(times))


class HeapsAgainstScan(RuleBasedStateMachine):
    """The model keeps d-values as algorithm 10 prints them: decremented at every update, scanned at every decision."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = LocalScheduler(Conservative())
        self.now = 0
        self.d: dict[tuple[str, int, bool], int] = {}
        self.members: dict[tuple[str, int, bool], dict[str, int]] = {}
        self.count = 0

    @rule(query=QUERY, priority=st.integers(-1, 2))
    def add(self, query: tuple[str, int, bool], priority: int) -> None:
        group, slide, exactly = query
        if exactly and self.d.get(query, 1) <= 0:
            return  # whose multiples count for a query that joins a late EXACTLY task: see test_local
        self.count += 1
        self.scheduler.add(f"q{self.count}", group, slide, exactly=exactly, priority=priority, now=self.now)
        self.members.setdefault(query, {})[f"q{self.count}"] = priority
        self.d.setdefault(query, slide - self.now % slide)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.members)))
        name = data.draw(st.sampled_from(sorted(self.members[task])))
        self.scheduler.remove(name)
        del self.members[task][name]
        if not self.members[task]:
            del self.members[task], self.d[task]

    @rule(updates=st.integers(1, 5))
    def update(self, updates: int) -> None:
        self.now += updates
        self.d = {task: d - updates for task, d in self.d.items()}

    @rule()
    def recover(self) -> None:
        snapshot = json.loads(json.dumps(self.scheduler.snapshot()))
        self.scheduler = LocalScheduler.restore(snapshot, Conservative())

    @rule()
    def execute(self) -> None:
        execution = self.scheduler.decide(self.now)
        joint = self.scan()
        if not joint:
            assert execution is None
            return
        assert execution is not None
        found = [((due.task.group, due.task.key.slide, due.task.exactly), due.d(s=1)) for due in execution.tasks]
        assert found == [(task, self.d[task]) for task in joint]
        assert execution.members == tuple(name for task in joint for name in self.members[task])
        self.scheduler.done(execution)
        for task in joint:
            self.d[task] = (self.d[task] if task[2] else 0) + task[1]

    def scan(self) -> list[tuple[str, int, bool]]:
        due = [task for task, d in self.d.items() if d <= 0]
        if not due:
            return []
        due.sort(key=lambda task: (self.d[task], -max(self.members[task].values()), task))
        first, lowest = due[0], self.d[due[0]]
        alike = [task for task in due if self.d[task] == lowest and (lowest == 0 or task[2] == first[2])]
        return [task for task in alike if task[0] == first[0]]

    @invariant()
    def the_next_deadline_is_the_lowest_d(self) -> None:
        assert self.scheduler.next_due(1_000_000) == min((self.now + d for d in self.d.values()), default=None)


TestHeapsAgainstScan = HeapsAgainstScan.TestCase
