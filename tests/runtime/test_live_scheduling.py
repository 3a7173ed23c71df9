"""Live: an overloaded session answers late and loses nothing, and a hurried past is recovered as it was."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partialmethod
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.isolation import ISOLATION_LEVELS
from sash.runtime.periodic.executor import JointAnswers
from sash.runtime.periodic.onetime import PaneLookup
from tests.runtime.test_session import create, seconds, write

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


class SlowMachine:
    """A clock by which everything takes long: it goes on whenever it is looked at."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._now = 0.0

    def now(self) -> float:
        self._now += self._step
        return self._now


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


class Turned:
    """A clock that stands still until a worker turns it, who then waits until that has been seen, or for a while.

    Nobody waits any more once an execution has been overtaken: that is what the waiting is for.
    """

    def __init__(self, is_overtaken: Callable[[], bool]) -> None:
        self._now, self._looks, self._calls = 0.0, 0, 0
        self._changed = threading.Condition()
        self._is_overtaken = is_overtaken

    def now(self) -> float:
        with self._changed:
            self._looks += 1
            self._changed.notify_all()
            return self._now

    def turn(self) -> None:
        """At every second call, by nearly two panes of a micro-batch of four: soon they are ahead of executions."""
        with self._changed:
            self._calls += 1
            if self._calls % 2 == 0:
                self._now += 0.45
                enough = self._looks + 3
                self._changed.wait_for(lambda: self._looks >= enough or self._is_overtaken(), 1.0)


BESIDE = {**QUERIES, "other": "SELECT v, COUNT(*) AS n FROM s [WINDOW 9 sec SLIDE 2 sec] GROUP BY v"}


def test_executions_beside_slides_are_right_and_recovered_as_they_were(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Panes arrive while workers compute; answers are those of `run()` as of their times, in order.

    For every level, and step by step: tests/runtime/test_beside.py.
    """
    four_files(tmp_path / "data")
    running: list[sash.Session] = []
    clock = Turned(lambda: any(g.statistics.beside_slides for g in running[0].streams["s"].runtime.ordered()))

    def beside(joint: JointAnswers, original: Callable[[JointAnswers], Any]) -> Any:
        clock.turn()
        return original(joint)

    def register(session: sash.Session, texts: dict[str, str]) -> None:
        create(session, tmp_path / "data")
        for name, text in texts.items():
            session.register(text, name=name)

    with sash.connect(spark=spark, policy="conservative") as session:
        register(session, {name: re.sub(r"SLIDE( EXACTLY)? \d", "SLIDE 1", text) for name, text in BESIDE.items()})
        session.run()
        expected = {name: {time: rows for time, _, rows in answers} for name, answers in told(session).items()}
    options: dict[str, Any] = {"checkpoint": tmp_path / "c", "policy": "conservative", "isolation": "ttu"}
    for name in ("compute", "read_ahead"):
        monkeypatch.setattr(JointAnswers, name, partialmethod(beside, getattr(JointAnswers, name)))
    with sash.connect(spark=spark, clock=clock, workers=2, **options) as session:
        running.append(session)
        register(session, BESIDE)
        live(session, 8 * FILES)
        before, counted = told(session), session.stats()
    assert counted["beside_slides"] > 0
    for name, answers in before.items():
        times = [time for time, _, _ in answers]
        assert times and times == sorted(set(times))
        for time, _, rows in answers:
            assert sorted(map(repr, rows)) == sorted(map(repr, expected[name][time])), (name, time)
    with sash.connect(spark=spark, workers=1, **options) as session:
        assert told(session) == before
        session.run()
        exact = [time for time, _, _ in told(session)["exact"]]
    assert exact == [float(t) for t in range(2, 17, 2)]
