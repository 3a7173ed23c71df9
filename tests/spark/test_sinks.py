"""Answers as files: what Arrow writes is what Spark would, and an answer that comes again replaces itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sash.core.errors import SashError
from sash.core.time import SECOND, to_datetime
from sash.runtime.answers.answer import Answer
from sash.spark.sinks import Sink
from tests.support.streams import START

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PLAIN = pa.table(
    {
        "i": pa.array([3, 1, None], pa.int32()),
        "l": pa.array([2**40, None, 7], pa.int64()),
        "d": pa.array([0.5, float("nan"), None]),
        "f": pa.array([0.25, None, 2.0], pa.float32()),
        "m": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(12, 2)),
        "b": pa.array([True, None, False]),
        "s": ["z", None, "a"],
        "y": pa.array([b"x", None, b""], pa.binary()),
        "t": pa.array([date(2026, 1, 2), None, date(1, 1, 1)]),
        "ts": pa.array([NOON, None, NOON], pa.timestamp("us", "UTC")),
    }
)
NESTED = pa.table({"a": pa.array([[1, 2], None]), "p": pa.array([timedelta(seconds=5), None], pa.duration("us"))})


def answer(second: int, table: pa.Table, rows: int | None = None) -> Answer:
    return Answer("q", to_datetime(START + second * SECOND), True, True, table, rows)


def read(spark: Any, path: Path) -> Any:
    return spark.read.parquet(str(path))


@pytest.mark.parametrize(("table", "by_arrow"), [(PLAIN, True), (NESTED, False)], ids=["plain", "nested"])
def test_arrow_writes_what_spark_would(spark: Any, tmp_path: Path, table: pa.Table, by_arrow: bool) -> None:
    for name, options in (("one", {}), ("other", {"compression": "snappy"})):
        sink = Sink(spark, "parquet", {"path": str(tmp_path / name), **options})
        sink.write([answer(second, table.slice(0, rows)) for second, rows in ((1, 1), (0, len(table)))])
    one, other = read(spark, tmp_path / "one"), read(spark, tmp_path / "other")
    assert one.schema == other.schema
    # As text, since NaN is not equal to itself.
    found = [[str(row) for row in sorted(frame.collect(), key=lambda row: row.as_of)] for frame in (one, other)]
    assert found[0] == found[1] and len(found[0]) == 1 + len(table)
    assert bool(list((tmp_path / "one").rglob("part-0.parquet"))) == by_arrow


def test_rows_keep_their_order_in_one_job_for_many_answers(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "out"
    wanted = {second: [(place * 7) % 100 for place in range(100)] for second in range(20)}
    told = [answer(second, pa.table({"v": values})) for second, values in wanted.items()]
    Sink(spark, "json", {"path": str(path)}).write(told)
    for second, values in wanted.items():
        found = spark.read.json(str(path / f"as_of={START + second * SECOND}"))
        assert [row.v for row in found.collect()] == values


@pytest.mark.parametrize("rows", [None, 7])
def test_an_answer_that_comes_again_replaces_what_spark_or_arrow_wrote(
    spark: Any, tmp_path: Path, rows: int | None
) -> None:
    path = str(tmp_path / "out")
    by_spark = Sink(spark, "parquet", {"path": path, "compression": "gzip"})
    by_arrow = Sink(spark, "parquet", {"path": path})
    for sink, value in ((by_spark, 1), (by_arrow, 2), (by_arrow, 3), (by_spark, 4), (by_arrow, 5)):
        sink.write([answer(0, pa.table({"v": [value]}), rows)])
        by_arrow.write([answer(1, pa.table({"v": [0]}), rows)])
        assert sorted(row.v for row in read(spark, tmp_path / "out").collect()) == [0, value]


def test_queries_share_a_path_and_each_replaces_its_own_answers(spark: Any, tmp_path: Path) -> None:
    sink = Sink(spark, "parquet", {"path": str(tmp_path), "shared": "true"})

    def told(query: str, second: int, value: int, **more: Any) -> Answer:
        return replace(answer(second, pa.table({"v": [value], **more})), query=query)

    def found() -> list[tuple[Any, ...]]:
        rows = spark.read.option("mergeSchema", "true").parquet(str(tmp_path)).collect()
        return sorted((row.query, row.as_of - START, row.v) for row in rows)

    sink.write([told("a", 0, 1), told("b", 0, 2), told("b", 1, 3)])
    assert found() == [("a", 0, 1), ("b", 0, 2), ("b", SECOND, 3)]
    assert len(list(tmp_path.rglob("*.parquet"))) == 2, "a file for each time"
    # After a crash in another division, with a query of other columns.
    sink.write([told("b", 0, 4)])
    sink.write([told("b", 1, 5), told("c", 0, 6, more=["x"])])
    assert found() == [("a", 0, 1), ("b", 0, 4), ("b", SECOND, 5), ("c", 0, 6)]
    with pytest.raises(SashError, match="the sink adds a column query"):
        sink.write([answer(2, pa.table({"query": ["mine"]}))])
    with pytest.raises(SashError, match="a query over a window of rows needs a path of its own"):
        sink.write([answer(2, pa.table({"v": [1]}), rows=3)])
    with pytest.raises(SashError, match="shared is 'true' or 'false', not 'yes'"):
        Sink(spark, "parquet", {"path": str(tmp_path), "shared": "yes"})
    for format, more in (("json", {}), ("parquet", {"compression": "gzip"})):
        with pytest.raises(SashError, match="share a path only as Parquet files on a file system of this machine"):
            Sink(spark, format, {"path": str(tmp_path), "shared": "true", **more})


def test_what_was_half_written_is_not_read_and_goes(spark: Any, tmp_path: Path) -> None:
    place = tmp_path / f"as_of={START}"
    place.mkdir()
    (place / ".part-0.parquet.draft").write_bytes(b"half")
    sink = Sink(spark, "parquet", {"path": tmp_path.as_uri()})
    sink.write([answer(1, pa.table({"v": [1]}))])
    assert [row.v for row in read(spark, tmp_path).collect()] == [1]
    sink.write([answer(0, pa.table({"v": [0]}))])
    assert [path.name for path in place.iterdir()] == ["part-0.parquet"]
