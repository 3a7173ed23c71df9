"""Columns of all types that have an order, against Python's own; NULL, NaN and the zeros among them."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.rows import Aggr, Groups, Hash, RowIndex, SetIndex, SlidingWindow, value_keys
from sash.rows.value_keys import DictionaryKeys, keys_of
from tests.rows.tables import of_values
from tests.support.examples import examples

MOMENTS = st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2100, 1, 1))
NAN = math.nan
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "uint64": (pa.uint64(), st.one_of(st.integers(0, 5), st.integers(2**64 - 5, 2**64 - 1))),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates(dt.date(1960, 1, 1), dt.date(2100, 1, 1))),
    "timestamp": (pa.timestamp("us"), MOMENTS),
    "time": (pa.time64("us"), st.times()),
    "double": (pa.float64(), st.one_of(st.sampled_from([0.0, -0.0, NAN, math.inf, -math.inf]), st.floats())),
    "float": (pa.float32(), st.floats(width=32)),
    "decimal": (pa.decimal128(9, 3), st.decimals(-999999, 999999, places=3)),
    "long decimal": (pa.decimal128(30, 3), st.decimals(-(10**20), 10**20, places=3)),
    "text": (pa.string(), st.text("abé\U0001f600", max_size=3)),
    "large text": (pa.large_string(), st.text("ab", max_size=3)),
    "bytes": (pa.binary(), st.binary(max_size=2)),
}
ORDERED = [name for name, (type, _) in TYPES.items() if keys_of(type).ordered]


def plain(value: Any) -> Any:
    """One NaN, greatest of all, and one zero; text in the order of its bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def shown(values: Any) -> list[Any]:
    return [plain(value) for value in values.to_pylist()]


def windows(name: str) -> st.SearchStrategy[list[list[Any]]]:
    value = st.one_of(st.none(), TYPES[name][1])
    few = st.lists(value, min_size=1, max_size=5).map(lambda values: st.sampled_from([*values, None]))
    return few.flatmap(lambda pick: st.lists(st.lists(pick, max_size=5), min_size=1, max_size=6))


@pytest.mark.parametrize("storage", [None, Aggr()])
@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
@settings(max_examples=examples(25))
def test_a_set_index_of_any_type(name: str, storage: Aggr | None, data: st.DataObject) -> None:
    type, stream = TYPES[name][0], data.draw(windows(name))
    window = SlidingWindow(3, pa.schema({"value": type}), {"value": storage} if storage else {})
    index = window.keep(SetIndex(type, data.draw(st.sampled_from(["list", "tree", "hash", "unsorted"]))), "value")
    for values in stream:
        window.add(of_values(values, type))
        window.attach()
    contents = [value for values in stream[-3:] for value in values if value is not None]
    expected = Counter(plain(value) for value in contents)
    found = index.histogram()
    assert shown(found["value"]) == sorted(expected)
    assert found["count"].to_pylist() == [expected[value] for value in sorted(expected)]
    assert found["value"].type == type
    for value in contents:
        assert index.count(value) == expected[plain(value)]


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
@settings(max_examples=examples(25))
def test_a_row_index_of_any_type(name: str, data: st.DataObject) -> None:
    type, stream = TYPES[name][0], data.draw(windows(name))
    window = SlidingWindow(3, pa.schema({"value": type}))
    index = window.keep(RowIndex(type, data.draw(st.sampled_from(["ring", "aux", "bw", "db"]))), "value")
    for values in stream:
        window.add(of_values(values, type))
        window.attach()
    contents = [value for values in stream[-3:] for value in values]
    first = sum(map(len, stream)) - len(contents)
    order = sorted(
        range(len(contents)),
        key=lambda at: (contents[at] is not None, contents[at] is not None and plain(contents[at])),
    )
    assert index.sorted_rows().tolist() == [first + at for at in order]
    present = [at for at in range(len(contents)) if contents[at] is not None]
    backward = sorted(present, key=lambda at: plain(contents[at]), reverse=True)
    nulls = [at for at in range(len(contents)) if contents[at] is None]
    found = index.leading_rows(len(contents), descending=True, nulls_first=False)
    assert found.tolist() == [first + at for at in backward + nulls]
    for value in contents:
        if value is not None:
            equal = [first + at for at, each in enumerate(contents) if each is not None and plain(each) == plain(value)]
            assert index.rows(value).tolist() == equal


@pytest.mark.parametrize("name", ORDERED)
@given(data=st.data())
def test_keys_keep_the_order_and_come_back(name: str, data: st.DataObject) -> None:
    type, values = TYPES[name][0], data.draw(st.lists(TYPES[name][1], max_size=20))
    column, keys = pa.array(values, type), keys_of(type)
    encoded = keys.encode(column)
    assert shown(keys.decode(encoded)) == shown(column)
    assert keys.decode(encoded).type == type
    ascending = [shown(column)[at] for at in np.argsort(encoded, kind="stable")]
    assert ascending == sorted(shown(column))
    assert keys.encode(pa.array([None, *values], type).slice(1)).tolist() == encoded.tolist()


@pytest.mark.parametrize("name", [name for name in ORDERED if name not in ("boolean", "double", "float")])
@given(data=st.data())
@settings(max_examples=examples(25))
def test_groups_of_any_type_lose_no_value(name: str, data: st.DataObject) -> None:
    type, values = TYPES[name][0], data.draw(st.lists(TYPES[name][1], max_size=20))
    bounds = {plain(bound): bound for bound in data.draw(st.lists(TYPES[name][1], min_size=1, max_size=4))}
    lows = [bounds[key] for key in sorted(bounds)]
    groups = Groups(type, lows, lows[-1])
    counts = groups.count(groups.keys.encode(pa.array(values, type)))
    for row, count in zip(groups.ranges().to_pylist(), counts.tolist(), strict=True):
        low, high = row["low"], row["high"]
        if low is None and high is None:
            assert count == 0
            continue
        inside = [
            value
            for value in map(plain, shown_values(values, type))
            if (low is None or value >= plain(low)) and (high is None or value <= plain(high))
        ]
        assert count == len(inside)
    assert counts.sum() == len(values)


def shown_values(values: list[Any], type: pa.DataType) -> list[Any]:
    return pa.array(values, type).to_pylist()


def test_a_dictionary_forgets_what_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ever new values, few at a time: neither the dictionary nor the directory grows with the stream."""
    schema = pa.schema({"value": pa.string()})
    window = SlidingWindow(3, schema)
    sets, rows = window.keep(SetIndex(pa.string()), "value"), window.keep(RowIndex(pa.string()), "value")
    for number in range(400):
        values = [f"{number:05} {place}" for place in range(20)]
        window.add(of_values(values, pa.string()))
        window.attach()
        for index in (sets, rows):
            keys = index.keys
            assert isinstance(keys, DictionaryKeys)
            assert len(keys) <= 3 * 20 * 4 + 1024 + 20
        assert sets.distinct() == 20 * min(3, number + 1)
        assert sets.count(values[7]) == 1 and rows.rows(values[7]).tolist() == [20 * number + 7]
        assert rows.rows(f"{number - 3:05} 7").tolist() == []
    assert [value.as_py() for value in sets.histogram()["value"]] == sorted(
        value.as_py() for value in window.rows()["value"]
    )
    assert window.take(rows.sorted_rows())["value"].to_pylist() == sorted(window.rows()["value"].to_pylist())


def test_types_that_are_refused() -> None:
    for type in (pa.list_(pa.int64()), pa.struct({"x": pa.int64()}), pa.null()):
        with pytest.raises(TypeError, match="cannot be indexed"):
            SetIndex(type)
    with pytest.raises(TypeError, match="HASH cannot store 'value', a column of string: use AGGR"):
        SlidingWindow(2, pa.schema({"value": pa.string()}), {"value": Hash()})
    for type, bound in ((pa.string(), "a"), (pa.float64(), 1.0)):
        with pytest.raises(TypeError, match="has no groups"):
            Groups(type, [bound], bound)
    for lows, last in (([], 3), ([2, 1], 3), ([1, 1], 3), ([1, 5], 4)):
        with pytest.raises(ValueError, match="ascending lows"):
            Groups(pa.int64(), lows, last)
    with pytest.raises(TypeError, match="MEDIAN needs numbers, not string"):
        SetIndex(pa.string()).median()


def test_a_column_of_arrow_dictionaries_is_indexed_by_value() -> None:
    type = pa.dictionary(pa.int32(), pa.string())
    window = SlidingWindow(2, pa.schema({"value": type}), {})
    sets, rows = window.keep(SetIndex(type), "value"), window.keep(RowIndex(type), "value")
    for values in (["x", "y"], ["z", None, "y"]):
        window.add(pa.table({"value": pa.array(values).dictionary_encode()}))
        window.attach()
    assert sets.histogram().to_pydict() == {"value": ["x", "y", "z"], "count": [1, 2, 1]}
    assert rows.rows("y").tolist() == [1, 4]


def test_decimals_have_a_median() -> None:
    index = SetIndex(pa.decimal128(9, 3))
    index.add(0, pa.array([Decimal("1.500"), Decimal("-2.250"), None], pa.decimal128(9, 3)))
    assert index.median() == -0.375


def test_the_fast_path_is_the_value_itself() -> None:
    assert isinstance(keys_of(pa.int64()), value_keys.WholeKeys)
    assert keys_of(pa.int64()).encode(pa.array([5, -(2**63), 2**63 - 1])).tolist() == [5, -(2**63), 2**63 - 1]
