"""The papers' scheduling examples, as far as algorithms 9 and 10 go (thesis, sections 8.4.2 to 8.4.4, 8.5.1)."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sash.scheduling import Conservative, EarliestDeadlineFirst, Execution, LocalScheduler, Policy, joint_cost, policy
from sash.scheduling.cost import intervals_scanned, separate_cost
from tests.scheduling.examples import (
    SUBGROUP_NAMES,
    WINDOWS,
    drain,
    expected,
    inputs,
    seven_queries,
    simulate,
    with_d_values,
)


def sub_group_names(execution: Execution) -> list[str]:
    return [SUBGROUP_NAMES[due.task.key.slide] for due in execution.tasks]


def cost(execution: Execution) -> int:
    return joint_cost((WINDOWS[query] for query in execution.members), s=1)


def run_seven(chosen: Policy, horizon: tuple[int, int]) -> list[tuple[int, Execution]]:
    scheduler = seven_queries(chosen)
    return [(now, each) for now in range(horizon[0], horizon[1] + 1) for each in drain(scheduler, now)]


def test_sub_groups_hold_the_queries_of_one_slide() -> None:
    tasks = seven_queries(policy("conservative")).tasks()
    found = {SUBGROUP_NAMES[task.key.slide]: {"period": task.period, "queries": list(task.members)} for task in tasks}
    assert found == expected("seven.subgroups")["subgroups"]
    assert intervals_scanned(WINDOWS.values(), s=1) == expected("seven.subgroups")["synopsis_intervals_needed"]


def test_cost_of_executing_sub_groups_once() -> None:
    windows = inputs("seven.cost_once")["subgroups"]
    for names, once in expected("seven.cost_once")["cost"].items():
        assert joint_cost([length for name in names.split("+") for length in windows[name]], s=1) == once
    for name, scanned in expected("seven.cost_once")["intervals_scanned"].items():
        assert intervals_scanned(windows[name], s=1) == scanned


def test_two_sub_groups_cost_46_per_six_minutes() -> None:
    want = expected("seven.pair_cost")["conservative"]
    scheduler = seven_queries(Conservative())
    for query in ("Q6", "Q7"):
        scheduler.remove(query)
    executions = [each for now in range(1, 7) for each in drain(scheduler, now)]
    names = [sub_group_names(each) for each in executions]
    assert names.count(["G11", "G12"]) == want["joint"]
    assert names.count(["G11"]) == want["G11_alone"] and names.count(["G12"]) == want["G12_alone"]
    total = sum(map(cost, executions))
    assert total == want["total_per_6_min"] and Fraction(total, 6) == Fraction(want["per_minute"])


def test_conservative_costs_358_per_30_minutes_where_the_papers_print_349() -> None:
    assignment = expected("seven.five_assignments")["assignments"][0]
    total = sum(cost(each) for _, each in run_seven(Conservative(), (1, 30)))
    assert Fraction(total, 30) == Fraction(assignment["per_minute"])


def test_conservative_sequence_to_minute_30() -> None:
    want = expected("seven.sequence.conservative")
    ran = run_seven(Conservative(), inputs("seven.sequence.conservative")["horizon"])
    assert [[now, sub_group_names(each)] for now, each in ran] == want["executions"]
    assert len(ran) == want["executions_count"]
    assert sum(cost(each) for _, each in ran) == want["total_cost"]
    assert sum(len(each.members) for _, each in ran) == want["query_reexecutions"]


def test_no_sharing_is_earliest_deadline_first_over_sub_groups() -> None:
    want = expected("seven.no_sharing")
    ran = run_seven(EarliestDeadlineFirst(), inputs("seven.no_sharing")["horizon"])
    assert sum(cost(each) for _, each in ran) == want["no_sharing_subgroups"]["total_cost"]
    alone = sum(separate_cost([WINDOWS[query] for query in each.members], s=1) for _, each in ran)
    assert alone == want["every_query_alone"]["total_cost"]
    once = {query: joint_cost([window], s=1) for query, window in WINDOWS.items()}
    assert once == want["every_query_alone"]["cost_once"]


def test_two_medians_meet_every_six_minutes() -> None:
    want = expected("motivating.two_medians")["separate"]
    scheduler = LocalScheduler(Conservative())
    for query in inputs("motivating.two_medians")["queries"]:
        scheduler.add(query["id"], "G1", query["slide"], now=0)
    ran = [(now, each.members) for now in range(1, 13) for each in drain(scheduler, now)]
    assert [now for now, members in ran if "Q1" in members] == want["Q1"]
    assert [now for now, members in ran if "Q2" in members] == want["Q2"]
    assert [now for now, members in ran if len(members) == 2] == want["together"]


@pytest.mark.parametrize("name", ["overload.late", "overload.late_pending", "overload.figure_4d"])
def test_conservative_under_overload_joins_only_the_lowest_d(name: str) -> None:
    want, once = expected(name)["conservative"], inputs(name)["cost"]
    d = inputs(name)["d"]
    scheduler, now = with_d_values(Conservative(), d, dict.fromkeys(d, "G1"))
    order = [list(each.members) for each in drain(scheduler, now)]
    assert order[0] == want["V"] and order == want["order"]
    assert sum(max(once[task] for task in joint) for joint in order) == want["total_cost"]


def test_conservative_over_two_groups_serves_the_latest_task() -> None:
    want = expected("overload.two_groups")["conservative"]
    groups = {task: group for group, tasks in inputs("overload.two_groups")["groups"].items() for task in tasks}
    scheduler, now = with_d_values(Conservative(), inputs("overload.two_groups")["d"], groups)
    execution = scheduler.decide(now)
    assert execution is not None
    assert list(execution.members) == want["executed"] and execution.tasks[0].d(s=1) == want["v"]


@pytest.mark.parametrize("name", ["deadline.slide_2s", "deadline.late"])
def test_d_counts_updates_down_and_restarts_at_n(name: str) -> None:
    want, given = expected(name), inputs(name)
    scheduler = LocalScheduler(Conservative())
    now = given["n"] - given["d_before"]
    scheduler.add("q", "G1", given["n"], now=0, first=given["n"])
    d_after, on_time, latency = [], [], []
    for event in given["events"]:
        if event == "update" or event[0] == "update":
            now += 1
        else:
            execution = scheduler.decide(now)
            assert execution is not None
            on_time.append(execution.tasks[0].on_time)
            latency.append(execution.tasks[0].latency(s=1))
            scheduler.done(execution)
        d_after.append(scheduler.deadline_of("q") - now)
    assert (d_after, on_time) == (want["d_after"], want["on_time"])
    assert latency == want.get("latency_per_execution", latency)


def test_latency_counts_the_updates_beyond_the_slide() -> None:
    n = inputs("latency.definition")["slide"]
    averages = []
    for gaps in inputs("latency.definition")["updates_between_reexecutions"]:
        scheduler = LocalScheduler(Conservative(), gated=False)
        scheduler.add("q", "G1", n, now=0)
        now, latencies = 0, []
        for gap in gaps:
            now += gap
            execution = scheduler.decide(now)
            assert execution is not None
            latencies.append(execution.tasks[0].latency(s=1))
            scheduler.done(execution)
        averages.append(Fraction(sum(latencies), len(gaps)))
    assert averages == [Fraction(each) for each in expected("latency.definition")["average_latency"]]


@pytest.mark.parametrize(
    ("trace", "chosen", "gated"),
    [
        ("edf_gated", EarliestDeadlineFirst(), True),
        ("edf_work_conserving", EarliestDeadlineFirst(), False),
        ("conservative_gated", Conservative(), True),
    ],
)
def test_trace(trace: str, chosen: Policy, gated: bool) -> None:
    given = inputs("trace.generated")
    scheduler = LocalScheduler(chosen, gated)
    for name, task in given["tasks"].items():
        scheduler.add(name, str(task["group"]), task["period_n"] * given["s"], now=0)
    assert simulate(scheduler, given, until=48) == expected("trace.generated")[trace]
