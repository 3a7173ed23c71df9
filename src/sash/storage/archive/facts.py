"""What an archive tells about itself, and an update about what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sash.core.time import Micros
from sash.storage.archive.manifest import Manifest
from sash.storage.archive.spec import Spec


@dataclass(frozen=True)
class Updated:
    """`rows` came in, `expired` had expired before they came; the files of `sub_indices` are others than before."""

    rows: int
    expired: int
    sub_indices: tuple[int, ...]
    files: int
    bytes: int


@dataclass(frozen=True)
class SubIndex:
    """`rows` has those that have expired but were not removed yet. For its times see `Layout.insertion_ranges`."""

    name: str
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Facts:
    """`updated` is the time of the last update, None before the first; `queries` how many come between updates."""

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
