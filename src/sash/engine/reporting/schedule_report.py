"""The schedule as its user sees it: the price of other policies, and what was executed lately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sash.core.time import SECOND
from sash.engine.continuous.join_runtime import JoinRuntime
from sash.engine.periodic.group import PaneGroup
from sash.engine.streams.running import RunningStream
from sash.engine.timeline import Executed
from sash.scheduling import POLICY_NAMES
from sash.scheduling import policy as policy_named


def schedule_report(streams: dict[str, RunningStream], joins: Sequence[JoinRuntime]) -> dict[str, Any]:
    """Costs are the model's, per second of the stream's time; of row-based windows, which know none, per tuple."""
    groups = [
        (running.stream.name, group) for running in list(streams.values()) for group in running.runtime.groups.values()
    ]
    executed = [{"stream": stream, **asdict(each)} for stream, each in _executed(groups, joins)]
    return {
        "predicted_cost": {name: _predicted(name, groups, joins) for name in POLICY_NAMES},
        "executed": sorted(executed, key=lambda each: each["as_of"]),
    }


def _executed(groups: Sequence[tuple[str, PaneGroup]], joins: Sequence[JoinRuntime]) -> Iterator[tuple[str, Executed]]:
    for stream, group in groups:
        yield from ((stream, each) for each in group.timeline.executed(group))
    for join in joins:
        names = ", ".join(stream.name for stream in join.streams.values())
        yield from ((names, each) for each in join.executed())


def _predicted(policy: str, groups: Sequence[tuple[str, PaneGroup]], joins: Sequence[JoinRuntime]) -> float:
    chosen = policy_named(policy)
    of_panes = sum(group.schedule.predicted(chosen) * (1 if group.by_rows else SECOND) for _, group in groups)
    return of_panes + sum(join.predicted(chosen) * SECOND for join in joins)
