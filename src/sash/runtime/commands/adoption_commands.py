"""Registering a streaming DataFrame: its source becomes a stream, and its aggregation a query over the stream.

DataFrames that read the same rows share their stream. It has a name made of what it reads, unless the program gives it
one, so that a program finds its streams again after a restart. Spark's windows are closed on the left, and count late
tuples as long as they are not complete: CLOSED LEFT, LATE REVISE.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sash.catalog import Catalog, Stream
from sash.core.errors import CatalogError
from sash.runtime.answers.registered_query import Query
from sash.runtime.commands.declare import checked
from sash.runtime.commands.stream_commands import StreamCommands
from sash.runtime.compiler import as_select, compile_panes
from sash.runtime.session_parts import SessionParts
from sash.sql import bind

if TYPE_CHECKING:
    from sash.spark.adoption import AdoptedAggregation


class AdoptionCommands:
    def __init__(self, shared: SessionParts, streams: StreamCommands) -> None:
        self._shared = shared
        self._streams = streams
        # What the streams read, by their serial numbers.
        self._rows: dict[int, str] = {}

    def register(self, frame: object, stream: str | None, register: Callable[[str], Query]) -> Query:
        """Register a DataFrame as the text that it becomes; `stream` is the name of its stream."""
        from sash.spark.adoption import adopt

        return adopt(frame, partial(self._register, stream, register))

    def _register(self, name: str | None, register: Callable[[str], Query], found: AdoptedAggregation) -> Query:
        from sash.spark.sources import schema_of

        stream = Stream(
            name or found.stream,
            schema_of(found.frame),
            found.timestamp,
            delay=found.delay,
            granule=found.granule,
            closed_left=True,
            late_revise=True,
        )
        text = found.text(stream.name)
        # A text that cannot be registered is refused before a stream is opened for it.
        alone = Catalog()
        alone.add_stream(checked(stream))
        compile_panes(bind(as_select(text), alone))
        is_new = self._open(stream, found)
        try:
            return register(text)
        except BaseException:
            if is_new:
                self._streams.drop(stream.name)
            raise

    def _open(self, stream: Stream, found: AdoptedAggregation) -> bool:
        """Open the stream unless it is open. Returns whether it is new: no checkpoint knew it."""
        from sash.spark.pipeline import Pipeline

        with self._shared.lock:
            if self._shared.catalog.has_stream(stream.name):
                serial = self._shared.catalog.stream(stream.name).serial
                if self._rows.get(serial) != found.stream:
                    raise CatalogError(
                        f"stream '{stream.name}' has other rows than this DataFrame: give it another stream=, or none"
                    )
                return False
            is_new = stream.name.lower() not in self._shared.history.streams()
            self._streams.open(stream, partial(Pipeline, frame=found.frame))
            self._rows[self._shared.catalog.stream(stream.name).serial] = found.stream
            return is_new
