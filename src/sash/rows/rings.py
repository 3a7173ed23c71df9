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

AUX gathers the tuples of a sub-window by value first, in an auxiliary directory that lives during the insertion: so the
main directory is searched once per distinct value. DB does not look for the oldest tuple that stays: it leaves one
expired tuple at the end of the ring and sets the ring's dirty bit, so that readers leave out the last tuple.

Rings go round because a tuple does not know its value, and the way to the index leads along the ring.

Rings are linked in integer arrays: nodes for tuples, a start and a dirty bit for each entry of the directory. Nodes are
taken from a stack of free ones and given back when their tuples have left the rings. All arrays are in one tuple that
is replaced as a whole when any of them grows, for the sake of readers on other threads (see `directory`).

A node is a tuple's place in a ring. `link[node]` is the next node, or -1 - entry where the ring leads back to the
index; `start[entry]` is the node that the index points to, -1 for an empty ring. Which way a ring goes, from the
oldest tuple to the newest or back, is the method's business. All deletions take out a whole sub-window, the oldest,
whose nodes are given in order of arrival; they return how many links they followed beyond the nodes they took out.

Reference: Golab, Garg and Özsu 2003, section 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.rows.directories import Directory
from sash.rows.value_keys import Ints

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
        """By node: scratch room in which deletions mark unlinked nodes."""
        return self.arrays[4]

    @property
    def used(self) -> int:
        return len(self.link) - self._number

    def take(self, rows: Ints, entries: int) -> Ints:
        """Nodes for tuples, and room for this many entries."""
        missing = len(rows) - self._number
        if missing > 0 or entries > len(self.start):
            self._grow(len(self.link) + missing if missing > 0 else 0, entries - len(self.start))
        self._number -= len(rows)
        # The top of the stack first, so that tuples which came together lie together.
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


@njit(cache=True)
def kernel_append_each(entries: Any, nodes: Any, start: Any, link: Any) -> int:
    """Plain ring: each tuple goes to the end of its ring, which is looked for from the beginning."""
    steps = 0
    for place in range(entries.size):
        entry, node = entries[place], nodes[place]
        at = start[entry]
        if at < 0:
            start[entry] = node
        else:
            while link[at] >= 0:
                at = link[at]
                steps += 1
            link[at] = node
        link[node] = -1 - entry
    return steps


@njit(cache=True)
def kernel_append_local(local: Any, entries: Any, nodes: Any, start: Any, link: Any) -> int:
    """AUX: chain tuples in a ring of the sub-window first; find the end of a ring once per value.

    `local` is the place in `entries` of each tuple's value.
    """
    steps, newest = 0, np.full(entries.size, -1, np.int64)
    for place in range(local.size):
        value, node = local[place], nodes[place]
        at = newest[value]
        if at < 0:
            at = start[entries[value]]
            while at >= 0 and link[at] >= 0:
                at = link[at]
                steps += 1
        if at < 0:
            start[entries[value]] = node
        else:
            link[at] = node
        link[node] = -1 - entries[value]
        newest[value] = node
    return steps


@njit(cache=True)
def kernel_push(local: Any, entries: Any, nodes: Any, start: Any, link: Any) -> int:
    """BW and DB: the index points to the newest tuple, each tuple to an older one."""
    for place in range(local.size):
        entry, node = entries[local[place]], nodes[place]
        link[node] = start[entry] if start[entry] >= 0 else -1 - entry
        start[entry] = node
    return 0


@njit(cache=True)
def kernel_delete_oldest(nodes: Any, start: Any, link: Any) -> int:
    """Plain ring and AUX: once round the ring for each tuple, to find the index that must point to the next one."""
    steps = 0
    for place in range(nodes.size):
        at = nodes[place]
        while link[at] >= 0:
            at = link[at]
            steps += 1
        after = link[nodes[place]]
        start[-1 - link[at]] = after if after >= 0 else -1
    return steps


@njit(cache=True)
def kernel_delete_bulk(nodes: Any, start: Any, link: Any, gone: Any) -> int:
    """BW: once round the ring for each value, to find the oldest tuple that stays; it leads back to the index then."""
    steps = 0
    gone[nodes] = False
    for place in range(nodes.size - 1, -1, -1):
        youngest = nodes[place]
        if gone[youngest]:
            continue
        at = youngest
        gone[at] = True
        while link[at] >= 0:
            at = link[at]
            gone[at] = True
        back = link[at]
        at = start[-1 - back]
        if at == youngest:
            start[-1 - back] = -1
            continue
        while link[at] != youngest:
            at = link[at]
            steps += 1
        link[at] = back
    return steps


@njit(cache=True)
def kernel_delete_dirty(nodes: Any, start: Any, link: Any, gone: Any, dirty: Any, freed: Any) -> int:
    """DB: leave the youngest expired tuple of each ring as its last, and mark the ring; returns how many go."""
    number = 0
    gone[nodes] = False
    for place in range(nodes.size - 1, -1, -1):
        youngest = nodes[place]
        if gone[youngest]:
            continue
        at = link[youngest]
        while at >= 0:
            gone[at] = True
            freed[number] = at
            number += 1
            at = link[at]
        link[youngest] = at
        dirty[-1 - at] = True
    return number


@njit(cache=True)
def kernel_collect(entries: Any, start: Any, link: Any, row: Any, dirty: Any, newest_first: bool, room: int) -> Any:
    """The rows of rings in order of arrival, and where each ring's begin; an entry of -1 has none.

    `room` is how many rows are expected; more of them cost a copy.
    """
    bounds, rows, number = np.zeros(entries.size + 1, np.int64), np.empty(room, np.int64), 0
    for place in range(entries.size):
        entry, low = entries[place], number
        at = start[entry] if entry >= 0 else -1
        while at >= 0:
            if number == rows.size:
                grown = np.empty(2 * number + 16, np.int64)
                grown[:number] = rows
                rows = grown
            rows[number] = row[at]
            number += 1
            at = link[at]
        # The last tuple of a dirty ring has expired.
        if number > low and dirty[entry]:
            number -= 1
        if newest_first:
            for step in range((number - low) // 2):
                rows[low + step], rows[number - 1 - step] = rows[number - 1 - step], rows[low + step]
        bounds[place + 1] = number
    return rows[:number], bounds


class Rings:
    """The plain ring index: tuples are linked one by one, and unlinked one by one."""

    newest_first = False

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.nodes = Nodes(directory.capacity)

    def insert(self, keys: Ints, rows: Ints) -> Ints:
        """Link the tuples of a sub-window, in order of arrival; returns their nodes."""
        entries = self.directory.link(keys)
        nodes = self.nodes.take(rows, self.directory.capacity)
        kernel_append_each(entries, nodes, self.nodes.start, self.nodes.link)
        return nodes

    def delete(self, nodes: Ints) -> None:
        """Unlink the tuples of the oldest sub-window."""
        kernel_delete_oldest(nodes, self.nodes.start, self.nodes.link)
        self.nodes.give_back(nodes)

    def alive(self) -> NDArray[np.bool_]:
        """Which entries have tuples."""
        return self.nodes.start >= 0

    def forget(self, entries: Ints) -> None:
        """Prepare for the removal of entries without tuples from the directory."""


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
        kernel_append_local(local, entries, nodes, self.nodes.start, self.nodes.link)


class BackwardRings(AuxRings):
    """BW: all expired tuples of a ring are unlinked at once."""

    newest_first = True

    def _join(self, local: Ints, entries: Ints, nodes: Ints) -> None:
        kernel_push(local, entries, nodes, self.nodes.start, self.nodes.link)

    def delete(self, nodes: Ints) -> None:
        kernel_delete_bulk(nodes, self.nodes.start, self.nodes.link, self.nodes.gone)
        self.nodes.give_back(nodes)


class DirtyRings(BackwardRings):
    """DB: a ring keeps its youngest expired tuple and is marked as dirty."""

    def delete(self, nodes: Ints) -> None:
        pool = self.nodes
        # Each ring keeps one of them, and gives back the one that it kept before: no more go than came.
        freed = np.empty(len(nodes), dtype=np.int64)
        number = kernel_delete_dirty(nodes, pool.start, pool.link, pool.gone, pool.dirty, freed)
        pool.give_back(freed[:number])

    def alive(self) -> NDArray[np.bool_]:
        start, link = self.nodes.start, self.nodes.link
        # The index points to an expired tuple that is alone in its ring, and the tuple leads back to the index.
        alone = link[np.maximum(start, 0)] < 0
        return (start >= 0) & ~(self.nodes.dirty & alone)

    def forget(self, entries: Ints) -> None:
        stale = self.nodes.start[entries]
        self.nodes.give_back(stale[stale >= 0])
        self.nodes.start[entries] = -1
        self.nodes.dirty[entries] = False


METHODS: dict[str, Any] = {"ring": Rings, "aux": AuxRings, "bw": BackwardRings, "db": DirtyRings}
