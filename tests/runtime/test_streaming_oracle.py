"""The matrix through real streaming: files in, Spark's pass, every answer against DuckDB."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

import sash
from sash.core.time import SECOND, format_duration
from sash.spark.pipeline import Pipeline
from tests.support.checks import check_answers, check_schedule
from tests.support.examples import examples
from tests.support.oracle import same_rows
from tests.support.streams import SCHEMA, START, Registered, batches, query_sets, stream, to_table

pytestmark = pytest.mark.spark

COLUMNS = "ts TIMESTAMP, k INT, g STRING, v INT, w BIGINT, x DOUBLE"


def write(parts: list[pa.Table], directory: Path) -> None:
    """One file per micro-batch, in the order of modification times, as Spark reads them."""
    directory.mkdir()
    for i, part in enumerate(parts):
        path = directory / f"part-{i:03d}.parquet"
        pq.write_table(part.select(SCHEMA.names), path)
        os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))


def declare(session: sash.Session, directory: Path, delay: int) -> None:
    session.sql(
        f"CREATE STREAM s ({COLUMNS}) FROM parquet OPTIONS (path '{directory}', maxFilesPerTrigger '1') "
        f"TIMESTAMP ts DELAY {format_duration(delay)}"
    )


@pytest.mark.parametrize("disorder", [0, 3 * SECOND])
def test_matrix(spark: Any, tmp_path: Path, disorder: int) -> None:
    runs = iter(range(1_000))

    @settings(max_examples=examples(5), suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
    @given(query_sets(12), batches(disorder=disorder, most=80))
    def check(queries: list[Registered], parts: list[pa.Table]) -> None:
        directory = tmp_path / f"run-{next(runs)}"
        filled = [part for part in parts if len(part)]
        write(filled, directory)
        session = sash.connect(spark=spark, policy="conservative")
        declare(session, directory, disorder)
        handles = [session.register(query.text, name=query.name) for query in queries]
        session.run()
        answers = [answer for handle in handles for answer in handle.answers()]
        assert all(handle.error is None for handle in handles)
        assert session.stats()["late_tuples"] == 0
        check_answers(queries, answers, filled, stream(delay=disorder))
        for query in queries:
            check_schedule(query, answers, filled, stream(delay=disorder))
        session.close()

    check()


def test_many_predicates_and_key_sets(spark: Any, tmp_path: Path) -> None:
    """Past the number of predicates that fit into one lane, over several key sets, everything is still right."""
    chance = random.Random(5)
    rows = [
        (
            START + i * 50_000,
            chance.choice([None, 1, 2, 3]),
            chance.choice(["a", "b", None]),
            chance.randrange(100),
            chance.randrange(-(2**40), 2**40),
            chance.random(),
        )
        for i in range(400)
    ]
    parts = [to_table(rows[:150]), to_table(rows[150:])]
    write(parts, tmp_path / "data")
    keys = ["", "k", "g", "k, g", "v % 4"]
    queries = []
    for i in range(60):
        key = keys[i % len(keys)]
        select = f"{key}, " if key else ""
        group = f" GROUP BY {key}" if key else ""
        text = (
            f"SELECT {select}SUM(v) AS t, COUNT(*) AS n, MIN(w) AS lo, AVG(x) AS m FROM s [WINDOW 6 sec SLIDE 3 sec] "
            f"WHERE v > {i}{group}"
        )
        queries.append(Registered(f"q{i}", text, 6 * SECOND, 3 * SECOND))
    session = sash.connect(spark=spark, policy="conservative")
    declare(session, tmp_path / "data", 0)
    handles = [session.register(query.text, name=query.name) for query in queries]
    session.run()
    check_answers(queries, [a for handle in handles for a in handle.answers()], parts, stream())
    assert len(session.stats()["streams"]["s"]["pane_tables"]) == len(keys)
    session.close()


def test_one_pass_whatever_the_queries(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark counts the rows that a micro-batch reads: with a second pass it would count them twice."""
    started: list[Any] = []
    start = Pipeline.start
    monkeypatch.setattr(Pipeline, "start", lambda *arguments: started.append(start(*arguments)) or started[-1])
    rows = [(START + i * 10_000, i % 3, "ab"[i % 2], i % 50, i, float(i)) for i in range(1_000)]
    write([to_table(rows[:500]), to_table(rows[500:])], tmp_path / "data")
    session = sash.connect(spark=spark, policy="conservative")
    declare(session, tmp_path / "data", 0)
    for i, key in enumerate(["k", "g", "k, g", "v % 5"] * 8):
        session.register(
            f"SELECT {key}, SUM(v) AS t FROM s [WINDOW 4 sec SLIDE 2 sec] WHERE v > {i} GROUP BY {key}", f"q{i}"
        )
    session.run()
    (query,) = started
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [500, 500]
    session.close()


KEY_TYPES = [
    f"CASE WHEN id % 5 = 4 THEN NULL ELSE CAST(id % 3 AS {name}) END"
    for name in ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "STRING", "BOOLEAN")
] + [
    "date_add(DATE'2026-01-01', CAST(id % 3 AS INT))",
    "timestamp_seconds(id % 3)",
    "CAST(timestamp_seconds(id % 3) AS TIMESTAMP_NTZ)",
    "CASE WHEN id % 3 = 0 THEN double('NaN') WHEN id % 3 = 1 THEN -0.0D ELSE 0.0D END",
]


def test_every_type_as_key_and_as_extreme(spark: Any) -> None:
    """Groups, minima and maxima of every type, all key sets in one pass, against Spark's own batch aggregation."""
    columns = [f"{text} AS c{i}" for i, text in enumerate(KEY_TYPES)]
    frame = spark.range(300).selectExpr(f"timestamp_micros({START} + id * 10000) AS ts", "id", *columns)
    session = sash.connect(spark=spark, policy="conservative")
    session.create_stream("s", frame, timestamp="ts")
    for i in range(len(KEY_TYPES)):
        other = (i + 1) % len(KEY_TYPES)
        extremes = f"COUNT(*) AS n, MIN(c{other}) AS lo, MAX(c{other}) AS hi"
        session.register(f"SELECT c{i}, {extremes} FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY c{i}", f"q{i}")
    session.run()
    by_spark = _by_every_column(frame)
    for i in range(len(KEY_TYPES)):
        other = (i + 1) % len(KEY_TYPES)
        ours = session.queries[f"q{i}"].latest()
        assert ours is not None
        grouped = by_spark.filter(pc.field(f"absent{i}") == 0)
        theirs = grouped.select([f"c{i}", "n", f"lo{other}", f"hi{other}"]).rename_columns([f"c{i}", "n", "lo", "hi"])
        assert [field.type for field in ours.table.schema] == [field.type for field in theirs.schema]
        assert same_rows(ours.table.to_pylist(), theirs.to_pylist()), KEY_TYPES[i]
    session.close()


def _by_every_column(frame: Any) -> pa.Table:
    """Grouped by each column in turn, in one job; `absent3` is 0 where a row is a group by column 3."""
    frame.createOrReplaceTempView("keys_of_every_type")
    numbers = range(len(KEY_TYPES))
    found = [f"c{i}, grouping(c{i}) AS absent{i}, min(c{i}) AS lo{i}, max(c{i}) AS hi{i}" for i in numbers]
    sets = ", ".join(f"(c{i})" for i in numbers)
    return frame.sparkSession.sql(
        f"SELECT {', '.join(found)}, count(1) AS n FROM keys_of_every_type GROUP BY GROUPING SETS ({sets})"
    ).toArrow()
