"""Load shedding on Spark: live, under overload, a part of the tuples is kept, and the answers say so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.core.clock import ManualClock
from sash.core.time import SECOND, to_micros
from sash.spark.preparation import sampled
from tests.runtime.test_live_scheduling import live, told
from tests.runtime.test_log_events import events
from tests.runtime.test_session import create, write
from tests.support.streams import START

pytestmark = pytest.mark.spark
FILES, TUPLES = 6, 1_000
QUERIES = {
    "all": "SELECT SUM(v) AS t, COUNT(*) AS n, AVG(v) AS mean, STDDEV(v) AS spread "
    "FROM s [UNBOUNDED SLIDE 4 sec] WITH BOUNDS",
    "groups": "SELECT k, SUM(v) AS t, COUNT(v) AS n FROM s [WINDOW 8 sec SLIDE 4 sec] WHERE v > 10 GROUP BY k "
    "WITH BOUNDS",
}


def tuples(part: int) -> list[tuple[float | None, int, int]]:
    return [(part * 4 + 4 * (i + 1) / TUPLES, i % 3, (i * 7 + part) % 100) for i in range(TUPLES)]


def write_files(directory: Path) -> None:
    for part in range(FILES):
        write(directory, part, tuples(part))


class Fast(ManualClock):
    """A clock on which nothing takes any time."""


class SlowBatches(ManualClock):
    """A clock by which micro-batches take long: whenever one of them looks at it, five seconds have passed.

    What others look at it for does not count, so time between two micro-batches does not depend on the machine.
    """

    stream: Any = None

    def now(self) -> float:
        if self.stream is not None and self.stream.in_batch:
            self.advance(5.0)
        return super().now()


def test_one_in_k_is_kept_and_always_the_same_ones(spark: Any) -> None:
    rows = spark.range(0, 40_000, numPartitions=4).selectExpr("id", "1 AS same")
    for k in (2, 5):
        kept = [row.id for row in sampled(rows, k, 3).collect()]
        assert abs(len(kept) - 40_000 / k) < 5 * (40_000 * (1 / k) * (1 - 1 / k)) ** 0.5
        assert kept == [row.id for row in sampled(rows, k, 3).collect()]
        assert kept != [row.id for row in sampled(rows, k, 4).collect()], "another micro-batch, other places"
        assert sampled(rows, k, 3).select("_shed").distinct().collect()[0][0] == k - 1
    assert sampled(rows, 1, 3).count() == 40_000


def test_under_overload_answers_are_scaled_and_recovered(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_files(tmp_path / "data")
    truth = [v for part in range(FILES) for _, _, v in tuples(part)]
    clock = SlowBatches()
    with (
        caplog.at_level(logging.INFO, "sash"),
        sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=clock) as session,
    ):
        create(session, tmp_path / "data", "SHED RANDOM 0.5")
        for name, text in QUERIES.items():
            session.register(text, name=name)
        clock.stream = session.streams["s"]
        session.start(trigger="1 second")
        while clock.stream.runtime.statistics.micro_batches < FILES:
            assert not session.wait(0.05)
        session.stop()
        before, stats = told(session), session.stats()["streams"]["s"]
    assert stats["overloaded"] and stats["kept_part"] == 0.5
    shed = (FILES - 3) * TUPLES / 2
    assert stats["shed_tuples"] == pytest.approx(shed, rel=0.1)
    assert stats["tuples"] == pytest.approx(FILES * TUPLES, rel=0.05)
    names = [event["event"] for event in events(caplog)]
    assert names.count("shed.began") == 1
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=SlowBatches()) as session:
        assert told(session) == before
        assert session.stats()["streams"]["s"]["shed_tuples"] == stats["shed_tuples"]
        session.run()
        (row,) = session.queries["all"].latest().table.to_pylist()  # type: ignore[union-attr]
        last = session.queries["groups"].latest()
    assert row["t_lower"] < row["t"] < row["t_upper"] and row["n_lower"] < row["n"] < row["n_upper"]
    assert row["t_lower"] <= sum(truth) <= row["t_upper"] and row["n_lower"] <= len(truth) <= row["n_upper"]
    assert row["mean"] == pytest.approx(sum(truth) / len(truth), rel=0.05)
    assert row["spread"] == pytest.approx((sum((v - 49.5) ** 2 for v in truth) / len(truth)) ** 0.5, rel=0.05)
    # How late a hurried execution is depends on what executions cost. run() executes what is left: the last window, of
    # which a part was shed, is answered.
    assert last is not None and to_micros(last.as_of) == START + FILES * 4 * SECOND
    groups = last.table.to_pylist()
    assert {each["k"] for each in groups} == {0, 1, 2}
    for each in groups:
        assert each["t_lower"] < each["t"] < each["t_upper"] and each["n_lower"] < each["n"] < each["n_upper"]


def test_tuples_of_a_condition_are_shed_first(spark: Any, tmp_path: Path) -> None:
    write_files(tmp_path / "data")
    clock, text = SlowBatches(), "SELECT k, SUM(v) AS t, COUNT(v) AS n FROM s [UNBOUNDED SLIDE 4 sec] GROUP BY k"
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=clock) as session:
        create(session, tmp_path / "data", "SHED RANDOM 0.5 WHERE k = 0 FIRST")
        session.register(f"{text} WITH BOUNDS", name="groups")
        session.register("SELECT AVG(v) AS mean FROM s [UNBOUNDED SLIDE 4 sec]", name="mean")
        assert "one tuple in 2 is kept, first of those where k = 0" in session.explain(text)
        clock.stream = session.streams["s"]
        session.start(trigger="1 second")
        while clock.stream.runtime.statistics.micro_batches < FILES:
            assert not session.wait(0.05)
        session.stop()
        shed = session.stats()["streams"]["s"]["shed_tuples"]
    assert shed == pytest.approx((FILES - 3) * TUPLES / 6, rel=0.2), "half of a third, in three micro-batches"
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=SlowBatches()) as session:
        assert session.stats()["streams"]["s"]["shed_tuples"] == shed
        session.run()
        rows = session.queries["groups"].latest().table.to_pylist()  # type: ignore[union-attr]
        (average,) = session.queries["mean"].latest().table["mean"].to_pylist()  # type: ignore[union-attr]
    assert {row["k"] for row in rows} == {0, 1, 2}
    for row in rows:
        truth = [v for part in range(FILES) for _, k, v in tuples(part) if k == row["k"]]
        if row["k"]:
            assert row["t"] == row["t_lower"] == row["t_upper"] == sum(truth), "all of them are there"
            assert row["n"] == len(truth)
        else:
            assert row["t_lower"] <= sum(truth) <= row["t_upper"] and row["t_lower"] < row["t"] < row["t_upper"]
            assert row["n_lower"] <= len(truth) <= row["n_upper"]
    everything = [v for part in range(FILES) for _, _, v in tuples(part)]
    assert average == pytest.approx(sum(everything) / len(everything), rel=0.03)


def test_without_overload_everything_is_kept(spark: Any, tmp_path: Path) -> None:
    write_files(tmp_path / "data")
    with sash.connect(spark=spark, clock=Fast()) as session:
        create(session, tmp_path / "data", "SHED RANDOM 0.1 APPROX")
        query = session.register(QUERIES["all"], name="all")
        widest = session.register("SELECT MAX(v) AS hi FROM s [WINDOW 4 sec SLIDE 4 sec]", name="widest")
        live(session, FILES * TUPLES)
        session.run()
        stats = session.stats()["streams"]["s"]
        (row,) = query.latest().table.to_pylist()  # type: ignore[union-attr]
        assert {answer.table["hi"][0].as_py() for answer in widest.answers()} == {99}
        assert "one tuple in 10 is kept" in session.explain(QUERIES["all"])
    assert (stats["shed_tuples"], stats["kept_part"], stats["tuples"]) == (0, 1.0, FILES * TUPLES)
    assert row["n"] == row["n_lower"] == row["n_upper"] == FILES * TUPLES
    assert row["t"] == row["t_lower"] == row["t_upper"]


def test_a_frame_may_shed_too_and_run_never_does(spark: Any) -> None:
    frame = spark.range(0, 100).selectExpr(f"timestamp_micros({SECOND} * (1000 + id)) AS ts", "CAST(id AS INT) AS v")
    with sash.connect(spark=spark) as session:
        with pytest.raises(sash.SashError, match="shed: the part to keep is one in n"):
            session.create_stream("s", frame, "ts", shed=0.7)
        session.create_stream("s", frame, "ts", shed=0.25)
        query = session.register("SELECT COUNT(*) AS n FROM s [UNBOUNDED SLIDE 100 sec] WITH BOUNDS", name="q")
        session.run()
        (row,) = query.latest().table.to_pylist()  # type: ignore[union-attr]
    assert row == {"n": 100, "n_lower": 100, "n_upper": 100}
