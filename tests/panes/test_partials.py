"""What Spark is asked for, and how it is stored."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash.panes.partials import Combine, Partial, is_machine_number
from tests.panes.raw import column

X = {
    type: column("x", type)
    for type in (
        pa.int8(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(10, 2),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.string(),
        pa.bool_(),
    )
}
LEAST, GREATEST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("partial", "texts"),
    [
        (Partial("rows"), ["count(1)"]),
        (Partial("count", X[pa.string()]), ["count(x)"]),
        (Partial("sum", X[pa.int32()]), ["sum(x)"]),
        (Partial("sum", X[pa.int64()]), ["sum(((x) & 4294967295L))", "sum(shiftright(x, 32))"]),
        (Partial("sum", X[pa.float32()]), ["sum(x)"]),
        (Partial("sum", X[pa.decimal128(10, 2)]), ["sum(CAST(x AS DECIMAL(38, 2)))"]),
        (Partial("min", X[pa.string()]), ["min(x)"]),
        (Partial("moments", X[pa.int32()]), ["avg(CAST(x AS DOUBLE))", "var_pop(CAST(x AS DOUBLE))"]),
    ],
    ids=str,
)
def test_lift(partial: Partial, texts: list[str]) -> None:
    assert [f"{lifted.function}({lifted.argument})" for lifted in partial.lift()] == texts


@pytest.mark.parametrize(
    ("partial", "lifted", "stored"),
    [
        (Partial("rows"), [[3, 0]], [[3, 0]]),
        (Partial("sum", X[pa.int32()]), [[5, None]], [[5, 0]]),
        (Partial("sum", X[pa.int64()]), [[2**32 - 1, None], [-1, None]], [[2**32 - 1, 0], [-1, 0]]),
        (Partial("sum", X[pa.float64()]), [[0.5, None]], [[0.5, 0.0]]),
        (Partial("min", X[pa.int32()]), [[5, None]], [[5, GREATEST]]),
        (Partial("max", X[pa.int8()]), [[-5, None]], [[-5, LEAST]]),
        (Partial("min", X[pa.float64()]), [[0.5, None]], [[0.5, math.nan]]),
        (Partial("max", X[pa.float32()]), [[0.5, None]], [[0.5, -math.inf]]),
        (Partial("max", X[pa.date32()]), [[dt.date(1970, 1, 3), None]], [[2, LEAST]]),
        (
            Partial("min", X[pa.timestamp("us", "UTC")]),
            [[dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), None]],
            [[10**6, GREATEST]],
        ),
        (Partial("sum", X[pa.decimal128(10, 2)]), [[Decimal("-0.01"), None]], [[2**32 - 1, 0]] * 3 + [[-1, 0]]),
    ],
    ids=str,
)
def test_store(partial: Partial, lifted: list[list[Any]], stored: list[list[Any]]) -> None:
    """NULL is stored as the identity."""
    types = [
        pa.int64()
        if each.function == "count" or (each.function == "sum" and pa.types.is_integer(each.type))
        else each.type
        for each in partial.lift()
    ]
    columns = [pa.array(values, type) for values, type in zip(lifted, types, strict=True)]
    for padding in (0, 1):
        sliced = [pa.concat_arrays([each[:padding], each])[padding:] for each in columns]
        components = partial.store(sliced, None)
        assert [component.dtype.type for component in components] == list(partial.dtypes)
        for component, values in zip(components, stored, strict=True):
            np.testing.assert_array_equal(component, values)
            assert component.flags.writeable


def test_moments_store_the_sum_of_squares() -> None:
    partial = Partial("moments", X[pa.int32()])
    columns = [pa.array([2.0, None]), pa.array([0.25, None])]
    mean, square = partial.store(columns, np.array([4, 0]))
    assert mean.tolist() == [2.0, 0.0] and square.tolist() == [1.0, 0.0]


def test_which_extremes_are_ranked() -> None:
    ranked = {type for type in X if Partial("max", X[type]).ranked}
    assert ranked == {pa.decimal128(10, 2), pa.string(), pa.bool_()} == {t for t in X if not is_machine_number(t)}
    assert not Partial("count", X[pa.string()]).ranked


def test_partials_are_equal_by_their_meaning() -> None:
    again = Partial("sum", column("x", pa.int64()), column("p", pa.bool_()))
    first = Partial("sum", X[pa.int64()], column("p", pa.bool_()))
    assert again == first and hash(again) == hash(first) and again.signature == ("sum", "x", "p")
    assert Partial("sum", X[pa.int64()]) != first
    assert {Partial(kind).combine for kind in ("rows", "count", "sum")} == {Combine.ADD}
