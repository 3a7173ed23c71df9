"""Whose fault an error is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from sash.core.errors import CheckpointError, QueryFailedError
from sash.spark.faults import first_line, is_of_data


def test_errors_of_this_process() -> None:
    assert all(map(is_of_data, (ZeroDivisionError(), pa.ArrowInvalid("overflow"), QueryFailedError("too large"))))
    assert not any(map(is_of_data, (OSError("disk full"), CheckpointError("damaged"), MemoryError(), RuntimeError())))


def _raising(error: BaseException) -> Callable[[Any], Any]:
    def task(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise error

    return task


def _dying(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    os._exit(3)


def _failure(action: Callable[[], Any]) -> Exception:
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


@pytest.mark.spark
def test_errors_of_spark(spark: Any) -> None:
    rows = spark.range(4)
    for text, why in (("1 / (id - 2)", "DIVIDE_BY_ZERO"), ("CAST(concat('x', id) AS INT)", "CAST_INVALID_INPUT")):
        error = _failure(rows.selectExpr(f"{text} AS x").toArrow)
        assert is_of_data(error) and why in first_line(error)
    for raised, of_data in (
        (ValueError("odd"), True),
        (OSError("disk full"), False),
        (MemoryError("all"), False),
        (ImportError("no"), False),
    ):
        error = _failure(rows.mapInArrow(_raising(raised), "id LONG").toArrow)
        assert is_of_data(error) is of_data and first_line(error) == str(raised)
    assert not is_of_data(_failure(rows.mapInArrow(_dying, "id LONG").toArrow))
