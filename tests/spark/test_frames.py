"""Arrow tables as DataFrames: no row is left out, wherever a table has an empty piece."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from sash.runtime.answers.answer import Answer
from sash.spark.answer_frames import frame_of
from sash.spark.sinks import to_frame

pytestmark = pytest.mark.spark
PIECE = pa.table({"k": [1, 2, 3]})


@pytest.mark.parametrize("empty", [(0,), (1,), (3,), (0, 1, 3), ()])
def test_empty_pieces_end_nothing(spark: Any, empty: tuple[int, ...]) -> None:
    pieces = [PIECE] * 3
    for place in empty:
        pieces.insert(place, PIECE.slice(0, 0))
    table = pa.concat_tables(pieces)
    assert frame_of(spark, table).toArrow()["k"].to_pylist() == [1, 2, 3] * 3
    assert frame_of(spark, table, "k BIGINT").count() == 9


def test_a_table_without_rows_has_its_columns(spark: Any) -> None:
    assert frame_of(spark, PIECE.slice(0, 0)).toArrow().schema.names == ["k"]


def test_answers_behind_an_empty_one_are_there(spark: Any) -> None:
    times = [datetime(2026, 1, 1, 0, minute, tzinfo=UTC) for minute in range(3)]
    tables = [PIECE, PIECE.slice(0, 0), PIECE]
    answers = [Answer("q", time, True, True, table) for time, table in zip(times, tables, strict=True)]
    assert to_frame(spark, answers).count() == 6
