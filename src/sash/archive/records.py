"""New records: their columns, their two times, and which sub-index each belongs to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.archive.spec import EXPIRES, INSERTED, Spec
from sash.core.changes import INSTANT
from sash.core.errors import ArchiveError, nearest
from sash.core.time import Micros, format_duration, to_datetime


def with_times(table: pa.Table, inserted: Iterable[Micros], expires: Iterable[Micros]) -> pa.Table:
    """Records for `Archive.update`: the columns of an archive and the two times of each record.

    >>> with_times(pa.table({"customer": [7]}), [5], [9]).column_names
    ['customer', '_sash_inserted', '_sash_expires']
    """
    for name, times in ((INSERTED, inserted), (EXPIRES, expires)):
        table = table.append_column(name, pa.array(times, pa.int64()).cast(INSTANT))
    return table


def conform(records: pa.Table, spec: Spec) -> pa.Table:
    """Records as the archive's files have them: the same columns in the same order and types."""
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
    # Differences may overflow where an expiry means never; a sum cannot, as insertions are before `now`.
    beyond = np.flatnonzero(expires > inserted + lifetime)
    if len(beyond):
        raise ArchiveError(
            f"{len(beyond)} records live longer than LIFETIME UP TO {format_duration(lifetime)}; "
            "make the archive with a longer lifetime, or shorten theirs"
        )


def split_by(table: pa.Table, places: NDArray[np.int64]) -> dict[int, pa.Table]:
    """The rows of each place; those at -1 are left out."""
    table, order = table.combine_chunks(), np.argsort(places, kind="stable")
    numbers, starts, rows = np.unique(places[order], return_index=True, return_counts=True)
    return {
        int(number): table.take(pa.array(order[start : start + n]))
        for number, start, n in zip(numbers, starts, rows, strict=True)
        if number >= 0
    }
