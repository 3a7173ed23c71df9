"""Groups that grow: never more than asked for, and never a value less than in the windows."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.rows import GrowingGroupIndex
from sash.rows.sliding_window import CountedWindow
from sash.rows.subwindows import ValueCounts
from sash.rows.value_groups import keys_with_groups
from sash.sql.binding.sets import has_groups
from tests.support.examples import examples

INT = pa.int64()
ENDS = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**62, 2**63 - 1]
NUMBERS = st.one_of(st.integers(-20, 20), st.integers(-(2**63), 2**63 - 1), st.sampled_from(ENDS))
PANES = st.lists(st.tuples(st.integers(0, 1), st.lists(NUMBERS, max_size=8)), max_size=14)


def counts(values: list[Any], type: pa.DataType = INT) -> ValueCounts:
    found = Counter(values)
    return ValueCounts(pa.array(list(found), type), np.array(list(found.values()), dtype=np.int64), 0)


def covered(ranges: list[dict[str, Any]], value: Any) -> int:
    return sum(each["low"] <= value <= each["high"] for each in ranges)


@given(panes=PANES, most=st.integers(2, 9), length=st.integers(1, 5))
@settings(max_examples=examples(200))
def test_ranges_against_the_values_in_the_windows(panes: list[Any], most: int, length: int) -> None:
    index = GrowingGroupIndex(pa.int64(), most, sides=2)
    windows = [CountedWindow(index, side, length) for side in (0, 1)]
    width = 1
    for end, (side, values) in enumerate(panes):
        for window in windows:
            window.evict(end - length)
        windows[side].attach(end, counts(values))
        recent = panes[max(0, end + 1 - length) : end + 1]
        live = [[value for place, each in recent if place == mine for value in each] for mine in (0, 1)]
        for mine in (0, 1):
            histogram = index.histogram(mine).to_pylist()
            assert sum(each["count"] for each in histogram) == len(live[mine])
            assert all(covered(histogram, value) == 1 for value in live[mine])
            for each in histogram:
                inside = [value for value in live[mine] if each["low"] <= value <= each["high"]]
                assert len(inside) == each["count"] > 0
        both = index.intersection().to_pylist()
        assert len(both) <= most and index.width >= width
        assert all(covered(both, value) == 1 for value in set(live[0]) & set(live[1]))
        width = index.width
    assert width == 1 or len({value for _, values in panes for value in values}) > most


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (pa.int8(), [-128, -1, 0, 127]),
        (pa.int32(), [-(2**31), -1, 0, 2**31 - 1]),
        (pa.uint16(), [0, 1, 7, 2**16 - 1]),
        (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
        (pa.bool_(), [False, True]),
        (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.00"), Decimal("0.01"), Decimal("999.99")]),
        (pa.date32(), pa.array([-5, 0, 3, 20_000], pa.date32()).to_pylist()),
        (pa.timestamp("us", "UTC"), pa.array([-5, 0, 3, 10**15], pa.timestamp("us", "UTC")).to_pylist()),
    ],
    ids=str,
)
def test_every_type_that_has_groups(type: pa.DataType, values: list[Any]) -> None:
    for most in (2, 3, 100):
        index = GrowingGroupIndex(type, most, sides=2)
        for side in (0, 1):
            index.add_counts(0, counts(values, type), side)
        ranges = index.intersection()
        assert ranges.schema == pa.schema([("low", type), ("high", type)]) and 0 < len(ranges) <= most
        keys = keys_with_groups(type)
        low, high = (keys.encode(ranges[name].combine_chunks()) for name in ("low", "high"))
        for key in keys.encode(pa.array(values, type)).tolist():
            assert ((low <= key) & (key <= high)).sum() == 1


TYPES = [pa.int8(), pa.int64(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.decimal128(18, 2)]
OTHERS = [pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.decimal128(19, 2)]


def test_the_language_refuses_what_has_no_groups() -> None:
    assert all(map(has_groups, TYPES)) and not any(map(has_groups, OTHERS))
    for type in TYPES:
        GrowingGroupIndex(type, 2)
    for type in OTHERS:
        with pytest.raises(TypeError, match="no groups"):
            GrowingGroupIndex(type, 2)
    with pytest.raises(ValueError, match="at least 2 groups"):
        GrowingGroupIndex(pa.int64(), 1)


def test_sub_windows_come_in_order() -> None:
    index = GrowingGroupIndex(pa.int64(), 2)
    window = CountedWindow(index, 0, 3)
    window.attach(5, counts([1]))
    with pytest.raises(ValueError, match="order of their ends"):
        window.attach(5, counts([1]))
