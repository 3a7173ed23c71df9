"""Files that are either wholly there or not there at all, and whose damage is noticed."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sash.core.errors import CheckpointError
from sash.core.faults import around

_CHECKSUM = "checksum"


@contextmanager
def drafted(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """Write to a neighbour, sync, rename over: readers see the old file or the new one."""
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
    """A file that is wholly there, whatever happens, when this returns."""
    with drafted(path) as file:
        file.write(data)
    sync_directory(path.parent)


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, json.dumps(value).encode())


def rename(draft: Path, path: Path) -> None:
    with around("rename", path):
        os.replace(draft, path)


def remove(path: Path) -> None:
    """A file or a directory that nobody needs, if it is there; what cannot go of a directory stays."""
    with around("remove", path):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def truncate(path: Path, size: int) -> None:
    with around("truncate", path):
        os.truncate(path, size)


def sync_file(path: Path) -> None:
    """A file that somebody else has written."""
    with open(path, "rb") as file, around("sync", path):
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """The names in it are on disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with around("sync", directory):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """A directory and those above it; each that is new is named, on disk, in the one above it."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    with around("make", directory):
        directory.mkdir(exist_ok=True)
    sync_directory(directory.parent)


@contextmanager
def written(path: Path) -> Iterator[None]:
    """A full disk and the like, in words that say which file it was."""
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
    """The facts that were sealed; ValueError when they are others."""
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


def write_table(path: Path, table: pa.Table) -> int:
    """Write an Arrow file; its checksum, to be kept elsewhere: a flipped bit in a column is valid Arrow."""
    data = table_bytes(table)
    write_bytes(path, data)
    return zlib.crc32(data)


def read_table(path: Path, checksum: int) -> pa.Table:
    """OSError when the file cannot be read, ValueError when it is not what was written."""
    data = path.read_bytes()
    if zlib.crc32(data) != checksum:
        raise ValueError("its checksum is wrong")
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()
