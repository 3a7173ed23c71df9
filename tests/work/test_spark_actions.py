"""What a micro-batch asks of Spark: one SQL execution, whatever the number of queries; and every exception, by number.

Counted is what Sash's own function starts, from the beginning of a micro-batch to its end, not Spark's own execution
around that function.
`CASES` is the table of docs/architecture/spark.md, and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.core.clock import ManualClock
from sash.core.time import SECOND
from tests.support.streams import START
from tests.work.spark_counting import SparkWork, counted_batches

DOCS = Path(__file__).parents[2] / "docs/architecture/spark.md"
BEGIN, END = "<!-- counted: begin -->", "<!-- counted: end -->"
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int32())])
# Event time of a micro-batch.
SECONDS = 4
GROUPS = 4
# Of a steady micro-batch: four bind the pass to its rows, eleven bring the result as Arrow.
ROUND_TRIPS = 15


def write(path: Path, number: int, tuples: int = 100) -> Path:
    """A micro-batch: four seconds in panes that none of its tuples ends, each with four groups."""
    step = SECONDS * SECOND // tuples
    first = START + number * SECONDS * SECOND + step // 2
    columns = [[first + each * step for each in range(tuples)], [each % GROUPS for each in range(tuples)]]
    columns.append([each % 7 for each in range(tuples)])
    arrays = [pa.array(column, type) for column, type in zip(columns, SCHEMA.types, strict=True)]
    pq.write_table(pa.table(arrays, SCHEMA), path)
    return path


# -- the table -------------------------------------------------------------------------------------------

SUM = "SELECT k, SUM(v) AS a FROM s [WINDOW 8 sec SLIDE 4 sec] GROUP BY k"
EACH_SECOND = SUM.replace("SLIDE 4", "SLIDE 1")
OTHER = "SELECT v, SUM(k) AS a FROM s [WINDOW 8 sec SLIDE 4 sec] GROUP BY v"
ROWS = "SELECT k, SUM(v) AS a FROM s [ROWS 20 SLIDE 5] GROUP BY k"
MORE_ROWS = "SELECT MAX(v) AS a FROM s [ROWS 40 SLIDE 10]"
DISTINCT = "SELECT DISTINCT k FROM s [RANGE 8 sec]"
PAIRS = "SELECT a.k FROM s [RANGE 1 sec] a, s [RANGE 2 sec] b WHERE a.v = b.v"
SLIDING_PAIRS = "s [RANGE 4 sec SLIDE 2 sec] a, s [RANGE 4 sec SLIDE 2 sec] b WHERE a.v = b.v"
COUNTED_PAIRS = f"SELECT a.k, COUNT(*) AS n FROM {SLIDING_PAIRS} GROUP BY a.k"
COMMON = "SELECT k FROM s [WINDOW 8 sec SLIDE 4 sec] INTERSECT SELECT v FROM s [WINDOW 4 sec SLIDE 4 sec]"
NAMES = [
    "CREATE NONRETROACTIVE TABLE names (k INT, name STRING, PRIMARY KEY (k))",
    "INSERT INTO names VALUES (1, 'one'), (2, 'two')",
]
NAMED = "SELECT name, SUM(v) AS a FROM s [WINDOW 8 sec SLIDE 4 sec] JOIN names ON s.k = names.k GROUP BY name"
FREQUENT = "SELECT FREQUENT(3, v) FROM s [WINDOW 8 sec SLIDE 4 sec]"
FAILING = "SELECT SUM(10 / v) AS a FROM s [WINDOW 8 sec SLIDE 4 sec]"


def mixed(number: int) -> list[str]:
    """Queries over four pane tables, with different windows, aggregates and conditions."""
    keys = ["k", "v", "k % 2", "k, v"]
    made = []
    for each in range(number):
        key, aggregate = keys[each % 4], ["SUM(v)", "COUNT(*)", "MAX(v)", "AVG(k)", "MEDIAN(v)"][each % 5]
        where = f"WHERE v > {each % 6 - 1} " if each % 3 == 0 else ""
        window = f"[WINDOW {4 + 2 * (each % 9)} sec SLIDE {2 + 2 * (each % 2)} sec]"
        made.append(f"SELECT {key}, {aggregate} AS a FROM s {window} {where}GROUP BY {key}")
    return made


@dataclass(frozen=True)
class Case:
    """A stream with options and queries, and the Spark actions of its second micro-batch.

    `jobs` is at most: with one core Spark has less to exchange.
    """

    what: str
    executions: int
    jobs: int
    queries: list[str]
    stream: dict[str, Any] = field(default_factory=dict)
    session: dict[str, Any] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    # The format in which every query writes its answers.
    sink: str | None = None
    # The first micro-batch instead.
    at_once: bool = False


MANY_TUPLES = {"executor_rows": 10}
IN_CLUSTER = " STORED IN CLUSTER"
ARCHIVE = "CREATE ARCHIVE old FROM {} KEY k LIFETIME UP TO 60 sec UPDATE EVERY 4 sec"
CASES = [
    Case("1 query over windows of time", 1, 2, mixed(1)),
    Case("10 such queries", 1, 2, mixed(10)),
    Case("100 such queries", 1, 2, mixed(100)),
    Case("`LATE REVISE`", 1, 2, [SUM], {"late": "revise"}),
    Case("`SHED RANDOM`", 1, 2, [SUM], {"shed": 0.5}),
    Case("a query that looks tuples up in a table", 1, 3, [NAMED], before=NAMES),
    Case("windows of `ROWS`, one query", 3, 7, [ROWS]),
    Case("three such queries beside one over time", 3, 8, [SUM, ROWS, ROWS.replace("20", "30"), MORE_ROWS]),
    Case("`MAX JUMP`", 2, 4, [SUM], {"max_jump": "1 day"}),
    Case("`KEEP`", 2, 3, [SUM], {"keep": "1 min"}),
    Case("`KEEP .. STORED IN CLUSTER`", 2, 4, [SUM], {"keep": "1 min", "keep_in": "cluster"}),
    Case("`KEEP` and `MAX JUMP`", 3, 5, [SUM], {"keep": "1 min", "max_jump": "1 day"}),
    Case("an archive of the stream", 2, 3, [SUM], after=[ARCHIVE.format("s")]),
    Case("an archive of a query", 1, 2, [SUM], after=[ARCHIVE.format("q0")]),
    Case("Parquet files of four answers of a query", 1, 2, [EACH_SECOND], sink="parquet"),
    Case("JSON files of four answers of a query", 2, 3, [EACH_SECOND], sink="json"),
    Case("a pane table `STORED IN CLUSTER`, answers due at one time", 3, 7, [SUM + IN_CLUSTER]),
    Case("two such pane tables", 5, 12, [SUM + IN_CLUSTER, OTHER + IN_CLUSTER]),
    Case("`FREQUENT`, a sub-window ends", 3, 8, [FREQUENT]),
    Case("`FREQUENT`, no sub-window ends", 2, 5, [FREQUENT.replace("4 sec", "1 hour").replace("8 sec", "2 hours")]),
    Case("continuous queries alone, few tuples", 1, 1, [DISTINCT, PAIRS]),
    Case("continuous queries beside periodic ones, few tuples", 2, 3, [DISTINCT, PAIRS, SUM]),
    Case("a continuous plan, many tuples", 2, 4, [DISTINCT], session=MANY_TUPLES),
    Case("two such plans", 3, 6, [DISTINCT, DISTINCT.replace("T k", "T v")], session=MANY_TUPLES),
    Case("aggregates over a join", 1, 1, [COUNTED_PAIRS]),
    Case("a set operation answered by an index", 2, 4, [COMMON]),
    Case("two queries of which one's expression fails, in that micro-batch", 5, 8, [SUM, FAILING], at_once=True),
]  # fmt: skip


def table() -> str:
    """The table as the docs have it."""
    rows = [f"| {case.what} | {case.executions} | {case.jobs} |" for case in CASES]
    return "\n".join(["| a stream with | SQL executions | jobs |", "| --- | --- | --- |", *rows])


def test_the_docs_have_this_table() -> None:
    told = DOCS.read_text().partition(BEGIN)[2].partition(END)[0]
    assert told.strip() == table()


# -- counting --------------------------------------------------------------------------------------------


class Streamed:
    """A session whose micro-batches are given by hand: without a streaming query of Spark's, which takes its time."""

    def __init__(self, spark: Any, directory: Path, case: Case) -> None:
        self._spark, self._directory = spark, directory
        self._session = sash.connect(
            spark=spark, checkpoint=directory / "checkpoint", clock=ManualClock(), **case.session
        )
        self._session.create_stream("s", self._rows(0, 100), "ts", **case.stream)
        for statement in case.before:
            self._session.sql(statement)
        for number, text in enumerate(case.queries):
            self._session.sql(f"REGISTER QUERY q{number} AS {text}")
        for statement in case.after:
            self._session.sql(statement)
        for name, query in self._session.queries.items() if case.sink is not None else ():
            query.write_to(case.sink, path=str(directory / name))

    def _rows(self, number: int, tuples: int) -> Any:
        path = write(self._directory / f"{number}-{tuples}.parquet", number, tuples)
        return self._spark.read.parquet(str(path))

    def push(self, number: int, tuples: int = 100) -> SparkWork:
        rows, checkpoint = self._rows(number, tuples), self._session.checkpoint
        assert checkpoint is not None
        with SparkWork(self._spark) as work:
            self._session.streams["s"].on_batch(lambda: checkpoint.history.version, rows, number)
        return work

    def errors(self) -> list[str]:
        return [str(query.error) for query in self._session.queries.values() if query.error is not None]

    def close(self) -> None:
        self._session.close()


def counted(spark: Any, directory: Path, case: Case) -> SparkWork:
    """The second micro-batch of a case: the first finds out what later ones know."""
    streamed = Streamed(spark, directory, case)
    works = [streamed.push(number) for number in range(1 if case.at_once else 2)]
    assert len(streamed.errors()) == case.at_once
    streamed.close()
    return works[-1]


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_executions_of_a_micro_batch(spark: Any, tmp_path: Path, case: Case) -> None:
    work = counted(spark, tmp_path, case)
    assert work.executions == case.executions, work.descriptions
    assert work.jobs <= case.jobs


@pytest.mark.spark
def test_round_trips_do_not_depend_on_the_queries(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "100").mkdir()
    one, many = (counted(spark, tmp_path / str(n), Case("", 1, 2, mixed(n))).round_trips for n in (1, 100))
    assert one == many == ROUND_TRIPS


@pytest.mark.spark
def test_rows_that_come_are_groups_and_panes(spark: Any, tmp_path: Path) -> None:
    """Panes of two seconds, so two of them; as many rows with 100 times the tuples."""
    streamed = Streamed(spark, tmp_path, Case("", 1, 2, [SUM.replace("SLIDE 4", "SLIDE 2")]))
    assert [streamed.push(number, tuples).rows for number, tuples in enumerate((100, 10_000))] == [2 * GROUPS] * 2
    streamed.close()


@pytest.mark.spark
def test_a_stream_of_spark_counts_alike(spark: Any, tmp_path: Path) -> None:
    """Three micro-batches of one streaming query."""
    for number in range(3):
        write(tmp_path / f"{number}.parquet", number)
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        source = spark.readStream.schema("ts TIMESTAMP, k INT, v INT").option("maxFilesPerTrigger", 1)
        session.create_stream("s", source.parquet(str(tmp_path)), "ts")
        for number, text in enumerate(mixed(100)):
            session.sql(f"REGISTER QUERY q{number} AS {text}")
        with counted_batches(spark) as works:
            session.run()
    assert [work.executions for work in works] == [1, 1, 1]
    assert all(work.jobs <= 2 for work in works)
    # The first parses the pass, and asks for its types.
    assert [work.round_trips for work in works[1:]] == [ROUND_TRIPS] * 2
