"""Executions in the cluster beside micro-batches, with the log, files and threads of a session, and without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
import sash.storage.epochs
from sash.core.clock import ManualClock
from sash.core.errors import SashError
from sash.core.stopping import QUESTION
from sash.core.time import SECOND, to_micros
from sash.isolation.shared_window import RESTARTS
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.cluster_panes import Inquiry, stored_rows
from sash.runtime.answers.answer import Answer
from sash.runtime.periodic import cluster_tables
from sash.runtime.streams import pane_runtime
from sash.sharing.groups import PaneTable
from sash.storage.window_files import PANE
from tests.support.duck_pass import aggregate
from tests.support.sparkless_session import SparklessSession
from tests.support.streams import START, stream, to_table
from tests.support.threads import PATIENCE, join, start
from tests.support.without_spark import DuckPipeline

TEXT = "SELECT k, SUM(v) AS t FROM s [WINDOW 3 sec SLIDE 1 sec] GROUP BY k"
BAD = "SELECT k, SUM(w) AS t FROM s [WINDOW 3 sec SLIDE 1 sec] GROUP BY k"


class FilePipeline(DuckPipeline):
    """Writes the rows of panes as Spark does."""

    session = None

    def write_panes(self, rows: pa.Table, table: PaneTable, place: Path) -> None:
        synopsis = BasicIntervalSynopsis([key.type for key in table.keys])
        synopsis.require(table.partials, None)
        for _, lane, _ in aggregate(self._declared, [table], rows).lanes:
            synopsis.absorb(lane)
        stored = stored_rows(synopsis)
        for end in set(stored["end"].to_pylist()):
            path = place / f"{PANE}={end}" / "part-0.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(stored.filter(pa.compute.field("end") == end), path)


class Jobs:
    """Jobs that wait until they may go on, or fail."""

    def __init__(self) -> None:
        self.may_go, self.error = threading.Event(), None
        self.threads: list[str] = []
        self.cancelled = threading.Event()

    error: Exception | None

    def ask(self, spark: Any, inquiry: Inquiry, paths: list[Path], rows: int) -> dict[int, list[Any]]:
        self.threads.append(threading.current_thread().name)
        question = QUESTION.get()
        with nullcontext() if question is None else question.calling(self.cancelled.set):
            assert self.may_go.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        table = pa.concat_tables([pq.ParquetFile(path).read() for path in paths], promote_options="default")
        return {number: [found] for number, found in inquiry.read(table)}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    found = Jobs()
    monkeypatch.setattr(pane_runtime, "in_pool", lambda *_: nullcontext())
    monkeypatch.setattr(cluster_tables, "ask_or_blame", lambda *asked: found.ask(*asked))
    return found


class Live(SparklessSession):
    """A live session with one query, or more, and what subscribers got."""

    def __init__(self, checkpoint: Path, texts: dict[str, str], isolation: str = "ttu") -> None:
        super().__init__(checkpoint=checkpoint, clock=ManualClock(), isolation=isolation)
        self.declare(stream(), FilePipeline)
        self.running = self.streams["s"]
        self.running.interval = 1.0
        self.told: list[Answer] = []
        self._came = threading.Condition()
        for name, text in texts.items():
            query = self.queries.get(name) or self.register(text, name, synopsis="cluster")
            query.subscribe(self._take)

    def _take(self, answer: Answer) -> None:
        with self._came:
            self.told.append(answer)
            self._came.notify_all()

    def wait_for(self, answers: int) -> None:
        with self._came:
            assert self._came.wait_for(lambda: len(self.told) >= answers, PATIENCE)

    def seconds(self, numbers: range) -> None:
        """A micro-batch for each second."""
        for number in numbers:
            self.running.on_batch(lambda: self._shared.history.version, second(number), number)

    def as_of(self) -> list[int]:
        return [(to_micros(answer.as_of) - START) // SECOND for answer in self.told]

    def die(self) -> None:
        """The system takes back what a dead process held; its threads do nothing any more."""
        self.running.stopping = True
        assert self.checkpoint is not None
        self.checkpoint.fence.drop()


def second(number: int) -> Any:
    return to_table([(START + number * SECOND, k, None, 2**number, 2**62, None) for k in range(2)] * 2)


def check(answers: list[Answer]) -> None:
    for answer in answers:
        last = (to_micros(answer.as_of) - START) // SECOND
        total = sum(2 * 2**number for number in range(max(0, last - 2), last + 1))
        assert sorted(answer.table.to_pylist(), key=repr) == [{"k": k, "t": total} for k in range(2)], last


@contextmanager
def closing(session: Live) -> Iterator[Live]:
    try:
        yield session
    finally:
        session.close()


def test_a_micro_batch_does_not_wait_and_an_answer_waits_for_no_micro_batch(jobs: Jobs, tmp_path: Path) -> None:
    with closing(Live(tmp_path, {"q": TEXT})) as session:
        session.seconds(range(8))
        assert session.running.panes.epoch == 7 and not session.told and jobs.threads == ["sash-flight"]
        ends = {int(path.parent.name.partition("=")[2]) for path in tmp_path.rglob(f"{PANE}=*/*.parquet")}
        assert min(ends) == START, "the files of its window are there, though newer windows do not reach them"
        jobs.may_go.set()
        session.wait_for(1)
        assert session.as_of() == [0]
        session.seconds(range(8, 10))
        session.running.finish()
        assert session.as_of()[0] == 0 and session.as_of()[-1] == 9
        check(session.told)


def test_the_job_of_a_dropped_query_is_cancelled(jobs: Jobs, tmp_path: Path) -> None:
    """When the last query that waits for its answers has gone, and not before."""
    with closing(Live(tmp_path, {"q": TEXT, "other": TEXT.replace("SUM", "MAX")})) as session:
        session.seconds(range(3))
        session.queries["other"].drop()
        session.seconds(range(3, 4))
        assert not jobs.cancelled.is_set()
        session.queries["q"].drop()
        session.seconds(range(4, 5))
        assert jobs.cancelled.is_set() and not session.running.runtime.flights
        jobs.may_go.set()
        session.seconds(range(5, 6))
        session.running.end_flights()
        assert not session.told


def test_under_lws_the_ninth_attempt_has_precedence(jobs: Jobs, tmp_path: Path) -> None:
    """Slides abort an execution eight times. Then the next micro-batch waits for the answer."""
    with closing(Live(tmp_path, {"q": TEXT}, "lws")) as session:
        session.seconds(range(RESTARTS + 2))
        (flight,) = session.running.runtime.flights
        assert jobs.cancelled.is_set() and len(jobs.threads) == flight.attempts == RESTARTS + 1
        assert flight.as_of == START + RESTARTS * SECOND
        next_one = start(lambda: session.seconds(range(RESTARTS + 2, RESTARTS + 3)))
        assert not session.told and next_one.is_alive()
        jobs.may_go.set()
        join(next_one)
        assert session.as_of()[0] == RESTARTS and session.stats()["beside_restarts"] == RESTARTS
        session.running.end_flights()
        check(session.told)


@pytest.mark.parametrize("every", [1, 3, 1_000])
def test_a_crash_with_an_execution_under_way(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """It is executed again, as of its own time; nobody is told anything twice."""
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", every)
    first = Live(tmp_path, {"q": TEXT})
    first.seconds(range(6))
    first.die()
    with closing(Live(tmp_path, {"q": TEXT})) as session:
        (flight,) = session.running.runtime.flights
        assert flight.as_of == START and not first.told
        # Spark brings the last micro-batch again.
        session.seconds(range(5, 6))
        jobs.may_go.set()
        session.seconds(range(6, 7))
        session.wait_for(1)
        session.seconds(range(7, 9))
        session.running.finish()
        assert session.as_of()[:2] == [0, 5] and session.as_of() == sorted(set(session.as_of()))
        check(session.told)
    jobs.threads.clear()
    with closing(Live(tmp_path, {"q": TEXT})) as session:
        assert not session.running.runtime.flights and not jobs.threads and not session.told


@pytest.mark.parametrize("end", ["finish", "advance", "end_flights"])
def test_an_end_waits_for_executions(jobs: Jobs, tmp_path: Path, end: str) -> None:
    ends: dict[str, Callable[[Live], object]] = {
        "finish": lambda session: session.running.finish(),
        "advance": lambda session: session.advance("s", START + 20 * SECOND),
        "end_flights": lambda session: session.running.end_flights(),
    }
    with closing(Live(tmp_path, {"q": TEXT})) as session:
        session.seconds(range(4))
        ending = start(lambda: ends[end](session))
        assert not session.told
        jobs.may_go.set()
        join(ending)
        assert session.as_of()[0] == 0 and not session.running.runtime.flights
        assert session.as_of()[1:] == ([] if end == "end_flights" else session.as_of()[1:])
        check([answer for answer in session.told if to_micros(answer.as_of) <= START + 3 * SECOND])


def test_a_job_that_fails(jobs: Jobs, tmp_path: Path) -> None:
    """It fails its stream, as in a micro-batch; the next session executes it again."""
    failed, came = list[Exception](), threading.Event()

    def fail(error: Exception) -> None:
        failed.append(error)
        came.set()

    with closing(Live(tmp_path, {"q": TEXT})) as session:
        session.running.on_failure = fail
        session.seconds(range(3))
        jobs.error = SashError("the cluster has gone")
        jobs.may_go.set()
        assert came.wait(PATIENCE) and failed == [jobs.error]
        with pytest.raises(SashError, match="connect again"):
            session.seconds(range(3, 4))
    jobs.error = None
    with closing(Live(tmp_path, {"q": TEXT})) as session:
        session.seconds(range(3, 5))
        session.running.finish()
        assert session.as_of()[0] == 0 and session.as_of()[-1] == 4
        check(session.told)


@pytest.mark.parametrize("every", [1, 1_000])
def test_a_query_that_failed_there_has_failed_after_a_restart(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", every)
    texts = {"q": TEXT, "bad": BAD}
    with closing(Live(tmp_path, texts)) as session:
        session.seconds(range(3))
        jobs.may_go.set()
        session.wait_for(1)
        session.seconds(range(3, 5))
        assert "BIGINT" in str(session.queries["bad"].error)
        session.running.end_flights()
    with closing(Live(tmp_path, texts)) as session:
        assert "BIGINT" in str(session.queries["bad"].error) and session.queries["q"].error is None
        assert list(session.running.runtime.active) == ["q"]
        session.seconds(range(5, 7))
        session.running.finish()
        check(session.told)


def test_a_subscriber_may_stop_the_session_from_a_landing(jobs: Jobs, tmp_path: Path) -> None:
    inside = list[bool]()
    with closing(Live(tmp_path, {"q": TEXT})) as session:
        session.queries["q"].subscribe(lambda answer: inside.append(session.running.in_batch))
        session.seconds(range(3))
        jobs.may_go.set()
        session.wait_for(1)
        session.running.end_flights()
        assert inside and all(inside)


def test_workers_have_no_effect_any_more() -> None:
    with pytest.warns(FutureWarning, match="workers has no effect"), sash.connect(workers=2) as session:
        assert not hasattr(session._shared.settings, "workers")
