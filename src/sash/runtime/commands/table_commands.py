"""Commands about tables: CREATE, DROP, INSERT, UPDATE, DELETE, and `update_table`."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime

import pyarrow as pa

from sash.catalog import Table
from sash.core.errors import CheckpointError, CqlError, SashError
from sash.core.time import Micros
from sash.runtime.commands.declare import check_name
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.records.table_contents import TableRows, as_rows, as_time, key_schema
from sash.runtime.session_parts import SessionParts
from sash.runtime.streams.running_stream import RunningStream
from sash.sql import CreateTable, TableStatement, bind_change


class TableCommands:
    """Takes the session's lock after the locks of streams."""

    def __init__(self, shared: SessionParts, continuous: ContinuousQueries) -> None:
        self._shared = shared
        self._continuous = continuous

    def create(self, statement: CreateTable) -> None:
        check_name("table", statement.name)
        with self._shared.lock:
            serial = self._shared.history.version + 1
            table = Table(statement.name, statement.schema, statement.key, statement.retroactive, serial)
            self._shared.tables.create(table)

    def drop(self, name: str) -> None:
        with self._shared.lock:
            self._shared.tables.drop(name)

    def update(self, name: str, rows: TableRows, at: datetime | Micros | None, delete: bool) -> None:
        table = self._shared.catalog.table(name)
        given = as_rows(rows, table, key_schema(table) if delete else table.schema)
        self._change(table, "delete" if delete else "upsert", given, as_time(at))

    def execute(self, statement: TableStatement) -> None:
        """INSERT, UPDATE or DELETE; an error points at the table's name."""
        with self._shared.lock:
            change = bind_change(statement, self._shared.catalog)
        try:
            self._change(change.table, change.kind, change.rows)
        except (CqlError, CheckpointError):
            raise
        except SashError as error:
            raise CqlError(str(error), statement.script, statement.table.span) from None

    def _change(self, table: Table, kind: str, rows: pa.Table, at: Micros | None = None) -> None:
        """Change rows after everything that plans, and passes that look tuples up in the table, have processed."""
        with ExitStack() as stack:
            for stream in self._looked_up_by(table):
                stack.enter_context(stream.between_batches())
            stack.enter_context(self._shared.lock)
            latest = [stream.runtime.latest for stream in self._looked_up_by(table)]
            read = [time + 1 for time in latest if time is not None]
            self._shared.tables.change(table.name, kind, rows, at, max([self._continuous.processed(table.name), *read]))

    def _looked_up_by(self, table: Table) -> list[RunningStream]:
        """The streams whose periodic queries read a table."""
        with self._shared.lock:
            readers = [q for q in self._shared.catalog.queries if q.reads_table(table.name) and not q.is_continuous]
            return [self._shared.running(name) for name in sorted({query.stream for query in readers})]
