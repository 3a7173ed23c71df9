"""Files that are either wholly there or not there at all."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Write to a neighbour, sync, rename over: readers see the old file or the new one."""
    draft = path.with_name(f".{path.name}.draft")
    with open(draft, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_directory(path.parent)


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, json.dumps(value).encode())


def write_table(path: Path, table: pa.Table) -> int:
    """Write an Arrow file; its checksum, to be kept elsewhere: a flipped bit in a column is valid Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = memoryview(sink.getvalue())
    write_bytes(path, data)
    return zlib.crc32(data)


def read_table(path: Path, checksum: int) -> pa.Table:
    """OSError when the file cannot be read, ValueError when it is not what was written."""
    data = path.read_bytes()
    if zlib.crc32(data) != checksum:
        raise ValueError("its checksum is wrong")
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
