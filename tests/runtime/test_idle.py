"""What is looked at while streams are live: IDLE AFTER while micro-batches are in flight and when closing the panes
fails; a wall clock that jumps.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sash
from sash.core.clock import ManualClock
from sash.core.errors import SashError
from sash.core.time import SECOND
from sash.runtime.streams import runner
from sash.runtime.streams.intake import Intake
from sash.runtime.streams.live import IdleWatch, MachineWatch
from tests.runtime.test_session import create, write
from tests.support.log import events
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream
from tests.support.threads import PATIENCE, join, start


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def session(clock: ManualClock) -> SparklessSession:
    session = SparklessSession(clock=clock)
    session.declare(replace(stream(), idle_after=5 * SECOND, delay=0))
    session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")
    return session


def watch_of(session: SparklessSession, clock: ManualClock, failed: list[tuple[str, SashError]]) -> IdleWatch:
    return IdleWatch([session.streams["s"]], clock, lambda name, error: failed.append((name, error)))


def held(session: SparklessSession) -> tuple[threading.Event, threading.Event]:
    """Spark's pass begins (the first event) and goes on when it may (the second)."""
    pipeline: Any = session.streams["s"].pipeline
    aggregate, begun, may_go_on = pipeline.aggregate, threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        begun.set()
        assert may_go_on.wait(PATIENCE)
        return aggregate(*arguments)

    pipeline.aggregate = slow
    return begun, may_go_on


def test_a_stream_is_not_idle_while_spark_reads(session: SparklessSession, clock: ManualClock) -> None:
    session.push("s", tuples((0.5, 1, 1)))
    failed: list[tuple[str, SashError]] = []
    watch = watch_of(session, clock, failed)
    watch.look()
    begun, may_go_on = held(session)
    batch = start(lambda: session.push("s", tuples((1.5, 1, 1))))
    assert begun.wait(PATIENCE)
    clock.advance(6)
    looking = start(watch.look)
    may_go_on.set()
    join(batch, looking)
    # Nor does the time before the micro-batch count: five seconds begin with its end.
    watch.look()
    session.push("s", tuples((2.5, 1, 1), (3.5, 1, 1), (4.5, 1, 1)))
    assert [answer.table["n"].to_pylist() for answer in session.queries["q"].answers()] == [[4]]
    assert session.stats()["late_tuples"] == 0 and not failed
    watch.look()
    clock.advance(6)
    watch.look()
    assert [answer.table["n"].to_pylist() for answer in session.queries["q"].answers()] == [[4], [1]]


def test_tuples_that_come_while_the_watch_waits_keep_panes_open(session: SparklessSession, clock: ManualClock) -> None:
    session.push("s", tuples((0.5, 1, 1)))
    running = session.streams["s"]
    before = running.runtime.statistics.tuples
    session.push("s", tuples((1.5, 1, 1)))
    assert not running.finish_if_idle(before) and running.finish_if_idle(before + 1)
    assert [answer.table["n"].to_pylist() for answer in session.queries["q"].answers()] == [[2]]


def test_a_stream_that_cannot_close_its_panes_fails_alone(session: SparklessSession, clock: ManualClock) -> None:
    session.declare(replace(stream(), name="other", idle_after=5 * SECOND))
    for name in ("s", "other"):
        session.push(name, tuples((0.5, 1, 1)))
    broken, other = (session.streams[name] for name in ("s", "other"))
    failed: list[tuple[str, SashError]] = []
    watch = IdleWatch([broken, other], clock, lambda name, error: failed.append((name, error)))
    watch.look()
    broken.runtime.finish = lambda numbered, **_: 1 / 0  # type: ignore[assignment,return-value]
    clock.advance(6)
    watch.look()
    ((name, error),) = failed
    assert name == "s" and "its panes could not be closed: division by zero" in str(error)
    assert other.runtime.watermark is not None
    watch.look()
    assert len(failed) == 1


def test_who_waits_for_a_stream_that_failed_is_told(clock: ManualClock) -> None:
    query = SimpleNamespace(isActive=True, exception=lambda: None)
    query.stop = lambda: setattr(query, "isActive", False)
    running: Any = SparklessSession(clock=clock)
    running.declare(stream())
    running.streams["s"].pipeline.start = lambda *given: query
    intake = Intake(running.streams["s"], lambda: 0, None, "1 second", clock)  # type: ignore[arg-type]
    intake.start()
    assert intake.is_active and intake.failure is None
    error = SashError("the disk is full")
    intake.fail(error)
    assert not intake.is_active and intake.failure is error
    with pytest.raises(SashError, match="the disk is full"):
        intake.wait()


# -- a wall clock that jumps ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jump", "is_active", "renewals"),
    [(-7200.0, True, 1), (-1.5, True, 1), (-0.5, True, 0), (7200.0, True, 0), (-7200.0, False, 0)],
)
def test_only_a_clock_set_back_begins_streams_anew(jump: float, is_active: bool, renewals: int) -> None:
    renewed: list[str] = []
    running = SimpleNamespace(stream=stream())
    intake: Any = SimpleNamespace(running=running, is_active=is_active, renew=lambda: renewed.append("s"))
    ahead = [1_000.0]
    watch = MachineWatch([intake], lambda: ahead[0])
    watch.look()
    ahead[0] += jump
    for _ in range(3):
        watch.look()
    assert len(renewed) == renewals


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_micro_batches_go_on_when_the_clock_is_set_back(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two micro-batches an hour apart Spark waits as it does after its clock was set back by an hour."""
    data, ahead = tmp_path / "data", [1_000.0]
    monkeypatch.setattr(runner, "MachineWatch", lambda intakes: MachineWatch(intakes, lambda: ahead[0]))
    write(data, 0, [(0.5, 1, 1)])
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        create(session, data)
        query = session.register("SELECT SUM(v) AS t FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")
        statistics = session.streams["s"].runtime.statistics
        session.start("1 hour")
        while statistics.tuples < 1:
            assert not session.wait(0.05)
        write(data, 1, [(1.5, 1, 10), (4.5, 1, 100)])
        ahead[0] -= 3600
        while statistics.tuples < 3:
            assert not session.wait(0.05)
        session.stop()
        assert [answer.table.to_pylist() for answer in query.answers()] == [[{"t": 11}]]
        session.run()
        assert statistics.tuples == 3 and [a.table.to_pylist() for a in query.answers()] == [[{"t": 11}], [{"t": 100}]]
    (told,) = (event for event in events(caplog) if event["event"] == "clock.back")
    assert told["stream"] == "s" and told["seconds"] == 3600
