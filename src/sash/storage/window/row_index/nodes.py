"""The arrays in which rings are linked: nodes for tuples, a start and a dirty bit for each entry of the directory.

Nodes are taken from a stack of free ones and given back when their tuples have left the rings. All arrays are in one
tuple that is replaced as a whole when any of them grows, for the sake of readers on other threads (see
`directories.base`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sash.storage.window.keys import Ints

_LEAST_CAPACITY = 64

Bools = NDArray[np.bool_]
Arrays = tuple[Ints, Ints, Ints, Bools, Bools]


class Nodes:
    """Rings by entry, over nodes that hold row ids."""

    def __init__(self, entries: int) -> None:
        size = _LEAST_CAPACITY
        links, rows = np.full(size, -1, dtype=np.int64), np.full(size, -1, dtype=np.int64)
        starts, bits = np.full(entries, -1, dtype=np.int64), np.zeros(entries, dtype=bool)
        self.arrays: Arrays = (starts, links, rows, bits, np.zeros(size, dtype=bool))
        self._free: Ints = np.arange(size - 1, -1, -1, dtype=np.int64)
        self._number = size

    @property
    def start(self) -> Ints:
        """By entry: the node that the index points to, -1 for an empty ring."""
        return self.arrays[0]

    @property
    def link(self) -> Ints:
        """By node: the next one, or -1 - entry."""
        return self.arrays[1]

    @property
    def row(self) -> Ints:
        """By node: the tuple's row id."""
        return self.arrays[2]

    @property
    def dirty(self) -> Bools:
        """By entry: the last tuple of the ring has expired."""
        return self.arrays[3]

    @property
    def gone(self) -> Bools:
        """By node: room for deletions to remember what they have unlinked."""
        return self.arrays[4]

    @property
    def used(self) -> int:
        return len(self.link) - self._number

    def take(self, rows: Ints, entries: int) -> Ints:
        """Nodes for tuples, and room for so many entries."""
        missing = len(rows) - self._number
        if missing > 0 or entries > len(self.start):
            self._grow(len(self.link) + missing if missing > 0 else 0, entries - len(self.start))
        self._number -= len(rows)
        # The one on top first, so that tuples which came together lie together.
        nodes = self._free[self._number : self._number + len(rows)][::-1].copy()
        self.row[nodes] = rows
        return nodes

    def _grow(self, nodes: int, entries: int) -> None:
        start, link, row, dirty, gone = self.arrays
        self.arrays = (
            np.pad(start, (0, entries), constant_values=-1),
            np.pad(link, (0, nodes), constant_values=-1),
            np.pad(row, (0, nodes), constant_values=-1),
            np.pad(dirty, (0, entries)),
            np.pad(gone, (0, nodes)),
        )
        fresh = np.arange(len(link) + nodes - 1, len(link) - 1, -1)
        self._free = np.concatenate([fresh, self._free[: self._number], np.zeros(len(link) - self._number, np.int64)])
        self._number += nodes

    def give_back(self, nodes: Ints) -> None:
        self._free[self._number : self._number + len(nodes)] = nodes[::-1]
        self._number += len(nodes)
