"""The rows of a micro-batch that come to this process: one for each group and pane of each pane table.

The text of the pass is what Spark executes. DuckDB executes the same text here, translated.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from benchmarks.packet_panes import COLUMNS, PACKETS, START
from sash.core.time import SECOND
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from sash.spark.lanes import PassProgram, split
from sash.spark.sources import type_name
from tests.support.feed import compiled

QUERIES = {
    "talkers": "SELECT src, SUM(length) AS bytes, COUNT(*) AS n FROM packets [WINDOW 20 sec SLIDE 5 sec] GROUP BY src",
    "more": "SELECT src, MAX(length) AS longest FROM packets [WINDOW 30 sec SLIDE 10 sec] WHERE port = 3 GROUP BY src",
    "pairs": "SELECT protocol, port, AVG(length) AS m FROM packets [WINDOW 10 sec SLIDE 5 sec] GROUP BY protocol, port",
    "median": "SELECT MEDIAN(length) AS middle FROM packets [WINDOW 10 sec SLIDE 5 sec]",
    "all": "SELECT COUNT(*) AS n FROM packets [WINDOW 10 sec SLIDE 5 sec]",
}
GROUPS, PANES, LENGTH = 5, 4, 5 * SECOND
# By src, by protocol and port (which are equal here), by length (for the median); and one group of all.
ROWS = PANES * (GROUPS + GROUPS + GROUPS + 1)


def micro_batch(tuples: int) -> pa.Table:
    """Tuples of every group in every pane."""
    numbers = np.arange(tuples)
    stamps = START + numbers % PANES * LENGTH + 1 + numbers
    group = pa.array(numbers // PANES % GROUPS, pa.int32())
    return pa.table({"ts": pa.array(stamps, pa.timestamp("us", "UTC")), **dict.fromkeys(COLUMNS, group)})


@pytest.mark.parametrize("tuples", [100, 10_000])
def test_rows_are_groups_and_panes_not_tuples(tuples: int) -> None:
    runtime = StreamRuntime(PACKETS, Settings("conservative"))
    runtime.synchronise(compiled(QUERIES, PACKETS))
    program = PassProgram(PACKETS, runtime.tables(), "micro_batch", type_name)
    (translated,) = sqlglot.transpile(program.sql, read="spark", write="duckdb")
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO pmod(a, b) AS ((a % b) + b) % b")
        connection.register("micro_batch", micro_batch(tuples))
        result = connection.sql(translated).to_arrow_table()
    assert len(result) == ROWS
    facts = split(program, result)
    assert facts.rows == tuples and sum(len(rows.ends) for _, rows, _ in facts.lanes) == ROWS
    assert all(counts.sum() == tuples for _, _, counts in facts.lanes)


@pytest.mark.parametrize(("slide", "computed"), [(5, 1), (4, 4)])
def test_a_column_that_all_pane_tables_share_is_computed_once_per_tuple(slide: int, computed: int) -> None:
    """Panes of one length are one column; if one table has shorter panes, each of the four tables has its own."""
    texts = {**QUERIES, "all": QUERIES["all"].replace("SLIDE 5", f"SLIDE {slide}")}
    runtime = StreamRuntime(PACKETS, Settings("conservative"))
    runtime.synchronise(compiled(texts, PACKETS))
    program = PassProgram(PACKETS, runtime.tables(), "micro_batch", type_name)
    assert len(program.lanes) == 4 and program.sql.count("pmod(") == computed
