"""The catalog's history: every change in order, so that any version can be restored.

    changes   register a │ register b │ drop a │ register c │ drop b │ ..
                                               ▲ the oldest version that a recovery may ask for
    compacted register b │ register c │ drop b │ ..               versions keep their numbers

With a checkpoint each change is appended to a file, with a checksum, and synced before the call that made it returns. A
crash in the middle of an append leaves a torn last line: its call never returned, so the line is cut off. Now and then
the history leaves out changes that undid each other before the oldest version that a recovery may need. So opening a
checkpoint takes time for the existing queries, not for all queries that ever were. Changes of rows of tables that no
query can see are left out, too (table_contents.py).

The cost of a change does not grow with the history: the current queries are kept, and a reader of the history
(stream_queries.py) goes from one version to the next by the changes between them. Only recovery replays it all.
"""

from __future__ import annotations

import base64
import errno
import logging
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.catalog import DeclaredArchive, KeptForm, RegisteredQuery, Route, Source, StoredIndex, Stream, Table
from sash.core.errors import CheckpointError
from sash.core.events import report
from sash.core.faults import around
from sash.runtime.records.table_contents import superseded
from sash.storage.files import damaged, sealed, sync_directory, truncate, unsealed, write_bytes, written

logger = logging.getLogger("sash.runtime")

Change = dict[str, Any]
# After this many appended changes the history is compacted.
COMPACT_EVERY = 1_000
_COMPACTED = "compacted"


def nothing_is_old() -> int:
    return 0


class CatalogHistory:
    """Changes in order; the version is the number of all changes ever.

    `oldest` gives the oldest version that a recovery may need.
    """

    def __init__(self, path: Path | None = None, oldest: Callable[[], int] = nothing_is_old) -> None:
        self._path = path
        self.oldest = oldest
        self.changes: list[Change] = []
        # How many changes were left out, and the version since which all are here.
        self._gone = self._whole_since = 0
        if path is not None and path.exists():
            self._load(path)
        self.version = self._gone + len(self.changes)
        self._queries = _queries_after(self.changes)
        self.look_again = len(self.changes) + COMPACT_EVERY

    def _load(self, path: Path) -> None:
        data = path.read_bytes()
        end = data.rfind(b"\n") + 1
        try:
            self.changes = [unsealed(line) for line in data[:end].splitlines()]
        except ValueError as error:
            raise damaged(path, error) from None
        if self.changes and self.changes[0]["change"] == _COMPACTED:
            self._gone = self._whole_since = self.changes.pop(0)["gone"]
        if end < len(data):
            truncate(path, end)

    def append(self, change: Change) -> None:
        """Append a change. With a checkpoint, write a change first, then do it: an unwritten one did not happen."""
        if self._path is not None:
            self._write(self._path, sealed(change).encode() + b"\n")
        self.changes.append(change)
        _apply(change, self._queries)
        self.version += 1
        if self._path is not None and len(self.changes) >= self.look_again:
            self._try_to_compact()

    def _write(self, path: Path, line: bytes) -> None:
        with written(path), open(path, "ab", buffering=0) as file:
            end = file.tell()
            try:
                with around("write", path):
                    if file.write(line) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                with around("sync", path):
                    os.fsync(file.fileno())
                if end == 0:
                    # The file may be new.
                    sync_directory(path.parent)
            except OSError:
                # A torn line must not stand before the next one.
                truncate(path, end)
                raise

    def _try_to_compact(self) -> None:
        """Compact. The change has been written, so an error here only leaves the file longer than necessary."""
        try:
            self.compact()
        except CheckpointError as error:
            told = "the catalog's history is not compacted, and is tried again later: %(why)s"
            report(logger, logging.WARNING, "catalog.uncompacted", told, why=str(error))

    def compact(self) -> None:
        """Leave out changes that undid each other before the oldest version that a recovery may need."""
        self.look_again = len(self.changes) + COMPACT_EVERY
        old = max(0, self.oldest() - self._gone)
        lasting = without_superseded(without_undone(self.changes[:old]))
        if self._path is None or len(lasting) == old:
            return
        gone = self._gone + old - len(lasting)
        changes = [*lasting, *self.changes[old:]]
        lines = [{"change": _COMPACTED, "gone": gone}, *changes]
        with written(self._path):
            write_bytes(self._path, b"".join(sealed(line).encode() + b"\n" for line in lines))
        self._whole_since = self._gone + old
        self._gone, self.changes = gone, changes
        self.look_again = len(changes) + COMPACT_EVERY

    def streams(self) -> dict[str, Change]:
        """The streams that exist now, as they were declared."""
        found: dict[str, Change] = {}
        for change in self.changes:
            if change["change"] == "create stream":
                found[change["name"].lower()] = change
            elif change["change"] == "drop stream":
                found.pop(change["name"].lower(), None)
        return found

    def indexes(self) -> list[StoredIndex]:
        """The existing indexes, in the order in which they came."""
        found: dict[tuple[str, ...], StoredIndex] = {}
        for change in self.changes:
            subject = _subject(change)
            if change["change"] == "create index" and subject is not None:
                found[subject] = StoredIndex(**{name: value for name, value in change.items() if name != "change"})
            elif change["change"].startswith("drop ") and subject is not None:
                found = {of: index for of, index in found.items() if of[: len(subject)] != subject}
        return list(found.values())

    def archives(self) -> list[DeclaredArchive]:
        """The existing archives, in the order in which they came."""
        found: dict[str, DeclaredArchive] = {}
        for change in self.changes:
            if change["change"] == "create archive":
                fields = {name: value for name, value in change.items() if name not in ("change", "schema")}
                found[change["name"].lower()] = DeclaredArchive(**fields, schema=_read(change["schema"]))
            elif change["change"] == "drop archive":
                found.pop(change["name"].lower(), None)
        return list(found.values())

    def _until(self, version: int | None) -> list[Change]:
        """The changes that led to a version."""
        if version is None:
            return self.changes
        assert version >= self._gone, "a version that nobody was to ask for any more"
        return self.changes[: version - self._gone]

    def queries(self, version: int | None = None) -> dict[str, RegisteredQuery]:
        """The queries that were registered at a version, by lower-case name; by default now."""
        if version is None or version == self.version:
            return dict(self._queries)
        return _queries_after(self._until(version))

    def changed_queries(self, since: int, until: int) -> tuple[list[str], list[RegisteredQuery]] | None:
        """From one version to another: the lower-case names of queries that are gone, and the queries that have come.

        None if that is not known: versions go back, or the changes between them have been compacted.
        """
        if not self._whole_since <= since <= until:
            return None
        gone: list[str] = []
        come: dict[str, RegisteredQuery] = {}
        for change in self.changes[since - self._gone : until - self._gone]:
            name = change.get("name", "").lower()
            if name not in come and (change["change"] == "drop query" or change.get("replaced_since")):
                gone.append(name)
            _apply(change, come)
        return gone, list(come.values())


def _queries_after(changes: list[Change]) -> dict[str, RegisteredQuery]:
    found: dict[str, RegisteredQuery] = {}
    for change in changes:
        _apply(change, found)
    return found


def _apply(change: Change, queries: dict[str, RegisteredQuery]) -> None:
    """Bring registered queries, by lower-case name, to the next version."""
    if change["change"] == "register query":
        fields = {name: value for name, value in change.items() if name != "change"}
        for names in ("streams", "tables", "aggregates", "functions"):
            fields[names] = tuple(fields.get(names, ()))
        fields["measurements"] = tuple(map(tuple, fields.get("measurements", ())))
        fields["route"] = Route(fields["route"]) if "route" in fields else _earlier_route(fields["state"])
        fields["kept_form"] = KeptForm(fields.pop("kept", KeptForm.ANSWERS))
        fields.setdefault("counters", False)
        # Queries are in the order of their serial numbers.
        queries.pop(change["name"].lower(), None)
        queries[change["name"].lower()] = RegisteredQuery(**fields)
    elif change["change"] == "drop query":
        queries.pop(change["name"].lower(), None)


def _earlier_route(state: str) -> Route:
    """The route of a query that was registered before routes were stored: its directory's name says it."""
    named = {"join-": Route.JOINED_PANES, "set-": Route.SETS}
    usual = Route.CHANGES if state else Route.PANES
    return next((route for start, route in named.items() if state.startswith(start)), usual)


def without_undone(changes: list[Change]) -> list[Change]:
    """The changes without those that a later one undid: they lead to the same catalog."""
    found: dict[int, Change] = {}
    # The changes of each subject that made its current state.
    made: dict[tuple[str, ...], list[int]] = {}
    for place, change in enumerate(changes):
        found[place] = change
        subject = _subject(change)
        if subject is None:
            continue
        if change.get("replaced_since"):
            for gone in made.pop(subject, ()):
                del found[gone]
        made.setdefault(subject, []).append(place)
        if not change["change"].startswith("drop "):
            continue
        # The indexes of a stream or a query go with it.
        for other in [each for each in made if each[: len(subject)] == subject]:
            for gone in made.pop(other):
                del found[gone]
    return list(found.values())


def without_superseded(changes: list[Change]) -> list[Change]:
    """The changes without changes of rows that were changed again at the same time; no table is dropped among them."""
    tables = {change["name"].lower(): table_of(change) for change in changes if change["change"] == "create table"}
    found: dict[int, Change | None] = {}
    for name, table in tables.items():
        mine = [(place, change) for place, change in enumerate(changes) if _is_of_rows(change, name)]
        found |= superseded(mine, table)
    every = (found.get(place, change) for place, change in enumerate(changes))
    return [change for change in every if change is not None]


def _is_of_rows(change: Change, table: str) -> bool:
    return bool(change["change"] == "change table" and change["name"].lower() == table)


def _subject(change: Change) -> tuple[str, ...] | None:
    """The subject of a change, if changes of this kind undo each other; an index is a part of its stream or query."""
    kind = change["change"].split()[-1]
    if kind == "index":
        owner = "stream" if change.get("query") is None else "query"
        return owner, change["stream"].lower(), change["column"], change["kind"]
    return (kind, change["name"].lower()) if kind in ("query", "stream", "table", "archive") else None


def stream_change(stream: Stream) -> Change:
    names = [field.name for field in fields(stream) if field.name not in ("schema", "source")]
    source = None if stream.source is None else {"format": stream.source.format, "options": dict(stream.source.options)}
    plain = {name: getattr(stream, name) for name in names}
    return {"change": "create stream", **plain, "schema": _written(stream.schema), "source": source}


def stream_of(change: Change) -> Stream:
    fields = {name: value for name, value in change.items() if name not in ("change", "schema", "source")}
    schema = _read(change["schema"])
    source = None if change["source"] is None else Source(**change["source"])
    return Stream(**fields, schema=schema, source=source)


def query_change(query: RegisteredQuery) -> Change:
    fields = asdict(query)
    # The name that released catalogs have.
    fields["kept"] = fields.pop("kept_form")
    return {"change": "register query", **fields}


def archive_change(archive: DeclaredArchive) -> Change:
    return {"change": "create archive", **vars(archive), "schema": _written(archive.schema)}


def table_change(table: Table) -> Change:
    return {"change": "create table", **vars(table), "schema": _written(table.schema)}


def table_of(change: Change) -> Table:
    fields = {name: value for name, value in change.items() if name != "change"}
    return Table(**{**fields, "schema": _read(change["schema"]), "key": tuple(change["key"])})


def _written(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _read(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
