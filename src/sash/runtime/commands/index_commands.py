"""Commands about indexes over stored windows and queries' results: CREATE, DROP, SHOW, and making them again after a
restart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.catalog import CLUSTER, QueryResult, StoredIndex, Stream
from sash.core.changes import EXP, TS
from sash.core.errors import CatalogError, CheckpointError, CqlError, SashError, nearest
from sash.runtime.answers.kept_result import IndexedRows
from sash.runtime.session_parts import SessionParts
from sash.runtime.stored.stored_window import StoredWindow
from sash.sql import ROW_KINDS, CreateIndex, DropIndex

if TYPE_CHECKING:
    from sash.runtime.asking.query_results import QueryResults

# The kind for `WHERE x = c`; measured by papers/window_index/run.py.
DEFAULT_KIND = "db"


class IndexCommands:
    """Over stored windows, and over the results of queries."""

    def __init__(self, shared: SessionParts, results: QueryResults) -> None:
        self._shared = shared
        self._results = results
        # Indexes of a checkpoint that the program may declare again.
        self._restored: set[StoredIndex] = set()

    def create(self, statement: CreateIndex) -> None:
        with self._shared.lock:
            index = self._index(statement, statement.kind or DEFAULT_KIND)
            if index.query is not None and index.kind not in ROW_KINDS:
                reason = f"a {index.kind} index counts the rows of a stored window"
                way_out = f"leave out USING {index.kind}: the rows of query '{index.stream}' are found by a db index"
                raise CqlError(f"{reason}; {way_out}", statement.script, statement.column.span)
            if index in self._shared.catalog.indexes:
                if index in self._restored:
                    self._restored.remove(index)
                    return
                raise CatalogError(f"there is a {index.kind} index on {index.stream} ({index.column}) already")
            self._make(index)
            try:
                self._shared.history.append({"change": "create index", **vars(index)})
            except CheckpointError:
                self._remove(index)
                raise
            self._shared.catalog.indexes.append(index)

    def drop(self, statement: DropIndex) -> None:
        with self._shared.lock:
            catalog, like = self._shared.catalog, self._index(statement, statement.kind or "")
            there = [each for each in catalog.indexes if replace(each, kind=like.kind) == like]
            gone = [each for each in there if statement.kind in (None, each.kind)]
            if not gone:
                place = f"{like.stream} ({like.column})"
                raise CatalogError(f"there is no such index on {place}; SHOW INDEXES has them all")
            for index in gone:
                # The history comes first: if it cannot be written, nothing happens.
                self._shared.history.append({"change": "drop index", **vars(index)})
                self._remove(index)
                catalog.indexes.remove(index)
                self._restored.discard(index)

    def show(self) -> pa.Table:
        with self._shared.lock:
            indexes = list(self._shared.catalog.indexes)
            values = [self._values(index) for index in indexes]
        columns = {name: [getattr(index, name) for index in indexes] for name in ("stream", "column", "kind")}
        schema = pa.schema([(name, pa.string()) for name in columns] + [("values", pa.int64())])
        return pa.table({**columns, "values": values}, schema=schema)

    def restore(self, stream: Stream | None = None) -> None:
        """Make the indexes of a stream that has just been opened, as the history has them.

        Without a stream: know the indexes of queries. Their plans make them when they are asked.
        """
        for index in self._shared.history.indexes():
            if index.query is None and stream is not None and stream.name == index.stream:
                self._make(index)
            elif index.query is None or stream is not None:
                continue
            self._shared.catalog.indexes.append(index)
            self._restored.add(index)

    # -- where they are --------------------------------------------------------------------------------

    def _make(self, index: StoredIndex) -> None:
        if index.query is None:
            self._window(index).create_index(index)
            return
        try:
            self._result(index).index_values(index)
        except TypeError as error:
            raise SashError(f"no {index.kind} index on {index.column}: {error}") from None

    def _remove(self, index: StoredIndex) -> None:
        if index.query is None:
            self._window(index).drop_index(index)
        else:
            self._result(index).drop_index(index)

    def _values(self, index: StoredIndex) -> int:
        if index.query is not None:
            query = self._shared.catalog.query(index.stream)
            here = all(map(self._shared.catalog.has_stream, query.streams or (query.stream,)))
            return self._result(index).index_values(index) if here else 0
        indexes = self._window(index).indexes
        return 0 if indexes is None else indexes.values(index)

    def _window(self, index: StoredIndex) -> StoredWindow:
        kept = self._shared.running(index.stream).stored_window
        assert kept is not None
        return kept

    def _result(self, index: StoredIndex) -> IndexedRows:
        return self._results.rows_of(self._shared.catalog.query(index.stream))

    # -- what is said ----------------------------------------------------------------------------------

    def _index(self, statement: CreateIndex | DropIndex, kind: str) -> StoredIndex:
        """The index that is meant, as the catalog spells it; CqlError at the wrong word."""
        name, wanted, script, catalog = statement.stream, statement.column, statement.script, self._shared.catalog
        relation: Stream | QueryResult
        try:
            if not catalog.has_stream(name.text) and catalog.has_query(name.text):
                relation = self._results.result_of(catalog.query(name.text))
            else:
                relation = catalog.stream(name.text)
        except SashError as error:
            raise CqlError(str(error), script, name.span) from None
        if (why := _why_not(relation, wanted.text)) is not None:
            raise CqlError(why, script, name.span)
        column = relation.column(wanted.text)
        if column is None:
            hint = nearest(wanted.text, relation.schema.names)
            raise CqlError(f"unknown column '{wanted.text}'{hint}", script, wanted.span)
        serial = relation.query.serial if isinstance(relation, QueryResult) else None
        return StoredIndex(relation.name, column.name, kind, serial)


def _why_not(relation: Stream | QueryResult, column: str) -> str | None:
    """Why a stream or a query has no rows to be indexed, and the way out."""
    if isinstance(relation, QueryResult):
        if relation.query.keep is not None and column.lower() in (TS, EXP):
            return f"'{column}' is the time of a row and no column of query '{relation.name}': index another one"
        if relation.can_have_indexes:
            return None
        reason = f"each answer of query '{relation.name}' is made anew, and there are no rows to be indexed"
        way_out = f"REGISTER QUERY .. KEEP 10 min, or CREATE ARCHIVE .. FROM {relation.name} KEY {column}"
        return f"{reason}: leave out SLIDE, or store its answers by {way_out}"
    if relation.keep is None:
        return f"stream '{relation.name}' stores no rows to be indexed: CREATE STREAM .. KEEP 10 min stores them"
    if relation.keep_in == CLUSTER:
        reason = f"the window of stream '{relation.name}' is stored in the cluster, and indexes live in memory"
        return f"{reason}: KEEP .. STORED IN MEMORY can have one"
    return None
