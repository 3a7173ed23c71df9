"""Items: the order of (group, item) pairs, and the kernels over it against NumPy versions of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.expr.value_codes import KeyDictionary
from sash.panes.items import (
    ItemCounts,
    ItemOrder,
    count_distinct,
    item_order,
    pick_modes,
    pick_ranks,
    pick_top,
    sum_groups,
)

PAIRS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([None, 1.5, -2.0, 0.0, math.nan, math.inf])),
    max_size=12,
    unique_by=repr,
)


def order_of(pairs: list[tuple[Any, Any]]) -> tuple[KeyDictionary, ItemOrder]:
    keys = KeyDictionary([pa.string(), pa.float64()])
    groups, items = ([pair[i] for pair in pairs] for i in (0, 1))
    keys.encode([pa.array(groups, pa.string()), pa.array(items, pa.float64())], len(pairs))
    return keys, item_order(keys, 1, (0,))


def rank(item: float | None) -> tuple[int, float]:
    """NaN after every number, NULL last."""
    if item is None:
        return (2, 0.0)
    return (1, 0.0) if math.isnan(item) else (0, item)


@given(PAIRS)
def test_pairs_are_ordered_by_group_and_item(pairs: list[tuple[Any, Any]]) -> None:
    keys, order = order_of(pairs)
    groups, items = (column.to_pylist() for column in keys.decode_all()) if pairs else ([], [])
    for g, (first, last) in enumerate(zip(order.starts[:-1], order.starts[1:], strict=True)):
        mine = order.order[first:last].tolist()
        (name,) = order.groups.decode(np.array([g]))
        assert [groups[pair] for pair in mine] == name.to_pylist() * len(mine)
        assert [rank(items[pair]) for pair in mine] == sorted(rank(items[pair]) for pair in mine)
        assert all((items[pair] is None) == (place >= order.valid[g]) for place, pair in enumerate(mine, first))
    assert sorted(order.order.tolist()) == list(range(len(keys)))


def test_the_order_is_made_again_only_when_pairs_come() -> None:
    keys, order = order_of([("a", 1.5), ("b", 0.0)])
    assert item_order(keys, 1, (0,)) is order
    keys.encode([pa.array(["a"]), pa.array([7.0])], 1)
    assert item_order(keys, 1, (0,)) is not order


def reference_sum_groups(counts: Any, order: Any, first: Any, last: Any) -> Any:
    sorted_counts = counts[:, order]
    return np.stack([sorted_counts[:, a:b].sum(axis=1) for a, b in zip(first, last, strict=True)], axis=1)


def reference_count_distinct(counts: Any, order: Any, first: Any, last: Any) -> Any:
    return reference_sum_groups((counts > 0).astype(np.int64), order, first, last)


def reference_pick_modes(counts: Any, order: Any, first: Any, last: Any) -> Any:
    out = np.full((len(counts), len(first)), -1, dtype=np.int64)
    for w in range(len(counts)):
        for g, (a, b) in enumerate(zip(first, last, strict=True)):
            mine = counts[w, order[a:b]]
            if mine.size and mine.max() > 0:
                out[w, g] = order[a + int(np.argmax(mine))]
    return out


def reference_pick_ranks(counts: Any, order: Any, first: Any, last: Any, ranks: Any) -> Any:
    out = np.full((len(counts), len(first)), -1, dtype=np.int64)
    for w in range(len(counts)):
        for g, (a, b) in enumerate(zip(first, last, strict=True)):
            sorted_items = np.repeat(order[a:b], counts[w, order[a:b]])
            if 1 <= ranks[w, g] <= len(sorted_items):
                out[w, g] = sorted_items[ranks[w, g] - 1]
    return out


def reference_pick_top(weights: Any, there: Any, order: Any, first: Any, last: Any, k: int) -> Any:
    out = np.full((len(weights), len(first), k), -1, dtype=np.int64)
    for w in range(len(weights)):
        for g, (a, b) in enumerate(zip(first, last, strict=True)):
            mine = [pair for pair in order[a:b].tolist() if there[w, pair]]
            best = sorted(mine, key=lambda pair: descending(weights[w, pair], int(there[w, pair])))[:k]
            out[w, g, : len(best)] = best
    return out


def descending(weight: Any, there: int) -> tuple[int, int, Any]:
    """NaN before any number, a NULL weight after all."""
    if there == 1 or weight != weight:
        return (-there, 0, 0)
    return (-there, 1, -weight)


@given(PAIRS.filter(bool), st.data())
def test_kernels_equal_their_references(pairs: list[tuple[Any, Any]], data: st.DataObject) -> None:
    _, order = order_of(pairs)
    shape = (data.draw(st.integers(1, 3)), len(pairs))
    numbers = st.lists(st.integers(0, 3), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
    counts = np.array(data.draw(numbers), dtype=np.int64).reshape(shape)
    ranks = np.array(data.draw(st.lists(st.integers(0, 9), min_size=shape[0], max_size=shape[0])), dtype=np.int64)
    ranks = np.repeat(ranks[:, np.newaxis], len(order.groups), axis=1)
    spans = (order.order, order.starts[:-1], order.valid)
    assert sum_groups(counts, *spans).tolist() == reference_sum_groups(counts, *spans).tolist()
    assert count_distinct(counts, *spans).tolist() == reference_count_distinct(counts, *spans).tolist()
    assert pick_modes(counts, *spans).tolist() == reference_pick_modes(counts, *spans).tolist()
    assert pick_ranks(counts, *spans, ranks).tolist() == reference_pick_ranks(counts, *spans, ranks).tolist()
    weights = np.where(counts == 2, np.nan, counts.astype(np.float64) - 1) if data.draw(st.booleans()) else counts
    there = np.minimum(counts, 2).astype(np.int8)
    k = data.draw(st.integers(1, 4))
    assert pick_top(weights, there, *spans, k).tolist() == reference_pick_top(weights, there, *spans, k).tolist()


WEIGHTS = {
    "whole": st.integers(-3, 3).map(np.int64),
    "fraction": st.sampled_from([-math.inf, -1.5, 0.0, 2.5, math.inf, math.nan]).map(np.float64),
}


@given(st.sampled_from(sorted(WEIGHTS)), st.integers(1, 60), st.integers(1, 25), st.data())
def test_the_heaviest_of_many_are_those_of_a_sort(kind: str, pairs: int, k: int, data: st.DataObject) -> None:
    """With more items than are chosen, as many, and fewer; equal weights, NaN, NULL weights, absent items."""
    weights = np.array([data.draw(st.lists(WEIGHTS[kind], min_size=pairs, max_size=pairs)) for _ in range(2)])
    there = np.array([data.draw(st.lists(st.sampled_from([0, 1, 2, 2]), min_size=pairs, max_size=pairs))] * 2)
    cut = data.draw(st.integers(0, pairs))
    spans = (np.array(data.draw(st.permutations(range(pairs)))), np.array([0, cut]), np.array([cut, pairs]))
    picked = pick_top(weights, there.astype(np.int8), *spans, k)
    assert picked.tolist() == reference_pick_top(weights, there, *spans, k).tolist()


@pytest.mark.parametrize(
    ("window", "expected"), [([3, 1, 0], (4, 4, 2)), ([0, 0, 5], (5, 0, 0)), ([0, 2, 1], (3, 2, 1))]
)
def test_totals_leave_out_null(window: list[int], expected: tuple[int, int, int]) -> None:
    """Rows tell whether a group is there, totals and distinct items are of those that are not NULL."""
    _, order = order_of([("a", 1.0), ("a", 2.0), ("a", None)])
    items = ItemCounts(np.array([window]), order)
    assert (items.rows[0, 0], items.totals[0, 0], items.distinct()[0, 0]) == expected
