"""What the parts of a session share: the catalog with its history, the lock that guards it, the running streams."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sash.catalog import Catalog
from sash.runtime.records.catalog_history import CatalogHistory
from sash.runtime.records.checkpoint import Checkpoint
from sash.runtime.streams.running_stream import RunningStream


@dataclass(frozen=True)
class Shared:
    """`streams` are those that exist, by lower-case name; `checkpoint` is None where nothing is to survive."""

    catalog: Catalog
    history: CatalogHistory
    checkpoint: Checkpoint | None
    lock: threading.RLock = field(default_factory=threading.RLock)
    streams: dict[str, RunningStream] = field(default_factory=dict)

    def running(self, stream: str) -> RunningStream:
        return self.streams[self.catalog.stream(stream).name.lower()]
