"""What another process reads of what this one has written: through the records of the journal, and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from sash.runtime.records.journal import (
    JoinSnapshot,
    PlanProgress,
    ReplayedSettings,
    SavedJoinGroup,
    SavedRuntime,
    StreamSnapshot,
)
from sash.runtime.settings import Settings
from sash.storage.epochs import Snapshot


def reread_snapshot(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, state=json.loads(json.dumps(snapshot.state)))


def written(runtime: SavedRuntime) -> Snapshot:
    return StreamSnapshot(0, 0, ReplayedSettings.of(Settings()), {}, [], runtime, (0.0, 0.0)).record()


def reread(runtime: SavedRuntime) -> SavedRuntime:
    return StreamSnapshot.read(reread_snapshot(written(runtime))).runtime


def reread_group(group: SavedJoinGroup) -> SavedJoinGroup:
    snapshot = JoinSnapshot(PlanProgress(), group, [], "conservative", {})
    return JoinSnapshot.read(reread_snapshot(snapshot.record())).group
