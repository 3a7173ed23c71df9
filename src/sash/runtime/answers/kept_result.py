"""The stored results of a query with KEEP: a place that answers go to, as sinks are, and rows that questions read.

    ANSWERS     an answer as of t          its rows end at t
    STREAM      a result that comes at t   ends at t
    RELATION    a row that comes at t      ends when it leaves the relation

Rows are stored until KEEP has passed since their end. So they are a view of changes (change_view.py) that is looked at
as of KEEP ago: parts leave when their rows have ended long enough, and indexes follow as they do in any view.

There are no files. Recovery repeats answers, and they come here again; a snapshot of the log that repeats them has the
rows of its time (`KeptResults`).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from sash.catalog import KeptForm, RegisteredQuery, StoredIndex
from sash.changes.buffers import changes_of, table_of
from sash.core.changes import AS_OF, EXP, INSTANT, NEVER, SIGN, TS, Changes
from sash.core.errors import SashError
from sash.core.events import report
from sash.core.time import Micros, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.change_view import ChangeView
from sash.runtime.limits import too_many_kept

if TYPE_CHECKING:
    from sash.runtime.answers.registered_query import Query

logger = logging.getLogger("sash.runtime")

_TIMES = b"sash.kept"


class IndexedRows(Protocol):
    """Rows of a query's result that can have indexes."""

    def index_values(self, index: StoredIndex) -> int:
        """About how many different values an index has; it is made if it is not there."""

    def drop_index(self, index: StoredIndex) -> None: ...


class KeptRows(NamedTuple):
    """Stored rows with their times, as of which time, and whether KEEP has passed since the first answer."""

    rows: pa.Table
    as_of: Micros | None
    complete: bool


class KeptResult:
    """The stored results of one query. One thread gives answers, any thread asks; nobody is called under the lock."""

    def __init__(self, query: RegisteredQuery, most_rows: int) -> None:
        assert query.keep is not None
        self.query = query
        self._keep, self._form = query.keep, query.kept_form
        self._most_rows = most_rows
        # None while the columns are not known.
        self._view: ChangeView | None = None
        # The times of the first and the last answer.
        self._since: Micros | None = None
        self._now: Micros | None = None
        # The number of rows at which it gave up.
        self._gave_up_at: int | None = None
        self._lock = threading.Lock()

    # -- answers come ----------------------------------------------------------------------------------

    def take(self, answer: Answer) -> None:
        """Take an answer. One that comes again, because its micro-batch was not committed, counts once."""
        time = to_micros(answer.as_of)
        changes = self._ended(answer.table, time) if self._form is KeptForm.ANSWERS else self._changes(answer.table)
        with self._lock:
            if self._gave_up_at is not None:
                return
            view, before = self._opened(changes.rows.schema), self._now
            self._since = time if self._since is None else self._since
            self._now = oldest = time if before is None else max(time, before)
            if before is not None and self._form is not KeptForm.ANSWERS:
                changes = changes.where(changes.ts > before)
                # Until the epoch is committed, questions are as of an earlier time.
                oldest = before
            elif before is not None and time <= before and answer.rows is None:
                view.forget(time)
            view.add(changes, oldest - self._keep)
            if len(view) > self._most_rows and (rows := len(view.rows(oldest - self._keep))) > self._most_rows:
                self._give_up(rows)

    def _ended(self, table: pa.Table, time: Micros) -> Changes:
        """The rows of an answer, which are of one time."""
        stamps, number = np.full(len(table), time, dtype=np.int64), len(table)
        if AS_OF not in table.schema.names:
            table = table.append_column(AS_OF, pa.array(stamps).cast(INSTANT))
        return Changes(table, stamps, stamps, np.ones(number, dtype=np.int8), np.zeros((number, 0), dtype=np.int64))

    def _changes(self, table: pa.Table) -> Changes:
        """The inverse of `Changes.to_table`; results of a stream are of one time."""
        ts, sign = np.asarray(table[TS].cast(pa.int64())), np.asarray(table[SIGN], dtype=np.int8)
        exp = ts if self._form is KeptForm.STREAM else np.asarray(table[EXP].cast(pa.int64()).fill_null(NEVER))
        rows = table.drop_columns([TS, EXP, SIGN])
        return Changes(rows, ts, exp, sign, np.zeros((len(table), 0), dtype=np.int64))

    def _give_up(self, rows: int) -> None:
        """Drop all rows, and store nothing more."""
        self._gave_up_at, self._view = rows, None
        name, why = self.query.name, too_many_kept(self.query.name, rows, self._most_rows)
        report(logger, logging.ERROR, "result.overfull", "%(why)s", query=name, rows=rows, why=why)

    def _opened(self, schema: pa.Schema) -> ChangeView:
        if self._view is None:
            self._view = ChangeView(schema)
        return self._view

    # -- questions -------------------------------------------------------------------------------------

    def begin(self, schema: pa.Schema) -> None:
        """Know the columns that questions find, though no answer may have come."""
        hidden = () if self._form is KeptForm.ANSWERS else self._form.times
        with self._lock:
            if self._gave_up_at is None:
                self._opened(pa.schema([field for field in schema if field.name not in hidden]))

    def rows(
        self, now: Micros | None = None, index: StoredIndex | None = None, values: pa.Array | None = None
    ) -> KeptRows:
        """The stored rows as of a time, by default that of the last answer; by an index, those that have some values.

        Changes after that time may be here: their epoch is not committed yet.
        """
        with self._lock:
            if self._gave_up_at is not None:
                raise SashError(too_many_kept(self.query.name, self._gave_up_at, self._most_rows))
            view = self._view
            assert view is not None, "who asks has told the columns"
            now = self._now if now is None else now
            oldest = -NEVER if now is None else now - self._keep
            found = view.rows(oldest) if index is None else view.having(index, values, oldest)
            complete = now is not None and self._since is not None and self._since <= oldest
        if now is None:
            return KeptRows(self._timed(found, NEVER), None, False)
        return KeptRows(self._timed(found.where(found.ts <= now), now), now, complete)

    def _timed(self, found: Changes, now: Micros) -> pa.Table:
        """The rows with their times; a row that is still there has not left."""
        rows = found.rows
        if TS in self._form.times:
            rows = rows.append_column(TS, pa.array(found.ts).cast(INSTANT))
        if EXP in self._form.times:
            rows = rows.append_column(EXP, pa.array(found.exp, mask=found.exp > now).cast(INSTANT))
        return rows

    def index_values(self, index: StoredIndex) -> int:
        with self._lock:
            return 0 if self._view is None else len(self._view.index(index).directory)

    def drop_index(self, index: StoredIndex) -> None:
        with self._lock:
            if self._view is not None:
                self._view.release(index)

    def statistics(self) -> dict[str, int]:
        """What is stored now; rows that have left may still be counted."""
        with self._lock:
            view = self._view
            return {
                "kept_rows": 0 if view is None else len(view),
                "kept_bytes": 0 if view is None else view.nbytes,
            }

    # -- recovery --------------------------------------------------------------------------------------

    def save(self) -> pa.Table | None:
        """Everything, for a snapshot; None if there is nothing."""
        with self._lock:
            if self._view is None or self._now is None:
                return None
            times = json.dumps({"since": self._since, "now": self._now}).encode()
            return table_of(self._view.rows(self._now - self._keep)).replace_schema_metadata({_TIMES: times})

    def load(self, saved: pa.Table) -> None:
        """Become what a snapshot has."""
        times, found = json.loads(saved.schema.metadata[_TIMES]), changes_of(saved.replace_schema_metadata(None))
        with self._lock:
            self._since, self._now = times["since"], times["now"]
            self._view = ChangeView(found.rows.schema)
            self._view.add(found, self._now - self._keep)


class KeptResults:
    """The stored results of the queries that one log repeats, for its snapshots."""

    def __init__(self, handles: Mapping[str, Query], wants: Callable[[RegisteredQuery], bool]) -> None:
        self._handles = handles
        self._wants = wants

    def save(self) -> dict[str, pa.Table]:
        """By the serial numbers of queries."""
        saved = {str(kept.query.first_serial): kept.save() for kept in self._mine()}
        return {serial: table for serial, table in saved.items() if table is not None}

    def load(self, saved: Mapping[str, pa.Table]) -> None:
        for kept in self._mine():
            if (table := saved.get(str(kept.query.first_serial))) is not None:
                kept.load(table)

    def _mine(self) -> Iterator[KeptResult]:
        every = [handle.outward.kept_result for handle in list(self._handles.values())]
        return (kept for kept in every if kept is not None and self._wants(kept.query))
