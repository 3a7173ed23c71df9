"""Commands about indexes over stored windows: CREATE, DROP, SHOW, and making them again after a restart."""

from __future__ import annotations

import pyarrow as pa

from sash.catalog import CLUSTER, StoredIndex, Stream
from sash.core.errors import CatalogError, CheckpointError, CqlError, nearest
from sash.runtime.commands.session_state import SessionParts
from sash.runtime.stored.stored_window import KeptWindow
from sash.sql import CreateIndex, DropIndex

# The kind for `WHERE x = c`; measured by papers/window_index/run.py.
DEFAULT_KIND = "db"


class IndexCommands:
    def __init__(self, shared: SessionParts) -> None:
        self._shared = shared
        # Indexes of a checkpoint that the program may declare again.
        self._restored: set[StoredIndex] = set()

    def create(self, statement: CreateIndex) -> None:
        with self._shared.lock:
            stream, column = self._place(statement)
            if stream.keep_in == CLUSTER:
                reason = f"the window of stream '{stream.name}' is stored in the cluster, and indexes live in memory"
                raise CqlError(
                    f"{reason}: KEEP .. STORED IN MEMORY can have one", statement.script, statement.stream.span
                )
            index = StoredIndex(stream.name, column, statement.kind or DEFAULT_KIND)
            if index in self._shared.catalog.indexes:
                if index in self._restored:
                    self._restored.remove(index)
                    return
                raise CatalogError(f"there is a {index.kind} index on {stream.name} ({column}) already")
            self._window(stream).create_index(index)
            try:
                self._shared.history.append({"change": "create index", **vars(index)})
            except CheckpointError:
                self._window(stream).drop_index(index)
                raise
            self._shared.catalog.indexes.append(index)

    def drop(self, statement: DropIndex) -> None:
        with self._shared.lock:
            stream, column = self._place(statement)
            catalog = self._shared.catalog
            there = [each for each in catalog.indexes if (each.stream, each.column) == (stream.name, column)]
            gone = [each for each in there if statement.kind in (None, each.kind)]
            if not gone:
                raise CatalogError(f"there is no such index on {stream.name} ({column}); SHOW INDEXES has them all")
            for index in gone:
                # The history comes first: if it cannot be written, nothing happens.
                self._shared.history.append({"change": "drop index", **vars(index)})
                self._window(stream).drop_index(index)
                catalog.indexes.remove(index)
                self._restored.discard(index)

    def show(self) -> pa.Table:
        with self._shared.lock:
            indexes = list(self._shared.catalog.indexes)
            values = [self._values(index) for index in indexes]
        columns = {name: [getattr(index, name) for index in indexes] for name in ("stream", "column", "kind")}
        schema = pa.schema([(name, pa.string()) for name in columns] + [("values", pa.int64())])
        return pa.table({**columns, "values": values}, schema=schema)

    def restore(self, stream: Stream) -> None:
        """Make the indexes of a stream that has just been opened, as the history has them."""
        for index in self._shared.history.indexes(stream):
            self._window(stream).create_index(index)
            self._shared.catalog.indexes.append(index)
            self._restored.add(index)

    def _values(self, index: StoredIndex) -> int:
        indexes = self._window(self._shared.catalog.stream(index.stream)).indexes
        return 0 if indexes is None else indexes.values(index)

    def _window(self, stream: Stream) -> KeptWindow:
        kept = self._shared.running(stream.name).kept
        assert kept is not None
        return kept

    def _place(self, statement: CreateIndex | DropIndex) -> tuple[Stream, str]:
        """The stream and the column, as the catalog spells them; CqlError at the wrong word."""
        name, wanted, script = statement.stream, statement.column, statement.script
        try:
            stream = self._shared.catalog.stream(name.text)
        except CatalogError as error:
            raise CqlError(str(error), script, name.span) from None
        if stream.keep is None:
            reason = f"stream '{stream.name}' stores no rows to be indexed: CREATE STREAM .. KEEP 10 min stores them"
            raise CqlError(reason, script, name.span)
        column = stream.column(wanted.text)
        if column is None:
            hint = nearest(wanted.text, stream.schema.names)
            raise CqlError(f"unknown column '{wanted.text}'{hint}", script, wanted.span)
        return stream, column.name
