"""The heaps against the algorithms as printed: d-values decremented at every update, scanned at every decision."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from sash.schedule import LocalScheduler, policy

# (group, slide, exactly) of a task
TASK = st.tuples(st.sampled_from(["G1", "G2"]), st.integers(1, 12), st.booleans())


class HeapsAgainstScan(RuleBasedStateMachine):
    name: str

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = LocalScheduler(policy(self.name))
        self.now = 0
        self.d: dict[tuple[str, int, bool], int] = {}
        self.members: dict[tuple[str, int, bool], dict[str, int]] = {}
        self.count = 0
        # The last execution answered an EXACTLY task late: others that are due have the next turn.
        self.repaid = False

    @rule(task=TASK, priority=st.integers(-1, 2))
    def add(self, task: tuple[str, int, bool], priority: int) -> None:
        group, slide, exactly = task
        if exactly and self.d.get(task, 1) <= 0:
            return  # whose multiples count for a query that joins a late EXACTLY task: see test_local
        self.count += 1
        self.scheduler.add(f"q{self.count}", group, slide, exactly=exactly, priority=priority, now=self.now)
        self.members.setdefault(task, {})[f"q{self.count}"] = priority
        self.d.setdefault(task, slide - self.now % slide)

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
        self.scheduler = LocalScheduler.restore(snapshot, policy(self.name))

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
        self.repaid = any(task[2] and self.d[task] < 0 for task in joint)
        for task in joint:
            self.d[task] = (self.d[task] if task[2] else 0) + task[1]

    def scan(self) -> list[tuple[str, int, bool]]:
        due = [task for task, d in self.d.items() if d <= 0]
        if not due:
            return []
        due.sort(key=lambda task: (self.d[task], -max(self.members[task].values()), task))
        first = due[0]
        if self.repaid and first[2] and self.d[first] < 0:
            first = next((task for task in due if not task[2]), first)
        if self.name == "no-sharing":
            return [first]
        highest = self.d[first]
        if highest < 0 and "late" in self.name:
            highest = 0 if self.name.endswith("pending") else -1
        joint = [task for task in due if self.d[task] <= highest and self.as_of(task) == self.as_of(first)]
        return [task for task in joint if task[0] == first[0]]

    def as_of(self, task: tuple[str, int, bool]) -> int:
        return self.d[task] if task[2] else 0

    @invariant()
    def the_next_deadline_is_the_lowest_d(self) -> None:
        assert self.scheduler.next_due(1_000_000) == min((self.now + d for d in self.d.values()), default=None)


@pytest.mark.parametrize(
    "policy_name", ["no-sharing", "conservative", "conservative-late", "conservative-late-pending"]
)
def test_the_heaps_decide_what_a_scan_decides(policy_name: str) -> None:
    class HeapsUnderPolicy(HeapsAgainstScan):
        name = policy_name

    run_state_machine_as_test(HeapsUnderPolicy, settings=settings(deadline=None))
