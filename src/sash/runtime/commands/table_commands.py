"""What a session does with tables: CREATE, DROP, INSERT, UPDATE, DELETE, and `update_table`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime

import pyarrow as pa

from sash.catalog import Catalog, Table
from sash.core.errors import CheckpointError, CqlError, SashError
from sash.core.time import Micros
from sash.runtime.commands.declare import check_name
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.records.catalog_history import CatalogHistory
from sash.runtime.records.session_tables import Tables
from sash.runtime.records.table_contents import Given, as_rows, as_time, key_schema
from sash.runtime.streams.running_stream import RunningStream
from sash.sql import CreateTable, TableStatement, bind_change


class TableCommands:
    """`running` finds a stream by its name; `lock` is the session's, taken after those of streams."""

    def __init__(
        self,
        catalog: Catalog,
        history: CatalogHistory,
        tables: Tables,
        continuous: ContinuousQueries,
        running: Callable[[str], RunningStream],
        lock: AbstractContextManager[object],
    ) -> None:
        self._catalog = catalog
        self._history = history
        self._tables = tables
        self._continuous = continuous
        self._running = running
        self._lock = lock

    def create(self, statement: CreateTable) -> None:
        check_name("table", statement.name)
        with self._lock:
            serial = self._history.version + 1
            self._tables.create(Table(statement.name, statement.schema, statement.key, statement.retroactive, serial))

    def drop(self, name: str) -> None:
        with self._lock:
            self._tables.drop(name)

    def update(self, name: str, rows: Given, at: datetime | Micros | None, delete: bool) -> None:
        table = self._catalog.table(name)
        given = as_rows(rows, table, key_schema(table) if delete else table.schema)
        self._change(table, "delete" if delete else "upsert", given, as_time(at))

    def execute(self, statement: TableStatement) -> None:
        """INSERT, UPDATE or DELETE; what is wrong is shown at the table's name."""
        with self._lock:
            change = bind_change(statement, self._catalog)
        try:
            self._change(change.table, change.kind, change.rows)
        except (CqlError, CheckpointError):
            raise
        except SashError as error:
            raise CqlError(str(error), statement.script, statement.table.span) from None

    def _change(self, table: Table, kind: str, rows: pa.Table, at: Micros | None = None) -> None:
        """After everything that has been processed: by plans, and by passes that look tuples up in the table."""
        with ExitStack() as stack:
            for stream in self._looked_up_by(table):
                stack.enter_context(stream.between_batches())
            stack.enter_context(self._lock)
            latest = [stream.runtime.latest for stream in self._looked_up_by(table)]
            read = [time + 1 for time in latest if time is not None]
            self._tables.change(table.name, kind, rows, at, max([self._continuous.processed(table.name), *read]))

    def _looked_up_by(self, table: Table) -> list[RunningStream]:
        """The streams whose periodic queries read a table."""
        with self._lock:
            readers = [q for q in self._catalog.queries if q.reads_table(table.name) and not q.is_continuous]
            return [self._running(name) for name in sorted({query.stream for query in readers})]
