"""COUNT_MIN in bounded space: 20,000 counters for each pane at most, however many values there are."""

from __future__ import annotations

from typing import Any

import pytest

from sash.panes.counters import MOST_COUNTERS
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from sash.spark.pipeline import Pipeline
from tests.support.feed import compiled
from tests.support.streams import START, stream

pytestmark = pytest.mark.spark
VALUES = 1_000_000
COUNT_MIN = "COUNT_MIN(v, 7) AS n"
# MODE needs the counts of all values, and COUNT_MIN reads them then.
ASKED = {"counters": COUNT_MIN, "all counts": f"MODE(v) AS m, {COUNT_MIN}"}


def test_a_million_values(spark: Any) -> None:
    """Of a micro-batch: the rows and bytes that come from Spark, and the pairs that the panes keep."""
    columns = ["timestamp_micros({} + id) AS ts", "1 AS k", "'a' AS g", "CAST(id AS INT) AS v", "id AS w", "1D AS x"]
    frame = spark.range(VALUES).selectExpr(columns[0].format(START + 1), *columns[1:])
    rows, bytes, pairs, counts = {}, {}, {}, {}
    for way, what in ASKED.items():
        runtime = StreamRuntime(stream(), Settings("conservative"))
        runtime.synchronise(compiled({"q": f"SELECT {what} FROM s [WINDOW 4 sec SLIDE 2 sec]"}, runtime.stream))
        pipeline = Pipeline(runtime.stream, frame)
        result = pipeline.aggregate(frame, runtime.tables())
        runtime.apply(pipeline.facts(result, runtime.tables()))
        (answer,) = runtime.finish().answers
        (group,) = runtime.groups.values()
        rows[way], bytes[way], pairs[way] = len(result), result.nbytes, group.panes.rows
        counts[way] = answer.table["n"][0].as_py()
    assert rows["all counts"] == pairs["all counts"] == VALUES
    assert rows["counters"] == pairs["counters"] <= MOST_COUNTERS
    assert bytes["counters"] * 45 < bytes["all counts"]
    assert counts["all counts"] == 1 <= counts["counters"] <= 1 + VALUES // 1_000
