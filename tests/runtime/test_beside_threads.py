"""Executions beside slides, and questions beside both: histories are judged, answers recomputed as of their times.

Each pane holds numbers that tell it from all others, so an answer says which panes it was made of. Panes arrive while
executions run: a worker turns the hand of the clock, and goes on when that has been seen. No test waits for a time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partialmethod
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from sash.core.time import SECOND, to_micros
from sash.isolation import classify, isolation
from sash.isolation.checker import judge_queries
from sash.runtime.answers.answer import Answer
from sash.runtime.periodic.executor import JointAnswers
from sash.runtime.periodic.flight import PaneHistory
from sash.runtime.periodic.onetime import look_up, stamped
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from tests.support.duck_pass import aggregate
from tests.support.feed import compiled
from tests.support.streams import START, stream, to_table
from tests.support.threads import PATIENCE, start

LEVELS = ("ws", "lws", "ttu")
LONGEST, BATCHES, PANES, KEYS = 8, 12, 10, (1, 2, 3)
AGGREGATES = "SUM(w) AS t, MIN(w) AS lo, MAX(w) AS hi, COUNT(*) AS n"
# Windows of several lengths in one group, which share scans or have tasks of their own; and another group.
LENGTHS = {"long": 8, "middle": 5, "short": 2, "single": 1}
TEXTS = {
    **{
        name: f"SELECT k, {AGGREGATES} FROM s [WINDOW {length} sec SLIDE {1 + length % 2} sec] GROUP BY k ORDER BY k"
        for name, length in LENGTHS.items()
    },
    "other": "SELECT v % 2 AS r, SUM(w) AS t FROM s [WINDOW 6 sec SLIDE 1 sec] GROUP BY v % 2 ORDER BY r",
    "exact": f"SELECT k, {AGGREGATES} FROM s [WINDOW 4 sec SLIDE EXACTLY 3 sec] GROUP BY k ORDER BY k",
}


def value(pane: int, k: int) -> int:
    return 1_000 * pane + k


def second(pane: int) -> pa.Table:
    return to_table([(START + pane * SECOND, k, None, k, value(pane, k), None) for k in KEYS])


def expected(query: str, last: int) -> list[dict[str, Any]]:
    """From scratch."""
    length = {**LENGTHS, "other": 6, "exact": 4}[query]
    panes = range(max(0, last - length + 1), last + 1)
    if query == "other":
        return [{"r": r, "t": sum(value(p, k) for p in panes for k in KEYS if k % 2 == r)} for r in (0, 1)]
    by_key = {k: [value(pane, k) for pane in panes] for k in KEYS}
    return [{"k": k, "t": sum(v), "lo": min(v), "hi": max(v), "n": len(v)} for k, v in by_key.items()]


def check(answer: Answer) -> None:
    last = (to_micros(answer.as_of) - START) // SECOND
    assert answer.table.to_pylist() == expected(answer.query, last), (answer.query, last)


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Turned:
    """A clock that workers turn; the worker then waits until panes have been taken in, or no time is left."""

    hurries = True
    services = None

    def __init__(self) -> None:
        self._part = 0.0
        self._looks = 0
        self._changed = threading.Condition()

    def passed(self) -> float:
        with self._changed:
            self._looks += 1
            self._changed.notify_all()
            return self._part

    def seconds_until(self, part: float) -> float | None:
        return 0.001

    def turn(self, panes: int) -> None:
        with self._changed:
            self._part += panes / PANES
            enough = self._looks + 2
            self._changed.notify_all()
            seen = self._changed.wait_for(lambda: self._looks >= enough or self._part >= 1, PATIENCE)
        assert seen


@pytest.mark.parametrize("level", LEVELS)
def test_every_answer_is_a_window_that_the_level_allows(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = list[Turned]()

    def beside(joint: JointAnswers, original: Callable[[JointAnswers], Any]) -> Any:
        clocks[-1].turn(joint.as_of // SECOND % 3)
        return original(joint)

    for name in ("compute", "read_ahead"):
        monkeypatch.setattr(JointAnswers, name, partialmethod(beside, getattr(JointAnswers, name)))
    held, declared = isolation(level), stream()
    runtime = StreamRuntime(declared, Settings("conservative", workers=3), held.give_way, level, held.away)
    runtime.synchronise(compiled(TEXTS, declared, "basic"))
    answers, stop, asked = list[Answer](), threading.Event(), list[pa.Table]()

    def apply(first: int, last: int) -> None:
        facts = aggregate(declared, runtime.tables(), pa.concat_tables([second(pane) for pane in range(first, last)]))
        clocks.append(Turned())
        with held.slide():
            answers.extend(runtime.apply(facts, pace=clocks[-1]).answers)

    apply(0, LONGEST + 2)
    group = next(group for group in runtime.ordered() if "long" in {name for name, _ in group.members.readers})
    runtime.history = PaneHistory(group, LONGEST)
    (question,) = compiled({"long": TEXTS["long"]}, declared)

    def ask() -> None:
        while not stop.is_set():
            found = held.taking(lambda: look_up(question, runtime))
            assert found is not None
            check(found)
            asked.append(stamped(found))

    asking = start(ask)
    for batch in range(BATCHES):
        first = LONGEST + 2 + batch * PANES
        apply(first, first + PANES)
    stop.set()
    asking.join(PATIENCE)
    assert not asking.is_alive() and asked
    for answer in answers:
        check(answer)
    statistics = [each.statistics for each in runtime.ordered()]
    assert sum(each.beside_slides for each in statistics) > 0
    assert level != "ws" or not any(each.restarts for each in statistics)
    history = runtime.history.history
    verdict, queries = classify(history), list(judge_queries(history))
    assert verdict.serializable and verdict.ws and len(queries) > BATCHES
    assert verdict.lws or level == "ws"
    assert level != "ws" or (all(each.snapshot_of_start for each in queries) and not verdict.lws)
    exact = [(to_micros(answer.as_of) - START) // SECOND for answer in answers if answer.query == "exact"]
    assert all(b - a == 3 for a, b in pairwise(exact)), "each of its multiples, late or not"
