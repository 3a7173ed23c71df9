"""max_lag: at a start, the source is limited by what earlier micro-batches took."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.catalog import Source
from sash.engine.input_meter import InputMeter
from sash.spark.limits import limit_option, limited
from tests.engine.test_log_events import events
from tests.engine.test_session import write


class SlowReader:
    """A clock on which every look at it costs a second."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        self._now += 1.0
        return self._now


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
    """The number of micro-batches that it takes to come to so many tuples."""
    statistics = session._streams["s"].runtime.statistics
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
    with sash.connect(**options, clock=SlowReader(), max_lag="30 sec") as session:
        declare(session, data)
        assert live(session, 2) == 1, "nothing is known yet: everything at once"
        meter, size = session._streams["s"].input, sum(path.stat().st_size for path in data.iterdir())
        assert meter.units == size and meter.seconds > 0
    lag = f"{1.25 * meter.seconds} sec"
    for number in range(2, 10):
        write(data, number, [(number + 1.0, 0, 0)])
    with caplog.at_level(logging.INFO, "sash"), sash.connect(**options, clock=SlowReader(), max_lag=lag) as session:
        declare(session, data)
        assert live(session, 10) == 4, "two files took so long, and a half more is none"
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
