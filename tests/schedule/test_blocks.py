"""A block of a plan is one task: one deadline, one execution, also when the plan is made in an overload (8.4.4)."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.schedule import LocalScheduler, PredictedQuery, ScheduledTask, policy, predicted_cost, simulate
from sash.schedule.simulate import SimulatedRun
from tests.schedule.examples import due, members
from tests.schedule.workloads import ORDINARY, Query, fill
from tests.support.examples import examples

SECOND = 1_000


def blocks(scheduler: LocalScheduler) -> list[list[str]]:
    """The queries of each block that has several sub-groups."""
    found: dict[tuple[str, int], list[list[str]]] = defaultdict(list)
    for task in scheduler.tasks():
        if not task.exactly:
            found[task.group, task.period].append(list(task.members))
    return [[query for part in parts for query in part] for parts in found.values() if len(parts) > 1]


def out_of_step(scheduler: LocalScheduler) -> list[list[str]]:
    return [block for block in blocks(scheduler) if len({scheduler.deadline_of(query) for query in block}) > 1]


@pytest.mark.parametrize("name", ["aggressive", "hybrid", "hybrid-late", "hybrid-late-pending"])
@settings(max_examples=examples(100))
@given(workload=st.lists(ORDINARY, min_size=2, max_size=10), later=st.lists(ORDINARY, max_size=4), data=st.data())
def test_a_block_has_one_deadline_whatever_is_late(
    name: str, workload: list[Query], later: list[Query], data: st.DataObject
) -> None:
    scheduler, now = fill(LocalScheduler(policy(name)), workload), 0
    for step in range(30):
        now += data.draw(st.integers(1, 5))
        if step % 5 == 4 and later:
            later.pop().add_to(scheduler, f"new{step}", now)
        execution = scheduler.decide(now)
        if execution is not None:
            together = [set(block) for block in blocks(scheduler)]
            executed = set(execution.members)
            assert all(block <= executed for block in together if block & executed), "a block is executed as a whole"
            scheduler.done(execution)
        assert not out_of_step(scheduler)


def test_a_sub_group_that_rested_returns_to_its_block() -> None:
    scheduler = LocalScheduler(policy("aggressive"))
    scheduler.add("fast", "G1", 4, now=0)
    scheduler.add("slow", "G1", 8, now=0)
    scheduler.postpone(scheduler.task_of("slow"), until=10)
    assert members(scheduler, 5) == [(5, ("fast",))] and members(scheduler, 9) == [(9, ("fast",))]
    assert members(scheduler, 12) == [(12, ("slow",))]
    assert members(scheduler, 13) == [(13, ("fast", "slow"))]


def test_a_query_that_comes_during_its_blocks_execution_is_answered_as_promised() -> None:
    scheduler = LocalScheduler(policy("aggressive"))
    scheduler.add("fast", "G1", 4, now=0)
    scheduler.add("slow", "G1", 8, now=0)
    under_way = due(scheduler, 4)
    scheduler.begin(under_way)
    scheduler.add("new", "G1", 12, now=4)
    assert scheduler.deadline_of("new") == 8
    scheduler.done(under_way)
    assert members(scheduler, 8) == [(8, ("fast", "slow", "new"))]


def test_a_restored_schedule_is_the_saved_one() -> None:
    """Also where a sub-group has not returned to its block yet: recovery repeats decisions."""
    scheduler = LocalScheduler(policy("aggressive"))
    for name, slide in (("a", 4), ("b", 8), ("c", 12)):
        scheduler.add(name, "G1", slide, now=0)
    scheduler.begin(due(scheduler, 4))
    scheduler.add("d", "G1", 16, now=4)
    scheduler.tasks()
    scheduler.postpone(scheduler.task_of("d"), until=11)
    restored = LocalScheduler.restore(scheduler.snapshot(), policy("aggressive"))
    deadlines = [[each.deadline_of(query) for query in "abcd"] for each in (scheduler, restored)]
    assert deadlines[0] == deadlines[1] and len(set(deadlines[0])) > 1


def papers_queries(number: int) -> dict[str, tuple[str, int, float]]:
    """Section 8.5: eight groups, windows of 20 to 100 s, slides of 1 s to half the window; access as the scan costs."""
    chance, found = random.Random(1), {}
    for group in range(8):
        for place, window in enumerate(chance.sample(range(20, 101), number // 8)):
            found[f"{group}.{place}"] = (f"G{group}", chance.randint(1, window // 2) * SECOND, float(window))
    return found


def at_a_demand_of_two(name: str, planned_at: int) -> tuple[LocalScheduler, list[SimulatedRun]]:
    """Ten minutes of executions that cost what their longest scan costs, twice what conservative has time for.

    Until `planned_at` the scheduler takes answers for so dear that no sub-group is moved.
    """
    queries, scheduler = papers_queries(240), LocalScheduler(policy(name))
    for query, (group, slide, access) in queries.items():
        scheduler.add(query, group, slide, now=0, access=access, post=1e6)
    jobs = [PredictedQuery(group, slide, False, access, 0.0) for group, slide, access in queries.values()]
    unit = 2 / predicted_cost(jobs, policy("conservative"))

    def cost(_: str, execution: ScheduledTask) -> int:
        return int(unit * max(queries[query][2] for query in execution.members))

    def plan() -> None:
        scheduler.reprice({query: (access, 0.0) for query, (_, _, access) in queries.items()}, planned_at)

    events = [(planned_at, plan)]
    return scheduler, simulate({"packets": scheduler}, cost, s=SECOND, until=600 * SECOND, events=events)


def answers_after(time: int, runs: Iterable[SimulatedRun]) -> int:
    return sum(len(run.execution.members) for run in runs if run.start >= time)


@pytest.mark.parametrize("name", ["hybrid", "hybrid-late-pending"])
def test_a_plan_made_in_an_overload_gets_in_step(name: str) -> None:
    _, from_the_start = at_a_demand_of_two(name, planned_at=0)
    scheduler, later = at_a_demand_of_two(name, planned_at=100 * SECOND)
    assert len(blocks(scheduler)) > 10 and not out_of_step(scheduler)
    assert answers_after(200 * SECOND, later) > 0.95 * answers_after(200 * SECOND, from_the_start)
