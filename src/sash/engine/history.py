"""The catalog's history: every change in order, so that any version of it can be had again.

With a checkpoint each change is appended to a file and synced before the call that made it returns.
A torn last line, left by a crash in the middle of an append, is a change that never returned: it is cut off.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.catalog import DeclaredArchive, RegisteredQuery, Source, StoredIndex, Stream, Table
from sash.core.errors import CheckpointError

Change = dict[str, Any]


class CatalogHistory:
    """Changes in order; the version is their number."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.changes: list[Change] = []
        if path is not None and path.exists():
            self._load(path)

    def _load(self, path: Path) -> None:
        text = path.read_text()
        whole = text.rpartition("\n")[0]
        try:
            self.changes = [json.loads(line) for line in whole.splitlines()]
        except ValueError:
            raise CheckpointError(f"the checkpoint file {path} is damaged") from None
        if whole and not text.endswith("\n"):
            os.truncate(path, len(whole.encode()) + 1)
        elif not whole and text:
            os.truncate(path, 0)

    @property
    def version(self) -> int:
        return len(self.changes)

    def append(self, change: Change) -> None:
        self.changes.append(change)
        if self._path is None:
            return
        with open(self._path, "a") as file:
            file.write(json.dumps(change) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def streams(self) -> dict[str, Change]:
        """The streams that exist now, as they were declared."""
        found: dict[str, Change] = {}
        for change in self.changes:
            if change["change"] == "create stream":
                found[change["name"].lower()] = change
            elif change["change"] == "drop stream":
                found.pop(change["name"].lower(), None)
        return found

    def indexes(self, stream: Stream) -> list[StoredIndex]:
        """The indexes over a stream's stored window, in the order in which they came."""
        found: dict[StoredIndex, None] = {}
        for change in self.changes:
            if change["change"] == "drop stream" and change["name"].lower() == stream.name.lower():
                found.clear()
            elif change["change"] in ("create index", "drop index") and change["stream"] == stream.name:
                index = StoredIndex(change["stream"], change["column"], change["kind"])
                if change["change"] == "create index":
                    found[index] = None
                else:
                    found.pop(index, None)
        return list(found)

    def archives(self) -> list[DeclaredArchive]:
        """The archives that exist now, in the order in which they came."""
        found: dict[str, DeclaredArchive] = {}
        for change in self.changes:
            if change["change"] == "create archive":
                fields = {name: value for name, value in change.items() if name not in ("change", "schema")}
                found[change["name"].lower()] = DeclaredArchive(**fields, schema=_read(change["schema"]))
            elif change["change"] == "drop archive":
                found.pop(change["name"].lower(), None)
        return list(found.values())

    def queries(self, version: int | None = None) -> dict[str, RegisteredQuery]:
        """The queries that were registered at a version, by lower-case name; by default now."""
        found: dict[str, RegisteredQuery] = {}
        for change in self.changes[:version]:
            if change["change"] == "register query":
                fields = {name: value for name, value in change.items() if name != "change"}
                for names in ("streams", "tables"):
                    fields[names] = tuple(fields.get(names, ()))
                fields["measurements"] = tuple(map(tuple, fields.get("measurements", ())))
                found[change["name"].lower()] = RegisteredQuery(**fields)
            elif change["change"] == "drop query":
                found.pop(change["name"].lower(), None)
        return found


def stream_change(stream: Stream) -> Change:
    fields = {name: value for name, value in vars(stream).items() if name not in ("schema", "source")}
    source = None if stream.source is None else {"format": stream.source.format, "options": dict(stream.source.options)}
    return {"change": "create stream", **fields, "schema": _written(stream.schema), "source": source}


def stream_of(change: Change) -> Stream:
    fields = {name: value for name, value in change.items() if name not in ("change", "schema", "source")}
    schema = _read(change["schema"])
    source = None if change["source"] is None else Source(**change["source"])
    return Stream(**fields, schema=schema, source=source)


def query_change(query: RegisteredQuery) -> Change:
    return {"change": "register query", **asdict(query)}


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
