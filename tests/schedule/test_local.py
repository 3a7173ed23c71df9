"""What the engine relies on: phases, ties, EXACTLY, resting, recovery."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sash.schedule import LocalScheduler, TaskKey, policy
from tests.schedule.examples import drain, due, members, scheduler_of


def test_deadlines_start_at_multiples_after_now() -> None:
    scheduler = LocalScheduler(policy("conservative"))
    scheduler.add("a", "G1", 5, now=10)
    scheduler.add("b", "G1", 5, now=10, offset=2)
    scheduler.add("c", "G1", 4, now=10)
    assert [scheduler.deadline_of(name) for name in "abc"] == [15, 12, 12]


def test_a_fresh_stream_may_be_answered_at_its_first_update() -> None:
    scheduler = LocalScheduler(policy("conservative"))
    scheduler.add("a", "G1", 5, now=10, first=10)
    scheduler.add("b", "G1", 4, now=10, first=10)
    assert [scheduler.deadline_of(name) for name in "ab"] == [10, 12]


def test_nothing_runs_before_its_deadline() -> None:
    scheduler = scheduler_of(("a", 5))
    assert scheduler.decide(4) is None and scheduler.decide(5) is not None


def test_next_due_lets_the_engine_jump() -> None:
    scheduler = scheduler_of(("a", 5), ("b", 7))
    assert scheduler.next_due(4) is None and scheduler.next_due(100) == 5
    assert LocalScheduler(policy("conservative")).next_due(100) is None


def test_deciding_changes_nothing() -> None:
    scheduler = scheduler_of(("a", 5), ("b", 5), ("c", 10))
    assert scheduler.decide(10) == scheduler.decide(10)


def test_a_late_execution_answers_as_of_now_and_is_not_made_up_for() -> None:
    scheduler = scheduler_of(("a", 5))
    assert members(scheduler, 13) == [(13, ("a",))]
    assert scheduler.deadline_of("a") == 18


def test_an_exactly_task_answers_every_multiple_as_of_itself() -> None:
    scheduler = scheduler_of(("a", 5), exactly=True)
    assert members(scheduler, 17) == [(5, ("a",)), (10, ("a",)), (15, ("a",))]
    assert scheduler.deadline_of("a") == 20


def test_an_exactly_task_joins_others_only_when_on_time() -> None:
    for now, want in ((6, [(6, ("a", "b"))]), (7, [(7, ("a",)), (6, ("b",))])):
        scheduler = LocalScheduler(policy("conservative"))
        scheduler.add("a", "G1", 6, now=0)
        scheduler.add("b", "G1", 6, exactly=True, now=0)
        assert members(scheduler, now) == want


def test_an_exactly_query_has_no_part_in_multiples_before_it_came() -> None:
    scheduler = scheduler_of(("a", 5), exactly=True)
    scheduler.add("b", "G1", 5, exactly=True, now=12)
    assert members(scheduler, 15) == [(5, ("a",)), (10, ("a",)), (15, ("a", "b"))]


def test_an_exactly_query_left_alone_starts_with_its_own_multiple() -> None:
    scheduler = scheduler_of(("a", 5), exactly=True)
    scheduler.add("b", "G1", 5, exactly=True, now=12)
    scheduler.remove("a")
    assert members(scheduler, 15) == [(15, ("b",))]


def test_a_query_joins_its_sub_group_without_disturbing_its_phase() -> None:
    scheduler = scheduler_of(("a", 5))
    assert members(scheduler, 7) == [(7, ("a",))]
    scheduler.add("b", "G1", 5, now=8)
    assert scheduler.deadline_of("b") == 12
    assert members(scheduler, 12) == [(12, ("a", "b"))]


def test_ties_go_to_priority_then_name() -> None:
    scheduler = LocalScheduler(policy("conservative"))
    for name, group, priority in (("a", "G1", 0), ("b", "G2", 0), ("c", "G3", 5)):
        scheduler.add(name, group, 5, priority=priority, now=0)
    assert members(scheduler, 5) == [(5, ("c",)), (5, ("a",)), (5, ("b",))]


def test_a_task_has_the_highest_priority_of_its_members() -> None:
    scheduler = scheduler_of(("a", 5))
    scheduler.add("vip", "G1", 5, priority=3, now=0)
    scheduler.add("other", "G0", 5, priority=1, now=0)
    assert due(scheduler, 5).members == ("a", "vip")
    scheduler.remove("vip")
    assert scheduler.task_of("a").priority == 0 and due(scheduler, 5).members == ("other",)


def test_a_negative_priority_counts() -> None:
    scheduler = scheduler_of(("a", 5), priority=-2)
    assert scheduler.task_of("a").priority == -2


def test_a_query_is_scheduled_once() -> None:
    scheduler = scheduler_of(("a", 5))
    with pytest.raises(ValueError, match="'a' is scheduled already"):
        scheduler.add("a", "G1", 5, now=0)


def test_a_slide_is_positive() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        scheduler_of(("a", 0))


def test_the_last_query_of_a_sub_group_takes_the_phase_with_it() -> None:
    scheduler = scheduler_of(("a", 5))
    assert members(scheduler, 7) == [(7, ("a",))]
    scheduler.remove("a")
    assert scheduler.next_due(100) is None and scheduler.tasks() == []
    scheduler.add("a", "G1", 5, now=8)
    assert scheduler.deadline_of("a") == 10


def test_a_query_removed_while_it_runs_stays_removed() -> None:
    scheduler = scheduler_of(("a", 5), ("b", 10))
    execution = due(scheduler, 5)
    scheduler.remove("a")
    scheduler.done(execution)
    assert scheduler.next_due(100) == 10


def test_a_resting_task_sleeps_until_its_own_multiple() -> None:
    scheduler = scheduler_of(("a", 5))
    scheduler.postpone(scheduler.task_of("a"), until=92)
    assert scheduler.next_due(1_000) == 95
    scheduler.postpone(scheduler.task_of("a"), until=93)
    assert scheduler.next_due(1_000) == 95


def test_a_query_that_comes_while_its_task_rests_wakes_it() -> None:
    scheduler = scheduler_of(("a", 5))
    scheduler.postpone(scheduler.task_of("a"), until=92)
    scheduler.add("b", "G1", 5, now=31)
    assert scheduler.next_due(1_000) == 35


def test_a_resting_task_is_not_refreshed_when_idle() -> None:
    scheduler = scheduler_of(("a", 5))
    scheduler.add("exact", "G1", 3, exactly=True, now=0)
    early = scheduler.decide(1, gated=False)
    assert early is not None and early.members == ("a",) and scheduler.decide_early(1) == early
    scheduler.postpone(scheduler.task_of("a"), until=50)
    assert scheduler.decide(1, gated=False) is None and scheduler.decide_early(1) is None


def test_restoring_a_snapshot_continues_the_schedule() -> None:
    scheduler = scheduler_of(("a", 5), ("b", 5), ("c", 7))
    scheduler.add("exact", "G2", 3, offset=1, exactly=True, priority=2, access=9.5, post=1.25, now=0)
    for execution in drain(scheduler, 6):
        assert execution.members
    restored = LocalScheduler.restore(json.loads(json.dumps(scheduler.snapshot())), policy("conservative"))
    assert restored.snapshot() == scheduler.snapshot() and restored.tasks() == scheduler.tasks()
    assert members(restored, 20) == members(scheduler, 20)


def test_idle_time_refreshes_what_is_stale_and_leaves_exactly_alone() -> None:
    scheduler = scheduler_of(("slow", 9), ("fast", 5))
    scheduler.add("exact", "G1", 4, exactly=True, now=0)
    scheduler.add("other", "G2", 6, now=0)
    refreshed = []
    while (execution := scheduler.decide_early(2)) is not None:
        refreshed.append(execution.members)
        scheduler.done(execution)
    assert refreshed == [("fast", "slow"), ("other",)]
    assert [scheduler.deadline_of(query) for query in ("fast", "slow", "other", "exact")] == [7, 11, 8, 4]
    restored = LocalScheduler.restore(scheduler.snapshot(), policy("conservative"))
    assert restored.decide_early(2) is None and restored.decide_early(3) is not None


def test_without_sharing_idle_time_refreshes_one_by_one() -> None:
    scheduler = LocalScheduler(policy("no-sharing"))
    for query, slide in (("a", 5), ("b", 6)):
        scheduler.add(query, "G1", slide, now=0)
    execution = scheduler.decide_early(1)
    assert execution is not None and execution.members == ("a",)


def test_a_newcomer_is_stale_though_its_task_is_answered() -> None:
    scheduler = scheduler_of(("a", 5))
    assert members(scheduler, 5) == [(5, ("a",))]
    assert scheduler.decide_early(5) is None
    scheduler.add("b", "G1", 5, now=5)
    assert scheduler.decide_early(5) is not None


def test_tasks_have_names_that_explain_them() -> None:
    assert str(TaskKey("packets", 120_000_000, exactly=True)) == "packets SLIDE EXACTLY 2 min"
    task = scheduler_of(("a", 2_000_000)).task_of("a")
    assert (task.name, task.group, task.exactly) == ("G1 SLIDE 2 sec", "G1", False)


def test_what_is_under_way_is_nobodys_turn_until_it_is_done() -> None:
    scheduler = scheduler_of(("a", 5), ("b", 5), ("c", 10))
    begun = due(scheduler, 5)
    scheduler.begin(begun)
    assert begun.members == ("a", "b") and scheduler.decide(5) is None and scheduler.decide(9) is None
    assert scheduler.next_due(100) == 10 and due(scheduler, 12).members == ("c",)
    scheduler.done(replace(begun, as_of=7))
    assert scheduler.deadline_of("a") == 12 and due(scheduler, 12).members == ("c",)
    scheduler.done(due(scheduler, 12))
    assert due(scheduler, 12).members == ("a", "b")


def test_a_group_may_be_under_way_as_a_whole_and_be_changed_meanwhile() -> None:
    scheduler = scheduler_of(("a", 5), ("b", 7))
    for now in (5, 7):
        scheduler.begin(due(scheduler, now))
    assert scheduler.next_due(100) is None and scheduler.decide_early(50) is None
    scheduler.add("c", "G1", 4, now=7)
    scheduler.remove("b")
    assert [task.members for task in scheduler.tasks()] == [("c",), ("a",)]
    assert scheduler.next_due(100) == 8 and due(scheduler, 100).members == ("c",)
