"""The worked examples of `tests/golden/scheduling.json`, and how its sub-groups are put into a scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sash.core.time import Micros
from sash.scheduling import Execution, LocalScheduler, Policy

GOLDEN = Path(__file__).parents[1] / "golden" / "scheduling.json"
EXAMPLES: dict[str, Any] = {each["id"]: each for each in json.loads(GOLDEN.read_text())["examples"]}

QUERIES: list[dict[str, Any]] = EXAMPLES["scheduling.seven.subgroups"]["inputs"]["queries"]
WINDOWS: dict[str, int] = {query["id"]: query["window"] for query in QUERIES}
# The sub-groups' names in the papers, by the SLIDE of their queries.
SUBGROUP_NAMES = {2: "G11", 3: "G12", 5: "G13"}


def inputs(name: str) -> Any:
    return EXAMPLES[f"scheduling.{name}"]["inputs"]


def expected(name: str) -> Any:
    return EXAMPLES[f"scheduling.{name}"]["expected"]


def seven_queries(policy: Policy) -> LocalScheduler:
    scheduler = LocalScheduler(policy)
    for query in QUERIES:
        scheduler.add(query["id"], "G1", query["slide"], window=query["window"], now=0)
    return scheduler


def with_d_values(policy: Policy, d: Mapping[str, int], groups: Mapping[str, str]) -> tuple[LocalScheduler, Micros]:
    """A scheduler whose tasks have these d-values, and the time at which they have them (s = 1).

    Each name is a task of its own: the slides differ, and offsets put the deadlines where they shall be.
    """
    now = 10
    scheduler = LocalScheduler(policy)
    for index, (name, left) in enumerate(d.items()):
        scheduler.add(name, groups[name], 100 + index, offset=now + left, now=0, first=now + left)
    return scheduler, now


def drain(scheduler: LocalScheduler, now: Micros) -> Iterator[Execution]:
    """Everything that is due at this update, as the engine runs it."""
    while (execution := scheduler.decide(now)) is not None:
        yield execution
        scheduler.done(execution)


def simulate(scheduler: LocalScheduler, given: Any, until: int) -> list[list[Any]]:
    """The example's rules: an execution takes time, and updates during it are applied at the next decision."""
    s, now = given["s"], 0
    trace: list[list[Any]] = []
    while now < until:
        execution = scheduler.decide(now // s * s)
        if execution is None:
            now = (now // s + 1) * s
            continue
        trace.append([now, {due.task.members[0]: due.d(s) for due in execution.tasks}])
        scheduler.done(execution)
        now += max(given["tasks"][query]["execution_time"] for query in execution.members)
    return trace
