"""Commands about streams: CREATE, DROP, `create_stream`, and opening them again after a restart.

It makes running streams, each with its log, its rows, its panes and its queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sash.catalog import CLUSTER, Stream
from sash.core.clock import Clock
from sash.core.errors import CatalogError, CheckpointError, SashError
from sash.isolation import Isolation
from sash.runtime.answers.kept_result import KeptResults
from sash.runtime.commands.archive_commands import ArchiveCommands
from sash.runtime.commands.declare import check_name, check_same, checked, declared_stream
from sash.runtime.commands.index_commands import IndexCommands
from sash.runtime.commands.query_commands import MissingAggregateError, QueryCommands, is_periodic
from sash.runtime.continuous.plans import Plans, StreamPlans
from sash.runtime.periodic.cluster_tables import ClusterDirectories
from sash.runtime.records.catalog_history import stream_change, stream_of
from sash.runtime.session_parts import SessionParts
from sash.runtime.spark_pass import SparkPipeline, StreamSource
from sash.runtime.streams.pane_runtime import PaneRuntime, StreamStorage
from sash.runtime.streams.runner import Runner
from sash.runtime.streams.running_stream import RunningStream
from sash.spark.placement import PlaceChoice
from sash.sql import CreateStream
from sash.storage.window_files import WindowFiles


@dataclass(frozen=True)
class StreamMaker:
    """What all streams of a session share. Without a checkpoint, files are in the runner's scratch directory."""

    shared: SessionParts
    isolation: Isolation
    runner: Runner
    clock: Clock
    queries: QueryCommands
    plans: Plans

    def make(self, stream: Stream, pipeline: SparkPipeline) -> RunningStream:
        checkpoint, local = self.shared.checkpoint, pipeline.is_local
        log = None if checkpoint is None else checkpoint.log(stream)
        results = KeptResults(self.shared.handles, partial(is_periodic, stream.name))
        panes = PaneRuntime(
            StreamSource(stream, pipeline),
            self.shared.settings,
            self.isolation,
            self.queries.periodic_of(stream.name),
            self.queries,
            StreamStorage(log, self._files_for(stream, local), self._panes_for(stream, local), results),
            self.clock,
            self.shared.tables,
        )
        panes.input.is_wanted = self.runner.max_lag is not None
        placement = PlaceChoice(self.shared.settings.executor_rows, is_local=local)
        plans = StreamPlans(self.plans, stream.name, self.queries.continuous_of(stream.name), placement)
        return RunningStream(panes, self.clock, plans)

    def _files_for(self, stream: Stream, local: bool) -> WindowFiles | None:
        """The directory of stored rows that do not come to the driver."""
        if stream.keep_in != CLUSTER:
            return None
        if self.shared.checkpoint is not None:
            return self.shared.checkpoint.window_files(stream)
        return WindowFiles(self.runner.scratch_for_rows(stream, local))

    def _panes_for(self, stream: Stream, local: bool) -> ClusterDirectories | None:
        """The directory of panes that do not come to the driver; None without a place that executors see."""
        if (checkpoint := self.shared.checkpoint) is not None:
            return ClusterDirectories(partial(checkpoint.pane_directory, stream), durable=True, by_size=local)
        place = partial(self.runner.scratch_for_panes, stream)
        return ClusterDirectories(place, durable=False, by_size=True) if local else None


class StreamCommands:
    """`maker` makes a running stream out of a declared one."""

    def __init__(
        self, shared: SessionParts, maker: StreamMaker, indexes: IndexCommands, archives: ArchiveCommands
    ) -> None:
        self._shared = shared
        self._maker = maker
        self._indexes = indexes
        self._archives = archives
        # Streams of a checkpoint that were opened again, and that the program may still declare.
        self._restored: set[str] = set()
        # Those whose queries call an aggregate that the program has yet to create, by name.
        self._waiting: dict[str, tuple[Stream, MissingAggregateError]] = {}

    def declare(self, statement: CreateStream) -> None:
        """CREATE STREAM; after a restart a program may declare a stream again, with other options of the source."""
        from sash.spark.pipeline import Pipeline
        from sash.spark.sources import open_source, schema_of

        name = statement.name.lower()
        if name in self._restored:
            known = self._shared.catalog.stream(name)
            stream = replace(declared_stream(statement, statement.schema or known.source_schema), serial=known.serial)
            check_same(stream, known)
            frame = open_source(self._shared.spark, statement.source, stream.declared)
            self._shared.streams[name].redeclare(stream, Pipeline(stream, frame))
            self._restored.discard(name)
            return
        frame = open_source(self._shared.spark, statement.source, statement.schema)
        stream = declared_stream(statement, statement.schema or schema_of(frame))
        self.open(stream, partial(Pipeline, frame=frame))

    def open(self, stream: Stream, pipeline: Callable[[Stream], SparkPipeline]) -> None:
        """Open a new stream, or one that a checkpoint knows: the latter goes on where it stopped.

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
                running = streams[stream.name.lower()] = self._maker.make(stream, pipeline(stream))
                running.recover()
                if known is None:
                    history.append(stream_change(stream))
            except BaseException:
                streams.pop(stream.name.lower(), None)
                catalog.drop_stream(stream.name)
                raise
            if known is not None:
                self._indexes.restore(stream)
            self._archives.attach_to(stream)

    def restore(self) -> None:
        """After a restart: streams with a declared source are opened again."""
        for change in self._shared.history.streams().values():
            stream = stream_of(change)
            if stream.source is not None:
                self._reopen(stream)

    def restore_waiting(self) -> None:
        """Open the streams that have waited for an aggregate."""
        for stream, _ in list(self._waiting.values()):
            self._reopen(stream)

    def _reopen(self, stream: Stream) -> None:
        from sash.spark.pipeline import Pipeline
        from sash.spark.sources import open_source

        assert stream.source is not None
        name = stream.name.lower()
        frame = open_source(self._shared.spark, stream.source, stream.declared)
        try:
            self.open(stream, partial(Pipeline, frame=frame))
        except MissingAggregateError as error:
            self._waiting[name] = stream, error
            return
        self._waiting.pop(name, None)
        self._restored.add(name)

    def drop(self, name: str) -> None:
        with self._shared.lock:
            stream = self._shared.catalog.stream(name)
            if self._maker.runner.is_running(stream.name):
                raise CatalogError(f"stream '{stream.name}' is running; stop the session first")
            self._shared.catalog.check_unread_stream(stream.name)
            # The history comes first: if it cannot be written, nothing happens.
            self._shared.history.append({"change": "drop stream", "name": stream.name})
            self._shared.catalog.drop_stream(stream.name)
            running = self._shared.streams.pop(stream.name.lower())
            kept = running.stored_window
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
        """The wanted streams, once all streams of the checkpoint exist."""
        missing = [name for name in self._shared.history.streams() if name not in self._shared.streams]
        for name in missing:
            if name in self._waiting:
                raise self._waiting[name][1]
        if missing:
            raise CheckpointError(
                f"the checkpoint knows the stream{'s' * (len(missing) > 1)} {', '.join(missing)}, which this program "
                "has not created; create_stream it, or register its DataFrame, first, or use another checkpoint"
            )
        chosen = self.wanted()
        if not chosen:
            raise SashError(
                "nothing to run: no query is registered (session.register or REGISTER QUERY), no stream has KEEP, "
                "and none is archived"
            )
        return chosen
