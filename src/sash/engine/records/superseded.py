"""Changes of a table's rows that nobody can ever see: those that were changed again at the same event time.

    insert 80 http at 5 │ update 80 web at 9 │ update 80 www at 9 │ ..      at no time was 80 web
                          left out

What a row was for a while stays, however old: a stream that is created later may bring tuples of that time. So does the
first version of each row, by which a program is recognised that says again with what a table began. Versions keep their
numbers, by which plans know rows: the change behind one that is left out says how many numbers to skip.
"""

from __future__ import annotations

from typing import Any

from sash.catalog import Table
from sash.engine.records.table_rows import Key, decoded, key_schema, keys_of

Change = dict[str, Any]


def superseded(changes: list[tuple[int, Change]], table: Table) -> dict[int, Change | None]:
    """Of all changes of a table's rows, by their places: which go (None), and which are said differently then."""
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
    """Which changes are of rows only that were there before, and were changed again at the same time."""
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
