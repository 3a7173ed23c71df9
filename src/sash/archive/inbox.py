"""Records that wait for the next update of an archive: one Parquet file, or directory of them, per delivery.

Deliveries have numbers. A repeated delivery (after a crash) has the same number and replaces the first one. So no
record is lost between two updates, and none counts twice: records that an update has taken are before its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sash.archive.file_reader import CHECKED_PAGES
from sash.archive.spec import INSERTED, Spec
from sash.core.changes import INSTANT
from sash.core.time import Micros
from sash.storage.files import drafted, make_directory, remove, sync_directory, sync_file

FOLDER = "inbox"
# Spark leaves this file in a directory that is complete.
_WHOLE = "_SUCCESS"
# Numbers may be negative, names are sorted as text.
_OFFSET = 2**63


@dataclass(frozen=True)
class InboxFiles:
    """Files with records that were inserted after `since`, up to `until`; other records in them do not count."""

    paths: tuple[Path, ...]
    since: Micros | None
    until: Micros

    @property
    def condition(self) -> pc.Expression:
        by = pc.field(INSERTED) <= _instant(self.until)
        return by if self.since is None else by & (pc.field(INSERTED) > _instant(self.since))

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    def read(self, spec: Spec, condition: pc.Expression | None = None) -> pa.Table:
        wanted = self.condition if condition is None else self.condition & condition
        if not self.paths:
            return spec.stored.empty_table()
        form = ds.ParquetFileFormat(default_fragment_scan_options=CHECKED_PAGES)
        return ds.dataset([str(path) for path in self.paths], schema=spec.stored, format=form).to_table(filter=wanted)


class Inbox:
    """The inbox of one archive; its feed lets one thread at a time change it."""

    def __init__(self, archive: Path, spec: Spec) -> None:
        self._folder = archive / FOLDER
        make_directory(self._folder)
        self._spec = spec

    def put(self, number: int, records: pa.Table) -> None:
        """Store records with their two times (`with_times`)."""
        with drafted(self.place(number)) as file:
            pq.write_table(records.cast(self._spec.stored), file, write_page_checksum=True)
        sync_directory(self._folder)

    def sync(self, number: int) -> None:
        """Make Spark's files of a delivery durable, like those of `put`."""
        place = self.place(number)
        for path in _files_of(place):
            sync_file(path)
        sync_directory(place)
        sync_directory(self._folder)

    def place(self, number: int) -> Path:
        """Where a delivery goes; Spark makes a directory of it."""
        return self._folder / f"{number + _OFFSET:020d}.parquet"

    def cut(self, number: int) -> None:
        """Remove deliveries from a number on: they are about to come again, perhaps divided otherwise."""
        first = self.place(number).name
        for path in self._folder.iterdir():
            if path.name >= first:
                remove(path)

    def waiting(self, since: Micros | None, until: Micros) -> InboxFiles:
        return InboxFiles(tuple(self._files()), since, until)

    def latest(self) -> Micros | None:
        """The last insertion of all waiting records; None without any."""
        return max((_latest(path) for path in self._files()), default=None)

    def forget(self, updated: Micros) -> None:
        """Remove deliveries whose records an update has taken."""
        for path in list(self._folder.iterdir()):
            files = list(_files_of(path))
            if files and all(_latest(file) <= updated for file in files):
                remove(path)

    def clear(self) -> None:
        for path in list(self._folder.iterdir()):
            remove(path)

    def _files(self) -> Iterator[Path]:
        for path in sorted(self._folder.iterdir()):
            yield from _files_of(path)


def _files_of(path: Path) -> Iterator[Path]:
    """The files of a complete delivery."""
    if path.suffix != ".parquet" or path.name.startswith("."):
        return
    if path.is_file():
        yield path
    elif (path / _WHOLE).exists():
        yield from sorted(path.glob("part-*.parquet"))


def _latest(path: Path) -> Micros:
    """The last insertion in a file, from its footer."""
    footer = pq.read_metadata(path)
    column = footer.schema.names.index(INSERTED)
    groups = (footer.row_group(number).column(column).statistics for number in range(footer.num_row_groups))
    latest = [pa.scalar(each.max, INSTANT).cast(pa.int64()).as_py() for each in groups if each and each.has_min_max]
    return max(latest, default=-_OFFSET) if len(latest) == footer.num_row_groups else _OFFSET


def _instant(time: Micros) -> pa.Scalar:
    return pa.scalar(time, pa.int64()).cast(INSTANT)
