"""Files that are either wholly there or not there at all."""

from __future__ import annotations

import json
import os
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


def write_table(path: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    write_bytes(path, memoryview(sink.getvalue()))


def read_table(path: Path) -> pa.Table:
    with pa.OSFile(str(path), "rb") as file:
        return pa.ipc.open_file(file).read_all()


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
