"""The state of an archive as readers see it: one manifest at a time, and the files that it names.

A reader takes a manifest and holds its files until it is done. The writing process replaces the manifest here
(`adopt`); a process that only reads checks whether the manifest on disk has changed. Files that an update has replaced
go when the last reader releases them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from sash.archive.file_reader import Footers, expires_after
from sash.archive.manifest import MANIFEST, Manifest, read_manifest
from sash.archive.spec import Spec
from sash.archive.upkeep import DataFile
from sash.core.errors import ArchiveError
from sash.core.time import Micros, to_datetime
from sash.storage.files import Seals, checksum_of, remove, wrong_size


class Holds:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: Counter[Path] = Counter()
        self._discarded: set[Path] = set()

    def hold(self, paths: Iterable[Path]) -> None:
        with self._lock:
            self._holders.update(paths)

    def release(self, paths: Iterable[Path]) -> None:
        with self._lock:
            self._holders.subtract(paths)
            self._holders += Counter()
            self._delete_free()

    def discard(self, paths: Iterable[Path]) -> None:
        with self._lock:
            self._discarded.update(paths)
            self._delete_free()

    def _delete_free(self) -> None:
        free = {path for path in self._discarded if path not in self._holders}
        self._discarded -= free
        for path in free:
            # A file that cannot be deleted now is an orphan, which the next owner of the archive removes.
            with contextlib.suppress(OSError):
                remove(path)


@dataclass(frozen=True)
class UpdateReport:
    """`rows` came in, `expired` had expired before they came; the files of `sub_indices` have changed."""

    rows: int
    expired: int
    sub_indices: tuple[int, ...]
    files: int
    bytes: int


@dataclass(frozen=True)
class SubIndex:
    """`rows` has those that have expired but were not removed yet."""

    name: str
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Facts:
    """`updated` is the time of the last update, None before the first; `queries` is the number between updates."""

    spec: Spec
    number: int
    updated: Micros | None
    files: int
    rows: int
    bytes: int
    queries: float
    note: dict[str, Any]
    sub_indices: tuple[SubIndex, ...]


def facts_of(manifest: Manifest) -> Facts:
    subs = []
    for number in range(manifest.spec.partitions.n):
        files = manifest.of_sub_index(number)
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        subs.append(SubIndex(f"I{number + 1}", len(files), rows, size))
    return Facts(
        manifest.spec,
        manifest.number,
        manifest.updated,
        len(manifest.files),
        sum(file.rows for file in manifest.files),
        sum(file.bytes for file in manifest.files),
        manifest.queries,
        manifest.note,
        tuple(subs),
    )


FOLDER = "data"
_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class HeldState:
    """One state as of `now`: the files with live rows, and the condition on their rows."""

    manifest: Manifest
    paths: tuple[Path, ...]
    now: Micros
    files: tuple[DataFile, ...] = ()

    @property
    def alive(self) -> pc.Expression:
        """The condition for live rows: files may hold expired ones."""
        return expires_after(self.now)


class States:
    def __init__(self, directory: Path, follows_disk: bool) -> None:
        """`follows_disk` is for readers: another process may write."""
        self.folder = directory / FOLDER
        self._directory, self._follows_disk = directory, follows_disk
        self._lock = threading.Lock()
        self._holds = Holds()
        self._stamp = _stamp(directory)
        self._manifest = read_manifest(directory)
        self.footers = Footers(self._manifest.spec)
        self._seals = Seals()

    @property
    def manifest(self) -> Manifest:
        with self._lock:
            self._look_at_disk()
            return self._manifest

    def adopt(self, manifest: Manifest) -> None:
        """Set the current state. Running reads go on with the old one."""
        with self._lock:
            self._manifest = manifest
            self.footers.forget_all_but(self._paths(manifest))
            self._seals.forget_all_but(self._paths(manifest))

    def sealed(self, files: Iterable[DataFile]) -> tuple[DataFile, ...]:
        """New files, with their checksums."""
        found = tuple(self._sealed(file) for file in files)
        self._seals.trust(self.folder / file.name for file in found)
        return found

    def _sealed(self, file: DataFile) -> DataFile:
        return file if file.checksum is not None else replace(file, checksum=checksum_of(self.folder / file.name))

    def check_sizes(self) -> None:
        """Check the sizes of all files, when an archive is opened."""
        for file in self._manifest.files:
            path = self.folder / file.name
            try:
                wrong = wrong_size(path, file.bytes)
            except FileNotFoundError:
                raise ArchiveError(f"the archive has lost its file {path}; restore it from a copy") from None
            if wrong is not None:
                raise damaged(path, wrong)

    def check(self, files: Iterable[DataFile]) -> None:
        """Check files that are about to be read as a whole; each file is checked once."""
        for file in files:
            path = self.folder / file.name
            wrong = self._seals.broken(path, file.bytes, file.checksum)
            if wrong is not None:
                raise damaged(path, wrong)

    def discard(self, names: tuple[str, ...]) -> None:
        """Remove files that belong to no state as soon as nobody in this process reads them."""
        self._holds.discard(self.folder / name for name in names)

    @contextmanager
    def hold(self, now: Micros | None) -> Iterator[HeldState]:
        """The current state, whose files stay until the end of the `with`."""
        with self._lock:
            self._look_at_disk()
            manifest = self._manifest
            at = _checked(now, manifest.updated)
            everything = self._paths(manifest)
            self._holds.hold(everything)
        try:
            living = tuple(file for file in manifest.files if file.last_expiry > at)
            yield HeldState(manifest, tuple(self.folder / file.name for file in living), at, living)
        finally:
            self._holds.release(everything)

    def _look_at_disk(self) -> None:
        if self._follows_disk and (stamp := _stamp(self._directory)) != self._stamp:
            # In this order: a manifest that comes in between is read again next time.
            self._stamp, self._manifest = stamp, read_manifest(self._directory)
            self.footers.forget_all_but(self._paths(self._manifest))

    def _paths(self, manifest: Manifest) -> set[Path]:
        return {self.folder / file.name for file in manifest.files}


def damaged(path: Path, reason: str) -> ArchiveError:
    return ArchiveError(f"the archive's file {path} is damaged: {reason}; restore it from a copy")


def _checked(now: Micros | None, updated: Micros | None) -> Micros:
    """The time of a read: that of the last update, unless the caller wants a later one."""
    if updated is None:
        return 0 if now is None else now
    if now is None:
        return updated
    if now < updated:
        raise ArchiveError(
            f"the archive cannot be read as of {to_datetime(now)}: what expired before the last update, at "
            f"{to_datetime(updated)}, is gone"
        )
    return now


def _stamp(directory: Path) -> _Stamp:
    try:
        found = os.stat(directory / MANIFEST)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)
