"""The answers of registered queries, for questions that have a query's name in FROM: what KEEP stores, or those of now.

    with KEEP                            the stored rows (answers/kept_result.py), by an index where one helps
    continuous, and plans under SLIDE    the rows of its view (answers/change_view.py), by an index where one helps
    joined panes, sets                   its last answer
    panes                                its answer as of the newest pane, as if its SELECT were asked

Spark gets these rows, and the question. Values that the WHERE of the question requires are looked for here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sash.catalog import KeptForm, QueryResult, RegisteredQuery, StoredIndex
from sash.core.errors import QueryFailedError, SashError
from sash.core.time import BEGINNING, Micros, to_micros
from sash.isolation import Isolation
from sash.runtime.answers.kept_result import IndexedRows, KeptResult, KeptRows
from sash.runtime.commands.query_commands import QueryCommands
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.periodic.onetime import answer_now
from sash.runtime.route import result_of
from sash.runtime.session_parts import SessionParts
from sash.runtime.stored.stored_access import having
from sash.sql import ResultReading, SoughtValues


@dataclass(frozen=True)
class ResultAccess:
    """The index that finds the sought values in a query's result, and about how many values it has."""

    index: StoredIndex
    sought: SoughtValues
    values: int


class QueryResults:
    def __init__(
        self, shared: SessionParts, queries: QueryCommands, continuous: ContinuousQueries, isolation: Isolation
    ) -> None:
        self._shared = shared
        self._queries = queries
        self._continuous = continuous
        self._isolation = isolation

    def read(self, reading: ResultReading) -> tuple[pa.Table, Micros | None, bool]:
        """The rows that a question needs, their time (None: nothing has come yet), and whether they are complete."""
        query = reading.result.query
        handle = self._shared.handle(query.name, query.serial)
        if handle is None:
            raise SashError(f"query '{query.name}' has been dropped")
        if handle.failure is not None:
            raise QueryFailedError(f"query '{query.name}' has failed: {handle.failure}")
        if query.keep is not None:
            stored = self._stored_rows(reading)
            return having(reading.sought, stored.rows), stored.as_of, stored.complete
        if not query.is_continuous:
            with self._shared.lock:
                compiled, runtime = self._queries.compiled(query), self._shared.running(query.stream).runtime
            answer = answer_now(compiled, runtime, self._isolation)
            return having(reading.sought, answer.table), to_micros(answer.as_of), answer.complete
        rows, now = self._kept_rows(reading) if reading.result.can_have_indexes else self._last_rows(reading)
        return having(reading.sought, rows), now if now > BEGINNING else None, True

    def _stored_rows(self, reading: ResultReading) -> KeptRows:
        """The rows of a query with KEEP: of a relation as of the time of its plan, else as of the last answer."""
        query, access = reading.result.query, self.access(reading)
        kept, now = self._kept(query, reading.result.schema), None
        if query.kept_form is not KeptForm.ANSWERS:
            reached = self._continuous.attach(query).now
            now = reached if reached > BEGINNING else None
        return kept.rows(now) if access is None else kept.rows(now, access.index, access.sought.values)

    def rows_of(self, query: RegisteredQuery) -> IndexedRows:
        """The rows of a query's result that can have indexes: what KEEP stores, else the view of its plan."""
        if query.keep is None:
            return self._continuous.attach(query)
        return self._kept(query, self.result_of(query).schema)

    def result_of(self, query: RegisteredQuery) -> QueryResult:
        """What a query is in FROM of a question."""
        return result_of(query, self._shared.catalog, self._queries.decision_of)

    def _kept(self, query: RegisteredQuery, schema: pa.Schema) -> KeptResult:
        if query.is_continuous:
            # After a restart, so that it has what the log repeats.
            self._continuous.attach(query)
        handle = self._shared.handle(query.name, query.serial)
        if handle is None or handle.outward.kept_result is None:
            raise SashError(f"query '{query.name}' has been dropped")
        handle.outward.kept_result.begin(schema)
        return handle.outward.kept_result

    def _kept_rows(self, reading: ResultReading) -> tuple[pa.Table, Micros]:
        plan, access = self._continuous.attach(reading.result.query), self.access(reading)
        if access is None:
            changes, now = plan.rows_of(reading.result.query.serial)
        else:
            changes, now = plan.rows_having(access.index, access.sought.values)
        return changes.rows, now

    def _last_rows(self, reading: ResultReading) -> tuple[pa.Table, Micros]:
        query = reading.result.query
        plan = self._continuous.attach(query)
        compiled = self._continuous.compiled(query)
        return compiled.ordered(plan.answer(compiled)), plan.now

    def access(self, reading: ResultReading) -> ResultAccess | None:
        """The index that finds the sought values: that of the column with most values."""
        query, every = reading.result.query, list(self._shared.catalog.indexes)
        mine = {index.column: index for index in every if index.query == query.serial}
        fitting = [(mine[sought.column], sought) for sought in reading.sought if sought.column in mine]
        if not fitting:
            return None
        rows = self.rows_of(query)
        found = [ResultAccess(index, sought, rows.index_values(index)) for index, sought in fitting]
        return max(found, key=lambda each: each.values)
