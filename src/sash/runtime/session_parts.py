"""What the parts of a session share: settings, the catalog with its history and its lock, streams, queries, tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sash.catalog import Catalog
from sash.runtime.answers.registered_query import Query
from sash.runtime.records.catalog_history import CatalogHistory
from sash.runtime.records.checkpoint import Checkpoint
from sash.runtime.records.session_tables import Tables
from sash.runtime.settings import SessionSettings
from sash.runtime.streams.running_stream import RunningStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sash.runtime.spark_home import SparkHome


@dataclass
class SessionParts:
    """`streams` are those that exist, by lower-case name; `handles` are the queries as users hold them, by name.

    `checkpoint` is None where nothing is to survive. `settings` are the current ones.
    """

    catalog: Catalog
    history: CatalogHistory
    checkpoint: Checkpoint | None
    settings: SessionSettings = field(default_factory=SessionSettings)
    home: SparkHome | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    streams: dict[str, RunningStream] = field(default_factory=dict)
    handles: dict[str, Query] = field(default_factory=dict)
    tables: Tables = field(init=False)
    # Drops a query, by name and serial number, whose LIFETIME is over.
    end_life: Callable[[str, int], None] = field(init=False)

    def __post_init__(self) -> None:
        self.tables = Tables(self.catalog, self.history)

    def running(self, stream: str) -> RunningStream:
        return self.streams[self.catalog.stream(stream).name.lower()]

    def handle(self, name: str, serial: int | None) -> Query | None:
        """The handle of a registration while it is registered, or replaced by one that has the handle now.

        A query that is registered after a DROP has another handle.
        """
        found = self.handles.get(name)
        return found if found is not None and serial is not None and found.serial <= serial else None

    @property
    def spark(self) -> SparkSession:
        assert self.home is not None
        return self.home.session

    def unwritten(self, query: Query, sink: str) -> Path | None:
        """The directory of answers that a sink would not take."""
        return None if self.checkpoint is None else self.checkpoint.unwritten(query.name, query.serial, sink)
