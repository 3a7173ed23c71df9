"""max_lag: the source is limited by what earlier micro-batches took, at a start and while the stream runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.catalog import Source
from sash.core.clock import ManualClock
from sash.runtime.streams.input_limit import InputMeter
from sash.spark.sources import limit_option, limited
from tests.runtime.test_log_events import events
from tests.runtime.test_session import write


class ClockOfTuples(ManualClock):
    """A clock on which only tuples take time, `each` seconds: the size of a micro-batch decides its duration."""

    def __init__(self) -> None:
        super().__init__()
        self.each = 1.0
        self.batches: list[int] = []
        self._count: Callable[[], int] = lambda: 0
        self._seen = 0

    def follow(self, session: sash.Session) -> None:
        self._count = lambda: session.streams["s"].runtime.statistics.tuples
        self._seen = self._count()

    def now(self) -> float:
        came = self._count() - self._seen
        if came > 0:
            self._seen += came
            self.batches.append(came)
            self.advance(came * self.each)
        return super().now()


@given(
    batches=st.lists(st.tuples(st.integers(0, 50), st.floats(0.1, 100)), max_size=30),
    lag=st.floats(0.1, 1_000),
)
def test_the_limit_is_the_weighted_rate_times_the_lag(batches: list[tuple[int, float]], lag: float) -> None:
    meter, units, seconds = InputMeter(), 0.0, 0.0
    counted = [batch for batch in batches if batch[0] > 0]
    for batch in batches:
        meter.take(*batch)
    for age, (n, took) in enumerate(reversed(counted)):
        units, seconds = units + n * 0.9**age, seconds + took * 0.9**age
    found = meter.most_within(lag)
    if not counted:
        assert found is None
    else:
        assert found is not None and found >= 1
        assert abs(found - max(1.0, lag * units / seconds)) <= 1 + 1e-6 * found


def test_which_sources_can_be_limited() -> None:
    files, kafka = Source("Parquet", {"path": "x"}), Source("kafka", {"subscribe": "t"})
    assert limited(files, 7).options == {"path": "x", "maxBytesPerTrigger": "7"}
    assert limited(kafka, 7).options["maxOffsetsPerTrigger"] == "7"
    assert limited(files, None) is files
    for own in (Source("csv", {"MaxFilesPerTrigger": "1"}), Source("rate", {"rowsPerSecond": "5"}), None):
        assert limit_option(own) is None
    own = Source("csv", {"maxbytespertrigger": "1000"})
    assert limited(own, 7) is own, "what the user says counts"


def declare(session: sash.Session, directory: Path) -> None:
    session.sql(f"CREATE STREAM s (ts TIMESTAMP, k INT, v INT) FROM parquet OPTIONS (path '{directory}') TIMESTAMP ts")
    session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")


def live(session: sash.Session, tuples: int) -> int:
    """The number of micro-batches until this many tuples have come."""
    statistics = session.streams["s"].runtime.statistics
    before = statistics.micro_batches
    session.start(trigger="1 second")
    while statistics.tuples < tuples:
        assert not session.wait(0.05)
    session.stop()
    return statistics.micro_batches - before


@pytest.mark.spark
def test_a_backlog_is_taken_in_bites_after_a_restart(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, options = tmp_path / "data", {"spark": spark, "checkpoint": tmp_path / "c"}
    write(data, 0, [(1.0, 0, 0)])
    write(data, 1, [(2.0, 0, 0)])
    clock = ClockOfTuples()
    with sash.connect(**options, clock=clock, max_lag="30 sec") as session:
        declare(session, data)
        clock.follow(session)
        assert live(session, 2) == 1, "nothing is known yet: everything at once"
        meter, size = session.streams["s"].input, sum(path.stat().st_size for path in data.iterdir())
        assert meter.units == size and meter.seconds > 0
    lag = f"{1.25 * meter.seconds} sec"
    for number in range(2, 10):
        write(data, number, [(number + 1.0, 0, 0)])
    with caplog.at_level(logging.INFO, "sash"), sash.connect(**options, clock=clock, max_lag=lag) as session:
        declare(session, data)
        clock.follow(session)
        assert live(session, 10) == 4, "two files took as long, and half a file is none"
    (started,) = (event for event in events(caplog) if event["event"] == "stream.started")
    assert started["most"] == pytest.approx(1.25 * size, abs=1)
    for number in range(10, 14):
        write(data, number, [(number + 1.0, 0, 0)])
    with sash.connect(**options) as session:
        declare(session, data)
        assert live(session, 14) == 1, "without max_lag, as it comes"


@pytest.mark.spark
def test_a_source_that_cannot_be_limited_says_so(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    frame = spark.readStream.format("rate").option("rowsPerSecond", "5").load()
    with sash.connect(spark=spark, max_lag="10 sec") as session:
        session.create_stream("s", frame, timestamp="timestamp")
        session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")
        session.start()
        session.stop()
    assert [event["event"] for event in events(caplog)] == ["lag.unbounded"]
    with pytest.raises(sash.SashError, match="max_lag"):
        sash.connect(spark=spark, max_lag="soon")


class Inbox:
    """Files of one tuple that come into a directory as a whole."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self.data.mkdir()
        self._drafts = directory / "drafts"
        self.written = 0

    def add(self, files: int) -> None:
        for number in range(self.written, self.written + files):
            write(self._drafts, number, [(number + 1.0, number % 3, 100 + number)])
        for path in sorted(self._drafts.iterdir()):
            path.rename(self.data / path.name)
        self.written += files


def until(session: sash.Session, holds: Callable[[dict[str, Any]], bool]) -> None:
    while not holds(session.stats()["streams"]["s"]):
        assert not session.wait(0.05)


@pytest.mark.spark
def test_a_backlog_that_comes_while_the_stream_runs(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's query is stopped and started under other limits; each bite keeps to the lag, and every tuple counts once.

    A file has one tuple, so that a lag of 4.5 s is four files, as long as a tuple takes a second.
    """
    inbox, clock, options = Inbox(tmp_path), ClockOfTuples(), {"spark": spark, "checkpoint": tmp_path / "c"}
    query = "SELECT COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most FROM s [UNBOUNDED SLIDE 1 min]"
    with caplog.at_level(logging.INFO, "sash"), sash.connect(**options, clock=clock, max_lag="4.5 sec") as session:
        session.sql(
            f"CREATE STREAM s (ts TIMESTAMP, k INT, v INT) FROM parquet OPTIONS (path '{inbox.data}') "
            "TIMESTAMP ts DELAY 10 min"
        )
        session.register(query, name="q")
        clock.follow(session)
        inbox.add(2)
        session.start(trigger="100 ms")
        until(session, lambda stats: stats["limit_changes"] == 1)
        assert clock.batches == [2], "nothing was known yet"

        inbox.add(20)
        until(session, lambda stats: stats["tuples"] == 22)
        assert max(clock.batches[1:]) == 4 and session.stats()["streams"]["s"]["limit_changes"] == 1

        begun, clock.each = len(clock.batches), 2.0
        inbox.add(16)
        until(session, lambda stats: stats["tuples"] == 38)
        slower = clock.batches[begun:]
        assert max(slower) == 4
        after = slower[slower.index(4) + 1 :] if 4 in slower else []
        assert after and max(after) <= 2, "one was too long, and the next had half of it"
        until(session, lambda stats: stats["limit_changes"] == 2)

        begun, clock.each = len(clock.batches), 0.25
        inbox.add(60)
        until(session, lambda stats: stats["tuples"] == 98)
        faster = clock.batches[begun:]
        assert max(faster) > 4 and all(files * clock.each <= 4.5 for files in faster), "there is room again"
        session.stop()
        stats = session.stats()["streams"]["s"]
        assert stats["limit_changes"] > 2 and stats["input_limit"] is not None
        assert sum(clock.batches) == inbox.written == 98
    changes = [event for event in events(caplog) if event["event"] == "limit.changed"]
    assert len(changes) == stats["limit_changes"]
    assert [change["before"] for change in changes] == [None, *(change["most"] for change in changes[:-1])]
    assert all(change["option"] == "maxBytesPerTrigger" for change in changes)
    inbox.add(2)
    with sash.connect(**options) as session:
        session.run()
        (row,) = session.queries["q"].latest().table.to_pylist()  # type: ignore[union-attr]
        assert session.stats()["streams"]["s"]["tuples"] == 100 and session.stats()["late_tuples"] == 0
    assert row == {"n": 100, "total": sum(range(100, 200)), "most": 199}
