"""The epoch log of a stream: the entries of its micro-batches, made recoverable by one atomic manifest.

    manifest.json ──► snapshot 40 ──► entry 41 ──► entry 42 ──► entry 43        (all of them immutable files)
         ▲     └────► previous-40.json ──► snapshot 24 ──► entry 25 ──► .. entry 39
         └ replaced atomically: an entry exists when the manifest names it, and not before

Recovery loads the snapshot and applies the entries again; the engine is deterministic, so that gives the state of the
stream. Every SNAPSHOT_EVERY entries the whole state is written; files before the previous snapshot are removed. An
intent stores the version of the catalog for a micro-batch, and when it arrived, so that a replay after a crash sees the
same queries and the same timestamps.

Every file has a checksum, a table's in the manifest. Behind a damaged snapshot, recovery uses the one before it. A
damaged last entry is taken back if Spark brings its micro-batch again. Any other damage is refused, by file name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from sash.core.errors import CheckpointError
from sash.core.events import report
from sash.core.time import Micros
from sash.storage.files import (
    Lasting,
    damaged,
    make_directory,
    merged,
    read_facts,
    read_table,
    remove,
    write_facts,
    write_table,
    written,
)

logger = logging.getLogger("sash.storage")

SNAPSHOT_EVERY = 16
# A table of this name in an entry is in no snapshot: its rows stay as long as a reader needs them (see `compact`).
LASTING = "kept"
# Before every event time: all lasting rows are needed.
KEEP_ALL = -(2**62)
_MANIFEST, _INTENT = "manifest.json", "intent.json"
Record = dict[str, Any]


class Intent(NamedTuple):
    """The version of the catalog that a micro-batch sees, and the timestamp of its tuples if that is their arrival."""

    version: int
    arrival: Micros | None = None


@dataclass(frozen=True)
class Entry:
    """`kind` is batch, heartbeat, landing or end; `epoch` is Spark's number of the micro-batch, or the last one."""

    kind: str
    epoch: int
    version: int
    facts: dict[str, Any]
    tables: dict[str, pa.Table] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """`lasting` are the lasting tables as of a snapshot that was read; the log adds them when one is written."""

    epoch: int
    version: int
    state: dict[str, Any]
    tables: list[pa.Table]
    lasting: list[pa.Table] = field(default_factory=list)


def never(epoch: int) -> bool:
    return False


class EpochLog:
    """The log of one stream. An entry counts when the manifest that names it is in place.

    `replays` says whether Spark will bring a micro-batch again.
    """

    def __init__(self, directory: Path, replays: Callable[[int], bool] = never) -> None:
        make_directory(directory)
        self._directory = directory
        self._manifest: Record = {"number": 0, "epoch": -1, "snapshot": None, "entries": [], "previous": None}
        # The snapshot is damaged: recovery begins with this earlier one and its entries.
        self._back: Record | None = None
        if self._path(_MANIFEST).exists():
            self._manifest = self._read_facts(_MANIFEST, self._manifest)
        elif any(directory.glob("*.arrow")):
            raise damaged(self._path(_MANIFEST), "it is missing, and what it names is there")
        else:
            self._commit(self._manifest)
        self._take_back_if_torn(replays)
        self._remove_orphans()

    @property
    def committed(self) -> int:
        """The last micro-batch in the state; -1 before the first."""
        return int(self._manifest["epoch"])

    @property
    def wants_snapshot(self) -> bool:
        return len(self._manifest["entries"]) >= SNAPSHOT_EVERY

    @property
    def oldest_version(self) -> int | None:
        """The oldest version of the catalog that a recovery needs; None while nothing is committed."""
        if self._manifest["previous"] is not None:
            return int(self._manifest["previous"]["version"])
        return _first_version(self._manifest)

    @property
    def newest_version(self) -> int:
        """The newest version of the catalog that a micro-batch has seen."""
        path = self._path(_INTENT)
        intended = self._read_facts(_INTENT, ("epoch", "version"))["version"] if path.exists() else 0
        seen = [*([self._manifest["snapshot"]] if self._manifest["snapshot"] else []), *self._manifest["entries"]]
        return int(max([intended, *(each["version"] for each in seen[-1:])]))

    # -- writing ---------------------------------------------------------------------------------------

    def intend(self, epoch: int, intent: Intent) -> Intent:
        """What a micro-batch sees: what its first attempt saw, else what is given."""
        path = self._path(_INTENT)
        if path.exists():
            before = self._read_facts(_INTENT, ("epoch", "version"))
            if before["epoch"] == epoch:
                return Intent(int(before["version"]), before.get("arrival"))
        write_facts(path, {"epoch": epoch, **intent._asdict()})
        return intent

    def intends_more_than(self, epoch: int) -> bool:
        """Whether a micro-batch after this one has begun. A replay of it sees the catalog of that time."""
        return self._path(_INTENT).exists() and self._read_facts(_INTENT, ("epoch", "version"))["epoch"] > epoch

    def append(self, entry: Entry) -> None:
        number = self._manifest["number"] + 1
        record: Record = {"kind": entry.kind, "epoch": entry.epoch, "version": entry.version, "facts": entry.facts}
        record["files"] = {
            name: self._write_table(f"entry-{number:09d}-{name}.arrow", table) for name, table in entry.tables.items()
        }
        entries = [*self._manifest["entries"], record]
        self._commit({**self._manifest, "number": number, "epoch": entry.epoch, "entries": entries})

    def compact(self, snapshot: Snapshot, edge: int = KEEP_ALL) -> None:
        """Replace all entries by a snapshot of their state; keep them in case the snapshot is damaged.

        Rows of lasting tables stay if their entries say (`lasts`) that they matter beyond `edge`.
        """
        number = self._manifest["number"] + 1
        files = [
            self._write_table(f"snapshot-{number:09d}-{i}.arrow", table) for i, table in enumerate(snapshot.tables)
        ]
        record: Record = {"epoch": snapshot.epoch, "version": snapshot.version, "state": snapshot.state}
        needed = [each for each in _lasting(self._base) if each[1] > edge]
        record |= {"files": files, "lasting": merged(needed, self._read_table, self._lasting_writer(number))}
        previous = self._write_previous(f"previous-{number:09d}.json", self._base)
        self._commit(
            {"number": number, "epoch": snapshot.epoch, "snapshot": record, "entries": [], "previous": previous}
        )
        self._back = None
        self._remove_orphans()

    @property
    def _base(self) -> Record:
        """Where recovery would begin now: a snapshot, and the entries after it."""
        entries = self._manifest["entries"]
        if self._back is not None:
            return {"snapshot": self._back["snapshot"], "entries": [*self._back["entries"], *entries]}
        return {"snapshot": self._manifest["snapshot"], "entries": entries}

    def _write_previous(self, name: str, base: Record) -> Record:
        """Write the earlier base into its own file: the manifest, which is written often, has only names."""
        write_facts(self._path(name), base)
        version = _first_version(base)
        return {"file": name, "names": sorted({name, *_names(base)}), "version": 0 if version is None else version}

    def _lasting_writer(self, number: int) -> Callable[[int, pa.Table], list[Any]]:
        return lambda level, table: self._write_table(f"lasting-{number:09d}-{level}.arrow", table)

    def _write_table(self, name: str, table: pa.Table) -> list[Any]:
        """The file's name and checksum, as the manifest keeps them."""
        with written(self._path(name)):
            return [name, write_table(self._path(name), table)]

    def _commit(self, manifest: Record) -> None:
        write_facts(self._path(_MANIFEST), manifest)
        self._manifest = manifest

    def _remove_orphans(self) -> None:
        """Remove files that no manifest names: left by a crash between a write and its commit, or compacted away."""
        previous = self._manifest["previous"]
        named = {*_names(self._manifest), *(previous["names"] if previous is not None else [])}
        for path in self._directory.iterdir():
            ours = path.suffix in (".arrow", ".draft") or path.name.startswith("previous-")
            if ours and path.name not in named:
                remove(path)

    # -- reading ---------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot | None:
        """Where recovery begins, with `entries`; None is the beginning. If it is damaged, the snapshot before it."""
        self._back = None
        try:
            return self._read_snapshot(self._manifest["snapshot"])
        except CheckpointError as error:
            previous = self._manifest["previous"]
            if previous is None:
                raise
            back = self._read_facts(previous["file"], ("snapshot", "entries"))
            found = self._read_snapshot(back["snapshot"])
            where = "the beginning" if found is None else f"the snapshot of epoch {found.epoch}"
            report(
                logger, logging.WARNING, "snapshot.damaged",
                "%(why)s; recovery goes back to %(source)s and applies %(entries)d more",
                log=str(self._directory), source=where, entries=len(back["entries"]), why=str(error),
            )  # fmt: skip
            self._back = back
            return found

    def _read_snapshot(self, record: Record | None) -> Snapshot | None:
        if record is None:
            return None
        tables = [self._read_table(file) for file in record["files"]]
        lasting = [self._read_table(file) for file, *_ in record["lasting"]]
        return Snapshot(record["epoch"], record["version"], record["state"], tables, lasting)

    def entries(self) -> Iterator[Entry]:
        """The entries after `snapshot`."""
        for record in self._base["entries"]:
            tables = {name: self._read_table(file) for name, file in record["files"].items()}
            yield Entry(record["kind"], record["epoch"], record["version"], record["facts"], tables)

    def _take_back_if_torn(self, replays: Callable[[int], bool]) -> None:
        """Take back a damaged last entry, as if it were not committed, if Spark brings its micro-batch again."""
        entries, snapshot = self._manifest["entries"], self._manifest["snapshot"]
        if not entries or entries[-1]["kind"] != "batch" or not replays(entries[-1]["epoch"]):
            return
        try:
            for file in entries[-1]["files"].values():
                self._read_table(file)
        except CheckpointError as error:
            report(
                logger, logging.WARNING, "batch.taken_back",
                "%(why)s; micro-batch %(epoch)d is taken back, Spark brings it again",
                log=str(self._directory), epoch=entries[-1]["epoch"], why=str(error),
            )  # fmt: skip
            before = [*([snapshot] if snapshot else []), *entries[:-1]]
            epoch = before[-1]["epoch"] if before else -1
            self._commit({**self._manifest, "epoch": epoch, "entries": entries[:-1]})

    def _path(self, name: str) -> Path:
        return self._directory / name

    def _read_facts(self, name: str, fields: Iterable[str]) -> Record:
        facts = read_facts(self._path(name))
        if any(field not in facts for field in fields):
            raise damaged(self._path(name), "it lacks what belongs in it")
        return facts

    def _read_table(self, file: list[Any]) -> pa.Table:
        name, checksum = file
        try:
            return read_table(self._path(name), checksum)
        except (OSError, ValueError) as error:
            raise damaged(self._path(name), error) from None


def _names(base: Record) -> Iterator[str]:
    """The files of a snapshot and the entries after it."""
    snapshot = base["snapshot"]
    for name, _ in snapshot["files"] if snapshot is not None else []:
        yield name
    for record in base["entries"]:
        yield from (name for name, _ in record["files"].values())
    yield from (file[0] for file, *_ in _lasting(base))


def _lasting(base: Record) -> list[Lasting]:
    """The files of lasting tables, each with the time until which it is needed."""
    having = [record for record in base["entries"] if LASTING in record["files"]]
    fresh = [(record["files"][LASTING], record["facts"]["lasts"], 0) for record in having]
    snapshot = base["snapshot"]
    return [*((file, lasts, level) for file, lasts, level in (snapshot["lasting"] if snapshot else [])), *fresh]


def _first_version(base: Record) -> int | None:
    """The version of the catalog that recovery begins with."""
    first = [*([base["snapshot"]] if base["snapshot"] else []), *base["entries"][:1]]
    return int(first[0]["version"]) if first else None
