"""A program's function over batches of Arrow, against calls of it one by one."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.user_function import UserFunction

VALUES = st.lists(st.none() | st.integers(-3, 3), max_size=30)


def inverse(x: int | None) -> float | None:
    return None if x is None else 6 / x


def inverses(x: pd.Series) -> pd.Series:
    if (x == 0).any():
        raise ZeroDivisionError("division by zero")
    return 6 / x


@given(values=VALUES)
@pytest.mark.parametrize("function", [inverse, inverses])
def test_only_tuples_at_fault_have_an_error(function: Any, values: list[int | None]) -> None:
    made = UserFunction.of("inverse", function, pa.float64())
    assert made.takes_series == (function is inverses)
    expected = []
    for x in values:
        error = "function 'inverse' raised ZeroDivisionError: division by zero" if x == 0 else None
        expected.append({"value": None if x == 0 else inverse(x), "error": error})
    assert made(pa.array(values, pa.int64())).to_pylist() == expected


@given(values=VALUES)
def test_an_error_of_an_argument_is_that_of_the_result(values: list[int | None]) -> None:
    inner, outer = (
        UserFunction.of("inner", inverse, pa.float64()),
        UserFunction.of("outer", lambda x, y: x == y, pa.bool_()),
    )
    column = pa.array(values, pa.int64())
    found = outer(inner(column), pa.array([6.0] * len(values))).to_pylist()
    errors = inner(column).field("error").to_pylist()
    assert found == [
        {"value": None if x == 0 else inverse(x) == 6, "error": error} for x, error in zip(values, errors, strict=True)
    ]


def test_a_value_of_another_type_is_an_error_of_its_tuple() -> None:
    made = UserFunction.of("odd", lambda x, y: x if y else "many", pa.int32())
    results = made(pa.array([1, 2, 3]), pa.array([True, False, True])).to_pylist()
    assert [each["value"] for each in results] == [1, None, 3]
    assert results[1]["error"].startswith("function 'odd' raised Arrow")


def test_a_series_of_another_length_is_an_error() -> None:
    def shorter(x: pd.Series) -> pd.Series:
        return x[:1]

    results = UserFunction.of("shorter", shorter, pa.int64())(pa.array([1, 2, 3])).to_pylist()
    # A batch of one tuple has as many values.
    assert [each["value"] for each in results] == [1, 2, 3]


def test_a_function_knows_how_many_arguments_it_takes() -> None:
    made = UserFunction.of("inverse", inverse, pa.float64())
    assert made.takes(1) and not made.takes(0) and not made.takes(2)
    assert UserFunction.of("most", max, pa.int64()).takes(3)
