"""Live: an overloaded session answers late and loses nothing, and a hurried past is recovered as it was."""

from __future__ import annotations

import shutil
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.core.clock import ManualClock
from sash.isolation import ISOLATION_LEVELS
from sash.runtime.periodic import cluster_tables
from sash.runtime.periodic.onetime import PaneLookup
from tests.runtime.test_session import create, seconds, write
from tests.support.threads import PATIENCE, join, start

pytestmark = pytest.mark.spark

QUERIES = {
    "often": "SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE 1 sec] GROUP BY k",
    "seldom": "SELECT k, SUM(v) AS t FROM s [WINDOW 9 sec SLIDE 3 sec] GROUP BY k",
    "exact": "SELECT COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE EXACTLY 2 sec]",
}


FILES = 4


def four_files(directory: Path) -> None:
    """One tuple every half second for sixteen seconds, four seconds a file."""
    for part in range(FILES):
        write(directory, part, [(part * 4 + i / 2 + 0.1, i % 2, part) for i in range(8)])


class SlowMachine(ManualClock):
    """A clock by which everything takes long: it goes on whenever it is looked at."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self._step = step

    def now(self) -> float:
        self.advance(self._step)
        return super().now()


def live(session: sash.Session, tuples: int) -> None:
    session.start(trigger="1 second")
    while session.streams["s"].runtime.statistics.tuples < tuples:
        assert not session.wait(0.05)
    session.stop()


def told(session: sash.Session) -> dict[str, list[tuple[float, bool, list[dict[str, Any]]]]]:
    return {
        name: [(seconds([a])[0], a.complete, a.table.to_pylist()) for a in query.answers()]
        for name, query in session.queries.items()
    }


@pytest.mark.parametrize("policy", ["conservative", "hybrid-late-pending"])
def test_an_overloaded_session_is_late_and_recovers_as_it_was(spark: Any, tmp_path: Path, policy: str) -> None:
    four_files(tmp_path / "data")
    slow = SlowMachine(step=0.15)
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", policy=policy, clock=slow) as session:
        create(session, tmp_path / "data")
        for name, text in QUERIES.items():
            session.register(text, name=name)
        live(session, 8 * FILES)
        before = told(session)
        late = {name: facts["lateness"] for name, facts in session.stats()["queries"].items()}
    assert late["often"] > 0
    times = {name: [time for time, _, _ in answers] for name, answers in before.items()}
    assert max(b - a for a, b in pairwise(times["often"])) > 1, "periods have become longer"
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", policy=policy) as session:
        assert told(session) == before
        session.run()
        after = told(session)
    exact = [time for time, _, _ in after["exact"]]
    assert exact == [float(t) for t in range(2, 17, 2)], "each multiple is answered, late if need be"
    assert after["often"][-1][0] == 16.0


@pytest.mark.parametrize("level", ["serial", "ws", "ttu"])
def test_one_time_queries_go_between_executions(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """A question that comes while a micro-batch is applied waits for one execution, not for all of them.

    Under serial the next one waits for its answer, too; under the others it has taken the panes, and nobody waits.
    """
    four_files(tmp_path / "data")
    isolation = ISOLATION_LEVELS[level]()
    monkeypatch.setitem(ISOLATION_LEVELS, level, lambda: isolation)
    with sash.connect(spark=spark, isolation=level) as session:
        create(session, tmp_path / "data")
        session.register(QUERIES["often"], name="often")
        session.register("SELECT v, COUNT(*) AS n FROM s [WINDOW 9 sec SLIDE 3 sec] GROUP BY v", name="other")
        runtime = session.streams["s"].runtime
        executions: list[int] = []
        taken_after: list[int] = []
        answered_after: list[int] = []
        asking: list[threading.Thread] = []

        def ask() -> None:
            session.query("SELECT k, SUM(v) AS t FROM s [WINDOW 3 sec] GROUP BY k")

        def compute(lookup: PaneLookup, original: Any = PaneLookup.compute) -> Any:
            """Under serial the lock is held here: who counts behind it may be overtaken by the next execution."""
            answer = original(lookup)
            answered_after.append(len(executions))
            return answer

        def covers(question: Any, original: Any = runtime.covers) -> Any:
            taken_after.append(len(executions))
            return original(question)

        def execute(*arguments: Any, original: Any = runtime.execute) -> float:
            executions.append(len(executions))
            if len(executions) == 5:
                asking.append(threading.Thread(target=ask))
                asking[0].start()
                while not isolation.waiting:  # type: ignore[attr-defined]
                    threading.Event().wait(0)
            took: float = original(*arguments)
            return took

        runtime.execute = execute  # type: ignore[method-assign]
        runtime.covers = covers  # type: ignore[method-assign]
        monkeypatch.setattr(PaneLookup, "compute", compute)
        session.run()
        asking[0].join()
    assert taken_after[0] == 5 and len(executions) > 5
    assert answered_after == [5] or level != "serial"


class HeldJobs:
    """Jobs over panes in the cluster, which wait until they may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_go, self.threads, original = threading.Event(), list[str](), cluster_tables.ask_or_blame

        def ask(*asked: Any) -> Any:
            self.threads.append(threading.current_thread().name)
            assert self.may_go.wait(PATIENCE)
            return original(*asked)

        monkeypatch.setattr(cluster_tables, "ask_or_blame", ask)


FAR = {
    "sums": "SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE {slide} sec] GROUP BY k",
    "distinct": "SELECT k, COUNT(DISTINCT v) AS d, MAX(v) AS m FROM s [WINDOW 5 sec SLIDE {slide} sec] GROUP BY k",
}


def in_cluster(session: sash.Session, data: Path, slide: int) -> None:
    create(session, data)
    for name, text in FAR.items():
        session.register(text.format(slide=slide), name=name, synopsis="cluster")
    session.register("SELECT COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE 1 sec]", name="near")


def right(session: sash.Session, expected: dict[str, dict[float, Any]]) -> None:
    for name, answers in told(session).items():
        times = [time for time, _, _ in answers]
        assert times == sorted(set(times))
        for time, _, rows in answers:
            assert sorted(map(repr, rows)) == expected[name][time], (name, time)


@pytest.mark.parametrize("crashes", [False, True])
def test_micro_batches_do_not_wait_for_jobs_in_the_cluster(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashes: bool
) -> None:
    """All micro-batches are committed while the first jobs are held. `stop()` waits for them; after a crash, in the
    middle of them, the next session has the same answers.
    """
    four_files(tmp_path / "data")
    with sash.connect(spark=spark) as session:
        in_cluster(session, tmp_path / "data", slide=1)
        session.run()
        expected = {
            name: {time: sorted(map(repr, rows)) for time, _, rows in answers}
            for name, answers in told(session).items()
        }
    jobs = HeldJobs(monkeypatch)
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        in_cluster(session, tmp_path / "data", slide=2)
        session.start(trigger="1 second")
        while session.streams["s"].runtime.statistics.tuples < 8 * FILES:
            assert not session.wait(0.05)
        assert set(jobs.threads) == {"sash-flight"} and not session.queries["sums"].answers()
        assert session.queries["near"].answers()
        if crashes:
            # Spark and Sash rename their drafts meanwhile: a crash would have left them, or not.
            shutil.copytree(tmp_path / "c", tmp_path / "crashed", ignore=shutil.ignore_patterns("*.tmp*", "*.draft"))
        stopping = start(session.stop)
        jobs.may_go.set()
        join(stopping)
        assert not session.streams["s"].runtime.flights and session.state().name == "stopped"
        right(session, expected)
        first = told(session)
        assert all(first[name] for name in FAR) and session.stats()["beside_slides"] > 0
    with sash.connect(spark=spark, checkpoint=tmp_path / ("crashed" if crashes else "c")) as session:
        under_way = len(session.streams["s"].runtime.flights)
        assert under_way > 0 if crashes else under_way == 0
        session.run()
        right(session, expected)
        again = told(session)
    if crashes:
        for name in FAR:
            assert again[name][: len(first[name])] == first[name], "what was under way, as of its own time"
    assert all(again[name][-1][0] > 14 for name in FAR), "a SLIDE before the end at most"


def test_a_job_that_fails_beside_micro_batches_fails_the_stream(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: Any) -> Any:
        raise sash.SashError("the cluster has gone")

    four_files(tmp_path / "data")
    monkeypatch.setattr(cluster_tables, "ask_or_blame", ask)
    with sash.connect(spark=spark) as session:
        in_cluster(session, tmp_path / "data", slide=1)
        session.start(trigger="1 second")
        with pytest.raises(sash.SashError, match="the cluster has gone"):
            session.wait(PATIENCE)
