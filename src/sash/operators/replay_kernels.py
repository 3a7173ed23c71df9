"""Aggregates instant by instant: tuples switched on and off in a tree of partial aggregates.

    root ─┬─ node ─┬─ leaf: a tuple's partial, or the identity while it is not in the window
          │        └─ leaf
          └─ node ─┬─ leaf          a group's tuples are the leaves of one complete tree;
                   └─ leaf          a change touches the path to its root: log2(tuples) combinations

Nothing is ever subtracted: extremes need no inverse, and sums of floats do not keep the rounding errors of what left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
ADD, MIN, MAX = range(3)


@njit(cache=True, inline="always")
def _combined(kind: int, one: Any, other: Any) -> Any:
    # NaN is the greatest number, and the identity of a minimum.
    if kind == ADD:
        return one + other
    if kind == MIN:
        return other if other < one or one != one else one
    return other if other > one or other != other else one


@njit(cache=True)
def _kernel_replay(
    kind: int, values: Any, identity: Any, roots: Int64s, leaves: Int64s, active: Any,
    switched: Int64s, on: Any, ends: Int64s, groups: Int64s,
) -> Any:  # fmt: skip
    """The root of a group's tree after each instant.

    Group g's tree lies from roots[g] on, its root at roots[g] + 1. A tuple's leaf is leaves[i]. The changes `switched`
    (tuples) and `on` are in order of (group, time); instant m is over before change ends[m], in group groups[m].
    """
    tree = np.empty(roots[-1], values.dtype)
    tree[:] = identity
    for i in range(len(leaves)):
        if active[i]:
            tree[leaves[i]] = values[i]
    for group in range(len(roots) - 1):
        first = roots[group]
        for node in range((roots[group + 1] - first) // 2 - 1, 0, -1):
            tree[first + node] = _combined(kind, tree[first + 2 * node], tree[first + 2 * node + 1])
    out = np.empty(len(ends), values.dtype)
    change = 0
    for instant in range(len(ends)):
        first = roots[groups[instant]]
        while change < ends[instant]:
            i = switched[change]
            tree[leaves[i]] = values[i] if on[change] else identity
            node = (leaves[i] - first) // 2
            while node > 0:
                tree[first + node] = _combined(kind, tree[first + 2 * node], tree[first + 2 * node + 1])
                node //= 2
            change += 1
        out[instant] = tree[first + 1]
    return out


@njit(cache=True)
def _kernel_replay_moments(
    means: Any, squares: Any, roots: Int64s, leaves: Int64s, active: Any, counts: Int64s,
    switched: Int64s, on: Any, ends: Int64s, groups: Int64s,
) -> tuple[Any, Any]:  # fmt: skip
    """The same for (count, mean, sum of squared deviations), combined as Chan et al. do."""
    n, mean, square = np.zeros(roots[-1], np.int64), np.zeros(roots[-1]), np.zeros(roots[-1])
    for i in range(len(leaves)):
        if active[i]:
            n[leaves[i]], mean[leaves[i]], square[leaves[i]] = counts[i], means[i], squares[i]
    for group in range(len(roots) - 1):
        first = roots[group]
        for node in range((roots[group + 1] - first) // 2 - 1, 0, -1):
            _combine_moments(n, mean, square, first + node, first + 2 * node)
    found_mean, found_square = np.empty(len(ends)), np.empty(len(ends))
    change = 0
    for instant in range(len(ends)):
        first = roots[groups[instant]]
        while change < ends[instant]:
            i = switched[change]
            n[leaves[i]] = counts[i] if on[change] else 0
            mean[leaves[i]], square[leaves[i]] = means[i], squares[i]
            node = (leaves[i] - first) // 2
            while node > 0:
                _combine_moments(n, mean, square, first + node, first + 2 * node)
                node //= 2
            change += 1
        found_mean[instant], found_square[instant] = mean[first + 1], square[first + 1]
    return found_mean, found_square


@njit(cache=True, inline="always")
def _combine_moments(n: Any, mean: Any, square: Any, to: int, one: int) -> None:
    other = one + 1
    if n[one] == 0 or n[other] == 0:
        full = other if n[one] == 0 else one
        n[to], mean[to], square[to] = n[full], mean[full], square[full]
    else:
        total = n[one] + n[other]
        delta = mean[other] - mean[one]
        step = delta / total
        n[to] = total
        mean[to] = mean[one] + step * n[other]
        square[to] = square[one] + square[other] + delta * step * n[one] * n[other]
