"""An augmented search tree over arrival order: what PSoup proposes for shared windows (Arasu and Widom, 3.1.3).

Every element of the last N_max is a node, ordered by position; a node also holds the sum of all its descendants.
An update inserts the newest element at the right end and deletes the oldest at the left end, and both rebalance
on the way back to the root; a lookup descends from the root along the two edges of the interval. O(log N) each.

The tree is an AA tree, a red-black tree whose red links lean to the right: the paper measured a red-black
tree as well. Nodes are places in arrays, the element of position p in place p mod (N_max + 1) + 1; place 0 is no node.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

# The columns of a tree: one row per place.
LEFT, RIGHT, LEVEL, POSITION, VALUE, TOTAL = range(6)


def empty_tree(capacity: int) -> NDArray[np.int64]:
    return np.zeros((capacity + 2, 6), dtype=np.int64)


@numba.njit(cache=True, nogil=True)
def kernel_pull(tree: Any, node: Any) -> None:
    total = tree[tree[node, LEFT], TOTAL] + tree[tree[node, RIGHT], TOTAL]
    tree[node, TOTAL] = total + tree[node, VALUE]


@numba.njit(cache=True, nogil=True)
def kernel_skew(tree: Any, node: Any) -> Any:
    """A red link to the left becomes one to the right."""
    left = tree[node, LEFT]
    if node == 0 or tree[left, LEVEL] != tree[node, LEVEL]:
        return node
    tree[node, LEFT], tree[left, RIGHT] = tree[left, RIGHT], node
    kernel_pull(tree, node)
    kernel_pull(tree, left)
    return left


@numba.njit(cache=True, nogil=True)
def kernel_split(tree: Any, node: Any) -> Any:
    """Of two red links to the right in a row, the middle node rises."""
    right = tree[node, RIGHT]
    if node == 0 or tree[tree[right, RIGHT], LEVEL] != tree[node, LEVEL]:
        return node
    tree[node, RIGHT], tree[right, LEFT] = tree[right, LEFT], node
    tree[right, LEVEL] += 1
    kernel_pull(tree, node)
    kernel_pull(tree, right)
    return right


@numba.njit(cache=True, nogil=True)
def kernel_insert(tree: Any, node: Any, new: Any) -> Any:
    if node == 0:
        return new
    side = LEFT if tree[new, POSITION] < tree[node, POSITION] else RIGHT
    tree[node, side] = kernel_insert(tree, tree[node, side], new)
    kernel_pull(tree, node)
    return kernel_split(tree, kernel_skew(tree, node))


@numba.njit(cache=True, nogil=True)
def kernel_delete_oldest(tree: Any, node: Any) -> Any:
    left = tree[node, LEFT]
    if left == 0:
        return tree[node, RIGHT]
    tree[node, LEFT] = kernel_delete_oldest(tree, left)
    kernel_pull(tree, node)
    lower = min(tree[tree[node, LEFT], LEVEL], tree[tree[node, RIGHT], LEVEL]) + 1
    if lower < tree[node, LEVEL]:
        tree[node, LEVEL] = lower
        right = tree[node, RIGHT]
        tree[right, LEVEL] = min(tree[right, LEVEL], lower)
        node = kernel_skew(tree, node)
        right = kernel_skew(tree, tree[node, RIGHT])
        tree[node, RIGHT] = right
        if right != 0:
            tree[right, RIGHT] = kernel_skew(tree, tree[right, RIGHT])
        node = kernel_split(tree, node)
        tree[node, RIGHT] = kernel_split(tree, tree[node, RIGHT])
    return node


@numba.njit(cache=True, nogil=True)
def update(tree: Any, root: Any, length: Any, value: Any) -> Any:
    """Insert the element after `length` others, delete the oldest one; returns the new root."""
    capacity = tree.shape[0] - 2
    new = (length + 1) % (capacity + 1) + 1
    tree[new, LEFT], tree[new, RIGHT], tree[new, LEVEL] = 0, 0, 1
    tree[new, POSITION], tree[new, VALUE], tree[new, TOTAL] = length + 1, value, value
    root = kernel_insert(tree, root, new)
    return kernel_delete_oldest(tree, root) if length + 1 > capacity else root


@numba.njit(cache=True, nogil=True)
def lookup(tree: Any, root: Any, left: Any, right: Any) -> Any:
    node = root
    while node != 0 and not left <= tree[node, POSITION] <= right:
        node = tree[node, RIGHT if tree[node, POSITION] < left else LEFT]
    if node == 0:
        return 0
    total = tree[node, VALUE]
    below = tree[node, LEFT]
    while below != 0:
        if tree[below, POSITION] >= left:
            total += tree[below, VALUE] + tree[tree[below, RIGHT], TOTAL]
            below = tree[below, LEFT]
        else:
            below = tree[below, RIGHT]
    below = tree[node, RIGHT]
    while below != 0:
        if tree[below, POSITION] <= right:
            total += tree[below, VALUE] + tree[tree[below, LEFT], TOTAL]
            below = tree[below, RIGHT]
        else:
            below = tree[below, LEFT]
    return total
