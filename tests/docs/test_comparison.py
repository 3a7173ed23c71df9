"""What docs/comparison.md says that Spark refuses on streams, it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

Make = Callable[[Any], Any]
WITHIN = "a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 2 SECONDS AND b.ts + INTERVAL 2 SECONDS"


def stream(spark: Any) -> Any:
    frame = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value % 3 AS k", "value AS v")
    return frame.withWatermark("ts", "1 second")


def window(length: str) -> Any:
    from pyspark.sql import functions as F

    return F.window("ts", length, "2 seconds")


def expression(text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)


def aggregate(call: str) -> Make:
    return lambda spark: stream(spark).groupBy(window("60 seconds")).agg(expression(call).alias("x"))


def joined(how: str) -> Make:
    return lambda spark: stream(spark).alias("a").join(stream(spark).alias("b"), expression(WITHIN), how)


def start(frame: Any, folder: Path) -> None:
    query = frame.writeStream.format("noop").option("checkpointLocation", str(folder)).start()
    query.stop()


REFUSED: dict[str, tuple[Make, str]] = {
    "count distinct": (aggregate("COUNT(DISTINCT k)"), "Distinct aggregations"),
    "two windows": (
        lambda spark: stream(spark).groupBy(window("60 seconds"), window("20 seconds")).count(),
        "Multiple time/session window expressions",
    ),
    "anti join": (joined("left_anti"), "LeftAnti joins"),
    "except": (lambda spark: stream(spark).select("k").exceptAll(stream(spark).select("k")), "Except on a streaming"),
    "over": (
        lambda spark: stream(spark).selectExpr("row_number() OVER (PARTITION BY k ORDER BY ts) AS n"),
        "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
    ),
    "top list": (
        lambda spark: stream(spark).groupBy(window("60 seconds")).count().orderBy("count").limit(3),
        "Sorting is not supported",
    ),
}
ACCEPTED: dict[str, Make] = {"median": aggregate("MEDIAN(v)"), "inner": joined("inner"), "semi": joined("left_semi")}


@pytest.mark.parametrize("name", REFUSED)
def test_spark_refuses(name: str, spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import AnalysisException

    make, reason = REFUSED[name]
    with pytest.raises(AnalysisException, match=reason):
        start(make(spark), tmp_path)


@pytest.mark.parametrize("name", ACCEPTED)
def test_spark_accepts(name: str, spark: Any, tmp_path: Path) -> None:
    start(ACCEPTED[name](spark), tmp_path)
