"""How the files of a sub-index get written: what an archive asks of a writer.

`ArrowWriter` (arrow_writer.py) does it in this process. A writer for larger batches, a Spark job per update, takes
new records in a form of its own: the archive hands them from `divide` to `write` and never looks inside.

    records ──divide──► one part per sub-index ──┐
    old files of a sub-index ────────────────────┴──write──► new files, sorted by key, synced
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sash.core.time import Micros
from sash.storage.archive.spec import Spec
from sash.storage.archive.upkeep import DataFile


@dataclass(frozen=True)
class Divided:
    """New records by sub-index, each part in the writer's own form; how many there are, and how many came too late."""

    parts: dict[int, Any]
    rows: int
    expired: int


@dataclass(frozen=True)
class Rewrite:
    """New files for one sub-index: what is alive after `now` in the sources, and `added` (a part, or None).

    Files are called `stem` with something behind it and `.parquet`, in `folder`. Until a manifest names them they do
    not count: a writer that fails may leave them behind.
    """

    sub_index: int
    sources: tuple[Path, ...]
    added: Any
    now: Micros
    folder: Path
    stem: str


@dataclass(frozen=True)
class Repartition:
    """The files of every sub-index of an archive, to be divided otherwise. Names begin with `stem`."""

    sources: tuple[tuple[Path, ...], ...]
    now: Micros
    folder: Path
    stem: str


class Writer(Protocol):
    """How the files of an archive are written. Files that `write` returns are durable, but for their directory."""

    def divide(self, records: Any, spec: Spec, now: Micros) -> Divided:
        """Check records (see `Archive.update`) and divide what is alive after `now` among the sub-indices."""
        ...

    def write(self, rewrite: Rewrite, spec: Spec) -> list[DataFile]:
        """Write the files of a sub-index; none if nothing is alive."""
        ...

    def repartition(self, move: Repartition, spec: Spec) -> list[DataFile]:
        """Write everything that is alive into the sub-indices of `spec`, the partitioning to come."""
        ...
