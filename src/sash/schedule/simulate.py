"""The schedulers against a virtual clock, for the papers' experiments, without any data (section 8.5).

    clock ──► events until now ──► decide(now) of every local scheduler ──► shares: whose turn ──► cost ──► Run
      ▲                            now = the last update                                            │
      └───────────────────────── the end of the execution, or the next update ◄─────────────────────┘

An execution is never interrupted; updates, queries that come and queries that go wait until it is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from sash.core.time import Micros
from sash.schedule.local import LocalScheduler
from sash.schedule.task import ScheduledTask
from sash.schedule.time_shares import SharedTime

# The time of an event, and its action: a query that comes or goes.
Event = tuple[Micros, Callable[[], object]]


@dataclass(frozen=True)
class SimulatedRun:
    """One execution, by one of the local schedulers."""

    start: Micros
    end: Micros
    scheduler: str
    execution: ScheduledTask


def simulate(
    schedulers: Mapping[str, LocalScheduler],
    cost: Callable[[str, ScheduledTask], Micros],
    *,
    s: Micros,
    until: Micros,
    gated: bool = True,
    shares: SharedTime | None = None,
    events: Iterable[Event] = (),
) -> list[SimulatedRun]:
    """All executions that start before `until`, when the synopses are updated every s.

    `cost` says how long an execution of a scheduler takes. Without `shares`, the most urgent task of all is next.

    >>> from sash.schedule.policies import policy
    >>> scheduler = LocalScheduler(policy("conservative"))
    >>> scheduler.add("q1", "max", 2, now=0)
    >>> scheduler.add("q2", "max", 3, now=0)
    >>> for run in simulate({"packets": scheduler}, lambda name, execution: 2, s=1, until=9):
    ...     print(run.start, run.end, *run.execution.members)
    2 4 q1
    4 6 q2
    6 8 q1
    8 10 q2
    """
    clock, runs = 0, []
    waiting = sorted(events, key=lambda event: event[0], reverse=True)
    while clock < until:
        while waiting and waiting[-1][0] <= clock:
            waiting.pop()[1]()
        chosen = _choose(schedulers, clock // s * s, gated, shares)
        if chosen is None:
            clock = (clock // s + 1) * s
            continue
        name, execution = chosen
        took = cost(name, execution)
        schedulers[name].done(execution)
        if shares is not None:
            shares.charge(name, took)
        runs.append(SimulatedRun(clock, clock + took, name, execution))
        clock += took
    return runs


def _choose(
    schedulers: Mapping[str, LocalScheduler], now: Micros, gated: bool, shares: SharedTime | None
) -> tuple[str, ScheduledTask] | None:
    decided = {name: scheduler.decide(now, gated) for name, scheduler in schedulers.items()}
    backlogged = {name: execution for name, execution in decided.items() if execution is not None}
    if not backlogged:
        return None
    if shares is not None:
        name = shares.choose(backlogged)
    else:
        name = min(backlogged, key=lambda each: (backlogged[each].tasks[0].deadline, each))
    return name, backlogged[name]


def throughput(runs: Iterable[SimulatedRun], duration: Micros) -> float:
    """Re-executions of queries per unit of time."""
    return sum(len(run.execution.members) for run in runs) / duration


def latencies(runs: Iterable[SimulatedRun], slides: Mapping[str, Micros], s: Micros) -> dict[str, list[int]]:
    """For each query, by how many updates the times between its re-executions exceeded its SLIDE."""
    answered = defaultdict(list)
    for run in runs:
        for query in run.execution.members:
            answered[query].append(run.execution.as_of)
    return {
        query: [max(0, (later - earlier - slides[query]) // s) for earlier, later in pairwise(times)]
        for query, times in answered.items()
    }
