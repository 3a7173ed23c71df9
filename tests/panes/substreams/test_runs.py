"""Each kernel of the runs against a NumPy version of it, and the encoding of numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.substreams.extremes import encode, kernel_distinct, kernel_merge
from tests.support.examples import examples

KEYS = 8
ROWS = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, KEYS - 1)), max_size=12)


def run_of(rows: list[tuple[int, int]]) -> tuple[Any, Any]:
    rows = sorted(rows)
    return np.array([key for _, key in rows], dtype=np.int32), np.array([value for value, _ in rows], dtype=np.int64)


def reference_merge(keys: Any, values: Any, other_keys: Any, other_values: Any, seen: Any, mark: int) -> Any:
    all_keys, all_values = np.concatenate([other_keys, keys]), np.concatenate([other_values, values])
    order = np.argsort(all_values, kind="stable")[::-1]
    _, first = np.unique(all_keys[order], return_index=True)
    kept = order[np.sort(first)][::-1]
    seen[all_keys] = mark
    return all_keys[kept], all_values[kept]


@given(one=ROWS, other=ROWS)
@settings(max_examples=examples(60))
def test_a_merge_is_its_reference(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    seen = [np.zeros(KEYS, dtype=np.int64) for _ in range(2)]
    ours = kernel_merge(*run_of(one), *run_of(other), seen[0], 1)
    theirs = reference_merge(*run_of(one), *run_of(other), seen[1], 1)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(seen[0], seen[1])
    greatest: dict[int, int] = {}
    for value, key in [*one, *other]:
        greatest[key] = max(value, greatest.get(key, value))
    assert dict(zip(ours[0].tolist(), ours[1].tolist(), strict=True)) == greatest
    assert (np.diff(ours[1]) >= 0).all()


def reference_distinct(keys: Any, seen: Any, mark: int) -> Any:
    fresh = keys[seen[keys] != mark]
    seen[keys] = mark
    return fresh[np.sort(np.unique(fresh, return_index=True)[1])]


@given(keys=st.lists(st.integers(0, KEYS - 1), max_size=20), known=st.lists(st.integers(0, KEYS - 1)))
@settings(max_examples=examples(60))
def test_distinct_is_its_reference(keys: list[int], known: list[int]) -> None:
    seen = [np.zeros(KEYS, dtype=np.int64) for _ in range(2)]
    for each in seen:
        each[known] = 3
    codes = np.array(keys, dtype=np.int32)
    ours, theirs = kernel_distinct(codes, seen[0], 3), reference_distinct(codes, seen[1], 3)
    assert ours.tolist() == theirs.tolist() == [key for key in dict.fromkeys(keys) if key not in known]
    np.testing.assert_array_equal(seen[0], seen[1])


@given(numbers=st.lists(st.floats(), min_size=2, max_size=10))
def test_codes_of_numbers_are_in_their_order(numbers: list[float]) -> None:
    """NaN beyond infinity, and -0.0 is 0.0."""
    codes = encode(np.array(numbers), reverse=False).tolist()
    backward = encode(np.array(numbers), reverse=True).tolist()
    order = [(math.isnan(number), 0.0 if math.isnan(number) else number) for number in numbers]
    for i in range(len(numbers)):
        for j in range(len(numbers)):
            assert (order[i] < order[j]) == (codes[i] < codes[j]) == (backward[i] > backward[j])
