"""The directory of the T-INDEX: an AVL tree.

                14                   values 12, 14, 16, 17, 19, 4, 15, 17 in this order
         12           17
      4            16    19
                 15

Reference: Golab, Garg and Özsu 2003, 5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.storage.window.directories.base import Directory, Ints, empty_slots
from sash.storage.window.directories.tree_kernels import (
    _kernel_build_tree,
    _kernel_find_tree,
    _kernel_link_tree,
    _kernel_walk_tree,
)


class TreeDirectory(Directory):
    """A self-balancing search tree.

    Time: log D per key. Space: two links and a height per entry.

    >>> directory = TreeDirectory()
    >>> entries = directory.link(np.array([12, 14, 16, 17, 19, 4, 15, 17]))
    >>> directory.shape()
    (14, (12, (4, None, None), None), (17, (16, (15, None, None), None), (19, None, None)))
    >>> directory.keys[directory.ordered()].tolist()
    [4, 12, 14, 15, 16, 17, 19]
    """

    def _room(self, capacity: int) -> tuple[Any, ...]:
        links = (np.full(capacity, -1, dtype=np.int64) for _ in range(2))
        return *empty_slots(capacity), *links, np.zeros(capacity, dtype=np.int64)

    def _link(self, keys: Ints, found: Ints) -> None:
        stored, free, state, left, right, height = self._arrays
        _kernel_link_tree(keys, stored, free, state, left, right, height, found)

    def find(self, keys: Ints) -> Ints:
        stored, _, state, left, right, _ = self._arrays
        found = np.empty(len(keys), dtype=np.int64)
        _kernel_find_tree(keys, stored, state, left, right, found)
        return found

    def ordered(self) -> Ints:
        _, _, state, left, right, _ = self._arrays
        slots: Ints = _kernel_walk_tree(state, left, right)
        return slots

    def shape(self) -> Any:
        """(key, left, right) from the root down, None for no child."""
        keys, _, state, left, right, _ = self._arrays

        def below(at: int) -> Any:
            return (int(keys[at]), below(int(left[at])), below(int(right[at]))) if at >= 0 else None

        return below(int(state[1]))

    def _unlink(self, alive: NDArray[np.bool_]) -> None:
        slots = self.ordered()
        self._relink(slots[alive[slots]])

    def _relink(self, ascending: Ints) -> None:
        _, _, state, left, right, height = self._arrays
        _kernel_build_tree(ascending, state, left, right, height)
