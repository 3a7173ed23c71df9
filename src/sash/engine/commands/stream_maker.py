"""Makes running streams: where each has its log, its rows and its panes, and who its queries are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sash.catalog import CLUSTER, Stream
from sash.core.clock import Clock
from sash.engine.commands.query_commands import QueryCommands
from sash.engine.continuous.plans import Plans, StreamPlans
from sash.engine.periodic.cluster_tables import ClusterDirectories
from sash.engine.records.checkpoint import Checkpoint
from sash.engine.records.tables import Tables
from sash.engine.settings import Settings
from sash.engine.streams.runner import Runner
from sash.engine.streams.running import RunningStream
from sash.storage.window_files import WindowFiles
from sash.transactions import Isolation

if TYPE_CHECKING:
    from sash.engine.spark_pass import SparkPipeline


@dataclass(frozen=True)
class StreamMaker:
    """What all streams of a session have in common. Without a checkpoint, files are where the runner puts scratch."""

    settings: Callable[[], Settings]
    isolation: Isolation
    level: str
    checkpoint: Checkpoint | None
    runner: Runner
    clock: Clock
    queries: QueryCommands
    plans: Plans
    tables: Tables

    def make(self, stream: Stream, pipeline: SparkPipeline) -> RunningStream:
        running = RunningStream(
            stream,
            pipeline,
            self.settings(),
            self.isolation,
            self.queries.periodic_of(stream.name),
            self.queries.take,
            None if self.checkpoint is None else self.checkpoint.log(stream),
            self.clock,
            StreamPlans(self.plans, stream.name, self.queries.continuous_of(stream.name)),
            self.tables,
            self.level,
            self._files_for(stream, pipeline.is_local),
            self._panes_for(stream, pipeline.is_local),
        )
        running.input.is_wanted = self.runner.max_lag is not None
        return running

    def _files_for(self, stream: Stream, local: bool) -> WindowFiles | None:
        """Where the rows of a stored window are that do not come to the driver."""
        if stream.keep_in != CLUSTER:
            return None
        if self.checkpoint is not None:
            return self.checkpoint.window_files(stream)
        return WindowFiles(self.runner.scratch_for_rows(stream, local))

    def _panes_for(self, stream: Stream, local: bool) -> ClusterDirectories | None:
        """Where the panes are that do not come to the driver; None without a place that executors see."""
        if self.checkpoint is not None:
            return ClusterDirectories(partial(self.checkpoint.pane_directory, stream), durable=True, by_size=local)
        place = partial(self.runner.scratch_for_panes, stream)
        return ClusterDirectories(place, durable=False, by_size=True) if local else None
