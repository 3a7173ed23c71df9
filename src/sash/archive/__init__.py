"""The archive: a disk index for records with lifetimes, on Parquet (Golab's thesis, chapter 4).

Archive       create, open, update, probe, scan, migrate; docs/archive.md has the format and the promises
Layout        which sub-index a record is in, which ones an update touches: chronological, round robin, random, wave
Writer        how files are written: ArrowWriter in this process; others may do it elsewhere
choose        PARTITION AUTO
"""

from __future__ import annotations

from sash.archive.archive import Archive
from sash.archive.layout import LAYOUTS, ArchiveLayout, Chronological, PartitionChoice, RandomRounds, RoundRobin, choose
from sash.archive.spec import EXPIRES, INSERTED, Spec
from sash.archive.states import Facts, HeldState, SubIndex, UpdateReport
from sash.archive.upkeep import STRATEGIES, DataFile
from sash.archive.writer import ArrowWriter, DividedRecords, Repartition, Rewrite, Writer, with_times

__all__ = [
    "EXPIRES",
    "INSERTED",
    "LAYOUTS",
    "STRATEGIES",
    "Archive",
    "ArchiveLayout",
    "ArrowWriter",
    "Chronological",
    "DataFile",
    "DividedRecords",
    "Facts",
    "HeldState",
    "PartitionChoice",
    "RandomRounds",
    "Repartition",
    "Rewrite",
    "RoundRobin",
    "Spec",
    "SubIndex",
    "UpdateReport",
    "Writer",
    "choose",
    "with_times",
]
