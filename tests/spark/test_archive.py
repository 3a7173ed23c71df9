"""Spark as the writer of an archive: the same places, the same records as Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.archive import EXPIRES, Archive, Spec, with_times
from sash.core.errors import ArchiveError
from sash.spark.archive_frames import SparkWriter, archive_session, lifetime_sql, place_sql

pytestmark = pytest.mark.spark
SCHEMA = pa.schema({"k": pa.string(), "v": pa.int64()})
LIFETIME, EVERY = 24, 2


def records(seed: int, now: int, rows: int = 200) -> pa.Table:
    """Of the last two intervals; one key in ten is NULL."""
    chance = np.random.default_rng(seed)
    inserted = now - chance.integers(0, 2 * EVERY, rows)
    keys = [None if key == 0 else f"key {key}" for key in chance.integers(0, 10, rows).tolist()]
    table = pa.table({"k": pa.array(keys, pa.string()), "v": pa.array(chance.integers(0, 99, rows))})
    return with_times(table, inserted, inserted + chance.integers(1, LIFETIME + 1, rows))


def content(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


@pytest.mark.parametrize(("layout", "strategy"), [("round_robin", "rebuild"), ("chronological", "no_rebuild")])
def test_spark_and_arrow_write_the_same_archive(spark: Any, tmp_path: Path, layout: str, strategy: str) -> None:
    session = archive_session(spark)
    options: dict[str, Any] = {"lifetime": LIFETIME, "every": EVERY, "g": 3, "e": 2, "layout": layout}
    by_arrow = Archive.create(tmp_path / "arrow", SCHEMA, "k", strategy=strategy, **options)
    by_spark = Archive.create(tmp_path / "spark", SCHEMA, "k", strategy=strategy, **options)
    for now in (0, 4, 20):
        new = records(now, now)
        told = by_arrow.update(new, now)
        also = by_spark.update(session.createDataFrame(new), now, writer=SparkWriter(session))
        assert (also.rows, also.expired) == (told.rows, told.expired)
        assert content(by_spark.scan()) == content(by_arrow.scan())
        assert content(by_spark.probe(["key 3"])) == content(by_arrow.probe(["key 3"]))
    by_spark.migrate(2, 2, writer=SparkWriter(session))
    assert content(by_spark.scan()) == content(by_arrow.scan())
    # No INT96: other readers know the times, and row groups have statistics of them.
    assert pq.read_schema(by_spark.files()[0]).field(EXPIRES).type == pa.timestamp("us", "UTC")
    by_arrow.close()
    by_spark.close()


@pytest.mark.parametrize("name", ["round_robin", "chronological", "random"])
def test_places_are_those_of_the_layout(spark: Any, name: str) -> None:
    spec = Spec(pa.schema({"n": pa.int64()}), "n", LIFETIME, EVERY, 5, 3, name, "rebuild")
    times = np.random.default_rng(1).integers(-100, 100, (2, 300)) * np.repeat([1, 10**13], 150)
    table = with_times(pa.table({"n": range(300)}), times[0], times[1])
    found = spark.createDataFrame(table).selectExpr("n", f"{place_sql(spec)} AS place").toArrow()
    assert found["place"].to_pylist() == spec.partitions.place(times[0], times[1]).tolist()


def test_what_arrow_refuses_spark_refuses(spark: Any, tmp_path: Path) -> None:
    session = archive_session(spark)
    archive = Archive.create(tmp_path / "a", SCHEMA, "k", lifetime=LIFETIME, every=EVERY, g=2, e=2)
    rows = pa.table({"k": ["x"], "v": [1]})
    for inserted, expires, reason in (([1], [LIFETIME + 2], "live longer"), ([3], [4], "after the update")):
        new = session.createDataFrame(with_times(rows, inserted, expires))
        with pytest.raises(ArchiveError, match=reason):
            archive.update(new, 2, writer=SparkWriter(session))
    assert archive.scan().num_rows == 0
    archive.close()


def test_lifetimes_of_columns(spark: Any) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (1.5D, INTERVAL '2' SECOND), (-3D, INTERVAL '-1' SECOND), (99D, INTERVAL '1' DAY), "
        "(NULL, NULL) AS t(seconds, span)"
    )
    by_seconds = lifetime_sql("seconds", pa.float64(), 10_000_000)
    by_span = lifetime_sql("span", pa.duration("us"), 10_000_000)
    found = rows.selectExpr(f"{by_seconds} AS a", f"{by_span} AS b", f"{lifetime_sql(None, None, 7)} AS c").toArrow()
    assert found["a"].to_pylist() == [1_500_000, 0, 10_000_000, 10_000_000]
    assert found["b"].to_pylist() == [2_000_000, 0, 10_000_000, 10_000_000]
    assert found["c"].to_pylist() == [7] * 4
