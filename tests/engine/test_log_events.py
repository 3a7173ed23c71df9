"""The log of a session: one line for each event that matters, with the fields that docs/operations.md lists."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

import sash
from tests.engine.test_live_scheduling import SlowMachine, live
from tests.engine.test_session import create, ten_files, write

REFERENCE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
SOURCES = Path(__file__).parents[2] / "src" / "sash"
QUERY = "SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k"


def documented() -> dict[str, set[str]]:
    """The events of the table and their fields."""
    rows = re.findall(r"^\| `([a-z_.]+)` \|[^|]*\|[^|]*\| ([^|]*) \|$", REFERENCE, re.MULTILINE)
    return {event: set(re.findall(r"`([a-z_]+)`", fields)) for event, fields in rows}


def events(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.__dict__["sash"] for record in caplog.records if hasattr(record, "sash")]


def test_the_reference_has_every_event() -> None:
    written = set()
    for path in SOURCES.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        written |= set(re.findall(r'logging\.[A-Z]+,\s*"([a-z]+\.[a-z_]+)"', text))
        written |= set(re.findall(r'\blevel, "([a-z]+\.[a-z_]+)"', text))
    assert written == documented().keys()


@pytest.mark.spark
def test_the_life_of_a_session(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = tmp_path / "data"
    ten_files(data)
    write(data, 10, [(1.0, 0, 0), (44.0, 0, 0)])
    with caplog.at_level(logging.INFO, "sash"):
        with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
            create(session, data)
            session.sql("CREATE ARCHIVE old FROM s KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec")
            session.register(QUERY, name="q")
            session.register("SELECT 1 / SUM(v) AS one FROM s [WINDOW 2 sec SLIDE 2 sec]", name="fails")
            session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec]", name="short", lifetime="4 sec")
            session.queries["q"].subscribe(lambda answer: [][0])
            session.run()
            session.queries["q"].drop()
            session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec]", name="later")
            for number in range(11, 30):
                write(data, number, [(number * 4.0 + 4, 0, 0)])
            session.run()
        with sash.connect(spark=spark, checkpoint=tmp_path / "c"):
            pass
    found = events(caplog)
    names = [event["event"] for event in found]
    once = {"tuples.late": 1, "query.failed": 1, "query.ended": 1, "query.registered": 4, "stream.started": 2}
    assert {name: names.count(name) for name in once} == once
    assert names.count("stream.ended") == 2 and names.count("stream.recovered") == 1
    assert {"snapshot.written", "query.dropped", "archive.updated", "subscriber.failed"} <= set(names)
    for event in found:
        assert event.keys() - {"event"} == documented()[event["event"]], event
    (recovered,) = (event for event in found if event["event"] == "stream.recovered")
    assert recovered["stream"] == "s" and recovered["epoch"] == 29 and recovered["entries"] < 16


@pytest.mark.spark
def test_a_stream_that_is_too_slow_says_so(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ten_files(tmp_path / "data")
    with (
        caplog.at_level(logging.INFO, "sash"),
        sash.connect(spark=spark, clock=SlowMachine(step=5.0)) as session,
    ):
        create(session, tmp_path / "data")
        session.register(QUERY, name="q")
        live(session, 80)
        stats = session.stats()["streams"]["s"]
        assert stats["overloaded"] and stats["slow_batches"] >= 3
        assert 'sash_stream_overloaded{stream="s"} 1\n' in session.metrics()
    names = [event["event"] for event in events(caplog)]
    assert names.count("overload.began") == 1 and names.count("batch.slow") == 3
    assert names.count("stream.stopped") == 1


@pytest.mark.spark
def test_a_stream_that_has_nothing_to_do_is_not_overloaded(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SlowMachine(step=5.0)
    ten_files(tmp_path / "data")
    with caplog.at_level(logging.INFO, "sash"), sash.connect(spark=spark, clock=clock) as session:
        create(session, tmp_path / "data")
        session.register(QUERY, name="q")
        statistics = session._streams["s"].runtime.statistics
        session.start(trigger="100 ms")
        while statistics.tuples < 80:
            assert not session.wait(0.05)
        # Nothing comes any more, and whoever asks moves the clock.
        while session.stats()["streams"]["s"]["overloaded"]:
            assert not session.wait(0.05)
        write(tmp_path / "drafts", 10, [(44.0, 0, 0)])
        (tmp_path / "drafts" / "part-010.parquet").rename(tmp_path / "data" / "part-010.parquet")
        while statistics.tuples < 81:
            assert not session.wait(0.05)
        session.stop()
    names = [event["event"] for event in events(caplog)]
    assert names.count("overload.began") == 1 and names.count("overload.ended") == 1


@pytest.mark.spark
def test_a_micro_batch_that_fails_says_so(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ten_files(tmp_path / "data")
    (tmp_path / "data" / "part-003.parquet").write_text("no parquet")
    with sash.connect(spark=spark) as session:
        create(session, tmp_path / "data")
        session.register(QUERY, name="q")
        with pytest.raises(sash.SourceError):
            session.run()
    failed = [event for event in events(caplog) if event["event"] in ("batch.failed", "stream.failed")]
    assert [event["event"] for event in failed] == ["batch.failed", "stream.failed"]
    assert failed[0]["stream"] == "s" and failed[0]["why"]
