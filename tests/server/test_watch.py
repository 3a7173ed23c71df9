"""The watch: the state of the engine in plain words, and numbers per second."""

from __future__ import annotations

import time

import pytest

from sash.core.errors import SashError, SourceError
from sash.runtime.streams.load import ENDED, FAILED, IDLE, RUNNING, STOPPED, StreamState
from sash.runtime.streams.running_stream import RunningStream
from sash.server import watch as watching
from sash.server.watch import Watch
from tests.support.log import events
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.threads import PATIENCE


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(session: SparklessSession, clock: Clock) -> Watch:
    return Watch(session, clock)


@pytest.mark.parametrize(
    ("doing", "state", "why"),
    [
        (StreamState(IDLE), watching.STARTING, "no stream has been started"),
        (StreamState(RUNNING), watching.LIVE, ""),
        (StreamState(STOPPED), watching.STOPPED, "nothing is read any more"),
        (StreamState(ENDED), watching.ENDED, "everything has been read; the windows can still be asked"),
        (StreamState(FAILED, SourceError("the disk is gone")), watching.FAILED, "the disk is gone"),
    ],
)
def test_states(watch: Watch, session: SparklessSession, doing: StreamState, state: str, why: str) -> None:
    session.doing = doing
    watch.look()
    assert (watch.state, watch.why) == (state, why)


def test_the_worst_is_told(watch: Watch, session: SparklessSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams run: an overloaded one, then a query that has failed beside it, then a stream that has."""
    monkeypatch.setattr(RunningStream, "is_overloaded", property(lambda self: True))
    watch.look()
    assert (watch.state, watch.why) == (watching.OVERLOADED, "stream s")
    assert watch.failures == [] and [each.split(":")[0] for each in watch.warnings] == ["Stream s is overloaded"]
    session.queries["totals"].failure = SashError("too many groups")
    watch.look()
    assert (watch.state, watch.why) == (watching.FAILING, "query totals")
    session.doing = StreamState(FAILED, SourceError("the disk is gone"))
    watch.look()
    assert watch.state == watching.FAILED
    assert watch.failures == ["Stream s has failed: the disk is gone", "Query totals: too many groups"]


def test_without_a_query_it_waits_for_one(watch: Watch, session: SparklessSession) -> None:
    session.doing = StreamState(IDLE)
    session.drop_query("totals")
    session.drop_stream("s")
    watch.look()
    assert (watch.state, watch.why) == (watching.STARTING, "waiting for the first query")


def test_a_silent_stream_is_idle_until_something_comes(watch: Watch, session: SparklessSession, clock: Clock) -> None:
    watch.look()
    clock.now += 12
    watch.look()
    assert (watch.state, watch.why) == (watching.IDLE, "no tuple for 12 seconds")
    session.push("s", tuples((20, 1, 1)))
    watch.look()
    assert watch.state == watching.LIVE


def test_a_sample(watch: Watch, session: SparklessSession, clock: Clock) -> None:
    watch.look()
    clock.now += 2
    session.push("s", tuples(*((20 + i / 10, 1, 1) for i in range(10)), (3, 1, 1)))
    watch.look()
    before, now = watch.samples
    assert now.tuples_per_s == 11 / 2 and now.late == 1 and now.micro_batches == before.micro_batches + 1
    assert now.answers > before.answers and now.watermark is not None and now.python_memory > 2**20
    assert now.batch_in_sash is not None and now.batch_in_sash > 0


def test_how_many_windows_a_tuple_falls_into(watch: Watch, session: SparklessSession) -> None:
    """The rows that Spark's window() would make of a tuple: two for the existing query, and seven, one and one."""
    session.register("SELECT k, MAX(v) AS m FROM s [WINDOW 20 sec SLIDE 3 sec] GROUP BY k", name="long")
    session.register("SELECT k, MIN(v) AS m FROM s [WINDOW 1 sec SLIDE 3 sec] GROUP BY k", name="short")
    session.register("SELECT k, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 3 sec] GROUP BY k", name="all")
    session.push("s", tuples((20, 1, 1)))
    watch.look()
    (table,) = watch.stats["streams"]["s"]["pane_tables"]
    assert table["windows_per_tuple"] == 2 + 7 + 1 + 1


def test_no_micro_batch_no_time(watch: Watch, clock: Clock) -> None:
    watch.look()
    clock.now += 1
    watch.look()
    assert watch.samples[-1].batch_in_spark is None


def test_a_failing_look_does_not_end_the_watch(
    watch: Watch, session: SparklessSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watching, "EVERY_SECONDS", 0.01)
    stats, failed = session.stats, []

    def fail_once() -> dict[str, object]:
        if not failed:
            failed.append(True)
            raise RuntimeError("not now")
        return stats()

    monkeypatch.setattr(session, "stats", fail_once)
    watch.start()
    deadline = time.monotonic() + PATIENCE
    while not watch.samples and time.monotonic() < deadline:
        time.sleep(0.01)
    watch.stop()
    assert failed and watch.samples
    assert events(caplog) == [{"event": "session.unseen", "why": "RuntimeError('not now')"}]
