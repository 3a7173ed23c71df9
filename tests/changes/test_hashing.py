"""The hash that spreads tuples over buckets, against a plain version and against Spark's."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.changes.hashing import SEED, buckets_of, hashes
from sash.plan.stages import spreads

NUMBERS = [0, 1, -1, 7, None, 100, -128, 127]
FLOATS = [0.0, -0.0, 1.5, -2.25, math.nan, -math.nan, math.inf, -math.inf, None, 1e-30]
TEXTS = ["", "a", "abcd", "abcdefgh", "twelve bytes", "é" * 9, "x" * 31, "y" * 32, "z" * 33, "w" * 200, None]
BIG = [Decimal(number) for number in (0, 1, -1, 127, 128, -128, -129, 255, 256, 2**63, -(2**63), 10**37, -(10**37))]
NOON = datetime(2024, 1, 2, 12, 0, 0, 678901, UTC)

CASES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "BOOLEAN": (pa.bool_(), [True, False, None]),
    "TINYINT": (pa.int8(), NUMBERS),
    "SMALLINT": (pa.int16(), [*NUMBERS, 30_000]),
    "INT": (pa.int32(), [*NUMBERS, 2**31 - 1, -(2**31)]),
    "BIGINT": (pa.int64(), [*NUMBERS, 2**63 - 1, -(2**63)]),
    "FLOAT": (pa.float32(), FLOATS),
    "DOUBLE": (pa.float64(), FLOATS),
    "STRING": (pa.string(), TEXTS),
    "BINARY": (pa.binary(), [None if text is None else text.encode() for text in TEXTS]),
    "DATE": (pa.date32(), [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), None]),
    "TIMESTAMP": (pa.timestamp("us", "UTC"), [NOON, NOON.replace(year=1960), None]),
    "TIMESTAMP_NTZ": (pa.timestamp("us"), [NOON.replace(tzinfo=None), None]),
    "DECIMAL(9, 2)": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-3.10"), Decimal(0), None]),
    "DECIMAL(18, 0)": (pa.decimal128(18, 0), [Decimal(10**17), Decimal(-(10**17)), None]),
    "DECIMAL(38, 0)": (pa.decimal128(38, 0), [*BIG, None]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_sliced_and_in_chunks_has_the_same_hash(name: str) -> None:
    type, values = CASES[name]
    assert spreads(type)
    whole, half = pa.array(values, type), len(values) // 2
    chunks = pa.chunked_array([whole.slice(0, half), whole.slice(half)])
    assert hashes(chunks).tolist() == hashes(pa.chunked_array([whole])).tolist()
    assert hashes(chunks.slice(half)).tolist() == hashes(chunks).tolist()[half:]
    assert [number == SEED for number in hashes(chunks)] == [value is None for value in values]
    assert hashes(chunks.slice(0, 0)).tolist() == []
    assert set(buckets_of(chunks, 3).tolist()) <= {0, 1, 2} and not buckets_of(chunks, 1).any()


def test_zeros_are_one_and_nans_are_one() -> None:
    for type in (pa.float32(), pa.float64()):
        odd = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)
        values = pa.array(np.array([0.0, -0.0, math.nan, *odd]).astype(type.to_pandas_dtype()), type)
        found = hashes(pa.chunked_array([values])).tolist()
        assert found[0] == found[1] and found[2] == found[3] and found[0] != found[2]


def reference_hash_bytes(value: bytes) -> int:
    """XXH64 of one value, with Python's own numbers."""
    mask = 2**64 - 1
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def rotate(number: int, by: int) -> int:
        number &= mask
        return (number << by | number >> (64 - by)) & mask

    def stirred(lane: int, word: bytes) -> int:
        return rotate(lane + int.from_bytes(word, "little") * p2, 31) * p1 & mask

    blocks, rest = [value[i : i + 32] for i in range(0, len(value) // 32 * 32, 32)], value[len(value) // 32 * 32 :]
    mixed = SEED + p5
    if blocks:
        lanes = [SEED + p1 + p2, SEED + p2, SEED, SEED - p1]
        for block in blocks:
            lanes = [stirred(lane, block[8 * i : 8 * i + 8]) for i, lane in enumerate(lanes)]
        mixed = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            mixed = (mixed ^ stirred(0, lane.to_bytes(8, "little"))) * p1 + p4 & mask
    mixed += len(value)
    while len(rest) >= 8:
        mixed, rest = rotate(mixed & mask ^ stirred(0, rest[:8]), 27) * p1 + p4, rest[8:]
    if len(rest) >= 4:
        mixed, rest = rotate(mixed & mask ^ int.from_bytes(rest[:4], "little") * p1 & mask, 23) * p2 + p3, rest[4:]
    for byte in rest:
        mixed = rotate(mixed & mask ^ byte * p5 & mask, 11) * p1
    for by, prime in ((33, p2), (29, p3), (32, 1)):
        mixed = (mixed & mask ^ (mixed & mask) >> by) * prime
    return mixed & mask


@given(st.lists(st.binary(max_size=90), min_size=1))
def test_bytes(values: list[bytes]) -> None:
    found = hashes(pa.chunked_array([pa.array(values, pa.binary())])).view(np.uint64)
    assert found.tolist() == [reference_hash_bytes(value) for value in values]


@pytest.mark.spark
def test_spark_has_the_same_hash(spark: Any) -> None:
    """All types side by side; where a column is shorter than the longest, NULL is hashed too."""
    longest = max(len(values) for _, values in CASES.values())
    padded = {
        f"c{place}": pa.array([*values, *[None] * (longest - len(values))], type)
        for place, (type, values) in enumerate(CASES.values())
    }
    frame = spark.createDataFrame(pa.table({"place": pa.array(range(longest), pa.int32()), **padded}))
    hashed = [f"xxhash64(CAST(c{place} AS {name})) AS h{place}" for place, name in enumerate(CASES)]
    found = frame.selectExpr("place", *hashed).orderBy("place").toArrow()
    for place, name in enumerate(CASES):
        ours = hashes(pa.chunked_array([padded[f"c{place}"]]))
        assert ours.tolist() == found[f"h{place}"].to_pylist(), name
