"""Tables as JSON and as Arrow: nothing is lost, or it is a string."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.server.wire import ARROW, EVENTS, JSON, accepted, described, rows_of
from sash.storage.files import stream_bytes


@pytest.mark.parametrize(
    ("type", "value", "told"),
    [
        (pa.int64(), 2**53 - 1, 2**53 - 1),
        (pa.int64(), 2**53, "9007199254740992"),
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.int32(), -5, -5),
        (pa.float64(), 0.1, 0.1),
        (pa.float64(), math.nan, "NaN"),
        (pa.float64(), -math.inf, "-Infinity"),
        (pa.bool_(), True, True),
        (pa.string(), 'a "b"\n', 'a "b"\n'),
        (pa.decimal128(10, 2), Decimal("1.10"), "1.10"),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC), "2026-01-01T00:00:05+00:00"),
        (pa.timestamp("us"), datetime(2026, 1, 1), "2026-01-01T00:00:00"),
        (pa.date32(), date(2026, 1, 1), "2026-01-01"),
        (pa.binary(), b"x", "eA=="),
        (pa.list_(pa.int64()), [1, 2**60], [1, "1152921504606846976"]),
        (pa.struct([("a", pa.float64())]), {"a": math.inf}, {"a": "Infinity"}),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], [["a", 1]]),
    ],
)
def test_values(type: pa.DataType, value: Any, told: Any) -> None:
    table = pa.table({"x": pa.array([None, value], type)})
    assert rows_of(table) == [{"x": None}, {"x": told}]
    assert json.loads(json.dumps(rows_of(table), allow_nan=False)) == rows_of(table)
    back = pa.ipc.open_stream(stream_bytes(table)).read_all()
    assert back.schema == table.schema and repr(back.to_pylist()) == repr(table.to_pylist())


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.lists(st.none() | st.floats(), min_size=1))
def test_numbers_come_back_exactly(whole: list[int | None], broken: list[float | None]) -> None:
    rows = rows_of(pa.table({"n": pa.array(whole, pa.int64())}))
    assert [None if row["n"] is None else int(row["n"]) for row in rows] == whole
    told = json.loads(json.dumps(rows_of(pa.table({"x": pa.array(broken, pa.float64())})), allow_nan=False))
    assert [repr(None if row["x"] is None else float(row["x"])) for row in told] == [repr(each) for each in broken]


def test_columns_of_one_name_are_told_apart() -> None:
    table = pa.table([[1], [2], [3]], names=["k", "k", "k_2"])
    assert rows_of(table) == [{"k": 1, "k_3": 2, "k_2": 3}]
    assert [column["name"] for column in described(table.schema)] == ["k", "k_3", "k_2"]


def test_a_table_without_rows_or_columns() -> None:
    assert rows_of(pa.table({"n": pa.array([], pa.int64())})) == []
    assert rows_of(pa.table({})) == []


def test_types_are_told_as_sql_writes_them_or_as_arrow_does() -> None:
    schema = pa.schema([("a", pa.decimal128(10, 2)), ("b", pa.list_(pa.int32())), ("c", pa.uint64())])
    assert [column["type"] for column in described(schema)] == ["DECIMAL(10,2)", "ARRAY<INT>", "uint64"]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (ARROW, ARROW),
        (EVENTS, EVENTS),
        ("text/*", EVENTS),
        (f"{JSON};q=0.1, {ARROW};q=0.9", ARROW),
        (f"*/*, {JSON};q=0", EVENTS),
        (f"{EVENTS};q=nonsense, */*;q=0.1", JSON),
        ("TEXT/EVENT-STREAM", EVENTS),
        ("image/png", None),
    ],
)
def test_forms_by_what_is_accepted(accept: str | None, form: str | None) -> None:
    assert accepted(accept, (JSON, EVENTS, ARROW)) == form
