"""The files of a stored window whose rows are not in memory: how they are written, read and removed.

    epoch-000000007/_pane=1700000006000000/part-..parquet     rows of one micro-batch that belong to one sub-window,
                   /_pane=1700000012000000/part-..parquet     which is named by its end

Spark's executors, which have the rows, write files; nobody changes a file. The files of an epoch count when the entry
that names them has been committed; files that a crash left before that are removed at the next start. The entry has
their sizes and checksums: sizes are compared at the next start, a checksum when the file is first read.

A file that has left the window is not deleted under a reader. Readers say when they begin and end, and a file goes when
all readers from before it left have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from sash.core.errors import CheckpointError, SashError
from sash.core.time import Micros
from sash.storage.files import (
    Seals,
    checksum_of,
    damaged,
    make_directory,
    remove,
    sync_directory,
    sync_file,
    wrong_size,
)

# The part of an epoch's directory that has the rows of one sub-window.
PANE = "_pane"
# The columns that show that a file is intact; the checksum is NULL where files do not outlive their process.
SEAL = (("bytes", pa.int64()), ("checksum", pa.int64()))
# A file with its number of rows, the end of its sub-window, and its seal.
FOUND = pa.schema([("file", pa.string()), ("rows", pa.int64()), ("end", pa.int64()), *SEAL])


class WindowFiles:
    """One thread writes and releases, any thread reads. `durable`: found files outlive a loss of power.

    Names of files are relative to the directory, so that it may be moved.
    """

    def __init__(self, directory: Path, durable: bool = False) -> None:
        make_directory(directory)
        self._directory = directory.resolve()
        self._durable = durable
        # The directories of sub-windows that are in the window, by their ends.
        self._held: dict[Micros, set[str]] = {}
        # A reading may end when its owner is collected, on any thread and at any moment.
        self._guard = threading.RLock()
        self._nobody_reads = threading.Condition(self._guard)
        # Each reader has a number; a file that left the window waits for the readers up to a number.
        self._numbers = count(1)
        self._last_number = 0
        self._readers: set[int] = set()
        self._leaving: list[tuple[int, list[str]]] = []
        self._is_gone = False
        self._seals = Seals()

    def path(self, name: str) -> Path:
        return self._directory / name

    # -- writing -------------------------------------------------------------------------------------

    def place(self, epoch: int, what: str = "") -> Path:
        """A new directory for the files of an epoch. Files of an earlier attempt are removed."""
        place = self._directory / f"epoch-{epoch:09d}{what}"
        remove(place)
        return place

    def found(self, place: Path) -> pa.Table:
        """The files at a place: each with its number of rows, the end of their sub-window, and its seal."""
        paths = sorted(place.glob(f"{PANE}=*/*.parquet"))
        if self._durable:
            _sync(paths, place)
        rows = [pq.read_metadata(path).num_rows for path in paths]
        names = [path.relative_to(self._directory).as_posix() for path in paths]
        ends = [_end(_pane(name)) for name in names]
        sizes = [path.stat().st_size for path in paths]
        checksums = [checksum_of(path) if self._durable else None for path in paths]
        self._seals.trust(paths)
        columns = (names, rows, ends, sizes, checksums)
        return pa.table([pa.array(each, field.type) for each, field in zip(columns, FOUND, strict=True)], schema=FOUND)

    def hold(self, names: Iterable[str]) -> None:
        """Add files to the window."""
        for pane in _panes(names):
            self._held.setdefault(_end(pane), set()).add(pane)

    def discard(self, names: Iterable[str]) -> None:
        """Remove files that never came into the window: no reader has seen them."""
        self._remove(_panes(names))

    # -- leaving -------------------------------------------------------------------------------------

    def let_go(self, edge: Micros) -> None:
        """Release sub-windows that end at or before a time. The log already says that they have left."""
        self._leave([pane for end in sorted(self._held) if end <= edge for pane in sorted(self._held.pop(end))])

    def _leave(self, left: list[str]) -> None:
        with self._guard:
            if left:
                self._leaving.append((self._last_number, left))
            unread = self._unread()
        self._remove(unread)

    def retain(self, names: Iterable[str]) -> None:
        """Set the files of the window, and release all others."""
        names = list(names)
        wanted = set(_panes(names))
        left = [pane for panes in self._held.values() for pane in sorted(panes) if pane not in wanted]
        self._held = {}
        self.hold(names)
        self._leave(left)
        with self._guard:
            known = wanted.union(*(panes for _, panes in self._leaving))
        self._remove_unknown(known)

    def _remove_unknown(self, known: set[str]) -> None:
        """Remove the files of failed attempts, and empty directories."""
        for place in list(self._directory.iterdir()):
            panes = {f"{place.name}/{path.name}" for path in place.glob(f"{PANE}=*")}
            if panes & known:
                self._remove(panes - known)
            else:
                self._remove(panes)
                remove(place)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Inside, the files of the window at the beginning can be read."""
        with self._guard:
            if self._is_gone:
                raise SashError("the stored window has been dropped")
            number = self._last_number = next(self._numbers)
            self._readers.add(number)
        try:
            yield
        finally:
            with self._guard:
                self._readers.remove(number)
                unread = self._unread()
                if not self._readers:
                    self._nobody_reads.notify_all()
            self._remove(unread)

    def _unread(self) -> list[str]:
        """The directories that left the window before the oldest reader began."""
        oldest = min(self._readers, default=self._last_number + 1)
        ready = [panes for last, panes in self._leaving if last < oldest]
        del self._leaving[: len(ready)]
        return [pane for panes in ready for pane in panes]

    def drop(self) -> None:
        """Remove all files when the readers have ended; no reader may begin from now on."""
        with self._guard:
            self._is_gone = True
            self._nobody_reads.wait_for(lambda: not self._readers)
        remove(self._directory)

    def _remove(self, panes: Iterable[str]) -> None:
        gone = {self.path(pane) for pane in panes}
        for path in sorted(gone):
            remove(path)
        if gone:
            self._seals.forget_in(gone)
        for place in {path.parent for path in gone}:
            # Another reader may end at the same time, and remove the same directory.
            with suppress(FileNotFoundError):
                if not any(place.glob(f"{PANE}=*")):
                    remove(place)

    # -- recovery ------------------------------------------------------------------------------------

    def check(self, found: pa.Table) -> None:
        """Check that files which are about to be read are intact."""
        for row in found.select(["file", *dict(SEAL)]).to_pylist():
            path = self.path(row["file"])
            try:
                wrong = self._seals.broken(path, row["bytes"], row["checksum"])
            except FileNotFoundError:
                raise _missing(path) from None
            if wrong is not None:
                raise damaged(path, wrong)

    def check_sizes(self, found: pa.Table) -> None:
        """After a restart, check that the files exist, with their old lengths."""
        for name, size in zip(found["file"].to_pylist(), found["bytes"].to_pylist(), strict=True):
            try:
                wrong = wrong_size(self.path(name), size)
            except FileNotFoundError:
                raise _missing(self.path(name)) from None
            if wrong is not None:
                raise damaged(self.path(name), wrong)

    def keep_only(self, names: Iterable[str]) -> None:
        """After a restart, set the files of the window, and remove those that a crash left."""
        names = list(names)
        for name in names:
            if not self.path(name).exists():
                raise _missing(self.path(name))
        self._remove_unknown(set(_panes(names)))
        self._held = {}
        self.hold(names)


def _missing(path: Path) -> CheckpointError:
    return CheckpointError(f"the checkpoint file {path} is missing")


def _pane(name: str) -> str:
    """The directory of a file's sub-window."""
    return str(PurePosixPath(name).parent)


def _panes(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(_pane, names)))


def _end(pane: str) -> Micros:
    return int(pane.rpartition("=")[2])


def _sync(paths: list[Path], place: Path) -> None:
    """Make files and the directories that name them durable."""
    for path in paths:
        sync_file(path)
    for directory in dict.fromkeys(path.parent for path in paths):
        sync_directory(directory)
    if paths:
        sync_directory(place)
        sync_directory(place.parent)
