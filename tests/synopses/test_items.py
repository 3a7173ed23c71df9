"""Items: the order of (group, item) pairs, and the kernels over it against their references."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.storage.keys import KeyDictionary
from sash.synopses.item_kernels import REFERENCES
from sash.synopses.items import ItemCounts, ItemOrder, item_order

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


@given(PAIRS.filter(bool), st.data())
def test_kernels_equal_their_references(pairs: list[tuple[Any, Any]], data: st.DataObject) -> None:
    _, order = order_of(pairs)
    shape = (data.draw(st.integers(1, 3)), len(pairs))
    numbers = st.lists(st.integers(0, 3), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
    counts = np.array(data.draw(numbers), dtype=np.int64).reshape(shape)
    ranks = np.array(data.draw(st.lists(st.integers(0, 9), min_size=shape[0], max_size=shape[0])), dtype=np.int64)
    ranks = np.repeat(ranks[:, np.newaxis], len(order.groups), axis=1)
    spans = (order.order, order.starts[:-1], order.valid)
    for name in ("sum_groups", "count_distinct", "pick_modes"):
        kernel, reference = REFERENCES[name]
        assert kernel(counts, *spans).tolist() == reference(counts, *spans).tolist()
    kernel, reference = REFERENCES["pick_ranks"]
    assert kernel(counts, *spans, ranks).tolist() == reference(counts, *spans, ranks).tolist()
    kernel, reference = REFERENCES["pick_top"]
    weights = np.where(counts == 2, np.nan, counts.astype(np.float64) - 1) if data.draw(st.booleans()) else counts
    there = np.minimum(counts, 2).astype(np.int8)
    k = data.draw(st.integers(1, 4))
    assert kernel(weights, there, *spans, k).tolist() == reference(weights, there, *spans, k).tolist()


@pytest.mark.parametrize(
    ("window", "expected"), [([3, 1, 0], (4, 4, 2)), ([0, 0, 5], (5, 0, 0)), ([0, 2, 1], (3, 2, 1))]
)
def test_totals_leave_out_null(window: list[int], expected: tuple[int, int, int]) -> None:
    """Rows tell whether a group is there, totals and distinct items are of those that are not NULL."""
    _, order = order_of([("a", 1.0), ("a", 2.0), ("a", None)])
    items = ItemCounts(np.array([window]), order)
    assert (items.rows[0, 0], items.totals[0, 0], items.distinct()[0, 0]) == expected
