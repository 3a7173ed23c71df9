"""The schedule as its user sees it: the price of other policies, and what was executed lately.

Every pane table is looked at by itself: a micro-batch waits for one of them at most, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from sash.core.time import SECOND
from sash.engine.continuous.join_runtime import JoinRuntime
from sash.engine.periodic.group import PaneGroup
from sash.engine.streams.running import RunningStream
from sash.engine.timeline import Executed
from sash.scheduling import POLICY_NAMES, Policy
from sash.scheduling import policy as policy_named
from sash.transactions import Isolation


class _Part(NamedTuple):
    """Of one pane table or one join: what each policy would cost per second, and what was executed."""

    costs: list[float]
    executed: list[dict[str, Any]]


def schedule_report(
    streams: dict[str, RunningStream], joins: Sequence[JoinRuntime], isolation: Isolation
) -> dict[str, Any]:
    """Costs are the model's, per second of the stream's time; of row-based windows, which know none, per tuple."""
    policies = [policy_named(name) for name in POLICY_NAMES]
    parts = [_join_part(join, policies) for join in joins]
    parts += [
        isolation.reading(partial(_group_part, running.stream.name, group, policies))
        for running in list(streams.values())
        for group in isolation.reading(running.runtime.all_groups)
    ]
    costs = [sum(part.costs[place] for part in parts) for place in range(len(policies))]
    executed = [each for part in parts for each in part.executed]
    return {
        "predicted_cost": dict(zip(POLICY_NAMES, costs, strict=True)),
        "executed": sorted(executed, key=lambda each: each["as_of"]),
    }


def _group_part(stream: str, group: PaneGroup, policies: Sequence[Policy]) -> _Part:
    unit = 1 if group.by_rows else SECOND
    costs = [cost * unit for cost in group.schedule.predicted(policies)]
    return _Part(costs, _told(stream, group.timeline.executed(group)))


def _join_part(join: JoinRuntime, policies: Sequence[Policy]) -> _Part:
    names = ", ".join(stream.name for stream in join.streams.values())
    return _Part([join.predicted(policy) * SECOND for policy in policies], _told(names, join.executed()))


def _told(stream: str, executed: Iterable[Executed]) -> list[dict[str, Any]]:
    # Not `asdict`, which copies every name: there are as many as the remembered executions gave answers.
    return [
        {"stream": stream, **vars(each), "turns": tuple(dict(vars(turn)) for turn in each.turns)} for each in executed
    ]
