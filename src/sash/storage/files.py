"""Durable files: a file is wholly there or not there at all, and damage is noticed.

Files of other writers, such as Spark's executors, have recorded sizes and checksums. Sizes are compared on demand; a
checksum costs a pass over the file, so it is compared once in a process, when the file is about to be read as a whole.

Files of lasting tables are merged as they grow old: sixteen of a level become one of the next, so that a window of a
day has a few dozen files. They stay in the order of their rows.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sash.core.errors import CheckpointError
from sash.core.events import report
from sash.core.faults import around

# The bytes of a file that a pass has in memory.
_PIECE = 1 << 20


def checksum_of(path: Path) -> int:
    """CRC-32 of a file.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "file"
    >>> _ = path.write_bytes(b"123456789")
    >>> hex(checksum_of(path))
    '0xcbf43926'
    """
    found = 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            found = zlib.crc32(piece, found)
    return found


class Seals:
    """The files that are known to be intact. Safe from any thread: two threads may check the same file."""

    def __init__(self) -> None:
        self._known: set[Path] = set()

    def trust(self, paths: Iterable[Path]) -> None:
        """Trust files whose checksums this process has taken when it wrote them."""
        # A new set, since other threads may iterate over this one.
        self._known = self._known.union(paths)

    def broken(self, path: Path, size: int, checksum: int | None) -> str | None:
        """What is wrong with a file, or None; FileNotFoundError if it is gone. Without a checksum, by its size."""
        if path in self._known:
            return None
        if (wrong := wrong_size(path, size)) is not None:
            return wrong
        if checksum is not None and checksum_of(path) != checksum:
            return "its checksum is wrong"
        self.trust([path])
        return None

    def forget_all_but(self, paths: Collection[Path]) -> None:
        self._known = {path for path in self._known if path in paths}

    def forget_in(self, directories: Collection[Path]) -> None:
        """Forget the files of directories that are gone."""
        self._known = {path for path in self._known if path.parent not in directories}


def wrong_size(path: Path, size: int) -> str | None:
    found = os.stat(path).st_size
    return None if found == size else f"it has {found:,} bytes instead of {size:,}"


logger = logging.getLogger("sash.storage")

# A file with its checksum, until when it is needed, and its level.
Lasting = tuple[list[Any], int, int]
FAN_IN = 16
# Files of this level are large enough, and go soon enough after their last row is needed.
TOP_LEVEL = 3


def merged(
    files: Sequence[Lasting], read: Callable[[list[Any]], pa.Table], write: Callable[[int, pa.Table], list[Any]]
) -> list[Lasting]:
    """The same rows in fewer files; `write` takes the level and gives the new file with its checksum."""
    found = list(files)
    for level in range(TOP_LEVEL):
        run = [each for each in found if each[2] == level]
        if len(run) < FAN_IN:
            continue
        try:
            table = pa.concat_tables([read(file) for file, _, _ in run])
        except CheckpointError as error:
            # Memory has the whole state: the stream goes on, and the next recovery decides.
            told = "%(why)s; files are not merged"
            report(logger, logging.WARNING, "files.unmerged", told, files=len(run), why=str(error))
            return found
        one = (write(level + 1, table), max(lasts for _, lasts, _ in run), level + 1)
        place = found.index(run[0])
        found[place : place + len(run)] = [one]
    return found


_CHECKSUM = "checksum"


@contextmanager
def drafted(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """Write to a draft, sync, rename over: readers see the old file or the new one."""
    draft = path.with_name(f".{path.name}.draft")
    with open(draft, "wb") as file:
        with around("write", draft):
            yield file
            file.flush()
        if durable:
            with around("sync", draft):
                os.fsync(file.fileno())
    rename(draft, path)


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Write a file that is complete, whatever happens, when this returns."""
    with drafted(path) as file:
        file.write(data)
    sync_directory(path.parent)


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, json.dumps(value).encode())


def rename(draft: Path, path: Path) -> None:
    with around("rename", path):
        os.replace(draft, path)


def remove(path: Path) -> None:
    """Remove a file or a directory, if it exists; parts of a directory that cannot be removed stay."""
    with around("remove", path):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def truncate(path: Path, size: int) -> None:
    with around("truncate", path):
        os.truncate(path, size)


def sync_file(path: Path) -> None:
    """Sync a file that another process has written."""
    with open(path, "rb") as file, around("sync", path):
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with around("sync", directory):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Make a directory and its parents; make the name of each new one durable."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    with around("make", directory):
        directory.mkdir(exist_ok=True)
    sync_directory(directory.parent)


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Report a full disk and the like with the name of the file."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint file {path} cannot be written: {error.strerror or error}; what was committed before "
            "is whole, so the session can go on from it when the cause is removed"
        ) from error


# -- facts ---------------------------------------------------------------------------------------------


def sealed(facts: dict[str, Any]) -> str:
    """Facts as JSON with a checksum of their own: a flipped bit in a number is valid JSON.

    >>> sealed({"epoch": 3})
    '{"epoch": 3, "checksum": 2796026570}'
    """
    text = json.dumps(facts)
    return f'{text[:-1]}, "{_CHECKSUM}": {zlib.crc32(text.encode())}}}'


def unsealed(text: str | bytes) -> dict[str, Any]:
    """The sealed facts; ValueError if they were changed."""
    facts = json.loads(text)
    if not isinstance(facts, dict) or _CHECKSUM not in facts:
        raise ValueError("it lacks what belongs in it")
    checksum = facts.pop(_CHECKSUM)
    if zlib.crc32(json.dumps(facts).encode()) != checksum:
        raise ValueError("its checksum is wrong")
    return facts


def write_facts(path: Path, facts: dict[str, Any]) -> None:
    with written(path):
        write_bytes(path, sealed(facts).encode())


def read_facts(path: Path) -> dict[str, Any]:
    try:
        return unsealed(path.read_bytes())
    except (OSError, ValueError) as error:
        raise damaged(path, error) from None


def damaged(path: Path, reason: object) -> CheckpointError:
    return CheckpointError(f"the checkpoint file {path} is damaged: {reason}")


# -- tables --------------------------------------------------------------------------------------------


def table_bytes(table: pa.Table) -> memoryview:
    """A table as an Arrow file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


def stream_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream, for tables that travel or lie within another file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def write_table(path: Path, table: pa.Table) -> int:
    """Write an Arrow file; returns its checksum, for another file: a flipped bit in a column is valid Arrow."""
    data = table_bytes(table)
    write_bytes(path, data)
    return zlib.crc32(data)


def read_table(path: Path, checksum: int) -> pa.Table:
    """Read an Arrow file; OSError if it cannot be read, ValueError if its checksum differs."""
    data = path.read_bytes()
    if zlib.crc32(data) != checksum:
        raise ValueError("its checksum is wrong")
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()
