"""Dictionary codes: every key type, NULL and NaN as groups, stable codes, compaction."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.expr.value_codes import KeyDictionary, ValueDictionary, encode_alone
from tests.support.examples import examples

DECIMAL = pa.decimal128(38, 4)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=4),
    pa.binary(): st.binary(max_size=4),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.timestamp("us"): st.datetimes(),
    DECIMAL: st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-4")),
}
TYPES = list(VALUES)


def columns_of(type: pa.DataType, most: int = 12) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(st.none(), VALUES[type]), max_size=most)


def canonical(value: Any) -> Any:
    """What SQL groups together: one NaN, one zero."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def rows_of(columns: list[pa.Array]) -> list[tuple[Any, ...]]:
    return [tuple(map(canonical, row)) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


@pytest.mark.parametrize("type", TYPES, ids=str)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_round_trip(type: pa.DataType, data: st.DataObject) -> None:
    dictionary = ValueDictionary(type)
    for _ in range(data.draw(st.integers(1, 3))):
        column = pa.array(data.draw(columns_of(type)), type)
        codes = dictionary.encode(column)
        assert codes.dtype == np.int32
        assert [*map(canonical, dictionary.decode(codes).to_pylist())] == [*map(canonical, column.to_pylist())]
    assert len(dictionary) == len({canonical(value) for value in dictionary.values.to_pylist()})


@given(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4), st.data())
@settings(max_examples=examples(40))
def test_rows_of_several_columns(types: list[pa.DataType], data: st.DataObject) -> None:
    keys = KeyDictionary(types)
    code_of: dict[tuple[Any, ...], int] = {}
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(st.lists(st.tuples(*(st.one_of(st.none(), VALUES[type]) for type in types)), max_size=8))
        columns = [pa.array([row[i] for row in rows], type) for i, type in enumerate(types)]
        codes = keys.encode(columns, len(rows))
        assert rows_of(keys.decode(codes)) == rows_of(columns)
        for row, code in zip(rows_of(columns), codes.tolist(), strict=True):
            # the same row has the same code, now and later
            assert code_of.setdefault(row, code) == code
    assert sorted(code_of.values()) == list(range(len(keys)))
    assert rows_of(keys.decode_all()) == [row for row, _ in sorted(code_of.items(), key=lambda item: item[1])]


@given(st.permutations(["b", "a", None, "c", "ä", ""]), st.permutations([2, 1, None, 7, -1, 0]))
@settings(max_examples=examples(20))
def test_codes_do_not_depend_on_the_order_of_rows(words: list[str | None], numbers: list[int | None]) -> None:
    """Spark returns a micro-batch's rows in any order; a replay must give the same codes."""
    rows = [(word, number) for word in words for number in numbers]
    given_order, sorted_order = (KeyDictionary([pa.string(), pa.int32()]) for _ in range(2))
    for keys, order in ((given_order, rows), (sorted_order, sorted(rows, key=str))):
        keys.encode([pa.array([word for word, _ in order]), pa.array([n for _, n in order], pa.int32())])
    assert rows_of(given_order.decode_all()) == rows_of(sorted_order.decode_all())


def test_nan_and_null_and_zero_are_one_group_each() -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    dictionary = ValueDictionary(pa.float64())
    assert dictionary.encode(pa.array([math.nan, other_nan, -math.nan, None, 0.0, -0.0])).tolist() == [1, 1, 1, 2, 0, 0]
    assert dictionary.encode(pa.array([other_nan, None, -0.0])).tolist() == [1, 2, 0]
    singles = ValueDictionary(pa.float32())
    assert singles.encode(pa.array([math.nan, -0.0, 0.0, None], pa.float32())).tolist() == [1, 0, 0, 2]
    assert singles.values.type == pa.float32()


def test_without_keys_there_is_one_group() -> None:
    keys = KeyDictionary([])
    assert len(keys) == 1 and keys.decode_all() == []
    assert keys.encode([], 3).tolist() == [0, 0, 0]
    fresh, remap = keys.compacted(np.array([True]))
    assert len(fresh) == 1 and remap.tolist() == [0]


def test_decode_all_sees_new_groups() -> None:
    keys = KeyDictionary([pa.int32()])
    keys.encode([pa.array([1], pa.int32())])
    assert keys.decode_all()[0].to_pylist() == [1]
    keys.encode([pa.array([1, 5], pa.int32())])
    assert keys.decode_all()[0].to_pylist() == [1, 5]


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 5)), min_size=1), st.data())
@settings(max_examples=examples(40))
def test_compaction_keeps_the_live(rows: list[tuple[str | None, int]], data: st.DataObject) -> None:
    keys = KeyDictionary([pa.string(), pa.int64()])
    keys.encode([pa.array([word for word, _ in rows], pa.string()), pa.array([n for _, n in rows])])
    live = np.array(data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys))))
    before = rows_of(keys.decode_all())
    fresh, remap = keys.compacted(live)
    assert len(fresh) == live.sum()
    for code, (row, alive) in enumerate(zip(before, live, strict=True)):
        if alive:
            assert rows_of(fresh.decode(remap[[code]])) == [row]
        else:
            assert remap[code] == -1


def test_slices_are_encoded_by_their_own_values() -> None:
    column = pa.array([1.5, math.nan, None, 2.5])[1:]
    dictionary = ValueDictionary(pa.float64())
    assert dictionary.decode(dictionary.encode(column)).to_pylist()[1:] == [None, 2.5]


@given(types=st.lists(st.sampled_from(TYPES), max_size=3), rows=st.integers(0, 10), data=st.data())
def test_rows_alone_are_grouped_as_by_a_dictionary(types: list[pa.DataType], rows: int, data: st.DataObject) -> None:
    lists = [data.draw(st.lists(st.one_of(st.none(), VALUES[type]), min_size=rows, max_size=rows)) for type in types]
    columns = [pa.array([None, *values], type).slice(1) for type, values in zip(types, lists, strict=True)]
    codes, values = encode_alone(columns, rows)
    kept = KeyDictionary(types)
    remembered = kept.encode(columns, rows)
    assert codes.dtype == np.int32 and len(codes) == rows
    assert len(set(zip(codes.tolist(), remembered.tolist(), strict=True))) == len(set(codes.tolist()))
    assert len(set(codes.tolist())) == len(set(remembered.tolist()))
    if types:
        assert set(codes.tolist()) == set(range(len(values[0])))
        assert rows_of([column.take(pa.array(codes)) for column in values]) == rows_of(kept.decode(remembered))
