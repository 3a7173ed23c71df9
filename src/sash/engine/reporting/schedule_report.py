"""The schedule as its user sees it: tasks and deadlines, the price of other policies, and what was executed lately."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sash.core.time import SECOND
from sash.engine.periodic.group import PaneGroup
from sash.engine.streams.running import RunningStream
from sash.scheduling import POLICY_NAMES
from sash.scheduling import policy as policy_named


def schedule_report(streams: dict[str, RunningStream]) -> dict[str, Any]:
    """Costs are the model's, per second of the stream's time; of row-based windows, which know none, per tuple."""
    groups = [
        (running.stream.name, group) for running in list(streams.values()) for group in running.runtime.groups.values()
    ]
    executed = [
        {"stream": stream, **asdict(each)} for stream, group in groups for each in group.timeline.executed(group)
    ]
    return {
        "predicted_cost": {name: _predicted(name, (group for _, group in groups)) for name in POLICY_NAMES},
        "executed": sorted(executed, key=lambda each: each["as_of"]),
    }


def _predicted(policy: str, groups: Iterable[PaneGroup]) -> float:
    chosen = policy_named(policy)
    return sum(group.schedule.predicted(chosen) * (1 if group.name.by_rows else SECOND) for group in groups)
