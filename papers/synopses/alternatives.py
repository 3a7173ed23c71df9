"""Six ways to answer a thousand SUMs over row windows, each fed one input at a time (Arasu and Widom, 6.1).

An input is an update or a lookup, in an order that nobody can batch. Every way is one compiled loop over the inputs,
so that no difference between them is Python's; those of Sash call the kernels that the synopses use. The loops are
compiled in every run: a cached one would still contain the kernels of an earlier day.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from papers.synopses import search_tree
from sash.panes.intervals import interval, running

_extend_running, _lookup_running = running.kernel_extend, running.kernel_lookup
_extend_interval, _lookup_interval = interval.kernel_extend_one, interval.kernel_lookup_one
_tree_update, _tree_lookup = search_tree.update, search_tree.lookup
_ADD = 0


@dataclass(frozen=True)
class Inputs:
    """Updates with their values and lookups with their intervals; `length` elements came before."""

    length: int
    updates: NDArray[np.bool_]
    values: NDArray[np.int64]
    lefts: NDArray[np.int64]
    rights: NDArray[np.int64]

    @classmethod
    def mixed(cls, chance: np.random.Generator, count: int, update_share: float, windows: int, length: int) -> Inputs:
        """Lookups are of operators S[N, 0], with N from 0 to windows - 1 at random."""
        updates = chance.random(count) < update_share
        rights = length + np.cumsum(updates)
        lefts = np.maximum(rights - chance.integers(0, windows, count) + 1, 1)
        return cls(length, updates, chance.integers(0, 1_000, (count, 1)), lefts, rights)


Run = Callable[[Inputs], NDArray[np.int64]]


@numba.njit(nogil=True)
def kernel_mix_running(rows: Any, length: Any, updates: Any, values: Any, lefts: Any, rights: Any, out: Any) -> None:
    for i in range(updates.size):
        if updates[i]:
            _extend_running(rows, length, values[i : i + 1])
            length += 1
        else:
            _lookup_running(rows, lefts[i : i + 1], rights[i : i + 1], out[i : i + 1])


@numba.njit(nogil=True)
def kernel_mix_interval(tree: Any, length: Any, updates: Any, values: Any, lefts: Any, rights: Any, out: Any) -> None:
    for i in range(updates.size):
        if updates[i]:
            _extend_interval(_ADD, tree, length, values[i : i + 1])
            length += 1
        else:
            _lookup_interval(_ADD, tree, lefts[i : i + 1], rights[i : i + 1], out[i : i + 1])


@numba.njit(nogil=True)
def kernel_mix_search_tree(
    tree: Any, root: Any, length: Any, updates: Any, values: Any, lefts: Any, rights: Any, out: Any
) -> Any:
    for i in range(updates.size):
        if updates[i]:
            root = _tree_update(tree, root, length, values[i, 0])
            length += 1
        else:
            out[i, 0] = _tree_lookup(tree, root, lefts[i], rights[i])
    return root


@numba.njit(nogil=True)
def kernel_mix_flat_tree(tree: Any, length: Any, updates: Any, values: Any, lefts: Any, rights: Any, out: Any) -> None:
    # The search tree at its best: its shape never changes, so no links and no rebalancing, but each update still
    # brings all sums up to the root up to date.
    leaves = tree.shape[0] // 2
    for i in range(updates.size):
        if updates[i]:
            node = leaves + (length & (leaves - 1))
            tree[node, 0] = values[i, 0]
            while node > 1:
                node >>= 1
                tree[node, 0] = tree[2 * node, 0] + tree[2 * node + 1, 0]
            length += 1
        else:
            _lookup_interval(_ADD, tree, lefts[i : i + 1], rights[i : i + 1], out[i : i + 1])


@numba.njit(nogil=True)
def kernel_mix_all(
    answers: Any, ring: Any, length: Any, updates: Any, values: Any, lefts: Any, rights: Any, out: Any
) -> None:
    size = ring.size
    for i in range(updates.size):
        if updates[i]:
            slot, value = length % size, values[i, 0]
            # The element that leaves window N is N before the new one; ring slots run backwards in two stretches.
            for n in range(1, min(slot + 1, answers.size)):
                answers[n] += value - ring[slot - n]
            for n in range(slot + 1, answers.size):
                answers[n] += value - ring[size + slot - n]
            ring[slot] = value
            length += 1
        else:
            out[i, 0] = answers[rights[i] - lefts[i] + 1]


@numba.njit(nogil=True)
def kernel_mix_none(ring: Any, length: Any, updates: Any, values: Any, lefts: Any, rights: Any, out: Any) -> None:
    size = ring.size
    for i in range(updates.size):
        if updates[i]:
            ring[length % size] = values[i, 0]
            length += 1
        else:
            total, slot = 0, (lefts[i] - 1) % size
            width = rights[i] - lefts[i] + 1
            first = min(width, size - slot)
            for k in range(slot, slot + first):
                total += ring[k]
            for k in range(width - first):
                total += ring[k]
            out[i, 0] = total


def _running(capacity: int) -> Run:
    return _looped(kernel_mix_running, np.zeros((capacity + 1, 1), np.int64))


def _interval(capacity: int) -> Run:
    return _looped(kernel_mix_interval, _flat_tree(capacity))


def _psoup_flat(capacity: int) -> Run:
    return _looped(kernel_mix_flat_tree, _flat_tree(capacity))


def _all(capacity: int) -> Run:
    return _looped(kernel_mix_all, np.zeros(capacity + 1, np.int64), np.zeros(capacity, np.int64))


def _none(capacity: int) -> Run:
    return _looped(kernel_mix_none, np.zeros(capacity, np.int64))


def _flat_tree(capacity: int) -> NDArray[np.int64]:
    return np.zeros((2 << (capacity - 1).bit_length(), 1), np.int64)


def _looped(kernel: Any, *state: NDArray[np.int64]) -> Run:
    def run(inputs: Inputs) -> NDArray[np.int64]:
        out = np.zeros_like(inputs.values)
        kernel(*state, inputs.length, inputs.updates, inputs.values, inputs.lefts, inputs.rights, out)
        return out

    return run


def _psoup(capacity: int) -> Run:
    tree, root = search_tree.empty_tree(capacity), 0

    def run(inputs: Inputs) -> NDArray[np.int64]:
        nonlocal root
        out = np.zeros_like(inputs.values)
        arrays = (inputs.updates, inputs.values, inputs.lefts, inputs.rights, out)
        root = kernel_mix_search_tree(tree, root, inputs.length, *arrays)
        return out

    return run


# By name: what makes an empty one for the last `capacity` elements.
ALTERNATIVES: dict[str, Callable[[int], Run]] = {
    "R-INT": _running,
    "B-INT": _interval,
    "PSoup": _psoup,
    "PSoup, flat": _psoup_flat,
    "materialise all": _all,
    "materialise none": _none,
}
