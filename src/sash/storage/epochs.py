"""The epoch log of a stream: what each micro-batch brought, made recoverable by one atomic manifest.

    manifest.json ──► snapshot 40 ──► entry 41 ──► entry 42 ──► entry 43        (all of them immutable files)
         ▲
         └ replaced atomically: an entry exists when the manifest names it, and not before

An entry is a micro-batch's partials as Spark returned them (a few rows per pane and group), or a heartbeat, or
the end of input; with row-based windows also the partials of numbered tuples and the tuples that wait for a number.
Recovery loads the snapshot and applies the entries again; the engine is deterministic, so that gives the state the
stream had. Every SNAPSHOT_EVERY entries the state is written as a whole and older files go.

An intent is written before a micro-batch starts: it says which version of the catalog the micro-batch sees, so
that a replay after a crash sees the same queries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.core.errors import CheckpointError
from sash.storage.files import read_table, write_json, write_table

SNAPSHOT_EVERY = 16
# A table of this name in an entry is in no snapshot: its file stays while somebody needs what it has (see `compact`).
LASTING = "kept"


@dataclass(frozen=True)
class Entry:
    """`kind` is batch, heartbeat or end; `epoch` is Spark's micro-batch number (of the last batch, for the others)."""

    kind: str
    epoch: int
    version: int
    facts: dict[str, Any]
    tables: dict[str, pa.Table] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    epoch: int
    version: int
    state: dict[str, Any]
    tables: list[pa.Table]


class EpochLog:
    """The log of one stream. An entry counts when the manifest that names it is in place."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._manifest: dict[str, Any] = {"number": 0, "epoch": -1, "snapshot": None, "entries": []}
        if self._path("manifest.json").exists():
            self._manifest = self._read_json("manifest.json", self._manifest)
        self._remove_orphans()

    @property
    def committed(self) -> int:
        """The last micro-batch that is in the state; -1 before the first."""
        return int(self._manifest["epoch"])

    @property
    def wants_snapshot(self) -> bool:
        return len(self._manifest["entries"]) >= SNAPSHOT_EVERY

    # -- writing ---------------------------------------------------------------------------------------

    def intend(self, epoch: int, version: int) -> int:
        """The catalog version that a micro-batch is to see: that of its first attempt, else the given one."""
        path = self._path("intent.json")
        if path.exists():
            before = self._read_json("intent.json", ("epoch", "version"))
            if before["epoch"] == epoch:
                return int(before["version"])
        write_json(path, {"epoch": epoch, "version": version})
        return version

    def append(self, entry: Entry) -> None:
        number = self._manifest["number"] + 1
        record: dict[str, Any] = {
            "kind": entry.kind,
            "epoch": entry.epoch,
            "version": entry.version,
            "facts": entry.facts,
        }
        record["files"] = {
            name: self._write_table(f"entry-{number:09d}-{name}.arrow", table) for name, table in entry.tables.items()
        }
        entries = [*self._manifest["entries"], record]
        self._commit({**self._manifest, "number": number, "epoch": entry.epoch, "entries": entries})

    def compact(self, snapshot: Snapshot, edge: int = -(2**62)) -> None:
        """Replace all entries by a snapshot of the state that they led to.

        Files of lasting tables stay as they are if their entries say (`lasts`) that they matter beyond `edge`.
        """
        number = self._manifest["number"] + 1
        files = [
            self._write_table(f"snapshot-{number:09d}-{i}.arrow", table) for i, table in enumerate(snapshot.tables)
        ]
        record = {"epoch": snapshot.epoch, "version": snapshot.version, "state": snapshot.state, "files": files}
        record["lasting"] = [(file, lasts) for file, lasts in self._lasting() if lasts > edge]
        self._commit({"number": number, "epoch": snapshot.epoch, "snapshot": record, "entries": []})
        self._remove_orphans()

    def _write_table(self, name: str, table: pa.Table) -> list[Any]:
        """The file's name and checksum, as the manifest keeps them."""
        return [name, write_table(self._path(name), table)]

    def _commit(self, manifest: dict[str, Any]) -> None:
        write_json(self._path("manifest.json"), manifest)
        self._manifest = manifest

    def _remove_orphans(self) -> None:
        """Files that no manifest names: left by a crash between a write and its commit, or compacted away."""
        snapshot = self._manifest["snapshot"]
        files = [file for record in self._manifest["entries"] for file in record["files"].values()]
        files += [*(snapshot["files"] if snapshot else []), *(file for file, _ in self._lasting())]
        named = {name for name, _ in files}
        for path in self._directory.iterdir():
            if path.suffix in (".arrow", ".draft") and path.name not in named:
                path.unlink()

    def _lasting(self) -> list[tuple[list[Any], int]]:
        """The files of lasting tables, and until when each is needed."""
        snapshot, entries = self._manifest["snapshot"], self._manifest["entries"]
        having = [record for record in entries if LASTING in record["files"]]
        named = [(record["files"][LASTING], record["facts"]["lasts"]) for record in having]
        return [*map(tuple, snapshot.get("lasting", []) if snapshot else []), *named]

    # -- reading ---------------------------------------------------------------------------------------

    def lasting(self) -> list[pa.Table]:
        """The lasting tables as of the snapshot."""
        snapshot = self._manifest["snapshot"]
        return [self._read_table(file) for file, _ in (snapshot.get("lasting", []) if snapshot else [])]

    def snapshot(self) -> Snapshot | None:
        record = self._manifest["snapshot"]
        if record is None:
            return None
        tables = [self._read_table(file) for file in record["files"]]
        return Snapshot(record["epoch"], record["version"], record["state"], tables)

    def entries(self) -> Iterator[Entry]:
        for record in self._manifest["entries"]:
            tables = {name: self._read_table(file) for name, file in record["files"].items()}
            yield Entry(record["kind"], record["epoch"], record["version"], record["facts"], tables)

    def _path(self, name: str) -> Path:
        return self._directory / name

    def _read_json(self, name: str, fields: Iterable[str]) -> dict[str, Any]:
        try:
            value = json.loads(self._path(name).read_bytes())
        except (OSError, ValueError) as error:
            raise self._damaged(name, error) from None
        if not isinstance(value, dict) or any(field not in value for field in fields):
            raise self._damaged(name, "it lacks what belongs in it")
        return value

    def _read_table(self, file: list[Any]) -> pa.Table:
        name, checksum = file
        try:
            return read_table(self._path(name), checksum)
        except (OSError, ValueError) as error:
            raise self._damaged(name, error) from None

    def _damaged(self, name: str, reason: object) -> CheckpointError:
        return CheckpointError(f"the checkpoint file {self._path(name)} is damaged: {reason}")


def present(**tables: pa.Table | None) -> dict[str, pa.Table]:
    """The tables of an entry, without those that there are none of."""
    return {name: table for name, table in tables.items() if table is not None}
