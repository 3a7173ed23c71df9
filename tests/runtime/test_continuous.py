"""Continuous queries on Spark: the definition's answer at every instant, whatever the micro-batches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.core.time import SECOND, to_micros
from tests.support.files import placed
from tests.support.streams import START
from tests.support.windows_in_duckdb import Definition, answer_of_changes

pytestmark = pytest.mark.spark
COLUMNS = "ts TIMESTAMP, k INT, g STRING, v INT"

QUERIES = {
    "selection": "SELECT k, v + 1 AS w FROM s [RANGE 3 sec] WHERE v > 4",
    "distinct": "SELECT DISTINCT k, g FROM s [RANGE 4 sec]",
    "join": "SELECT s.k, s.v, t.g FROM s [RANGE 3 sec], t [RANGE 2 sec] WHERE s.k = t.k AND s.v < t.v + 4",
    "self": "SELECT a.v, b.v AS w FROM s [RANGE 2 sec] a, s [RANGE 3 sec] b WHERE a.k = b.k AND a.v < 3 AND b.v > 5",
    "three": "SELECT s.v, t.g, a.v w FROM s [RANGE 2 sec], t [ROWS 9], s [RANGE 1 sec] a WHERE s.k = t.k AND a.k = t.k",
    "text": "SELECT s.v, t.v AS w FROM s [RANGE 1 sec], t [RANGE 1 sec] WHERE s.g = t.g",
    "anti": "SELECT s.k, s.v FROM s [RANGE 3 sec] WHERE NOT EXISTS (SELECT 1 FROM t [RANGE 2 sec] WHERE t.k = s.k)",
    "semi": "SELECT k, v FROM s [RANGE 3 sec] WHERE k IN (SELECT k FROM t [RANGE 2 sec] WHERE v > 3)",
    "not_in": "SELECT v FROM s [RANGE 3 sec] WHERE k NOT IN (SELECT k FROM t [RANGE 1 sec] WHERE v > 6)",
    "union": "SELECT k, g FROM s [RANGE 3 sec] UNION ALL SELECT v, g FROM t [RANGE 2 sec]",
    "except": "SELECT k FROM s [RANGE 3 sec] EXCEPT ALL SELECT k FROM t [RANGE 3 sec]",
    "sets": "SELECT k, g FROM s [RANGE 4 sec] INTERSECT SELECT k, g FROM t [RANGE 4 sec]",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS t, MIN(g) AS first, AVG(v) AS m FROM s [RANGE 4 sec] GROUP BY k",
    "kinds": "SELECT k, SUM(v) FILTER (WHERE g = 'x') AS t, COUNT_IF(v > 4) AS c, BOOL_AND(v > 1) AS a, "
    "EVERY(v > 1) FILTER (WHERE g = 'y') AS e, SOME(v > 7) AS o, ANY_VALUE(k) AS w FROM s [RANGE 4 sec] GROUP BY k",
    "having": "SELECT g, MAX(v) - MIN(v) AS d FROM s [RANGE 5 sec] GROUP BY g HAVING COUNT(*) > 2",
    "rows": "SELECT k, COUNT(*) AS n FROM s [ROWS 7] GROUP BY k",
    "last": "SELECT k, v FROM s [PARTITION BY k ROWS 2] WHERE v > 2",
    "count": "SELECT COUNT(*) AS n FROM s [RANGE 2 sec] GROUP BY k > 1",
    "decimal": "SELECT DISTINCT CAST(v AS DECIMAL(4, 1)) AS d FROM t [RANGE 1 sec]",
    "of_query": "SELECT a.k, t.v FROM (SELECT DISTINCT k FROM s [RANGE 2 sec]) a, t [RANGE 2 sec] WHERE a.k = t.k",
    "whole": "SELECT DISTINCT s.k, t.v FROM s [UNBOUNDED], t [RANGE 2 sec] WHERE s.k = t.k AND s.k BETWEEN 1 AND 3",
    "seen": "SELECT v FROM t [RANGE 2 sec] WHERE k IN (SELECT k FROM s [UNBOUNDED] WHERE k > 0 AND k < 3)",
    "counted": "SELECT s.k, t.k AS j FROM s [UNBOUNDED], t [UNBOUNDED] WHERE s.k = t.k AND s.k BETWEEN 1 AND 3",
    "multiplied": "SELECT t.g, COUNT(*) AS n, SUM(t.v) AS v FROM s [UNBOUNDED], t [RANGE 2 sec] WHERE s.k = t.k"
    " AND s.k IN (1, 2, 3) GROUP BY t.g",
    "extremes": "SELECT DISTINCT s.k, s.g, t.g AS h FROM s [UNBOUNDED], t [UNBOUNDED] WHERE s.v < t.v"
    " AND s.k IN (1, 2, 3) AND s.g IN ('x', 'y') AND t.g IN ('x', 'y', 'z')",
    "groups_of_join": "SELECT s.k, COUNT(*) AS n FROM s [RANGE 2 sec], t [RANGE 2 sec] WHERE s.k = t.k GROUP BY s.k",
}  # fmt: skip


def tuples(seed: int, parts: int = 5, per_part: int = 14) -> list[pa.Table]:
    """Micro-batches a little out of order, with ties between streams but none within one."""
    chance = random.Random(seed)
    places = []
    for part in range(parts):
        begin = START + part * 2 * SECOND
        places += sorted(chance.sample(range(begin, begin + 2 * SECOND, 20_000), per_part))
    for i in range(0, len(places) - 1, 2):
        places[i], places[i + 1] = places[i + 1], places[i]
    table = pa.table(
        {
            "ts": pa.array(places, pa.timestamp("us", "UTC")),
            "k": pa.array([chance.choice([0, 1, 2, 3, None]) for _ in places], pa.int32()),
            "g": pa.array([chance.choice(["x", "y", "z", None]) for _ in places]),
            "v": pa.array([chance.randrange(10) for _ in places], pa.int32()),
        }
    )
    return [table.slice(i * per_part, per_part) for i in range(parts)]


def write(parts: list[pa.Table], directory: Path, first: int = 0) -> None:
    directory.mkdir(exist_ok=True)
    for i, part in enumerate(parts, first):
        with placed(directory / f"part-{i:03d}.parquet", i) as path:
            pq.write_table(part, path)


def declare(session: sash.Session, directory: Path, names: str = "st", files: int = 1) -> None:
    """A micro-batch has this many files."""
    for name in names:
        session.sql(
            f"CREATE STREAM {name} ({COLUMNS}) FROM parquet "
            f"OPTIONS (path '{directory / name}', maxFilesPerTrigger '{files}') TIMESTAMP ts DELAY 1 sec"
        )


def with_numbers(parts: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(parts)
    return table.append_column("_us", table["ts"].cast(pa.int64()))


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Definition, list[int]]:
    directory, parts = tmp_path_factory.mktemp("data"), {"s": tuples(1), "t": tuples(2)}
    for name, each in parts.items():
        write(each, directory / name)
    tables = {name: with_numbers(each) for name, each in parts.items()}
    last = min(max(table["_us"].to_pylist()) for table in tables.values())
    instants = sorted(
        {ts + after for table in tables.values() for ts in table["_us"].to_pylist() for after in (0, 2 * SECOND)}
    )
    return directory, Definition(tables), [instant for instant in instants if instant <= last][::3]


ON_EXECUTORS = ("self", "three", "text", "anti", "groups", "last", "whole", "counted")


def run(spark: Any, directory: Path, names: Iterable[str], executor_rows: int, files: int = 1) -> dict[str, pa.Table]:
    """The changes of some queries; their views are what the changes add up to."""
    with sash.connect(spark=spark, executor_rows=executor_rows) as session:
        declare(session, directory, files=files)
        queries = [session.register(QUERIES[name], name=name) for name in names]
        session.run()
        assert [query.error for query in queries] == [None] * len(queries)
        for query in queries:
            rows = Counter(tuple(row.values()) for row in query.view().to_pylist())
            now = to_micros(datetime.fromisoformat(query.view().schema.metadata[b"as_of"].decode()))
            assert rows == answer_of_changes(query.changes(), now), query.name
        return {query.name: query.changes() for query in queries}


@pytest.fixture(scope="module")
def changes(spark: Any, streams: tuple[Path, Definition, list[int]]) -> dict[str, pa.Table]:
    return run(spark, streams[0], QUERIES, executor_rows=500_000)


@pytest.mark.parametrize("name", QUERIES)
def test_the_definitions_answer_at_every_instant(
    name: str, changes: dict[str, pa.Table], streams: tuple[Path, Definition, list[int]]
) -> None:
    _, definition, instants = streams
    assert changes[name].num_rows > 10
    for now in instants:
        assert answer_of_changes(changes[name], now) == definition.answer(QUERIES[name], now), now


def test_executors_give_the_same_changes(
    spark: Any, changes: dict[str, pa.Table], streams: tuple[Path, Definition, list[int]]
) -> None:
    # In fewer micro-batches: each is a job, whose time does not depend on so few tuples.
    found = run(spark, streams[0], ON_EXECUTORS, executor_rows=0, files=3)
    for name, table in found.items():
        expected = changes[name]
        assert table.schema == expected.schema
        assert Counter(map(str, table.to_pylist())) == Counter(map(str, expected.to_pylist())), name
        assert table["_ts"].to_pylist() == expected["_ts"].to_pylist()


DOUBLES = [0.0, -0.0, float("nan"), 1.5, -0.0, 0.0, None, float("nan"), -2.0]
OF_DOUBLES = {
    "groups": "SELECT x, COUNT(*) AS n FROM a {} GROUP BY x",
    "distinct": "SELECT DISTINCT x FROM a {}",
    "union": "SELECT x FROM a {0} UNION SELECT y FROM b {0}",
    "union_all": "SELECT x FROM a {0} UNION ALL SELECT y FROM b {0}",
    "except": "SELECT x FROM a {0} EXCEPT SELECT y FROM b {0}",
    "intersect": "SELECT x FROM a {0} INTERSECT SELECT y FROM b {0}",
    "except_all": "SELECT x FROM a {0} EXCEPT ALL SELECT y FROM b {0}",
    "intersect_all": "SELECT x FROM a {0} INTERSECT ALL SELECT y FROM b {0}",
    "negated": "SELECT -x AS z FROM a {0} INTERSECT SELECT y FROM b {0}",
    "join": "SELECT a.x, b.y FROM a {0} JOIN b {0} ON a.x = b.y",
    "groups_of_join": "SELECT b.y, COUNT(*) AS n FROM a {0} JOIN b {0} ON a.x = b.y GROUP BY b.y",
    "tested": "SELECT x FROM a {0} WHERE x IN (SELECT y FROM b {0})",
}


def test_zero_and_nan_are_those_of_spark(spark: Any) -> None:
    """Whichever zero comes first: groups, DISTINCT and set operations give 0.0, joins give the zero that came."""
    columns = {"a": ("x", DOUBLES), "b": ("y", [-0.0, float("nan"), -0.0, 3.5])}
    with sash.connect(spark=spark) as session:
        for name, (column, values) in columns.items():
            stamps = pa.array([START + i * SECOND for i in range(1, len(values) + 1)], pa.timestamp("us", "UTC"))
            frame = spark.createDataFrame(pa.table({"ts": stamps, column: pa.array(values, pa.float64())}))
            session.create_stream(name, frame, timestamp="ts")
            frame.createOrReplaceTempView(name)
        for name, text in OF_DOUBLES.items():
            session.register(text.format("[RANGE 1 hour]"), name=name)
            session.register(text.format("[RANGE 1 hour SLIDE 1 hour]"), name=f"{name}_sliding")
        session.run()
        for name, text in OF_DOUBLES.items():
            expected = Counter(
                tuple(map(repr, row)) for row in spark.sql(text.replace("{}", "").replace("{0}", "")).collect()
            )
            view, last = session.queries[name].view(), session.queries[f"{name}_sliding"].latest()
            assert last is not None, name
            for found in (view, last.table):
                rows = Counter(tuple(map(repr, row.values())) for row in found.to_pylist())
                assert rows == expected, name
