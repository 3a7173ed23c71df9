"""A stream runtime's state as a snapshot: JSON for the small things, one Arrow table per group for its panes.

Rows of panes are stored with their key values, not with dictionary codes (synopses/snapshot.py).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sash.core.errors import CheckpointError
from sash.engine.group import PeriodicGroup
from sash.engine.stream import StreamRuntime
from sash.scheduling import LocalScheduler, Policy


def save(runtime: StreamRuntime) -> tuple[dict[str, Any], list[pa.Table]]:
    """The runtime's state; the queries themselves are in the catalog."""
    groups, tables = [], []
    for group in runtime.groups.values():
        groups.append(_save_group(group))
        tables.append(group.synopsis.to_table())
    state = {
        "latest": runtime.latest,
        "watermark": runtime.watermark,
        "statistics": vars(runtime.statistics).copy(),
        "groups": groups,
    }
    return state, tables


def _save_group(group: PeriodicGroup) -> dict[str, Any]:
    return {
        "keys": [key.sql for key in group.keys],
        "length": group.length,
        "now": group.now,
        "origin": group.origin,
        "retained_from": group.retained_from,
        "coarse": group.coarse,
        "since": group.synopsis.save_since(),
        "scheduled": sorted(group.scheduled),
        "scheduler": group.scheduler.snapshot(),
        "statistics": vars(group.statistics).copy(),
        "queries": {
            name: {field: getattr(active, field) for field in ("valid_from", "ends_at", "resting", "lateness")}
            for name, active in group.queries.items()
        },
    }


def load(runtime: StreamRuntime, state: dict[str, Any], tables: list[pa.Table], policy: Policy) -> None:
    """Put a snapshot's state into a runtime that has the same queries and no data yet."""
    runtime.latest, runtime.watermark = state["latest"], state["watermark"]
    vars(runtime.statistics).update(state["statistics"])
    by_keys = {tuple(key.sql for key in keys): group for keys, group in runtime.groups.items()}
    for saved, table in zip(state["groups"], tables, strict=True):
        group = by_keys.get(tuple(saved["keys"]))
        if group is None:
            raise CheckpointError(f"the checkpoint of stream '{runtime.stream.name}' has panes that no query reads")
        _load_group(group, saved, table, policy)


def _load_group(group: PeriodicGroup, saved: dict[str, Any], table: pa.Table, policy: Policy) -> None:
    group.length, group.now, group.origin = saved["length"], saved["now"], saved["origin"]
    group.retained_from = saved["retained_from"]
    group.coarse = [(length, until) for length, until in saved["coarse"]]
    group.synopsis.load(table, saved["since"])
    group.scheduler = LocalScheduler.restore(saved["scheduler"], policy)
    group.scheduled = set(saved["scheduled"])
    vars(group.statistics).update(saved["statistics"])
    for name, active in group.queries.items():
        vars(active).update(saved["queries"][name])
