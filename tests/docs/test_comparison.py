"""The claims of docs/comparison.md about Spark: what Spark refuses on streams, and where its windows lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.core.time import SECOND, to_micros
from tests.support.streams import START

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


def test_an_offset_puts_windows_where_spark_has_them(spark: Any) -> None:
    """The remainder of WINDOW divided by SLIDE; 0 where one is a multiple of the other."""
    assert counts_of_sash(spark, 10, 4, offset=10 % 4) == counts_of_spark(spark, 10, 4)
    assert counts_of_sash(spark, 3, 2, offset=3 % 2) == counts_of_spark(spark, 3, 2)
    assert counts_of_sash(spark, 10, 5, offset=0) == counts_of_spark(spark, 10, 5)
    assert not counts_of_sash(spark, 10, 4, offset=0).keys() & counts_of_spark(spark, 10, 4).keys()


def packets(spark: Any) -> Any:
    times = ", ".join(f"({START + round(second * SECOND)})" for second in (0, 1, 4.5, 7, 10, 12, 18, 18, 30))
    return spark.sql(f"SELECT timestamp_micros(t) AS ts FROM VALUES {times} AS x(t)")


def counts_of_spark(spark: Any, length: int, slide: int) -> dict[int, int]:
    """How many packets each window has, by its end."""
    from pyspark.sql import functions as F

    cut = packets(spark).groupBy(F.window("ts", f"{length} seconds", f"{slide} seconds")).count()
    return {row["end"]: row["count"] for row in cut.selectExpr("unix_micros(window.end) AS end", "count").collect()}


def counts_of_sash(spark: Any, length: int, slide: int, offset: int) -> dict[int, int]:
    with sash.connect(spark=spark) as session:
        session.create_stream("s", packets(spark), timestamp="ts", closed="left", offset=f"{offset} sec")
        query = session.register(f"SELECT COUNT(*) AS n FROM s [WINDOW {length} sec SLIDE {slide} sec]", name="q")
        session.run()
        session.advance("s", START + 60 * SECOND)
        found = {to_micros(answer.as_of): answer.table["n"][0].as_py() for answer in query.answers()}
    return {end: count for end, count in found.items() if count}
