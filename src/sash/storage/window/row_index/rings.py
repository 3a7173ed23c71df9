"""Four ways to keep rings: the plain ring index, AUX, BW and DB.

    ring, AUX   index ─► oldest ─► .. ─► newest ─► index
    BW, DB      index ─► newest ─► .. ─► oldest ─► index

    method      insert, per tuple               delete
    ring        D + N/D                         N/D per tuple
    AUX         d + (d/b) (1 + D + N/D)         N/D per tuple
    BW          the same                        N/D per distinct value of the sub-window
    DB          the same                        1

for N tuples and D distinct values in the window, b and d in a sub-window, over a directory that is a list; with a
tree or a hash table D and d become smaller. BW and DB find the newest tuple at once, so that N/D is not paid.

AUX gathers the tuples of a sub-window by value first, in an auxiliary directory that lives while it is inserted: the
main directory is asked once per distinct value. DB does not look for the oldest tuple that stays: it leaves one
expired tuple at the end of the ring and sets the ring's dirty bit, so that readers leave out the last tuple.

Why rings go round at all: a tuple does not say what its value is, and the way to the index leads along the ring.

Reference: Golab, Garg and Özsu 2003, section 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.storage.window.directories import Directory
from sash.storage.window.keys import Ints
from sash.storage.window.row_index.nodes import Nodes
from sash.storage.window.row_index.ring_kernels import (
    _kernel_append_each,
    _kernel_append_local,
    _kernel_delete_bulk,
    _kernel_delete_dirty,
    _kernel_delete_oldest,
    _kernel_push,
)


class Rings:
    """The plain ring index: tuples are linked one by one, and unlinked one by one."""

    newest_first = False

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.nodes = Nodes(directory.capacity)

    def insert(self, keys: Ints, rows: Ints) -> Ints:
        """Link the tuples of a sub-window, in order of arrival; their nodes."""
        entries = self.directory.link(keys)
        nodes = self.nodes.take(rows, self.directory.capacity)
        _kernel_append_each(entries, nodes, self.nodes.start, self.nodes.link)
        return nodes

    def delete(self, nodes: Ints) -> None:
        """Unlink the tuples of the oldest sub-window."""
        _kernel_delete_oldest(nodes, self.nodes.start, self.nodes.link)
        self.nodes.give_back(nodes)

    def alive(self) -> NDArray[np.bool_]:
        """Which entries have tuples."""
        return self.nodes.start >= 0

    def forget(self, entries: Ints) -> None:
        """Entries without tuples are going to be removed from the directory."""


class AuxRings(Rings):
    """AUX: a sub-window's tuples are gathered by value before they are linked."""

    def __init__(self, directory: Directory, auxiliary: Directory) -> None:
        super().__init__(directory)
        self._auxiliary = auxiliary

    def insert(self, keys: Ints, rows: Ints) -> Ints:
        self._auxiliary.clear()
        # A directory that was just cleared hands out its slots in order: they number the distinct values.
        local = self._auxiliary.link(keys)
        entries = self.directory.link(self._auxiliary.keys[: len(self._auxiliary)])
        nodes = self.nodes.take(rows, self.directory.capacity)
        self._join(local, entries, nodes)
        return nodes

    def _join(self, local: Ints, entries: Ints, nodes: Ints) -> None:
        _kernel_append_local(local, entries, nodes, self.nodes.start, self.nodes.link)


class BackwardRings(AuxRings):
    """BW: all expired tuples of a ring are unlinked at once."""

    newest_first = True

    def _join(self, local: Ints, entries: Ints, nodes: Ints) -> None:
        _kernel_push(local, entries, nodes, self.nodes.start, self.nodes.link)

    def delete(self, nodes: Ints) -> None:
        _kernel_delete_bulk(nodes, self.nodes.start, self.nodes.link, self.nodes.gone)
        self.nodes.give_back(nodes)


class DirtyRings(BackwardRings):
    """DB: a ring keeps its youngest expired tuple and is marked as dirty."""

    def delete(self, nodes: Ints) -> None:
        pool = self.nodes
        # Each ring keeps one of them, and gives back the one that it had kept before: no more than came.
        freed = np.empty(len(nodes), dtype=np.int64)
        number = _kernel_delete_dirty(nodes, pool.start, pool.link, pool.gone, pool.dirty, freed)
        pool.give_back(freed[:number])

    def alive(self) -> NDArray[np.bool_]:
        start, link = self.nodes.start, self.nodes.link
        # An expired tuple that is alone in its ring is what the index points to, and leads back to it.
        alone = link[np.maximum(start, 0)] < 0
        return (start >= 0) & ~(self.nodes.dirty & alone)

    def forget(self, entries: Ints) -> None:
        stale = self.nodes.start[entries]
        self.nodes.give_back(stale[stale >= 0])
        self.nodes.start[entries] = -1
        self.nodes.dirty[entries] = False


METHODS: dict[str, Any] = {"ring": Rings, "aux": AuxRings, "bw": BackwardRings, "db": DirtyRings}
