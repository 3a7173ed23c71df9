"""What a session does with streams: CREATE, DROP, `create_stream`, and opening them again after a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sash.catalog import Stream
from sash.core.errors import CatalogError, CheckpointError, SashError
from sash.engine.commands.declare import check_name, check_same, checked, declared_stream
from sash.engine.commands.shared import Shared
from sash.engine.records.history import stream_change, stream_of
from sash.engine.streams.running import RunningStream
from sash.language import CreateStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sash.engine.spark_pass import SparkPipeline


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
