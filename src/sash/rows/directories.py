"""Directories: where an index finds the entry of a value.

    name      the report's     find or add a value     in order
    list      L-INDEX          D                       as it is
    tree      T-INDEX          log D                   a walk
    hash      H-INDEX          D / h                   a sort of the buckets
    unsorted  UH-INDEX         D / h                   a sort

for D values and h buckets.
"""

from __future__ import annotations

from collections.abc import Callable

from sash.rows.chained_directory import ChainedDirectory
from sash.rows.directory import Directory
from sash.rows.tree_directory import TreeDirectory

# The report's number of buckets (7.1). As expected, the report finds more buckets faster.
REPORTED_BUCKETS = 100

DIRECTORIES: dict[str, Callable[[], Directory]] = {
    "list": ChainedDirectory,
    "tree": TreeDirectory,
    "hash": lambda: ChainedDirectory(REPORTED_BUCKETS),
    "unsorted": lambda: ChainedDirectory(REPORTED_BUCKETS, ascending=False),
}

__all__ = ["DIRECTORIES", "REPORTED_BUCKETS", "ChainedDirectory", "Directory", "TreeDirectory"]
