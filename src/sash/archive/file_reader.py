"""Reading the files of one state of an archive: probes by key, scans, and a whole file for a rewrite.

A probe opens the files whose key directory has wanted keys, and reads the row groups that may hold them. Footers and
directories are kept in memory once read: files never change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sash.archive.key_directory import KeyDirectory, read_directory
from sash.archive.spec import EXPIRES, Spec
from sash.archive.wanted_keys import WantedKeys
from sash.core.changes import INSTANT
from sash.core.errors import ArchiveError
from sash.core.time import Micros

# Compare the checksums of pages that have some.
CHECKED_PAGES = ds.ParquetFragmentScanOptions(page_checksum_verification=True)


@dataclass(frozen=True)
class Footer:
    metadata: pq.FileMetaData
    directory: KeyDirectory | None


class Footers:
    """Facts about files that have been read before."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._known: dict[Path, Footer] = {}

    def of(self, path: Path) -> Footer:
        # Other threads may forget files meanwhile: look only once.
        footer = self._known.get(path)
        if footer is None:
            with noticing_damage(path):
                metadata = pq.read_metadata(path)
                directory = read_directory(metadata, self._spec.key, self._spec.key_type)
            footer = self._known[path] = Footer(metadata, directory)
        return footer

    def forget_all_but(self, paths: Collection[Path]) -> None:
        self._known = {path: footer for path, footer in list(self._known.items()) if path in paths}


def expires_after(now: Micros) -> pc.Expression:
    """The condition under which a record is alive at `now`."""
    return pc.field(EXPIRES) > pa.scalar(now, pa.int64()).cast(INSTANT)


def read_whole(path: Path, spec: Spec, now: Micros) -> pa.Table:
    """The live records of a file, with the archive's own columns."""
    try:
        with noticing_damage(path):
            file = pq.ParquetFile(path, page_checksum_verification=True)
            return _conforming(file.read(), spec).filter(expires_after(now))
    except FileNotFoundError:
        raise ArchiveError(f"the archive has lost its file {path}; restore it from a copy") from None


def matching_groups(paths: Iterable[Path], footers: Footers, wanted: WantedKeys) -> dict[Path, list[int]]:
    """The row groups of each file that may hold wanted keys, by its key directory."""
    found = {}
    for path in paths:
        footer = footers.of(path)
        every = range(footer.metadata.num_row_groups)
        found[path] = list(every) if footer.directory is None else wanted.groups(footer.directory)
    return found


@dataclass(frozen=True)
class ProbeSize:
    """Files and row groups that a probe reads, of how many, and the bytes of these row groups in memory."""

    files: int
    of_files: int
    row_groups: int
    of_row_groups: int
    bytes: int


def size_of(groups: Mapping[Path, list[int]], footers: Footers) -> ProbeSize:
    metadata = {path: footers.of(path).metadata for path in groups}
    return ProbeSize(
        sum(bool(each) for each in groups.values()),
        len(groups),
        sum(map(len, groups.values())),
        sum(each.num_row_groups for each in metadata.values()),
        sum(metadata[path].row_group(number).total_byte_size for path, each in groups.items() for number in each),
    )


def read_matching(
    groups: Mapping[Path, list[int]], spec: Spec, footers: Footers, condition: pc.Expression, columns: list[str]
) -> pa.Table:
    """The matching rows of some row groups of each file."""
    needed = [name for name in spec.stored.names if name in {*columns, spec.key, EXPIRES}]
    found = [spec.stored.empty_table().select(needed)]
    for path, wanted in groups.items():
        if wanted:
            with noticing_damage(path):
                file = pq.ParquetFile(path, metadata=footers.of(path).metadata, page_checksum_verification=True)
                found.append(_conforming(file.read_row_groups(wanted, columns=needed), spec))
    # All at once: starting a filter costs more than filtering the rows of a file.
    return pa.concat_tables(found).filter(condition).select(columns)


def scan_batches(
    paths: Sequence[Path], spec: Spec, condition: pc.Expression, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """All rows that match, a batch at a time."""
    form = ds.ParquetFileFormat(default_fragment_scan_options=CHECKED_PAGES)
    files = ds.dataset([str(path) for path in paths], schema=spec.stored, format=form)
    with noticing_damage(paths[0].parent if paths else None):
        yield from files.to_batches(columns=columns, filter=condition)


def _conforming(table: pa.Table, spec: Spec) -> pa.Table:
    """The records in the archive's types, whichever writer made the file."""
    wanted = pa.schema([field for field in spec.stored if field.name in table.column_names])
    chosen = table.select(wanted.names)
    return chosen if chosen.schema.equals(wanted) else chosen.cast(wanted)


@contextmanager
def noticing_damage(path: Path | None) -> Iterator[None]:
    """Report an unreadable file as damaged; the holder of the manifest handles a missing one."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise ArchiveError(f"the archive's file {path} cannot be read: {error}") from error
