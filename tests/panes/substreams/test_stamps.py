"""The update of many units at once against unit by unit, and what it costs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.substreams import CollectiveIndex
from sash.panes.substreams.collective import LENGTH_BITS, Levels, kernel_update
from sash.panes.substreams.recency import Listing, empty_listing
from tests.panes.substreams.histories import KEYS, stamp
from tests.support.examples import examples

PS = [1, 2, 3, 8]
CLASSES = 7


def state(p: int, listed: list[int], floor: int) -> tuple[Any, Any, Listing]:
    columns = 1 + CLASSES * p
    listing = empty_listing(columns, len(listed), KEYS)._replace(moves=np.zeros((len(listed), 9, 3), dtype=np.int32))
    listing.filled[:], listing.floors[:] = 0, floor
    listing.slots[[column % columns for column in listed]] = np.arange(len(listed))
    return np.zeros(KEYS, dtype=np.int64), np.zeros((KEYS, columns), dtype=np.int32), listing


def reference_update(keys: Any, amounts: Any, pane: int, p: int, lengths: Any, stamps: Any, listing: Any) -> int:
    """Unit by unit, as in Figure 7: on a multiple of 2^c each level of class c takes over from the one before it."""
    classes, visited = (stamps.shape[1] - 1) // p, 0
    for key, amount in zip(keys.tolist(), amounts.tolist(), strict=True):
        if int(lengths[key]) + amount >= ((p + 1) << classes) - p:
            return -1
        old, row, m = stamps[key].copy(), stamps[key], int(lengths[key])
        row[0] = pane
        for length in range(m + 1, m + amount + 1):
            zeros = ((length + p) & -(length + p)).bit_length() - 1
            changed = min(zeros + 1, classes) * p
            row[2 : 1 + changed] = row[1:changed].copy()
            row[1] = pane
            visited += changed
        lengths[key] = (m + amount) & ((1 << LENGTH_BITS) - 1)
        for column in np.flatnonzero(row != old).tolist():
            reference_note(listing.slots[column], key, old[column], row[column], listing)
    return visited


def reference_note(slot: int, key: int, old: int, stamp: int, listing: Any) -> None:
    if slot < 0 or listing.filled[slot] < 0 or stamp <= listing.floors[slot]:
        return
    if listing.filled[slot] < listing.moves.shape[1]:
        listing.moves[slot, listing.filled[slot]] = key, old, stamp
        listing.filled[slot] += 1
    else:
        listing.filled[slot] = -1


@pytest.mark.parametrize("p", PS)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_many_units_at_once_are_as_many_single_ones(p: int, data: st.DataObject) -> None:
    rows = st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(0, 200)), max_size=4)
    panes = data.draw(st.lists(rows, max_size=12))
    listed, floor = data.draw(st.lists(st.integers(0, 30), unique=True, max_size=6)), data.draw(st.integers(0, 4))
    ours, theirs = state(p, listed, floor), state(p, listed, floor)
    for number, pane in enumerate(panes, 1):
        keys, amounts = (np.array([row[i] for row in pane], dtype=np.int64) for i in (0, 1))
        kernel_update(keys, amounts, number, p, *ours)
        reference_update(keys, amounts, number, p, *theirs)
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])
    np.testing.assert_array_equal(ours[2].filled, theirs[2].filled)
    for mine, other, filled in zip(ours[2].moves, theirs[2].moves, ours[2].filled, strict=True):
        np.testing.assert_array_equal(mine[:filled], other[:filled])


@pytest.mark.parametrize("p", PS)
@given(amounts=st.lists(st.integers(1, 2**40), min_size=1, max_size=10))
@settings(max_examples=examples(40))
def test_large_amounts_store_what_the_levels_say(p: int, amounts: list[int]) -> None:
    index, levels, ends = CollectiveIndex(p), Levels(p), np.cumsum(amounts).tolist()
    for time, amount in enumerate(amounts):
        index.update(time, np.array([0]), np.array([amount]))
    for level in range(levels.full(ends[-1]) + p):
        position = levels.stored(ends[-1], level)
        came = None if position is None else next(time for time, end in enumerate(ends) if position <= end)
        assert stamp(index, 0, level) == came


@pytest.mark.parametrize("p", [1, 8])
def test_an_update_looks_at_levels_as_the_logarithm_of_the_amount(p: int) -> None:
    """Doubling every amount adds p levels to an update, on average."""
    costs = []
    for doublings in range(24):
        index, chance = CollectiveIndex(p), np.random.default_rng(1)
        for time in range(400):
            index.update(time, np.array([0]), chance.integers(1 << doublings, 2 << doublings, 1))
        costs.append(index.visited / 400)
    assert costs[0] <= 3 * p
    assert all(0 <= after - before <= 2 * p for before, after in itertools.pairwise(costs))
    assert costs[-1] - costs[0] == pytest.approx(23 * p, rel=0.1)


def test_sums_may_grow_for_ever() -> None:
    """Past 2^62 units in all, and past 2^64, the levels are those of the last units."""
    index, amount = CollectiveIndex(2), (1 << LENGTH_BITS) - 3
    for time in range(12):
        index.update(time, np.array([0, 1]), np.array([amount, 5]))
    for last in range(1, 6):
        assert index.lookup_above(11, last, 5 * last - 1).tolist() == [0, 1]
    assert index.lookup_above(11, 1, amount // 2).tolist() == [0]
    assert index.lookup_above(11, 1, 2**70).tolist() == []
    with pytest.raises(OverflowError, match="too large for the index"):
        index.update(12, np.array([0]), np.array([1 << LENGTH_BITS]))
