"""The simulator: events that wait for an execution, whose turn it is, and the measurements."""

from __future__ import annotations

from functools import partial

from sash.schedule import (
    LocalScheduler,
    ScheduledTask,
    SharedTime,
    SimulatedRun,
    latencies,
    policy,
    simulate,
    throughput,
)


def scheduler_of(**slides: int) -> LocalScheduler:
    scheduler = LocalScheduler(policy("conservative"))
    for query, slide in slides.items():
        scheduler.add(query, "G1", slide, now=0)
    return scheduler


def story(runs: list[SimulatedRun]) -> list[tuple[int, int, int, str]]:
    return [(run.start, run.execution.as_of, run.end, " ".join(run.execution.members)) for run in runs]


def test_an_execution_answers_as_of_the_last_update_before_it() -> None:
    runs = simulate({"": scheduler_of(a=4, b=6)}, lambda name, execution: 5, s=2, until=20)
    assert story(runs) == [(4, 4, 9, "a"), (9, 8, 14, "b"), (14, 14, 19, "a"), (19, 18, 24, "b")]


def test_queries_come_and_go_between_executions() -> None:
    scheduler = scheduler_of(a=2)
    events = [(7, partial(scheduler.remove, "a", now=7)), (3, partial(scheduler.add, "b", "G1", 3, now=3))]
    runs = simulate({"": scheduler}, lambda name, execution: 2, s=1, until=13, events=events)
    assert story(runs) == [(2, 2, 4, "a"), (4, 4, 6, "a"), (6, 6, 8, "a b"), (9, 9, 11, "b"), (12, 12, 14, "b")]


def test_without_shares_the_most_urgent_task_of_all_is_next() -> None:
    schedulers = {"x": scheduler_of(a=3), "y": scheduler_of(b=2)}
    runs = simulate(schedulers, lambda name, execution: 2, s=1, until=9)
    assert [run.scheduler for run in runs] == ["y", "x", "y", "x"]


def test_shares_divide_the_time_by_weight() -> None:
    schedulers = {name: scheduler_of(a=1) for name in ("x", "y")}
    shares = SharedTime()
    shares.set_weight("x", 3)
    cost = {"x": 2, "y": 5}
    runs = simulate(schedulers, lambda name, execution: cost[name], s=1, until=2_000, shares=shares)
    time = {name: sum(run.end - run.start for run in runs if run.scheduler == name) for name in cost}
    assert abs(time["x"] / 3 - time["y"]) <= 5


def test_idle_time_is_used_when_nothing_gates_it() -> None:
    runs = simulate({"": scheduler_of(a=4)}, lambda name, execution: 3, s=2, until=7, gated=False)
    assert story(runs) == [(0, 0, 3, "a"), (3, 2, 6, "a"), (6, 6, 9, "a")]


def test_throughput_and_latency() -> None:
    def cost(name: str, execution: ScheduledTask) -> int:
        return 5

    runs = simulate({"": scheduler_of(a=4, b=6)}, cost, s=2, until=20)
    assert throughput(runs, duration=20) == 4 / 20
    assert latencies(runs, {"a": 4, "b": 6}, s=2) == {"a": [3], "b": [2]}
