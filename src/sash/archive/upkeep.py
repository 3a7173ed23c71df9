"""What an update does to the files of one sub-index: the strategies Rebuild and NoRebuild (thesis, 4.3.1).

Rebuild     a sub-index with something new or something expired is written as one file. REINDEX of the wave index.
NoRebuild   what is new becomes a file of its own; a last file that does not fill a bucket is filled up first. Expired
            records stay, and readers skip them, until half of their file has expired.
NoRebuild, eager, is that of the thesis (and, in a wave index, DEL): what has expired is deleted at once.

All look at the times and sizes that the manifest has of each file; no file is opened to find out that nothing is to be
done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sash.core.time import Micros


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a sub-index, as the manifest has it; it never changes.

    The three times are those at which the first record, half of the records and all records have expired. The checksum
    is that of the whole file; None before it was taken.
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
    """Files that stay, and files whose living records are written anew (with what is new, if anything is)."""

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
