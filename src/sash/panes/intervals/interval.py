"""Interval synopsis, B-INT (Arasu and Widom, 3.1.1 and 5; thesis, 2.3.4): values of base-intervals, in a circular tree.

The tree is an array; node x has the children 2x and 2x + 1, position p is the leaf `leaves + (p - 1) mod leaves`. The
nodes of one level are a circular buffer of the base-intervals of that level: an old one is overwritten by the one that
lies a whole turn later. A parent is computed once, when its right child is complete, so that an update costs two folds
on average although some climb to the root.

Invariant: every base-interval inside the last `capacity` positions is in its node. The number of leaves is the
capacity rounded up to a power of two; nodes that reach further back than the capacity are never read.

At most 2b - 1 base-intervals are active (the thesis says 2b), and a lookup reads up to 2 log2(b) - 2 of them
(the thesis says log b).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sash.panes.intervals.synopsis import (
    UFUNCS,
    Interval,
    Positions,
    SharedSynopsis,
    active_base_intervals,
    copy_row,
    decompose,
    fold,
    fold_row,
)
from sash.panes.partials import Component


@numba.njit(cache=True, nogil=True)
def kernel_extend(operation: Any, tree: Any, length: Any, values: Any) -> None:
    leaves = tree.shape[0] // 2
    for i in range(values.shape[0]):
        node = leaves + ((length + i) & (leaves - 1))
        copy_row(tree, node, values, i)
        # A right child has an odd number: with it, its parent is complete.
        while node & 1 and node > 1:
            parent = node >> 1
            copy_row(tree, parent, tree, node - 1)
            fold_row(operation, tree, parent, tree, node)
            node = parent


@numba.njit(cache=True, nogil=True)
def kernel_lookup(operation: Any, tree: Any, lefts: Any, rights: Any, out: Any) -> None:
    for i in range(lefts.size):
        # Base-intervals of the present level, counted from 0: first .. last - 1 are still to be read.
        first, last, nodes = lefts[i] - 1, rights[i], tree.shape[0] // 2
        while first < last:
            # An interval without a sibling inside is read here; pairs are left to the level above.
            if first & 1:
                fold_row(operation, out, i, tree, nodes + (first & (nodes - 1)))
                first += 1
            if last & 1:
                last -= 1
                fold_row(operation, out, i, tree, nodes + (last & (nodes - 1)))
            first, last, nodes = first >> 1, last >> 1, nodes >> 1


# The same for one group, where a value stays in a register, and where a needless read is cheaper than a jump that
# cannot be predicted: the row of node 0, which does not exist, holds the identity.


@numba.njit(cache=True, nogil=True)
def kernel_extend_one(operation: Any, tree: Any, length: Any, values: Any) -> None:
    leaves = tree.shape[0] // 2
    for i in range(values.shape[0]):
        node, value = leaves + ((length + i) & (leaves - 1)), values[i, 0]
        tree[node, 0] = value
        while node & 1 and node > 1:
            value = fold(operation, tree[node - 1, 0], value)
            node >>= 1
            tree[node, 0] = value


@numba.njit(cache=True, nogil=True)
def kernel_lookup_one(operation: Any, tree: Any, lefts: Any, rights: Any, out: Any) -> None:
    for i in range(lefts.size):
        first, last, nodes, value = lefts[i] - 1, rights[i], tree.shape[0] // 2, out[i, 0]
        while first < last:
            alone = first & 1
            value = fold(operation, value, tree[alone * (nodes + (first & (nodes - 1))), 0])
            first += alone
            alone = last & 1
            last -= alone
            value = fold(operation, value, tree[alone * (nodes + (last & (nodes - 1))), 0])
            first, last, nodes = first >> 1, last >> 1, nodes >> 1
        out[i, 0] = value


def node_of(leaves: int, interval: Interval) -> int:
    """The node of a base-interval."""
    left, right = interval
    width = right - left + 1
    return leaves // width + (left - 1) // width % (leaves // width)


class IntervalSynopsis(SharedSynopsis):
    """Any combine, from precomputed values of base-intervals.

    Needs: a combine that is associative (and, here, commutative). Time: update O(1) amortised, O(log N_max) at worst;
    lookup O(log W). Space: below 4 N_max x groups. Reference: Arasu and Widom 2004, Figure 3 and section 5.

    >>> import numpy as np
    >>> from sash.panes.partials import Combine
    >>> synopsis = IntervalSynopsis(8, 1, Combine.MAX, np.int64)
    >>> synopsis.extend([[39], [22], [64], [8], [86], [5], [25], [10]])
    >>> synopsis.lookup(2, 4), synopsis.probed(2, 4)
    (array([64]), [(2, 2), (3, 4)])
    """

    name = "interval"

    def _slots(self, capacity: int) -> int:
        # One row more than there are nodes: the numbers of parents are halves of their children's, from 1 on.
        return 2 << (capacity - 1).bit_length()

    def _append(self, values: Component) -> None:
        self._extend_from(self.length, values)

    def _extend_from(self, length: int, values: Component) -> None:
        extend = kernel_extend_one if self.groups == 1 else kernel_extend
        extend(self._operation, self._rows, length, values)

    def _answer(self, lefts: Positions, rights: Positions, out: Component) -> None:
        lookup = kernel_lookup_one if self.groups == 1 else kernel_lookup
        lookup(self._operation, self._rows, lefts, rights, out)

    def lookup_groups(self, left: int, right: int, groups: NDArray[np.integer]) -> Component:
        self._active([left], [right])
        out = np.full(len(groups), self._identity, dtype=self.dtype)
        for part in decompose(left, right):
            out = UFUNCS[self._operation](out, self._rows[node_of(len(self._rows) // 2, part)][groups])
        return out

    def grow(self, capacity: int) -> None:
        # The leaves hold the values that arrived: feed these again. No lookup reads parents without their older half.
        old = self._rows
        leaves = len(old) // 2
        values = old[leaves + (self._active_positions() - 1) % leaves]
        self._enlarge(capacity)
        self._rows = self._empty(self._slots(capacity))
        self._extend_from(self.length - len(values), values)

    def stored(self) -> list[Interval]:
        """The active base-intervals, level by level."""
        return active_base_intervals(self.length, self.oldest)

    def probed(self, left: int, right: int) -> list[Interval]:
        return decompose(left, right)
