"""The directory of the T-INDEX: an AVL tree.

                14                   values 12, 14, 16, 17, 19, 4, 15, 17 in this order
         12           17
      4            16    19
                 15

Reference: Golab, Garg and Özsu 2003, 5.2.

The tree is in arrays: `left`, `right` and `height` by slot, -1 for no child, `state[1]` is the root. Entries are only
added one by one. They are removed many at a time, when zero counts are purged; the purge visits the whole tree anyway,
and so rebuilds it from the remaining entries, which costs no more than the visit and needs no rotations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.rows.directory import Directory, Ints, empty_slots

# An AVL tree of 2**63 entries has less than 93 levels.
_DEEPEST = 96


@njit(cache=True, inline="always")
def _level(at: Any, height: Any) -> Any:
    return height[at] if at >= 0 else 0


@njit(cache=True)
def _measure(at: Any, left: Any, right: Any, height: Any) -> None:
    height[at] = 1 + max(_level(left[at], height), _level(right[at], height))


@njit(cache=True)
def _rotate_left(at: Any, left: Any, right: Any, height: Any) -> Any:
    top = right[at]
    right[at], left[top] = left[top], at
    _measure(at, left, right, height)
    _measure(top, left, right, height)
    return top


@njit(cache=True)
def _rotate_right(at: Any, left: Any, right: Any, height: Any) -> Any:
    top = left[at]
    left[at], right[top] = right[top], at
    _measure(at, left, right, height)
    _measure(top, left, right, height)
    return top


@njit(cache=True)
def _balanced(at: Any, left: Any, right: Any, height: Any) -> Any:
    """The root of this subtree once its two sides differ by at most one level."""
    lean = _level(left[at], height) - _level(right[at], height)
    if lean > 1:
        child = left[at]
        if _level(left[child], height) < _level(right[child], height):
            left[at] = _rotate_left(child, left, right, height)
        return _rotate_right(at, left, right, height)
    if lean < -1:
        child = right[at]
        if _level(right[child], height) < _level(left[child], height):
            right[at] = _rotate_right(child, left, right, height)
        return _rotate_left(at, left, right, height)
    _measure(at, left, right, height)
    return at


@njit(cache=True)
def kernel_link_tree(
    values: Any, keys: Any, free: Any, state: Any, left: Any, right: Any, height: Any, found: Any
) -> None:
    """Find or make the entry of each value."""
    path = np.empty(_DEEPEST, np.int64)
    for place in range(values.size):
        value, depth, at = values[place], 0, state[1]
        while at >= 0 and keys[at] != value:
            path[depth] = at
            depth += 1
            at = left[at] if value < keys[at] else right[at]
        if at < 0:
            state[0] -= 1
            at = free[state[0]]
            keys[at] = value
            left[at], right[at], height[at] = -1, -1, 1
            child = at
            while depth > 0:
                depth -= 1
                parent = path[depth]
                if value < keys[parent]:
                    left[parent] = child
                else:
                    right[parent] = child
                before = height[parent]
                child = _balanced(parent, left, right, height)
                # Nothing changes above a subtree that kept its root and its height.
                if child == parent and height[child] == before:
                    break
            else:
                state[1] = child
        found[place] = at


@njit(cache=True)
def kernel_find_tree(values: Any, keys: Any, state: Any, left: Any, right: Any, found: Any) -> None:
    for place in range(values.size):
        value, at = values[place], state[1]
        while at >= 0 and keys[at] != value:
            at = left[at] if value < keys[at] else right[at]
        found[place] = at


@njit(cache=True)
def kernel_walk_tree(state: Any, left: Any, right: Any) -> Any:
    """All slots in ascending order of their keys."""
    found, number = np.empty(left.size, np.int64), 0
    path, depth, at = np.empty(_DEEPEST, np.int64), 0, state[1]
    while at >= 0 or depth > 0:
        while at >= 0:
            path[depth] = at
            depth += 1
            at = left[at]
        depth -= 1
        found[number] = path[depth]
        number += 1
        at = right[path[depth]]
    return found[:number]


@njit(cache=True)
def kernel_build_tree(ascending: Any, state: Any, left: Any, right: Any, height: Any) -> None:
    """A balanced tree of entries in ascending order: the middle one on top, both sides likewise."""
    state[1] = -1
    # The ranges still to build: [low, high) of `ascending`, the parent, and on which side.
    lows, highs = np.empty(_DEEPEST, np.int64), np.empty(_DEEPEST, np.int64)
    parents, sides = np.empty(_DEEPEST, np.int64), np.empty(_DEEPEST, np.int64)
    lows[0], highs[0], parents[0], sides[0] = 0, ascending.size, -1, 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        low, high, parent, side = lows[waiting], highs[waiting], parents[waiting], sides[waiting]
        top = ascending[(low + high) // 2] if low < high else -1
        if parent < 0:
            state[1] = top
        elif side == 0:
            left[parent] = top
        else:
            right[parent] = top
        if top < 0:
            continue
        levels, size = 0, high - low
        while size > 0:
            levels, size = levels + 1, size // 2
        height[top] = levels
        middle = (low + high) // 2
        lows[waiting], highs[waiting], parents[waiting], sides[waiting] = low, middle, top, 0
        lows[waiting + 1], highs[waiting + 1], parents[waiting + 1], sides[waiting + 1] = middle + 1, high, top, 1
        waiting += 2


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
        stored, free, state, left, right, height = self.arrays
        kernel_link_tree(keys, stored, free, state, left, right, height, found)

    def find(self, keys: Ints) -> Ints:
        stored, _, state, left, right, _ = self.arrays
        found = np.empty(len(keys), dtype=np.int64)
        kernel_find_tree(keys, stored, state, left, right, found)
        return found

    def ordered(self) -> Ints:
        _, _, state, left, right, _ = self.arrays
        slots: Ints = kernel_walk_tree(state, left, right)
        return slots

    def shape(self) -> Any:
        """(key, left, right) from the root down, None for no child."""
        keys, _, state, left, right, _ = self.arrays

        def below(at: int) -> Any:
            return (int(keys[at]), below(int(left[at])), below(int(right[at]))) if at >= 0 else None

        return below(int(state[1]))

    def _unlink(self, alive: NDArray[np.bool_]) -> None:
        slots = self.ordered()
        self._relink(slots[alive[slots]])

    def _relink(self, ascending: Ints) -> None:
        _, _, state, left, right, height = self.arrays
        kernel_build_tree(ascending, state, left, right, height)
