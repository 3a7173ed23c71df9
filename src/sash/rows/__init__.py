"""Sliding windows in memory, and indexes over them (Golab, Garg and Özsu 2003).

    window    SlidingWindow      a circular array of sub-windows, each stored as LIST, AGGR, HASH or GROUP
    indexes   SetIndex           which values, how often: L-, T-, H-, UH-INDEX
              GroupIndex         which ranges of values, how often: G-INDEX
              GrowingGroupIndex  the same with ranges that nobody has to know before
              RowIndex           which rows have a value: rings, AUX, BW, DB over any of the four directories
    sorts     break_ties         rows in the order of an index, and of further columns

What each costs, and which to take for what, is in docs/windows.md.
"""

from __future__ import annotations

from sash.rows.directories import DIRECTORIES, ChainedDirectory, Directory, TreeDirectory
from sash.rows.grouped_set_index import GroupIndex, GrowingGroupIndex
from sash.rows.rings import METHODS
from sash.rows.row_index import Further, RowIndex, break_ties
from sash.rows.set_index import SetIndex
from sash.rows.sliding_window import SlidingWindow, new_slides
from sash.rows.subwindows import Aggr, Group, Hash, SubWindow
from sash.rows.value_groups import Groups

__all__ = [
    "DIRECTORIES",
    "METHODS",
    "Aggr",
    "ChainedDirectory",
    "Directory",
    "Further",
    "Group",
    "GroupIndex",
    "Groups",
    "GrowingGroupIndex",
    "Hash",
    "RowIndex",
    "SetIndex",
    "SlidingWindow",
    "SubWindow",
    "TreeDirectory",
    "break_ties",
    "new_slides",
]
