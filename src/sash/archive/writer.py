"""How the files of a sub-index are written: the interface of a writer, and the writer of this process.

    records ──divide──► one part per sub-index ──┐
    old files of a sub-index ────────────────────┴──write──► new files, sorted by key, synced

The archive hands the parts of new records from `divide` to `write` and never looks inside, so a writer for larger
batches (spark/archive_frames.py) has a form of its own. `ArrowWriter` has one sub-index at a time in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sash.archive.file_reader import read_whole
from sash.archive.key_directory import cuts, describe
from sash.archive.spec import EXPIRES, INSERTED, Spec
from sash.archive.upkeep import DataFile
from sash.core.changes import INSTANT
from sash.core.errors import ArchiveError, nearest
from sash.core.time import Micros, format_duration, to_datetime
from sash.storage.files import drafted, remove


def with_times(table: pa.Table, inserted: Iterable[Micros], expires: Iterable[Micros]) -> pa.Table:
    """Records for `Archive.update`: the columns of an archive and the two times of each record.

    >>> with_times(pa.table({"customer": [7]}), [5], [9]).column_names
    ['customer', '_sash_inserted', '_sash_expires']
    """
    for name, times in ((INSERTED, inserted), (EXPIRES, expires)):
        table = table.append_column(name, pa.array(times, pa.int64()).cast(INSTANT))
    return table


def conform(records: pa.Table, spec: Spec) -> pa.Table:
    """Records in the form of the archive's files: the same columns in the same order and types."""
    wanted = spec.stored
    for name in wanted.names:
        if name not in records.column_names:
            raise ArchiveError(f"the records have no column '{name}'{nearest(name, records.column_names)}")
    if extra := [name for name in records.column_names if name not in wanted.names]:
        raise ArchiveError(f"the archive has no column '{extra[0]}'{nearest(extra[0], wanted.names)}")
    try:
        return pa.table([records[field.name].cast(field.type) for field in wanted], schema=wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ArchiveError(f"the records do not fit the columns of the archive: {error}") from None


def times_of(table: pa.Table, column: str) -> NDArray[np.int64]:
    times = table[column]
    if times.null_count:
        raise ArchiveError(f"'{column}' is NULL in {times.null_count} records; every record needs both times")
    return times.cast(pa.int64()).to_numpy()


def check_times(inserted: NDArray[np.int64], expires: NDArray[np.int64], lifetime: Micros, now: Micros) -> None:
    if len(inserted) == 0:
        return
    if (latest := int(inserted.max())) > now:
        raise ArchiveError(
            f"a record is from {to_datetime(latest)}, after the update at {to_datetime(now)}; "
            "keep it for a later update"
        )
    # Differences may overflow if an expiry means never; a sum cannot, as insertions are before `now`.
    beyond = np.flatnonzero(expires > inserted + lifetime)
    if len(beyond):
        raise ArchiveError(
            f"{len(beyond)} records live longer than LIFETIME UP TO {format_duration(lifetime)}; "
            "make the archive with a longer lifetime, or shorten theirs"
        )


def split_by(table: pa.Table, places: NDArray[np.int64]) -> dict[int, pa.Table]:
    """The rows of each place; rows at -1 are left out."""
    table, order = table.combine_chunks(), np.argsort(places, kind="stable")
    numbers, starts, rows = np.unique(places[order], return_index=True, return_counts=True)
    return {
        int(number): table.take(pa.array(order[start : start + n]))
        for number, start, n in zip(numbers, starts, rows, strict=True)
        if number >= 0
    }


@dataclass(frozen=True)
class DividedRecords:
    """New records by sub-index, each part in the writer's own form; how many there are, and how many came too late."""

    parts: dict[int, Any]
    rows: int
    expired: int


@dataclass(frozen=True)
class Rewrite:
    """New files for one sub-index: the live records of the sources after `now`, and `added` (a part, or None).

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
    """The files of every sub-index of an archive, for another division. Names begin with `stem`."""

    sources: tuple[tuple[Path, ...], ...]
    now: Micros
    folder: Path
    stem: str


class Writer(Protocol):
    """How the files of an archive are written. Files that `write` returns are durable, but for their directory."""

    def divide(self, records: Any, spec: Spec, now: Micros) -> DividedRecords:
        """Check records (see `Archive.update`) and divide those that live after `now` among the sub-indices."""
        ...

    def write(self, rewrite: Rewrite, spec: Spec) -> list[DataFile]:
        """Write the files of a sub-index; none without live records."""
        ...

    def repartition(self, move: Repartition, spec: Spec) -> list[DataFile]:
        """Write all live records into the sub-indices of `spec`, the next partitioning."""
        ...


# Beyond this the 32-bit offsets of Arrow's strings may overflow when rows are gathered.
WIDE_FROM_BYTES = 1 << 30


class ArrowWriter:
    """One sub-index at a time in memory, one file per sub-index."""

    def divide(self, records: pa.Table, spec: Spec, now: Micros) -> DividedRecords:
        table = conform(records, spec)
        inserted, expires = times_of(table, INSERTED), times_of(table, EXPIRES)
        check_times(inserted, expires, spec.lifetime, now)
        alive = expires > now
        places = np.where(alive, spec.partitions.place(inserted, expires), -1)
        return DividedRecords(split_by(table, places), int(alive.sum()), int(len(alive) - alive.sum()))

    def write(self, rewrite: Rewrite, spec: Spec) -> list[DataFile]:
        alive = [read_whole(path, spec, rewrite.now) for path in rewrite.sources]
        table = pa.concat_tables([*alive, *([] if rewrite.added is None else [rewrite.added])])
        if table.num_rows == 0:
            return []
        name = f"{rewrite.stem}.parquet"
        size = write_sorted(rewrite.folder / name, table, spec)
        return [describe_file(name, rewrite.sub_index, size, times_of(table, EXPIRES))]

    def repartition(self, move: Repartition, spec: Spec) -> list[DataFile]:
        """Repartition by pieces, one for each pair of an old and a new sub-index: one of either kind is in memory."""
        pieces: dict[int, list[Path]] = {}
        for number, sources in enumerate(move.sources):
            table = pa.concat_tables(
                [spec.stored.empty_table(), *(read_whole(each, spec, move.now) for each in sources)]
            )
            for place, part in self.divide(table, spec, move.now).parts.items():
                piece = move.folder / f"{move.stem}-{place}-from-{number}.piece"
                write_sorted(piece, part, spec, durable=False)
                pieces.setdefault(place, []).append(piece)
        files = []
        for place, paths in sorted(pieces.items()):
            stem = f"{move.stem}-{place}"
            files += self.write(Rewrite(place, tuple(paths), None, move.now, move.folder, stem), spec)
            for piece in paths:
                remove(piece)
        return files


def write_sorted(path: Path, table: pa.Table, spec: Spec, durable: bool = True) -> int:
    """Write a file sorted by key, then expiry; synced and renamed into place. Returns its number of bytes."""
    # In one chunk: otherwise every row group would gather rows from many chunks.
    table = _widened(table).combine_chunks()
    order = pc.sort_indices(table, sort_keys=[(spec.key, "ascending"), (EXPIRES, "ascending")])
    keys = pa.concat_arrays(table[spec.key].take(order).chunks)
    target = max(1, spec.bucket_bytes * table.num_rows // max(1, table.nbytes))
    places = cuts(keys, target)
    with drafted(path, durable) as file:
        _write_groups(file, table, order, places, spec.stored, describe(keys, places))
        return file.tell()


def _write_groups(
    file: Any, table: pa.Table, order: pa.Array, places: list[int], schema: pa.Schema, metadata: dict[str, str]
) -> None:
    with pq.ParquetWriter(file, schema, write_page_checksum=True) as writer:
        for start, end in pairwise(places):
            group = table.take(order.slice(start, end - start)).cast(schema)
            writer.write_table(group, row_group_size=max(1, end - start))
        writer.add_key_value_metadata(metadata)


def _widened(table: pa.Table) -> pa.Table:
    """The table with 64-bit offsets, if 32 bits may not be enough."""
    if table.nbytes < WIDE_FROM_BYTES:
        return table
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return table.cast(pa.schema([field.with_type(wide.get(field.type, field.type)) for field in table.schema]))


def describe_file(name: str, sub_index: int, size: int, expires: NDArray[np.int64]) -> DataFile:
    half = (len(expires) - 1) // 2
    return DataFile(
        name,
        sub_index,
        len(expires),
        size,
        int(expires.min()),
        int(np.partition(expires, half)[half]),
        int(expires.max()),
    )
