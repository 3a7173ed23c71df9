"""The contents of a table, now and before: versions of its rows, one after the other for each key.

    upsert 80 at u ──► the version of 80 ends at u, another begins        (a new key: it only begins)
    delete 80 at u ──► the version of 80 ends at u

The changes of one row come in order of time; changes of different rows need not.

A change that no query can see is left out: the row was changed again at the same event time.

    insert 80 http at 5 │ update 80 web at 9 │ update 80 www at 9 │ ..      at no time was 80 web
                          left out

A row that was valid for a while stays, however old: a stream that is created later may bring tuples of that time. The
first version of each row stays, too: by it Sash recognises a program that inserts the first rows again. Versions keep
their numbers, by which plans know rows: the change behind an omitted one says how many numbers to skip.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from sash.catalog import Table
from sash.core.changes import NEVER
from sash.core.errors import SashError, nearest
from sash.core.time import Micros, to_micros
from sash.core.versions import RowVersions

if TYPE_CHECKING:
    import pandas as pd

TableRows: TypeAlias = "Sequence[Mapping[str, Any]] | pa.Table | pd.DataFrame"
Key = tuple[Any, ...]


def key_schema(table: Table) -> pa.Schema:
    return pa.schema([table.schema.field(name) for name in table.key])


def as_rows(given: TableRows, table: Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema out of a list of dicts, an Arrow table or a pandas DataFrame, in the table's types."""
    try:
        if isinstance(given, pa.Table):
            found = given
        elif hasattr(given, "to_dict") and hasattr(given, "columns"):
            found = pa.Table.from_pandas(given, preserve_index=False)
        else:
            return _from_dicts(given, table, schema)
        names = _spelt(found.schema.names, table, schema)
        return pa.table([found[names[field.name]].cast(field.type) for field in schema], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SashError(f"the rows do not fit the columns of table '{table.name}': {error}") from None


def _from_dicts(given: Sequence[Mapping[str, Any]], table: Table, schema: pa.Schema) -> pa.Table:
    if isinstance(given, Mapping | str) or not all(isinstance(row, Mapping) for row in given):
        raise SashError("rows is a list of dicts, a pyarrow.Table or a pandas DataFrame")
    spelt = [_spelt(list(row), table, schema) for row in given]
    columns = []
    for field in schema:
        values = [row[names[field.name]] for row, names in zip(given, spelt, strict=True)]
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=schema)


def _spelt(names: Sequence[str], table: Table, schema: pa.Schema) -> dict[str, str]:
    """How the rows spell each needed column; an unknown or missing column is an error."""
    unknown = next((name for name in names if table.column(name) is None), None)
    if unknown is not None:
        hint = nearest(unknown, table.schema.names)
        raise SashError(f"table '{table.name}' has no column '{unknown}'{hint}")
    known = {name.lower(): name for name in names}
    missing = next((name for name in schema.names if name.lower() not in known), None)
    if missing is not None:
        raise SashError(f"the rows for table '{table.name}' lack the column '{missing}'")
    return {name: known[name.lower()] for name in schema.names}


def keys_of(rows: pa.Table, table: Table) -> list[Key]:
    """The rows' keys, checked: each once, and without NULL."""
    columns = [rows[name].to_pylist() for name in table.key]
    keys = list(zip(*columns, strict=True))
    if any(value is None for key in keys for value in key):
        raise SashError(f"a key of table '{table.name}' ({', '.join(table.key)}) cannot be NULL")
    if len(set(keys)) < len(keys):
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise SashError(f"{named(twice, table)} stands twice in the rows for table '{table.name}'")
    return keys


def named(key: Key, table: Table) -> str:
    """A key as a condition: port = 80."""
    return " AND ".join(f"{name} = {value!r}" for name, value in zip(table.key, key, strict=True))


def as_time(at: datetime | Micros | None) -> Micros | None:
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise SashError("at needs a time zone: datetime(.., tzinfo=UTC), or microseconds since 1970")
        return to_micros(at)
    if at is not None and not isinstance(at, int):
        raise SashError(f"at is a datetime with a time zone, or microseconds since 1970; got {at!r}")
    return at


def encoded(rows: pa.Table) -> str:
    """Rows as text, without the schema, which the table has."""
    (batch,) = rows.combine_chunks().to_batches()
    return base64.b64encode(batch.serialize().to_pybytes()).decode()


def decoded(text: str, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(base64.b64decode(text)), schema)])


Change = dict[str, Any]


def superseded(changes: list[tuple[int, Change]], table: Table) -> dict[int, Change | None]:
    """For all changes of a table's rows, by place: the changes that go (None), and those that are rewritten then."""
    keys = [_keys(change, table) for _, change in changes]
    gone = _gone([change["at"] for _, change in changes], keys)
    found: dict[int, Change | None] = {}
    skipped = 0
    for (place, change), mine, goes in zip(changes, keys, gone, strict=True):
        skipped += change.get("skipped", 0)
        if goes:
            found[place] = None
            skipped += 0 if change["delete"] else len(mine)
            continue
        if skipped != change.get("skipped", 0):
            found[place] = {**change, "skipped": skipped}
        skipped = 0
    return found


def _gone(times: list[int], keys: list[list[Key]]) -> list[bool]:
    """Which changes only have rows that existed before and were changed again at the same time."""
    last = dict[Key, int]()
    again = [0] * len(times)
    known = [0] * len(times)
    for place, (at, mine) in enumerate(zip(times, keys, strict=True)):
        for key in mine:
            before = last.get(key)
            if before is not None:
                known[place] += 1
                again[before] += times[before] == at
            last[key] = place
    return [len(mine) == known[place] == again[place] for place, mine in enumerate(keys)]


def _keys(change: Change, table: Table) -> list[Key]:
    schema = key_schema(table) if change["delete"] else table.schema
    return keys_of(decoded(change["rows"], schema), table)


class TableContents:
    """Versions are numbered in the order in which they came."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._rows = [table.schema.empty_table()]
        self._begin: list[Micros] = []
        self._end: list[Micros] = []
        self._numbers: list[int] = []
        self.next_number = 0
        self._current: dict[Key, int] = {}
        self.first: dict[Key, int] = {}
        self.changed: dict[Key, Micros] = {}
        self._versions: RowVersions | None = None

    def __len__(self) -> int:
        """How many rows the table has, after all changes."""
        return len(self._current)

    def last_change(self, keys: list[Key]) -> tuple[Micros, Key] | None:
        """The latest change of some rows, and the row's key."""
        times = [(self.changed[key], key) for key in keys if key in self.changed]
        return max(times, key=lambda each: each[0], default=None)

    def check(self, kind: str, keys: list[Key]) -> None:
        """Check that the rows may be inserted, updated, upserted or deleted."""
        name = self.table.name
        for key in keys:
            exists = key in self._current
            if kind == "insert" and exists:
                raise SashError(f"table '{name}' has a row with {named(key, self.table)} already; UPDATE it")
            if kind in ("update", "delete") and not exists:
                raise SashError(f"table '{name}' has no row with {named(key, self.table)}")
            if not exists and key in self.changed and not self.table.retroactive:
                raise SashError(
                    f"the row with {named(key, self.table)} of table '{name}' was deleted: a key of a NONRETROACTIVE "
                    "TABLE is not used again, since results that were found by it are still there"
                )

    def completed(self, rows: pa.Table, keys: list[Key]) -> pa.Table:
        """Rows with the key and some columns, completed from the current rows."""
        now = self.rows_at([self._current[key] for key in keys])
        found = [{**old, **new} for old, new in zip(now, rows.to_pylist(), strict=True)]
        return pa.Table.from_pylist(found, self.table.schema)

    def different(self, rows: pa.Table, keys: list[Key]) -> pa.Table:
        """The rows that differ from the table's."""
        known = [key for key in keys if key in self._current]
        now = dict(zip(known, self.rows_at([self._current[key] for key in known]), strict=True))
        wanted = [now.get(key) != row for key, row in zip(keys, rows.to_pylist(), strict=True)]
        return rows.filter(pa.array(wanted, pa.bool_()))

    def began_with(self, rows: pa.Table, keys: list[Key], beginning: Micros) -> bool:
        """Whether each of these rows was the first version of its key, from the beginning."""
        places = [self.first[key] for key in keys if key in self.first]
        if len(places) < len(keys) or any(self._begin[place] > beginning for place in places):
            return False
        return self.rows_at(places) == rows.to_pylist()

    def apply(self, rows: pa.Table, at: Micros, *, delete: bool) -> None:
        keys = keys_of(rows, self.table)
        for key in keys:
            if key in self._current:
                self._end[self._current.pop(key)] = at
            self.changed[key] = at
        if not delete:
            self._append(rows, keys, at)
        self._versions = None

    def skip(self, versions: int) -> None:
        """Skip the numbers of versions that the history has left out."""
        self.next_number += versions

    def _append(self, rows: pa.Table, keys: list[Key], at: Micros) -> None:
        first = len(self._begin)
        self._rows.append(rows)
        self._begin += [at] * len(keys)
        self._end += [NEVER] * len(keys)
        self._numbers += range(self.next_number, self.next_number + len(keys))
        self.next_number += len(keys)
        for place, key in enumerate(keys, first):
            self._current[key] = place
            self.first.setdefault(key, place)

    def rows_at(self, places: list[int]) -> list[dict[str, object]]:
        """The rows of some versions."""
        self._rows = [pa.concat_tables(self._rows).combine_chunks()]
        found: list[dict[str, object]] = self._rows[0].take(pa.array(places, pa.int64())).to_pylist()
        return found

    @property
    def versions(self) -> RowVersions:
        if self._versions is None:
            begin, end = (np.array(times, dtype=np.int64) for times in (self._begin, self._end))
            every = RowVersions(pa.concat_tables(self._rows), begin, end, np.array(self._numbers, dtype=np.int64))
            self._versions = every.where(begin < end)
        return self._versions
