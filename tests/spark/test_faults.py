"""Whose fault an error is."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.errors import CheckpointError, QueryFailedError, SourceError
from sash.spark.spark_faults import first_line, is_of_data


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


def test_the_reason_why_a_query_of_spark_has_ended() -> None:
    told = "[STREAM_FAILED] Query [id = 9b, runId = 97] terminated with exception: java.io.IOException: Broken"
    for text in (told, f"{told} SQLSTATE: XXKST", f"{told} SQLSTATE: XXKST\n=== Streaming Query ==="):
        assert first_line(RuntimeError(text)) == "java.io.IOException: Broken"


@pytest.mark.spark
@pytest.mark.parametrize("enough_for", [(), (2,)], ids=["nothing", "reading"])
def test_a_disk_without_room_for_what_spark_shuffles(spark: Any, tmp_path: Path, enough_for: tuple[int, ...]) -> None:
    """Tried once more to read the rows alone, then each query's expressions: no query has failed by it."""
    tries = tmp_path / "tries"
    tries.touch()

    def full(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with tries.open("a") as file:
            file.write("x")
        if tries.stat().st_size not in enough_for:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield from batches

    rows = spark.sql("SELECT TIMESTAMP '2026-01-01 00:00:01' AS ts, 1 AS v").coalesce(1)
    with sash.connect(spark=spark) as session:
        session.create_stream("s", rows.mapInArrow(full, rows.schema), timestamp="ts")
        query = session.register("SELECT SUM(v) AS t FROM s [WINDOW 5 sec SLIDE 5 sec]", name="q")
        with pytest.raises(SourceError, match=r"write to spark.local.dir .* No space left on device"):
            session.run()
        assert query.error is None and query.latest() is None
    assert tries.stat().st_size == 2 + len(enough_for)
