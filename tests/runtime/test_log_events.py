"""The log of a session: one line for each event that matters, with the fields that docs/operations.md lists."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sash
from sash.core.time import SECOND, to_datetime
from sash.runtime.answers.outlet import Channel, NotKeptError
from sash.runtime.periodic.stream_runtime import warn_of_jumps
from sash.runtime.records.journal import JumpedTuples
from sash.spark.spark_session import check_borrowed
from tests.runtime.test_live_scheduling import FILES, SlowMachine, four_files, live
from tests.runtime.test_session import create, write
from tests.support.log import events
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import START, stream

REFERENCE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
SOURCES = Path(__file__).parents[2] / "src" / "sash"
QUERY = "SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k"


def documented() -> dict[str, set[str]]:
    """The events of the table and their fields."""
    rows = re.findall(r"^\| `([a-z_.]+)` \|[^|]*\|[^|]*\| ([^|]*) \|$", REFERENCE, re.MULTILINE)
    return {event: set(re.findall(r"`([a-z_]+)`", fields)) for event, fields in rows}


def test_the_reference_has_every_event() -> None:
    written = set()
    for path in SOURCES.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        written |= set(re.findall(r'logging\.[A-Z]+,\s*"([a-z]+\.[a-z_]+)"', text))
        written |= set(re.findall(r'\blevel, "([a-z]+\.[a-z_]+)"', text))
    assert written == documented().keys()


def reported(source: str) -> Iterator[tuple[str, set[str]]]:
    """Events and their fields, from calls that name both literally."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "report":
            fields = {each.arg for each in node.keywords} - {"exception"}
            if isinstance(node.args[2], ast.Constant) and None not in fields:
                yield node.args[2].value, {field for field in fields if field is not None}


def test_the_reference_has_every_field() -> None:
    for path in SOURCES.rglob("*.py"):
        for event, fields in reported(path.read_text(encoding="utf-8")):
            assert fields == documented()[event], event


# Calls that log without an event, and why.
PLAIN = {
    "core/events.py: log": "it is `report` itself",
    "runtime/continuous/plans.py: debug": "then each plan reads for itself, and the plan that fails is reported",
    "spark/buckets.py: debug": "how work was divided, for measurements: one record per micro-batch",
}


def plain_calls(source: str) -> Iterator[str]:
    """The methods that a module calls of its loggers, or of `logging`, to log something."""
    levels = {"debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log"}
    tree = ast.parse(source)
    assigned = (node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call))
    made = [node for node in assigned if "getLogger" in ast.unparse(node.value)]
    loggers = {"logger", "logging", *(ast.unparse(target) for node in made for target in node.targets)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in levels:
            of = ast.unparse(node.func.value)
            if of in loggers or "getLogger" in of:
                yield node.func.attr


def test_whoever_logs_reports_an_event() -> None:
    found = {
        f"{path.relative_to(SOURCES).as_posix()}: {method}"
        for path in SOURCES.rglob("*.py")
        for method in plain_calls(path.read_text(encoding="utf-8"))
    }
    assert found == PLAIN.keys()


def test_no_call_hides_behind_a_name() -> None:
    hidden = ("logger.info('a')", "logging.error('a')", "logging.getLogger('x').warning('a')")
    named = ("voice = logging.getLogger('x')\nvoice.exception('a')", "self.voice = getLogger()\nself.voice.log(1, 'a')")
    assert all(len(list(plain_calls(source))) == 1 for source in (*hidden, *named))
    assert not list(plain_calls("logger.isEnabledFor(1), math.log(2), report(logger, 1, 'a.b', 'c')"))


def test_tuples_that_jump(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_jumps(replace(stream(), max_jump=3_600 * SECOND), JumpedTuples(3, START))
    facts = {"stream": "s", "tuples": 3, "first": to_datetime(START), "most": "1 hour"}
    assert events(caplog) == [{"event": "tuples.jumped", **facts}]
    assert "3 tuples, the first of 2023-11-14 22:13:20+00:00, are more than MAX JUMP, 1 hour, ahead" in caplog.text


def test_a_borrowed_session_with_another_time_zone(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.ansi.enabled": "true"}
    session: Any = SimpleNamespace(conf=settings)
    check_borrowed(session)
    facts = {"setting": "spark.sql.session.timeZone", "found": "Europe/Berlin", "expected": "UTC"}
    assert events(caplog) == [{"event": "spark.unexpected", **facts}]


class Unstored:
    """What waits for a sink on a disk that is full."""

    sink = "parquet"
    channel = Channel()

    def flush(self) -> None:
        raise NotKeptError("no space left")


def test_answers_that_cannot_be_stored(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with SparklessSession() as session:
        session.declare(stream())
        query = session.register(QUERY, name="q")
        monkeypatch.setattr(query.outward, "outlets", [Unstored()])
        query.outward.settle(None, set())
        monkeypatch.setattr(query.outward, "outlets", [])
    assert events(caplog) == [{"event": "sink.unstored", "query": "q", "sink": "parquet", "why": "no space left"}]


def test_a_subscriber_with_a_queue_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    with SparklessSession() as session:
        session.declare(stream())
        query = session.register(QUERY, name="q")
        query.subscribe(lambda answer: [][0], when_full="drop_oldest")
        session.push("s", tuples((1, 0, 1), (2.5, 0, 1)))
        query.outward.settle(None, set())
    assert events(caplog) == [{"event": "subscriber.failed", "query": "q"}] and query.subscriber_errors == 1


def test_an_archive_that_cannot_be_opened(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with SparklessSession(checkpoint=tmp_path / "c") as session:
        session.declare(stream())
        clauses = f"KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec IN '{tmp_path / 'old'}'"
        session.sql(f"CREATE ARCHIVE old FROM s {clauses}")
    (tmp_path / "old" / "manifest.json").write_text("{}")
    with SparklessSession(checkpoint=tmp_path / "c"):
        (event,) = events(caplog)
    assert event.pop("why") and event == {"event": "archive.unopened", "archive": "old"}


@pytest.mark.spark
def test_the_life_of_a_session(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sash.storage.epochs.SNAPSHOT_EVERY", 4)
    data = tmp_path / "data"
    four_files(data)
    write(data, FILES, [(1.0, 0, 0), (20.0, 0, 0)])
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
            for number in (FILES + 1, FILES + 2):
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
    assert recovered["stream"] == "s" and recovered["epoch"] == FILES + 2 and recovered["entries"] < 4


@pytest.mark.spark
def test_a_stream_that_is_too_slow_says_so(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    four_files(tmp_path / "data")
    with (
        caplog.at_level(logging.INFO, "sash"),
        sash.connect(spark=spark, clock=SlowMachine(step=3.0)) as session,
    ):
        create(session, tmp_path / "data")
        session.register(QUERY, name="q")
        live(session, 8 * FILES)
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
    clock = SlowMachine(step=3.0)
    four_files(tmp_path / "data")
    with caplog.at_level(logging.INFO, "sash"), sash.connect(spark=spark, clock=clock) as session:
        create(session, tmp_path / "data")
        session.register(QUERY, name="q")
        statistics = session.streams["s"].runtime.statistics
        session.start(trigger="100 ms")
        while statistics.tuples < 8 * FILES:
            assert not session.wait(0.05)
        # No more tuples come, and each question moves the clock.
        while session.stats()["streams"]["s"]["overloaded"]:
            assert not session.wait(0.05)
        write(tmp_path / "drafts", FILES, [(20.0, 0, 0)])
        (draft,) = (tmp_path / "drafts").iterdir()
        draft.rename(tmp_path / "data" / draft.name)
        while statistics.tuples < 8 * FILES + 1:
            assert not session.wait(0.05)
        session.stop()
    names = [event["event"] for event in events(caplog)]
    assert names.count("overload.began") == 1 and names.count("overload.ended") == 1


@pytest.mark.spark
def test_a_micro_batch_that_fails_says_so(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    four_files(tmp_path / "data")
    (tmp_path / "data" / "part-001.parquet").write_text("no parquet")
    with sash.connect(spark=spark) as session:
        create(session, tmp_path / "data")
        session.register(QUERY, name="q")
        with pytest.raises(sash.SourceError):
            session.run()
    failed = [event for event in events(caplog) if event["event"] in ("batch.failed", "stream.failed")]
    assert [event["event"] for event in failed] == ["batch.failed", "stream.failed"]
    assert failed[0]["stream"] == "s" and failed[0]["why"]
