"""The counters of values: Spark's hash, the table's keys, and the estimates against counting."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.expr.value_codes import KeyDictionary
from sash.panes.aggregates.approximate import CountMin
from sash.panes.counters import (
    COUNTERS,
    EPSILON,
    MOST_COUNTERS,
    ROWS,
    counter_key,
    counters_of,
    keys_of_rows,
    xxhash64,
)
from sash.panes.items import ItemCounts, item_order
from sash.plan.expressions import RowExpression
from tests.support.examples import examples

# As Spark gives them for xxhash64 of a binary value.
HASHES = {
    b"": -7444071767201028348,
    b"a": -8582455328737087284,
    b"12345678": 6863040065134489090,
    bytes(range(31)): -8988936099728967847,
    bytes(range(32)): -8644129751861931918,
    bytes(range(71)): 4285260837125010956,
}
RANDOM = np.random.default_rng(5)
DATA: dict[str, list[int]] = {
    "uniform": RANDOM.integers(0, 40_000, 30_000).tolist(),
    "skewed": np.minimum(RANDOM.zipf(1.3, 30_000), 10**6).tolist(),
    "few": [1, 1, 2, 3, 3, 3],
}


def sketch_of(windows: list[dict[str, list[Any]]], type: pa.DataType) -> ItemCounts:
    """Counters filled value by value; a window has the values of each group."""
    counts = [
        Counter(pair for group, values in window.items() for pair in _pairs(group, values, type)) for window in windows
    ]
    pairs = list(dict.fromkeys(pair for each in counts for pair in each))
    keys = KeyDictionary([pa.string(), pa.int32()])
    columns = [pa.array([pair[i] for pair in pairs], type) for i, type in enumerate(keys.types)]
    order = np.argsort(keys.encode(columns, len(pairs)))
    by_code = np.array([[each[pair] for pair in pairs] for each in counts], np.int64)[:, order]
    return ItemCounts(by_code, item_order(keys, 1, (0,)))


def _pairs(group: str, values: list[Any], type: pa.DataType) -> list[tuple[str, int | None]]:
    cells = [(None,) * ROWS if value is None else counters_of(pa.scalar(value, type)) for value in values]
    return [(group, cell) for each in cells for cell in each]


@pytest.mark.parametrize("name", DATA)
def test_estimates_of_many_values(name: str) -> None:
    items, true = sketch_of([{"": DATA[name]}], pa.int64()), Counter(DATA[name])
    off = 0
    for value in [*list(true)[:200], -1, 10**9]:
        bound = CountMin(value).by_counters(pa.int64())
        ((estimate,), (lower,), (upper,)) = (
            replace(bound, form=form).lower_items(items).to_pylist() for form in ("estimate", "lower", "upper")
        )
        assert true[value] <= estimate == upper, "never below"
        assert upper - lower <= EPSILON * len(DATA[name])
        off += lower > true[value]
    assert off <= 2, "one in a hundred"
    assert len(items.order.order) <= min(MOST_COUNTERS, ROWS * len(true))


GROUPS = st.dictionaries(st.sampled_from("ab"), st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=20))


@given(st.lists(GROUPS, min_size=1, max_size=3), st.integers(0, 9))
@settings(max_examples=examples(40))
def test_windows_and_groups(windows: list[dict[str, list[int | None]]], value: int) -> None:
    """So few values do not meet in both rows: the estimates are the counts; NULL is no value."""
    items = sketch_of(windows, pa.int64())
    groups = items.order.groups.decode_all()[0].to_pylist()
    expected = [window.get(group, []).count(value) for window in windows for group in groups]
    for form in ("estimate", "lower", "upper"):
        assert CountMin(value, form).by_counters(pa.int64()).lower_items(items).to_pylist() == expected


def test_a_table_has_one_key_for_each_row_of_counters() -> None:
    k, v = RowExpression("k", pa.int32(), ("k",)), RowExpression("v + 1", pa.int64(), ("v",))
    key = counter_key(v)
    assert str(key) == "20000 counters of v + 1" and key.type == pa.int32() and key.column is None
    assert keys_of_rows([k, v]) == [(k, v)]
    first, second = keys_of_rows([key, k])
    assert first[1] is second[1] is k and first[0].columns == ("v",)
    hashed = "xxhash64(CAST(v + 1 AS BIGINT))"
    assert first[0].sql == (
        f"CASE WHEN (v + 1) IS NOT NULL THEN CAST(pmod(shiftright({hashed}, 0), 10000) AS INT) + 0 END"
    )
    assert second[0].sql == (
        f"CASE WHEN (v + 1) IS NOT NULL THEN CAST(pmod(shiftright({hashed}, 32), 10000) AS INT) + 10000 END"
    )


EQUAL = [
    ([0.0, -0.0], pa.float64()),
    ([float("nan"), -float("nan")], pa.float64()),
    ([Decimal("1.5"), Decimal("1.50")], pa.decimal128(10, 2)),
    ([Decimal("-129"), Decimal("-129.00")], pa.decimal128(38, 2)),
]


@pytest.mark.parametrize(("values", "type"), EQUAL, ids=str)
def test_equal_values_have_equal_counters(values: list[Any], type: pa.DataType) -> None:
    assert len({counters_of(pa.scalar(value, type)) for value in values}) == 1


def test_counters_lie_in_their_rows() -> None:
    for value in ["", "a", "ä" * 40, *range(-50, 50), dt.date(1969, 12, 31), dt.datetime(2020, 1, 1), True, b"a"]:
        for row, counter in enumerate(counters_of(pa.scalar(value))):
            assert row * COUNTERS <= counter < (row + 1) * COUNTERS


@pytest.mark.parametrize(("data", "expected"), HASHES.items())
def test_the_hash_is_that_of_spark(data: bytes, expected: int) -> None:
    assert xxhash64(data) == expected
