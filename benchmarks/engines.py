"""The ways to run N windowed queries that are compared: Sash, native Spark streaming, a re-scan in DuckDB.

Each takes the same files and the same list of queries and returns tuples per second.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

import sash
from benchmarks.packets import DDL, rows_of
from sash.runtime.answers.answer import Answer
from sash.runtime.session import Session
from sash.spark.spark_session import acquire_own_session

Query = dict[str, int]


@dataclass(frozen=True)
class Question:
    """One SELECT around the window, for Sash, and in the words of an SQL engine where they differ."""

    select: str
    group: str = ""
    sql_select: str = ""
    sql_group: str = ""

    def cql(self, query: Query) -> str:
        window = f"[WINDOW {query['w']} sec SLIDE EXACTLY {query['s']} sec]"
        return f"{self.select} FROM packets {window}{self.group}"

    def sql(self, bounds: str) -> str:
        return f"{self.sql_select or self.select} FROM packets WHERE {bounds}{self.sql_group or self.group}"


# The forms of the workload: the questions over each of its windows.
FORMS = {
    "W1": (Question("SELECT src, SUM(length) AS bytes, COUNT(*) AS packets", " GROUP BY src"),),
    "W2": (Question("SELECT MAX(length) AS longest"),),
    "W3": (
        Question("SELECT MEDIAN(length) AS middle"),
        Question(
            "SELECT TOP(10, src, SUM(length))",
            sql_select="SELECT src, SUM(length) AS weight",
            sql_group=" GROUP BY src ORDER BY weight DESC, src LIMIT 10",
        ),
    ),
    "W4": (
        Question("SELECT src, SUM(length) AS bytes", " GROUP BY src HAVING AVG(length) > 765"),
        Question("SELECT src, SUM(length) AS bytes", " GROUP BY src ORDER BY bytes DESC LIMIT 10"),
    ),
}


def texts_of(form: str, queries: list[Query]) -> list[str]:
    return [question.cql(query) for query in queries for question in FORMS[form]]


def processor() -> float:
    """Seconds of processor time that this process and Spark's have taken."""
    own = psutil.Process()
    taken = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return float(sum(each.user + each.system for each in taken))


@cache
def shared_session() -> Any:
    """One Spark session for the whole run: what the JVM has compiled stays compiled."""
    return acquire_own_session()


def stage(files: list[Path], directory: str) -> str:
    """A directory with just these files. Spark reads files by modification time: names must be in the same order."""
    times = [path.stat().st_mtime for path in files]
    in_order = all(a < b for a, b in pairwise(times))
    for number, path in enumerate(files):
        target = Path(directory) / path.name
        if in_order:
            target.symlink_to(path.resolve())
        else:
            shutil.copyfile(path, target)
            os.utime(target, (number + 1, number + 1))
    return directory


class Reader:
    """A subscriber of all queries: it takes the number of rows of each answer, and reads a column of every hundredth.

    An answer that nobody looks at costs next to nothing: a benchmark without readers would say too much.
    """

    def __init__(self) -> None:
        self.answers = self.rows = self.values = 0

    def __call__(self, answer: Answer) -> None:
        self.answers += 1
        self.rows += answer.num_rows
        if self.answers % 100 == 0:
            self.values += len(answer.table.column(answer.table.num_columns - 1).to_numpy())


def declare_stream(
    session: Session, directory: str, files_per_batch: int, name: str, columns: str, clauses: str = ""
) -> None:
    options = f"path '{directory}', maxFilesPerTrigger '{files_per_batch}'"
    session.sql(f"CREATE STREAM {name} ({columns}) FROM parquet OPTIONS ({options}) TIMESTAMP ts {clauses}")


def declare_packets(session: Session, directory: str, files_per_batch: int) -> None:
    declare_stream(session, directory, files_per_batch, "packets", DDL)


@contextmanager
def drained(
    texts: list[str],
    files: list[Path],
    files_per_batch: int,
    declare: Callable[[Session, str, int], None] = declare_packets,
    keep: int | None = None,
) -> Iterator[tuple[Session, float]]:
    """A session that has run these queries over all files, and the seconds from the first tuple to the last answer.

    Each query remembers `keep` answers (None: as by default).
    """
    settings: dict[str, Any] = {} if keep is None else {"keep_answers": keep}
    with tempfile.TemporaryDirectory() as directory, sash.connect(spark=shared_session(), **settings) as session:
        declare(session, stage(files, directory), files_per_batch)
        reader = Reader()
        for i, text in enumerate(texts):
            session.register(text, name=f"q{i}").subscribe(reader)
        started = time.perf_counter()
        session.run()
        seconds = time.perf_counter() - started
        if session.stats()["late_tuples"]:
            raise SystemExit("the files are not in the order of time: tuples were late")
        failed = [query.error for query in session.queries.values() if query.error is not None]
        if failed:
            raise failed[0]
        answered = sum(query.answered for query in session.queries.values())
        if reader.answers != answered:
            raise SystemExit(f"{reader.answers} answers were read, not {answered}")
        yield session, seconds


def run_sash(
    texts: list[str], files: list[Path], files_per_batch: int, progress: Callable[[str], None], keep: int | None = None
) -> dict[str, Any]:
    """One warm-up drain on the same Spark session, then the measured one."""
    warm, seconds, stats = 0.0, 0.0, {}
    for attempt in ("warm-up", "measured"):
        progress(f"sash, {len(texts)} queries, {attempt}")
        warm = seconds
        with drained(texts, files, files_per_batch, keep=keep) as (session, seconds):
            stats = session.stats()
        # A session that has ended keeps its panes while somebody has it: they are not the memory of the next one.
        del session
        gc.collect()
    tuples = stats["tuples"]
    return {
        "tuples_per_s": tuples / seconds,
        "seconds": seconds,
        "tuples": tuples,
        "first_run_tuples_per_s": tuples / warm,
        "answers": stats["refreshes"],
        "joint_executions": stats["joint_executions"],
        "work_saved": stats["work_saved"],
        "seconds_in_spark": stats["streams"]["packets"]["seconds_in_spark"],
        "seconds_in_sash": stats["streams"]["packets"]["seconds_in_sash"],
    }


def run_native(form: str, queries: list[Query], files: list[Path], files_per_batch: int) -> dict[str, Any]:
    """N streaming queries with window(), each reading the source for itself, as people do today."""
    from pyspark.sql import functions as f

    spark = shared_session()
    tuples = sum(map(rows_of, files))
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as checkpoints:
        stage(files, directory)
        started, running = time.perf_counter(), []
        for i, query in enumerate(queries):
            frame = spark.readStream.schema(DDL).option("maxFilesPerTrigger", files_per_batch).parquet(directory)
            window = f.window("ts", f"{query['w_multiple']} seconds", f"{query['s']} seconds")
            keyed = frame.withWatermark("ts", "0 seconds").groupBy(window, *(["src"] if form == "W1" else []))
            totals = [f.sum("length"), f.count("*")] if form == "W1" else [f.max("length")]
            writer = keyed.agg(*totals).writeStream.format("noop").outputMode("append")
            writer = writer.option("checkpointLocation", f"{checkpoints}/{i}").trigger(availableNow=True)
            running.append(writer.start())
        for each in running:
            each.awaitTermination()
        seconds = time.perf_counter() - started
    return {"tuples_per_s": tuples / seconds, "seconds": seconds, "tuples": tuples}


def run_rescan(form: str, queries: list[Query], files: list[Path]) -> dict[str, Any]:
    """DuckDB scans the window again at each slide, over data that are in memory already: no streaming at all."""
    import duckdb

    names = ", ".join(f"'{path}'" for path in files)
    connection = duckdb.connect()
    connection.sql("SET TimeZone = 'UTC'")
    connection.sql(f"CREATE TABLE packets AS SELECT *, epoch_us(ts) AS us FROM read_parquet([{names}])")
    ((tuples, first, last),) = connection.sql("SELECT count(*), min(us), max(us) FROM packets").fetchall()
    started, scans = time.perf_counter(), 0
    for query in queries:
        slide, window = query["s"] * 1_000_000, query["w"] * 1_000_000
        for as_of in range(first - first % slide + slide, last + 1, slide):
            bounds = f"us > {as_of - window} AND us <= {as_of}"
            for question in FORMS[form]:
                connection.sql(question.sql(bounds)).fetchall()
                scans += 1
    seconds = time.perf_counter() - started
    connection.close()
    return {"tuples_per_s": tuples / seconds, "seconds": seconds, "tuples": tuples, "scans": scans}
