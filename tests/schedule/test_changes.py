"""Queries that come, go, move and change their costs: when groups are planned anew, and what stays promised."""

from __future__ import annotations

from collections.abc import Sequence

from sash.core.time import Micros
from sash.schedule import LocalScheduler, SubGroupCost, policy
from sash.schedule.policies import Conservative
from tests.schedule.examples import due, members, scheduler_of


def test_a_group_is_planned_once_for_many_changes() -> None:
    planned = []

    class Counting(Conservative):
        def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
            planned.append(len(subgroups))
            return super().periods(subgroups)

    scheduler = LocalScheduler(Counting())
    for number in range(100):
        scheduler.add(f"q{number}", "G1", 1 + number % 10, access=number, post=0.5, now=0)
    scheduler.remove("q9", now=0)
    scheduler.reprice({"q8": (1.0, 2.0)}, now=0)
    assert planned == []
    assert scheduler.next_due(100) == 1 and scheduler.decide(0) is None and len(scheduler.tasks()) == 10
    assert planned == [10]
    scheduler.reprice({"q8": (1.0, 2.0)}, now=0)
    assert scheduler.next_due(100) == 1 and planned == [10]


def test_a_task_costs_its_largest_access_and_all_its_post_processing() -> None:
    seen: list[SubGroupCost] = []

    class Seeing(Conservative):
        def periods(self, subgroups: Sequence[SubGroupCost]) -> list[Micros]:
            seen[:] = subgroups
            return super().periods(subgroups)

    scheduler = LocalScheduler(Seeing())
    scheduler.add("a", "G1", 5, access=7, post=2, now=0)
    scheduler.add("b", "G1", 5, access=9, post=3, now=0)
    scheduler.add("c", "G1", 4, access=1, exactly=True, now=0)
    assert scheduler.next_due(9) == 4 and seen == [SubGroupCost(5, 9, 5), SubGroupCost(4, 1, 0, exactly=True)]
    scheduler.reprice({"b": (6.0, 1.0)}, now=0)
    assert scheduler.next_due(9) == 4 and seen[0] == SubGroupCost(5, 7, 3)
    scheduler.remove("a", now=0)
    assert scheduler.next_due(9) == 4 and seen[0] == SubGroupCost(5, 6, 1)


def test_other_costs_change_the_plan() -> None:
    scheduler = LocalScheduler(policy("hybrid"))
    scheduler.add("a", "G1", 2, access=9, now=0)
    scheduler.add("b", "G1", 3, access=14, now=0)
    assert scheduler.task_of("b").period == 2
    scheduler.reprice({"b": (30.0, 0.0)}, now=0)
    assert scheduler.task_of("b").period == 3


def test_a_longer_period_gets_back_in_step_but_not_later_than_promised() -> None:
    scheduler = LocalScheduler(policy("aggressive"))
    scheduler.add("slow", "G1", 6, now=0)
    scheduler.add("fast", "G1", 2, now=1)
    assert (scheduler.task_of("slow").period, scheduler.deadline_of("slow")) == (2, 2)
    scheduler.remove("fast", now=1)
    assert (scheduler.task_of("slow").period, scheduler.deadline_of("slow")) == (6, 2)
    assert members(scheduler, 2) == [(2, ("slow",))]
    assert scheduler.deadline_of("slow") == 6


def test_another_policy_after_recovery_assigns_other_periods() -> None:
    scheduler = scheduler_of(("slow", 6), ("fast", 2))
    assert members(scheduler, 2) == [(2, ("fast",))]
    restored = LocalScheduler.restore(scheduler.snapshot(), policy("aggressive"))
    assert [restored.task_of(query).period for query in ("slow", "fast")] == [2, 2]
    assert [restored.deadline_of(query) for query in ("slow", "fast")] == [4, 4], "a block has one deadline"
    again = LocalScheduler.restore(restored.snapshot(), policy("conservative"))
    assert [again.task_of(query).period for query in ("slow", "fast")] == [6, 2]


def test_a_query_moves_to_another_group_with_its_deadline() -> None:
    scheduler = scheduler_of(("a", 5), ("b", 5))
    assert members(scheduler, 7) == [(7, ("a", "b"))]
    scheduler.regroup("a", "G2", now=8)
    assert (scheduler.task_of("a").group, scheduler.deadline_of("a"), scheduler.deadline_of("b")) == ("G2", 12, 12)
    assert members(scheduler, 12) == [(12, ("b",)), (12, ("a",))]
    assert scheduler.deadline_of("a") == 15


def test_a_query_that_moves_hastens_its_new_task_if_it_was_promised_more() -> None:
    scheduler = LocalScheduler(policy("conservative"))
    scheduler.add("a", "G1", 5, offset=1, now=0)
    scheduler.add("b", "G2", 5, offset=1, now=1)
    assert members(scheduler, 4) == [(4, ("a",))]
    assert members(scheduler, 6) == [(6, ("b",))]
    scheduler.regroup("a", "G2", now=6)
    assert scheduler.deadline_of("b") == 9
    scheduler.regroup("b", "G2", now=6)
    assert members(scheduler, 9) == [(9, ("b", "a"))] and scheduler.deadline_of("b") == 11


def test_an_exactly_query_that_moves_has_every_multiple_once() -> None:
    scheduler = LocalScheduler(policy("conservative"))
    scheduler.add("a", "G1", 5, exactly=True, now=0)
    scheduler.add("b", "G2", 5, exactly=True, now=0)
    execution = due(scheduler, 12)
    assert execution.members == ("a",)
    scheduler.done(execution)
    scheduler.regroup("a", "G2", now=12)
    assert members(scheduler, 12) == [(5, ("b",)), (10, ("b", "a"))]
    scheduler.add("c", "G1", 5, exactly=True, now=12)
    scheduler.regroup("c", "G2", now=12)
    assert members(scheduler, 15) == [(15, ("b", "a", "c"))]


def test_an_exactly_task_that_is_late_goes_with_its_query() -> None:
    scheduler = LocalScheduler(policy("conservative"))
    scheduler.add("a", "G1", 5, exactly=True, now=0)
    scheduler.add("b", "G2", 5, exactly=True, now=10)
    scheduler.regroup("a", "G2", now=12)
    assert members(scheduler, 15) == [(5, ("a",)), (10, ("a",)), (15, ("b", "a"))]


def test_an_exactly_task_that_is_due_now_owes_nothing() -> None:
    """Others go before the next multiple that it owes, not before a due one."""
    scheduler = LocalScheduler(policy("no-sharing"))
    scheduler.add("a", "G1", 5, exactly=True, priority=1, now=0)
    scheduler.add("b", "G1", 10, now=0)
    assert members(scheduler, 10) == [(5, ("a",)), (10, ("a",)), (10, ("b",))]
    assert members(scheduler, 25) == [(15, ("a",)), (25, ("b",)), (20, ("a",)), (25, ("a",))]


def test_a_query_removed_and_added_again_while_it_runs_is_new() -> None:
    for exactly in (False, True):
        scheduler = scheduler_of(("a", 5), exactly=exactly)
        execution = due(scheduler, 12)
        scheduler.remove("a")
        scheduler.add("b", "G1", 5, exactly=exactly, now=12)
        scheduler.done(execution)
        assert scheduler.deadline_of("b") == 15
    scheduler = scheduler_of(("a", 5), exactly=True)
    execution = due(scheduler, 12)
    scheduler.remove("a")
    scheduler.add("a", "G1", 5, exactly=True, now=12)
    scheduler.done(execution)
    assert members(scheduler, 15) == [(15, ("a",))]
