"""A stream runtime's state as a snapshot: JSON for the small things, one Arrow table per group for its panes.

Rows of panes are stored with their key values, not with dictionary codes (synopses/snapshot.py).
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from sash.core.errors import CheckpointError
from sash.engine.group import PaneGroup
from sash.engine.stream import StreamRuntime
from sash.scheduling import LocalScheduler, Policy
from sash.synopses.readings import TableName


def save(runtime: StreamRuntime) -> tuple[dict[str, Any], list[pa.Table]]:
    """The runtime's state; the queries themselves are in the catalog."""
    groups, tables = [], []
    for group in runtime.groups.values():
        groups.append(_save_group(group))
        tables.append(group.synopsis.to_table())
    state = {
        "latest": runtime.latest,
        "watermark": runtime.watermark,
        "counted": runtime.counted,
        "waiting": runtime.waiting,
        "queries": {
            name: {
                **{field: getattr(active, field) for field in ("ends_at", "resting", "lateness")},
                "valid_from": [bound.valid_from for bound in active.readings],
            }
            for name, active in runtime.active.items()
        },
        "statistics": vars(runtime.statistics).copy(),
        "groups": groups,
    }
    return state, tables


def _save_group(group: PaneGroup) -> dict[str, Any]:
    return {
        "name": _saved_name(group.name),
        "length": group.length,
        "now": group.now,
        "origin": group.origin,
        "retained_from": group.retained_from,
        "history_from": group.history_from,
        "stamps": group.save_stamps(),
        "coarse": group.coarse,
        "since": group.synopsis.save_since(),
        "scheduled": sorted(group.scheduled),
        "scheduler": group.scheduler.snapshot(),
        "statistics": vars(group.statistics).copy(),
    }


def _saved_name(name: TableName) -> list[object]:
    return [[key.sql for key in name.keys], name.by_rows, [key.sql for key in name.partition]]


def load(runtime: StreamRuntime, state: dict[str, Any], tables: list[pa.Table], policy: Policy) -> None:
    """Put a snapshot's state into a runtime that has the same queries and no data yet."""
    runtime.latest, runtime.watermark = state["latest"], state["watermark"]
    runtime.counted, runtime.waiting = state["counted"], state["waiting"]
    vars(runtime.statistics).update(state["statistics"])
    by_name = {json.dumps(_saved_name(name)): group for name, group in runtime.groups.items()}
    for saved, table in zip(state["groups"], tables, strict=True):
        group = by_name.get(json.dumps(saved["name"]))
        if group is None:
            raise CheckpointError(f"the checkpoint of stream '{runtime.stream.name}' has panes that no query reads")
        _load_group(group, saved, table, policy)
    for name, active in runtime.active.items():
        saved = dict(state["queries"][name])
        for bound, since in zip(active.readings, saved.pop("valid_from"), strict=True):
            bound.valid_from = since
        vars(active).update(saved)


def _load_group(group: PaneGroup, saved: dict[str, Any], table: pa.Table, policy: Policy) -> None:
    group.length, group.now, group.origin = saved["length"], saved["now"], saved["origin"]
    group.retained_from, group.history_from = saved["retained_from"], saved["history_from"]
    group.load_stamps(saved["stamps"])
    group.coarse = [(length, until) for length, until in saved["coarse"]]
    group.synopsis.load(table, saved["since"])
    group.scheduler = LocalScheduler.restore(saved["scheduler"], policy)
    group.scheduled = set(saved["scheduled"])
    vars(group.statistics).update(saved["statistics"])
