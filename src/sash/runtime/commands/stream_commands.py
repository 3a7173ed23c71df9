"""What a session does with streams: CREATE, DROP, `create_stream`, and opening them again after a restart.

Makes running streams: where each has its log, its rows and its panes, and who its queries are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sash.catalog import CLUSTER, Stream
from sash.core.clock import Clock
from sash.core.errors import CatalogError, CheckpointError, SashError
from sash.isolation import Isolation
from sash.runtime.commands.declare import check_name, check_same, checked, declared_stream
from sash.runtime.commands.query_commands import QueryCommands
from sash.runtime.commands.session_state import Shared
from sash.runtime.continuous.plans import Plans, StreamPlans
from sash.runtime.periodic.cluster_tables import ClusterDirectories
from sash.runtime.records.catalog_history import stream_change, stream_of
from sash.runtime.records.checkpoint import Checkpoint
from sash.runtime.records.session_tables import Tables
from sash.runtime.settings import Settings
from sash.runtime.streams.runner import Runner
from sash.runtime.streams.running_stream import RunningStream
from sash.sql import CreateStream
from sash.storage.window_files import WindowFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sash.runtime.spark_pass import SparkPipeline


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


class StreamCommands:
    """`run` makes a running stream out of a declared one; `is_running` tells whether Spark reads a stream now."""

    def __init__(
        self,
        shared: Shared,
        spark: Callable[[], SparkSession],
        run: Callable[[Stream, SparkPipeline], RunningStream],
        is_running: Callable[[str], bool],
        restore_indexes: Callable[[Stream], None],
        attach_archives: Callable[[Stream], None],
    ) -> None:
        self._shared = shared
        self._spark = spark
        self._run = run
        self._is_running = is_running
        self._restore_indexes = restore_indexes
        self._attach_archives = attach_archives
        # Streams of a checkpoint that were opened again, and that the program may still declare.
        self._restored: set[str] = set()

    def declare(self, statement: CreateStream) -> None:
        """CREATE STREAM; after a restart a program may say it again, with other options of the source."""
        from sash.spark.pipeline import Pipeline
        from sash.spark.sources import open_source, schema_of

        name = statement.name.lower()
        if name in self._restored:
            known = self._shared.catalog.stream(name)
            stream = replace(declared_stream(statement, statement.schema or known.schema), serial=known.serial)
            check_same(stream, known)
            frame = open_source(self._spark(), statement.source, stream.declared)
            self._shared.streams[name].redeclare(stream, Pipeline(stream, frame))
            self._restored.discard(name)
            return
        frame = open_source(self._spark(), statement.source, statement.schema)
        stream = declared_stream(statement, statement.schema or schema_of(frame))
        self.open(stream, partial(Pipeline, frame=frame))

    def open(self, stream: Stream, pipeline: Callable[[Stream], SparkPipeline]) -> None:
        """A stream that is new, or that a checkpoint knows: then it goes on where it stopped.

        `pipeline` reads its micro-batches.
        """
        stream = checked(stream)
        check_name("stream", stream.name)
        catalog, history, streams = self._shared.catalog, self._shared.history, self._shared.streams
        with self._shared.lock:
            known = history.streams().get(stream.name.lower())
            if known is not None and stream.name.lower() not in streams:
                check_same(stream, stream_of(known))
            serial = history.version + 1 if known is None else stream_of(known).serial
            stream = replace(stream, serial=serial)
            catalog.add_stream(stream)
            try:
                running = streams[stream.name.lower()] = self._run(stream, pipeline(stream))
                running.recover()
                if known is None:
                    history.append(stream_change(stream))
            except BaseException:
                streams.pop(stream.name.lower(), None)
                catalog.drop_stream(stream.name)
                raise
            if known is not None:
                self._restore_indexes(stream)
            self._attach_archives(stream)

    def restore(self) -> None:
        """After a restart: streams with a declared source are opened again."""
        from sash.spark.pipeline import Pipeline
        from sash.spark.sources import open_source

        for change in self._shared.history.streams().values():
            stream = stream_of(change)
            if stream.source is not None:
                frame = open_source(self._spark(), stream.source, stream.declared)
                self.open(stream, partial(Pipeline, frame=frame))
                self._restored.add(stream.name.lower())

    def drop(self, name: str) -> None:
        with self._shared.lock:
            stream = self._shared.catalog.stream(name)
            if self._is_running(stream.name):
                raise CatalogError(f"stream '{stream.name}' is running; stop the session first")
            self._shared.catalog.check_unread_stream(stream.name)
            # First: what cannot be written does not happen.
            self._shared.history.append({"change": "drop stream", "name": stream.name})
            self._shared.catalog.drop_stream(stream.name)
            running = self._shared.streams.pop(stream.name.lower())
            kept = running.kept
            self._restored.discard(stream.name.lower())
            if kept is not None and kept.files is not None:
                kept.files.drop()
            running.cluster.drop()
            if self._shared.checkpoint is not None:
                self._shared.checkpoint.forget(stream)

    def wanted(self) -> list[RunningStream]:
        """The streams that some query or archive reads, or whose windows are stored, in the order of their names."""
        streams, queries = dict(self._shared.streams), self._shared.catalog.queries
        return [
            streams[name]
            for name in sorted(streams)
            if streams[name].is_stored or any(query.reads(name) for query in queries)
        ]

    def ready(self) -> list[RunningStream]:
        """The wanted streams, when all that the checkpoint knows are there."""
        missing = [name for name in self._shared.history.streams() if name not in self._shared.streams]
        if missing:
            raise CheckpointError(
                f"the checkpoint knows the stream{'s' * (len(missing) > 1)} {', '.join(missing)}, which this program "
                "has not created; create_stream it first, or use another checkpoint"
            )
        chosen = self.wanted()
        if not chosen:
            raise SashError(
                "nothing to run: no query is registered (session.register or REGISTER QUERY), no stream has KEEP, "
                "and none is archived"
            )
        return chosen
