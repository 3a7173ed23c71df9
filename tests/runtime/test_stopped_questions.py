"""Cancelled questions in Spark: their jobs end, and other questions are not affected."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sash
from sash.core.time import SECOND
from sash.spark.pools import asking
from tests.support.streams import START
from tests.support.threads import PATIENCE, join, start

pytestmark = pytest.mark.spark

ROWS = 200_000
# Minutes of work, all pairs of the rows. A task looks up between two rows of `a`, or between two batches of a file.
LONG = "SELECT COUNT(*) AS n FROM s [RANGE 1 min] a JOIN s [RANGE 1 min] b ON a.v <> b.v - 1000000"
_BATCH = "spark.sql.parquet.columnarReaderBatchSize"
EASY = "SELECT v FROM s [RANGE 1 min] ORDER BY v"


@pytest.fixture(scope="module", params=["memory", "cluster"])
def session(spark: Any, request: pytest.FixtureRequest) -> Iterator[sash.Session]:
    frame = spark.range(ROWS).selectExpr(
        f"timestamp_micros({START} + id * {10 * SECOND // ROWS}) AS ts", "CAST(id AS INT) AS v"
    )
    with sash.connect(spark=spark) as made:
        made.create_stream("s", frame, timestamp="ts", keep="1 min", keep_in=request.param)
        made.run()
        # A task sees that it is to end between two batches of a file: with small ones, however slow the machine is.
        # Questions have a Spark session of their own, which took over the settings when the first one was asked.
        with asking(spark) as beside:
            beside.conf.set(_BATCH, "64")
        yield made
        with asking(spark) as beside:
            beside.conf.unset(_BATCH)


def jobs(session: sash.Session) -> list[int]:
    return list(session.spark.sparkContext.statusTracker().getActiveJobsIds())


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_time_is_over_and_its_jobs_end(session: sash.Session) -> None:
    with pytest.raises(sash.QuestionTimedOutError, match=r"within 2 s"):
        session.query(LONG, timeout=2)
    until(lambda: not jobs(session))
    assert list(session.spark.sparkContext.getJobTags()) == []
    assert session.query(EASY, timeout=PATIENCE).num_rows == ROWS


def test_another_thread_cancels_and_only_that_question_ends(session: sash.Session) -> None:
    cancellation, errors, answers = sash.Cancellation(), list[Exception](), list[int]()

    def ask_long() -> None:
        try:
            session.query(LONG, cancellation=cancellation)
        except sash.SashError as error:
            errors.append(error)

    asking = start(ask_long)
    until(lambda: bool(jobs(session)))
    other = start(lambda: answers.append(session.query(EASY).num_rows))
    cancellation.cancel()
    join(asking, other)
    assert [type(error) for error in errors] == [sash.QuestionCancelledError] and answers == [ROWS]


def test_tags_of_the_users_own_stay(session: sash.Session) -> None:
    context = session.spark.sparkContext
    context.addJobTag("mine")
    try:
        session.query(EASY, timeout=PATIENCE)
        assert list(context.getJobTags()) == ["mine"]
    finally:
        context.removeJobTag("mine")


def test_spark_gives_out_no_more_rows_than_wanted(session: sash.Session) -> None:
    some = session.query(EASY, max_rows=3)
    assert some["v"].to_pylist() == [0, 1, 2] and some.schema.metadata[b"truncated"] == b"true"
    assert b"truncated" not in session.query(EASY, max_rows=ROWS).schema.metadata
