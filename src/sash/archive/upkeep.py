"""The effect of an update on the files of one sub-index: the strategies Rebuild and NoRebuild (thesis, 4.3.1).

Rebuild     a sub-index with new or expired records is written as one file. REINDEX of the wave index.
NoRebuild   new records become a file of their own; a last file that does not fill a bucket is filled up first. Expired
            records stay, and readers skip them, until half of their file has expired.
NoRebuild, eager, is that of the thesis (and, in a wave index, DEL): expired records are deleted at once.

All strategies use the times and sizes of each file in the manifest; no file is opened to find out that nothing is to be
done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sash.core.time import Micros


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a sub-index, as the manifest has it; it never changes.

    The three times are when the first record, half of the records and all records have expired. The checksum is that of
    the whole file; None before it was computed.
    """

    name: str
    sub_index: int
    rows: int
    bytes: int
    first_expiry: Micros
    half_expiry: Micros
    last_expiry: Micros
    checksum: int | None = None


@dataclass(frozen=True)
class Upkeep:
    """Files that stay, and files whose live records are rewritten (together with new ones)."""

    kept: tuple[DataFile, ...]
    sources: tuple[DataFile, ...]


Strategy = Callable[[Sequence[DataFile], bool, Micros, int], Upkeep]


def rebuild(files: Sequence[DataFile], anything_new: bool, now: Micros, bucket_bytes: int) -> Upkeep:
    if not anything_new and all(file.first_expiry > now for file in files):
        return Upkeep(tuple(files), ())
    return Upkeep((), tuple(file for file in files if file.last_expiry > now))


def no_rebuild(files: Sequence[DataFile], anything_new: bool, now: Micros, bucket_bytes: int) -> Upkeep:
    living = [file for file in files if file.last_expiry > now]
    moved = [file for file in living if file.half_expiry <= now or (anything_new and file.bytes < bucket_bytes)]
    return Upkeep(tuple(file for file in living if file not in moved), tuple(moved))


def no_rebuild_eager(files: Sequence[DataFile], anything_new: bool, now: Micros, bucket_bytes: int) -> Upkeep:
    living = [file for file in files if file.last_expiry > now]
    moved = [file for file in living if file.first_expiry <= now or (anything_new and file.bytes < bucket_bytes)]
    return Upkeep(tuple(file for file in living if file not in moved), tuple(moved))


STRATEGIES: dict[str, Strategy] = {"rebuild": rebuild, "no_rebuild": no_rebuild, "no_rebuild_eager": no_rebuild_eager}
