"""What a table holds and has held: versions of its rows, one after the other for each key.

    upsert 80 at u ──► the version of 80 ends at u, another begins        (a new key: it only begins)
    delete 80 at u ──► the version of 80 ends at u

The changes of one row come in order of time; those of different rows need not.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.catalog import Table
from sash.core.changes import NEVER
from sash.core.errors import SashError
from sash.core.time import Micros
from sash.core.versions import RowVersions
from sash.engine.records.table_rows import Key, keys_of, named


class TableContents:
    """Versions are numbered in the order in which they were given."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._rows = [table.schema.empty_table()]
        self._begin: list[Micros] = []
        self._end: list[Micros] = []
        self._numbers: list[int] = []
        self._next = 0
        self._current: dict[Key, int] = {}
        self._first: dict[Key, int] = {}
        self._changed: dict[Key, Micros] = {}
        self._versions: RowVersions | None = None

    def __len__(self) -> int:
        """How many rows it has, after all changes."""
        return len(self._current)

    def last_change(self, keys: list[Key]) -> tuple[Micros, Key] | None:
        """The latest of the changes that some rows have had, and whose it was."""
        times = [(self._changed[key], key) for key in keys if key in self._changed]
        return max(times, key=lambda each: each[0], default=None)

    def check(self, kind: str, keys: list[Key]) -> None:
        """Whether the rows may be inserted, updated, upserted or deleted."""
        name = self.table.name
        for key in keys:
            exists = key in self._current
            if kind == "insert" and exists:
                raise SashError(f"table '{name}' has a row with {named(key, self.table)} already; UPDATE it")
            if kind in ("update", "delete") and not exists:
                raise SashError(f"table '{name}' has no row with {named(key, self.table)}")
            if not exists and key in self._changed and not self.table.retroactive:
                raise SashError(
                    f"the row with {named(key, self.table)} of table '{name}' was deleted: a key of a NONRETROACTIVE "
                    "TABLE is not used again, since results that were found by it are still there"
                )

    def completed(self, rows: pa.Table, keys: list[Key]) -> pa.Table:
        """Rows with the key and some columns, the others as they are now."""
        now = self._at([self._current[key] for key in keys])
        found = [{**old, **new} for old, new in zip(now, rows.to_pylist(), strict=True)]
        return pa.Table.from_pylist(found, self.table.schema)

    def different(self, rows: pa.Table, keys: list[Key]) -> pa.Table:
        """The rows that are not in the table as they are."""
        known = [key for key in keys if key in self._current]
        now = dict(zip(known, self._at([self._current[key] for key in known]), strict=True))
        wanted = [now.get(key) != row for key, row in zip(keys, rows.to_pylist(), strict=True)]
        return rows.filter(pa.array(wanted, pa.bool_()))

    def began_with(self, rows: pa.Table, keys: list[Key], beginning: Micros) -> bool:
        """Whether all these rows were the first of their keys, from the beginning."""
        places = [self._first[key] for key in keys if key in self._first]
        if len(places) < len(keys) or any(self._begin[place] > beginning for place in places):
            return False
        return self._at(places) == rows.to_pylist()

    def apply(self, rows: pa.Table, at: Micros, *, delete: bool) -> None:
        keys = keys_of(rows, self.table)
        for key in keys:
            if key in self._current:
                self._end[self._current.pop(key)] = at
            self._changed[key] = at
        if not delete:
            self._append(rows, keys, at)
        self._versions = None

    def skip(self, versions: int) -> None:
        """So many versions were given that never were, and that the history has left out."""
        self._next += versions

    def _append(self, rows: pa.Table, keys: list[Key], at: Micros) -> None:
        first = len(self._begin)
        self._rows.append(rows)
        self._begin += [at] * len(keys)
        self._end += [NEVER] * len(keys)
        self._numbers += range(self._next, self._next + len(keys))
        self._next += len(keys)
        for place, key in enumerate(keys, first):
            self._current[key] = place
            self._first.setdefault(key, place)

    def _at(self, places: list[int]) -> list[dict[str, object]]:
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
