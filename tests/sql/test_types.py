"""Spark's types and Arrow's, both ways."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.sql import CreateStream, parse
from sash.sql.expressions.coercion import common_type
from sash.sql.types import identifier, spark_name, spark_schema

TYPES = [
    ("BOOLEAN", pa.bool_()),
    ("TINYINT", pa.int8()),
    ("SMALLINT", pa.int16()),
    ("INT", pa.int32()),
    ("BIGINT", pa.int64()),
    ("FLOAT", pa.float32()),
    ("DOUBLE", pa.float64()),
    ("DECIMAL(12,3)", pa.decimal128(12, 3)),
    ("STRING", pa.string()),
    ("BINARY", pa.binary()),
    ("DATE", pa.date32()),
    ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
    ("TIMESTAMP_NTZ", pa.timestamp("us")),
    ("ARRAY<INT>", pa.list_(pa.int32())),
    ("MAP<STRING,INT>", pa.map_(pa.string(), pa.int32())),
    ("STRUCT<a: INT,b: ARRAY<STRING>>", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
]


@pytest.mark.parametrize(("name", "type"), TYPES)
def test_both_ways(name: str, type: pa.DataType) -> None:
    statement = parse(f"CREATE STREAM s (t TIMESTAMP, x {name}) FROM rate TIMESTAMP t")
    assert isinstance(statement, CreateStream) and statement.schema is not None
    assert statement.schema.field("x").type == type
    assert spark_name(type) == name
    assert spark_schema(statement.schema) == f"t TIMESTAMP, x {name}"


def test_a_type_that_spark_has_not() -> None:
    with pytest.raises(ValueError, match="uint8"):
        spark_name(pa.uint8())


@pytest.mark.parametrize(
    ("other", "common"),
    [
        (pa.int8(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 2), pa.float64()),
        (pa.bool_(), pa.bool_()),
        (pa.binary(), pa.binary()),
        (pa.date32(), pa.date32()),
        (pa.list_(pa.int32()), None),
    ],
)
def test_what_a_string_is_compared_as(other: pa.DataType, common: pa.DataType | None) -> None:
    assert common_type(pa.string(), other) == common_type(other, pa.string()) == common


def test_identifiers() -> None:
    assert [identifier(name) for name in ("x", "X_1", "1x", "a`b", "select")] == [
        "x",
        "X_1",
        "`1x`",
        "`a``b`",
        "`select`",
    ]
