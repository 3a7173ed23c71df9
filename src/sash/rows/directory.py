"""The common part of all directories: entries in slots that do not move.

A directory maps an int64 key to an entry. An entry is a slot in arrays, and keeps its slot as long as it lives:
sub-windows hold slots as links, and indexes keep their counts and rings in arrays of their own by slot.

    key      12   14   16    -    4                 free   3
    slot      0    1    2    3    4

All arrays of a directory are in one tuple that is replaced as a whole when they grow. So a reader on another thread
that holds an old tuple holds arrays which fit together: it may read outdated entries, but never beyond an end. For the
same reason the kernels keep Python's lock: each of them is one step for other threads (see `sliding_window`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# Keys are linked in pieces of this length: room is made for as many new entries in advance.
PIECE = 4096
_LEAST_CAPACITY = 64


class Directory(ABC):
    """Entries by key. `arrays` begins with keys, free slots and [number of free slots, root]."""

    def __init__(self) -> None:
        self.arrays: tuple[Any, ...] = self._room(_LEAST_CAPACITY)

    @property
    def capacity(self) -> int:
        return len(self.arrays[0])

    @property
    def keys(self) -> Ints:
        """Keys by slot; meaningless in free slots."""
        return self.arrays[0]

    def __len__(self) -> int:
        keys, _, state = self.arrays[:3]
        return len(keys) - int(state[0])

    def link(self, keys: Ints) -> Ints:
        """The slot of each key's entry; missing entries are made, one by one, in the order of the keys."""
        found = np.empty(len(keys), dtype=np.int64)
        for low in range(0, len(keys), PIECE):
            piece = keys[low : low + PIECE]
            self._make_room(len(piece))
            self._link(piece, found[low : low + PIECE])
        return found

    def _make_room(self, entries: int) -> None:
        free = int(self.arrays[2][0])
        if free >= entries:
            return
        old, capacity = self.arrays, self.capacity
        grown = self._room(2 * (capacity + entries))
        added = len(grown[0]) - capacity
        for place, before in enumerate(old):
            grown[place][: len(before)] = before
        # The fresh slots lie below the old free ones, and are used after them, the lowest first.
        grown[1][:added] = np.arange(len(grown[0]) - 1, capacity - 1, -1)
        grown[1][added : added + free] = old[1][:free]
        grown[2][0] = free + added
        self.arrays = grown

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Forget the entries whose slots are not alive; the others keep theirs."""
        entries = self.ordered()
        gone = entries[~alive[entries]]
        if not len(gone):
            return
        self._unlink(alive)
        _, free, state = self.arrays[:3]
        number = int(state[0])
        # The lowest on top.
        free[number : number + len(gone)] = np.sort(gone)[::-1]
        state[0] = number + len(gone)

    def clear(self) -> None:
        self.arrays = self._room(self.capacity)

    def rekey(self, entries: Ints, keys: Ints) -> None:
        """Give entries other keys, all of them at once; slots stay."""
        self.keys[entries] = keys
        self._relink(entries[np.argsort(keys, kind="stable")])

    @abstractmethod
    def ordered(self) -> Ints:
        """The slots of all entries in ascending order of their keys."""

    @abstractmethod
    def find(self, keys: Ints) -> Ints:
        """The slot of each key's entry, -1 where there is none."""

    @abstractmethod
    def _room(self, capacity: int) -> tuple[Any, ...]:
        """Empty arrays; arrays by slot have this length."""

    @abstractmethod
    def _link(self, keys: Ints, found: Ints) -> None: ...

    @abstractmethod
    def _unlink(self, alive: NDArray[np.bool_]) -> None: ...

    @abstractmethod
    def _relink(self, ascending: Ints) -> None:
        """Build the whole structure again from entries in ascending order of their keys."""


def empty_slots(capacity: int) -> tuple[Ints, Ints, Ints]:
    """Keys, free slots with the lowest on top, and [number of free slots, root]."""
    keys, free = np.zeros(capacity, dtype=np.int64), np.arange(capacity - 1, -1, -1, dtype=np.int64)
    return keys, free, np.array([capacity, -1], dtype=np.int64)
