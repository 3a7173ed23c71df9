"""The tables of a session: their changes in event time, and how far running plans have read them.

A change takes effect at an event time. It cannot change instants that a plan has processed. So it comes after the
instants that every plan which reads the table has processed or is processing: a plan says how far it goes when it asks
for the contents, under the lock that a change takes. Neither waits for the other. The pass of periodic queries does not
know beforehand how far it goes: there a change waits for the micro-batch, and comes after its last tuple.

With a checkpoint, changes are part of the catalog's history: a restart finds the same versions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from sash.catalog import Catalog, Table
from sash.core.changes import NEVER
from sash.core.errors import CheckpointError, SashError
from sash.core.time import BEGINNING, Micros, to_datetime
from sash.core.versions import RowVersions
from sash.plan.nodes import Lookup
from sash.runtime.records.catalog_history import CatalogHistory, Change, table_change, table_of
from sash.runtime.records.table_contents import Key, TableContents, decoded, encoded, key_schema, keys_of, named


class Tables:
    """Keeps catalog and history in step with the contents. To change the catalog, hold the session's lock."""

    def __init__(self, catalog: Catalog, history: CatalogHistory) -> None:
        self._catalog = catalog
        self._history = history
        self.contents: dict[str, TableContents] = {}
        self._reached: dict[str, Micros] = {}
        self._lock = threading.Lock()
        self._restored: set[str] = set()
        self._said_again: set[str] = set()
        for change in history.changes:
            self._repeat(change)
        self._restored |= self.contents.keys()

    def _repeat(self, change: Change) -> None:
        """Apply a change of the history."""
        name = change["name"].lower() if "name" in change else ""
        if change["change"] == "create table":
            table = table_of(change)
            self._catalog.add_table(table)
            self.contents[name] = TableContents(table)
        elif change["change"] == "drop table":
            self._catalog.drop_table(name)
            del self.contents[name]
        elif change["change"] == "change table":
            contents = self.contents[name]
            schema = key_schema(contents.table) if change["delete"] else contents.table.schema
            contents.skip(change.get("skipped", 0))
            contents.apply(decoded(change["rows"], schema), change["at"], delete=change["delete"])

    def create(self, table: Table) -> None:
        name = table.name.lower()
        if name in self._restored:
            known = self._catalog.table(name)
            if (table.schema, table.key, table.retroactive) != (known.schema, known.key, known.retroactive):
                raise CheckpointError(
                    f"table '{table.name}' is another here than in the checkpoint; "
                    "declare it as before, or use another checkpoint"
                )
            self._restored.discard(name)
            self._said_again.add(name)
            return
        self._catalog.add_table(table)
        try:
            self._history.append(table_change(table))
        except CheckpointError:
            self._catalog.drop_table(table.name)
            raise
        self.contents[name] = TableContents(table)

    def drop(self, name: str) -> None:
        table = self._catalog.check_unread_table(name)
        # The history comes first: if it cannot be written, nothing happens.
        self._history.append({"change": "drop table", "name": table.name})
        self._catalog.drop_table(table.name)
        for known in (self.contents, self._reached):
            known.pop(table.name.lower(), None)
        self._restored.discard(table.name.lower())
        self._said_again.discard(table.name.lower())

    def sizes(self) -> dict[str, int]:
        with self._lock:
            return {contents.table.name: len(contents) for contents in self.contents.values()}

    def read(self, wanted: Mapping[str, Sequence[str]], low: Micros, high: Micros) -> dict[str, RowVersions]:
        """The columns of tables that a plan needs for low <= t < high; later changes come after these instants."""
        found = {}
        with self._lock:
            for name, columns in wanted.items():
                contents = self.contents[name.lower()]
                self._reached[name.lower()] = max(high, self._reached.get(name.lower(), BEGINNING))
                every = contents.versions.select(columns)
                needed = every.changed(low, high) if contents.table.retroactive else every.seen(low, high)
                found[contents.table.name] = needed
        return found

    def rows_at(self, name: str, time: Micros | None) -> pa.Table:
        """A table as it was at a time, or as the last change has left it."""
        with self._lock:
            versions = self.contents[name.lower()].versions
        there = versions.end == NEVER if time is None else (versions.begin <= time) & (time < versions.end)
        return versions.rows.filter(pa.array(there))

    def all_versions(self, lookups: Iterable[Lookup]) -> dict[Lookup, RowVersions]:
        """All versions of rows that the tuples of a micro-batch may find, whatever their times."""
        with self._lock:
            return {lookup: self.contents[lookup.table.name.lower()].versions for lookup in lookups}

    def change(self, name: str, kind: str, rows: pa.Table, at: Micros | None, processed: Micros) -> None:
        """Insert, update, upsert or delete rows; `processed` is the first instant that no reader has processed."""
        with self._lock:
            contents = self.contents[name.lower()]
            keys = keys_of(rows, contents.table)
            if kind == "insert" and at is None and self._is_repeated(contents, rows, keys):
                return
            contents.check(kind, keys)
            if kind == "update":
                rows = contents.completed(rows, keys)
            if kind in ("update", "upsert"):
                rows = contents.different(rows, keys)
            if not len(rows):
                return
            earliest = max(processed, self._reached.get(name.lower(), BEGINNING))
            when = _time(contents, keys_of(rows, contents.table), at, earliest)
            delete = kind == "delete"
            change = {"change": "change table", "name": contents.table.name, "at": when, "delete": delete}
            self._history.append({**change, "rows": encoded(rows)})
            contents.apply(rows, when, delete=delete)

    def _is_repeated(self, contents: TableContents, rows: pa.Table, keys: list[Key]) -> bool:
        """Whether a program inserts the same first rows again, after a restart."""
        name = contents.table.name.lower()
        return name in self._said_again and contents.began_with(rows, keys, BEGINNING)


def _time(contents: TableContents, keys: list[Key], at: Micros | None, processed: Micros) -> Micros:
    """When a change takes effect: at `at`, unless that is too early; without `at`, as early as possible."""
    table = contents.table
    # A tuple finds the rows that were there before it: a change just before the first new tuple is early enough.
    earliest = processed if table.retroactive else processed - 1
    last = contents.last_change(keys)
    if at is None:
        return earliest if last is None else max(earliest, last[0])
    if abs(at) >= -BEGINNING:
        raise SashError("at is an event time: a datetime, or microseconds since 1970")
    if at < earliest:
        raise SashError(
            f"a query that reads table '{table.name}' has passed {_shown(at)} already; "
            f"the earliest possible time is {_shown(earliest)}, or leave out `at`"
        )
    if last is not None and at < last[0]:
        when = f"the row with {named(last[1], table)} of table '{table.name}' changes at {_shown(last[0])} already"
        raise SashError(f"{when}, and the changes of a row come in order: give that time or a later one")
    return at


def _shown(time: Micros) -> str:
    try:
        return to_datetime(time).isoformat()
    except OverflowError:
        return f"{time} microseconds"
