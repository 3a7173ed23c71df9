"""MAX JUMP: tuples that are too far ahead have no effect on any kind of query; and are counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.core.clock import ManualClock
from sash.core.errors import CatalogError, CheckpointError, CqlError
from sash.core.time import SECOND, to_micros
from tests.runtime.test_session import create, write
from tests.support.log import events
from tests.support.streams import START

pytestmark = pytest.mark.spark

CENTURIES = 230 * 365 * 86_400.0
QUERIES = {
    "periodic": "SELECT k, SUM(v) AS t FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY k ORDER BY k",
    "rows": "SELECT COUNT(*) AS n, SUM(v) AS t FROM s [ROWS 5 SLIDE 3]",
    "median": "SELECT MEDIAN(v) AS m FROM s [WINDOW 4 sec SLIDE 2 sec]",
    "continuous": "SELECT DISTINCT k FROM s [RANGE 3 sec]",
    "joined": "SELECT a.k, b.v FROM s [RANGE 1 sec] a, s [RANGE 2 sec] b WHERE a.v = b.v",
    "poison": "SELECT SUM(10 / v) AS t FROM s [WINDOW 4 sec SLIDE 2 sec]",
}
# (seconds, k, v) by files; those of another century have values that would fail a query, too.
FILES = [
    [(0.5, 1, 1), (CENTURIES, 9, 0), (1.5, 2, 2)],
    [(2.5, 1, 3), (3.5, 2, 4), (CENTURIES + 1, 9, 0), (CENTURIES + 2, 9, 0)],
    [(CENTURIES, 9, 0)],
    [(5.5, 1, 5), (None, 1, 6), (6.5, 2, 7), (14.0, 3, 8)],
]
JUMPED = 4


@contextmanager
def opened(spark: Any, directory: Path, clauses: str, checkpoint: Path | None = None) -> Iterator[sash.Session]:
    with sash.connect(spark=spark, checkpoint=checkpoint, clock=ManualClock()) as session:
        create(session, directory, f"KEEP 1 min {clauses}")
        yield session


def outcome(session: sash.Session) -> dict[str, Any]:
    """Everything that queries have said, and what a question finds."""
    assert not [query.error for query in session.queries.values() if query.error is not None]
    answers = {
        name: [(answer.as_of, answer.complete, answer.table.to_pylist()) for answer in query.answers()]
        for name, query in session.queries.items()
    }
    stored = session.query("SELECT k, v FROM s [WINDOW 1 min] ORDER BY ts").to_pylist()
    return {**answers, "stored": stored, "watermark": session.stats()["streams"]["s"]["watermark"]}


@pytest.fixture(scope="module")
def expected(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same without those tuples."""
    tmp_path = tmp_path_factory.mktemp("jumps")
    for number, rows in enumerate(FILES):
        kept = [row for row in rows if row[0] is None or row[0] < CENTURIES]
        if kept:
            write(tmp_path / "clean", number, kept)
    with opened(spark, tmp_path / "clean", "") as session:
        register(session)
        session.run()
        return outcome(session)


def register(session: sash.Session) -> None:
    for name, text in QUERIES.items():
        session.sql(f"REGISTER QUERY {name} AS {text}")


def test_a_tuple_of_another_century_is_as_if_it_had_not_come(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, expected: dict[str, Any]
) -> None:
    for number, rows in enumerate(FILES):
        write(tmp_path / "data", number, rows)
    with opened(spark, tmp_path / "data", "MAX JUMP 1 hour") as session, caplog.at_level(logging.WARNING, "sash"):
        register(session)
        session.run()
        assert outcome(session) == expected
        counted = session.stats()
        assert counted["jumped_tuples"] == counted["streams"]["s"]["jumped_tuples"] == JUMPED
        assert counted["tuples"] == sum(map(len, FILES)) and counted["streams"]["s"]["null_timestamps"] == 1
    assert sum("MAX JUMP, 1 hour, ahead" in record.getMessage() for record in caplog.records) == 1
    assert [event["event"] for event in events(caplog)].count("tuples.jumped") == 1


def test_a_restart_between_micro_batches_changes_nothing(spark: Any, tmp_path: Path, expected: dict[str, Any]) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    for first, last in ((0, 1), (1, 3), (3, 4)):
        for number in range(first, last):
            write(data, number, FILES[number])
        with opened(spark, data, "MAX JUMP 1 hour", checkpoint) as session:
            if first == 0:
                register(session)
            total = sum(map(len, FILES[:last]))
            session.start(trigger="0 seconds")
            while session.stats()["tuples"] < total:
                assert not session.wait(0.05)
            session.stop()
            if last == len(FILES):
                session.run()
                found = outcome(session)
                assert session.stats()["jumped_tuples"] == JUMPED
    assert found["stored"] == expected["stored"] and found["watermark"] == expected["watermark"]
    assert found["periodic"][-1] == expected["periodic"][-1] and found["rows"][-1] == expected["rows"][-1]


def test_a_gap_that_is_real_is_told_by_a_heartbeat(spark: Any, tmp_path: Path) -> None:
    day = 86_400.0
    write(tmp_path / "data", 0, [(0.5, 1, 1)])
    write(tmp_path / "data", 1, [(3 * day, 1, 1)])
    with opened(spark, tmp_path / "data", "MAX JUMP 1 day") as session:
        query = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec]", name="q")
        session.run()
        assert session.stats()["jumped_tuples"] == 1 and query.answered == 1
        session.advance("s", START + round(3 * day * SECOND))
        write(tmp_path / "data", 2, [(3 * day + 1.5, 1, 1)])
        session.run()
        assert session.stats()["jumped_tuples"] == 1
        assert to_micros(query.answers()[-1].as_of) == START + round(3 * day + 2) * SECOND


def test_a_backlog_of_many_days_is_no_jump(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "data", 0, [(0.5, 1, 1)])
    write(tmp_path / "data", 1, [(hour * 3_600.0, 1, 1) for hour in range(1, 100)])
    with opened(spark, tmp_path / "data", "MAX JUMP 1 hour") as session:
        query = session.register("SELECT COUNT(*) AS n FROM s [UNBOUNDED SLIDE 1 hour]", name="q")
        session.run()
        assert session.stats()["jumped_tuples"] == 0
        assert query.answers()[-1].table.to_pylist() == [{"n": 100}]


def test_a_static_frame_follows_most_of_its_tuples(spark: Any) -> None:
    stamps = [0, *(1_000_000 + i for i in range(10)), 3_000_000]
    frame = spark.createDataFrame([(stamp,) for stamp in stamps], "n LONG").selectExpr("timestamp_seconds(n) AS ts")
    with sash.connect(spark=spark) as session:
        session.create_stream("f", frame, timestamp="ts", max_jump="1 day")
        query = session.register("SELECT COUNT(*) AS n FROM f [UNBOUNDED SLIDE 1 hour]", name="q")
        session.run()
        assert query.answers()[-1].table.to_pylist() == [{"n": 11}]
        assert session.stats()["jumped_tuples"] == 1


def test_mistakes(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "data", 0, [(0.5, 1, 1)])
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
        for clause, reason in (("MAX JUMP 0 sec", "greater than zero"), ("MAX 5 sec", "expected JUMP")):
            with pytest.raises(CqlError, match=reason):
                create(session, tmp_path / "data", clause)
        frame = spark.range(1).selectExpr("timestamp_seconds(id) AS ts")
        with pytest.raises(CatalogError, match="MAX JUMP must be positive"):
            session.create_stream("f", frame, timestamp="ts", max_jump="-1 sec")
        create(session, tmp_path / "data", "MAX JUMP 1 day")
    with (
        sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session,
        pytest.raises(CheckpointError, match="max_jump"),
    ):
        create(session, tmp_path / "data", "MAX JUMP 2 days")
