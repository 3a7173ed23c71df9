"""The archive: a disk index for records with lifetimes, on Parquet (Golab's thesis, chapter 4).

Archive       create, open, update, probe, scan, migrate; docs/archive.md has the format and the promises
Layout        which sub-index a record is in, which ones an update touches: chronological, round robin, wave
Writer        how files are written: ArrowWriter in this process; others may do it elsewhere
choose        PARTITION AUTO
"""

from __future__ import annotations

from sash.storage.archive.archive import Archive
from sash.storage.archive.arrow_writer import ArrowWriter
from sash.storage.archive.choose import PartitionChoice, choose
from sash.storage.archive.facts import Facts, SubIndex, Updated
from sash.storage.archive.layout import LAYOUTS, ArchiveLayout, Chronological, RoundRobin
from sash.storage.archive.records import with_times
from sash.storage.archive.spec import EXPIRES, INSERTED, Spec
from sash.storage.archive.states import Held
from sash.storage.archive.upkeep import STRATEGIES, DataFile
from sash.storage.archive.writer import Divided, Repartition, Rewrite, Writer

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
    "Divided",
    "Facts",
    "Held",
    "PartitionChoice",
    "Repartition",
    "Rewrite",
    "RoundRobin",
    "Spec",
    "SubIndex",
    "Updated",
    "Writer",
    "choose",
    "with_times",
]
