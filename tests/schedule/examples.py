"""The worked examples of `tests/golden/scheduling.json`, and how its sub-groups are put into a scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sash.core.time import Micros
from sash.schedule import LocalScheduler, Policy, ScheduledTask, SubGroupCost, joint_cost, policy

GOLDEN = Path(__file__).parents[1] / "golden" / "scheduling.json"
EXAMPLES: dict[str, Any] = {each["id"]: each for each in json.loads(GOLDEN.read_text())["examples"]}
# The examples that some test has asked for.
EXERCISED: set[str] = set()

QUERIES: list[dict[str, Any]] = EXAMPLES["scheduling.seven.subgroups"]["inputs"]["queries"]
WINDOWS: dict[str, int] = {query["id"]: query["window"] for query in QUERIES}
# The sub-groups' names in the papers, by the SLIDE of their queries.
SUBGROUP_NAMES = {2: "G11", 3: "G12", 5: "G13"}
# The papers' names of algorithms, and ours.
ALGORITHMS = {
    "edf": "no-sharing",
    "conservative": "conservative",
    "late": "conservative-late",
    "late_pending": "conservative-late-pending",
}


def golden(*names: str) -> pytest.MarkDecorator:
    """Run a test with the inputs and the expected values of these examples, as `given` and `want`."""
    identifiers = [f"scheduling.{name}" for name in names]
    EXERCISED.update(identifiers)
    cases = [(EXAMPLES[each]["inputs"], EXAMPLES[each]["expected"]) for each in identifiers]
    return pytest.mark.parametrize(("given", "want"), cases, ids=names)


def seven_queries(chosen: Policy) -> LocalScheduler:
    scheduler = LocalScheduler(chosen)
    for query in QUERIES:
        scheduler.add(query["id"], "G1", query["slide"], access=joint_cost([query["window"]], s=1), now=0)
    return scheduler


def seven_costs() -> list[SubGroupCost]:
    """The three sub-groups of the seven queries: what one execution of each costs."""
    windows: dict[int, list[int]] = {}
    for query in QUERIES:
        windows.setdefault(query["slide"], []).append(query["window"])
    return [SubGroupCost(slide, joint_cost(lengths, s=1)) for slide, lengths in windows.items()]


def with_d_values(chosen: Policy, d: Mapping[str, int], groups: Mapping[str, str]) -> tuple[LocalScheduler, Micros]:
    """A scheduler whose tasks have these d-values, and the time at which they have them (s = 1).

    Each name is a task of its own: the slides differ, and offsets put the deadlines where they shall be.
    """
    now = 10
    scheduler = LocalScheduler(chosen)
    for index, (name, left) in enumerate(d.items()):
        scheduler.add(name, groups[name], 100 + index, offset=now + left, now=0, first=now + left)
    return scheduler, now


def drain(scheduler: LocalScheduler, now: Micros) -> Iterator[ScheduledTask]:
    """Everything that is due at this update, as the engine runs it."""
    while (execution := scheduler.decide(now)) is not None:
        yield execution
        scheduler.done(execution)


def scheduler_of(*queries: tuple[str, int], exactly: bool = False, priority: int = 0) -> LocalScheduler:
    scheduler = LocalScheduler(policy("conservative"))
    for name, slide in queries:
        scheduler.add(name, "G1", slide, exactly=exactly, priority=priority, now=0)
    return scheduler


def members(scheduler: LocalScheduler, now: int) -> list[tuple[int, tuple[str, ...]]]:
    return [(each.as_of, each.members) for each in drain(scheduler, now)]


def due(scheduler: LocalScheduler, now: int) -> ScheduledTask:
    execution = scheduler.decide(now)
    assert execution is not None
    return execution


def per_minute(cost: object) -> Fraction:
    """A cost as the examples print it, such as 57/5."""
    return Fraction(str(cost))
