"""Isolation levels of executions in the cluster beside slides: their histories, as a checker judges them (thesis, 7.3).

A window is a ring of panes. A slide writes a pane; an execution reads all its panes when it departs and commits when it
lands, or is aborted and reads again.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND, to_micros
from sash.isolation import ISOLATION_LEVELS
from sash.isolation.checker import QueryVerdict, classify, judge_queries
from sash.isolation.history import PaneRecorder
from sash.isolation.shared_window import RESTARTS
from sash.runtime.answers.answer import Answer
from sash.sharing.choose import CLUSTER
from tests.runtime.test_flights import live, second
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.streams import START, stream, to_table

# Panes of the ring; the longest window has four.
SLOTS = 8
SUMS = "SELECT k, SUM(v) AS t FROM s [WINDOW {length} sec SLIDE {slide} sec] GROUP BY k"
FLYING = [name for name in ISOLATION_LEVELS if name != "serial"]


class Recorded:
    """A stream under an isolation level, whose slides and executions are recorded."""

    def __init__(self, level: str, texts: dict[str, str], **declared: Any) -> None:
        self.feed = Feed(stream(**declared), flies=level != "serial", restarts=level == "lws")
        self.feed.runtime.synchronise(compiled(texts, self.feed.declared, CLUSTER))
        (self.group,) = self.feed.runtime.ordered()
        self.recorder = self.group.recorder = PaneRecorder(SLOTS, self.group.clock.length)
        self.answers: list[Answer] = []

    def push(self, *seconds: int, opens: int = 0) -> None:
        """Some seconds in one micro-batch; before it so many executions end."""
        self.feed.gate.open(opens)
        self.answers += self.feed.push(pa.concat_tables(map(second, seconds)), live())

    def finish(self) -> None:
        self.answers += self.feed.finish()

    def judged(self) -> list[QueryVerdict]:
        return list(judge_queries(self.recorder.history))

    def as_of(self) -> list[int]:
        return [(to_micros(answer.as_of) - START) // SECOND for answer in self.answers]

    def last_second(self, judged: QueryVerdict) -> int:
        """The end of the window that an execution has read, by its history: the last slide is the group's position."""
        assert judged.state_after is not None
        slides = [int(each.transaction) for each in self.recorder.history.operations if each.kind == "w"]
        behind = (slides[-1] - judged.state_after) * self.group.clock.length
        return (self.group.clock.position - behind - START) // SECOND

    def check_sums(self, length: int, seconds: int) -> None:
        """Each second adds its own power of two, so the sum of an answer tells which seconds its window has."""
        for last, answer in zip(self.as_of(), self.answers, strict=True):
            total = sum(2**number for number in range(max(0, last - length + 1), min(last + 1, seconds)))
            assert sorted(answer.table.to_pylist(), key=repr) == [{"k": k, "t": total} for k in range(3)], last


@pytest.mark.parametrize("level", ISOLATION_LEVELS)
@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=2, max_size=14),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_every_level_keeps_its_promise(level: str, story: list[tuple[int, int]], length: int, slide: int) -> None:
    """However many executions end between which slides."""
    recorded, last = Recorded(level, {"q": SUMS.format(length=length, slide=slide)}), 0
    for seconds, opens in story:
        recorded.push(*range(last, last + seconds), opens=opens)
        last += seconds
    recorded.finish()
    verdict, judged = classify(recorded.recorder.history), recorded.judged()
    assert verdict.serializable and verdict.ws and all(each.snapshot_of_start for each in judged)
    assert verdict.lws or level in ("ws", "ttu")
    aborted = any(each.kind == "a" for each in recorded.recorder.history.operations)
    assert level == "lws" or not aborted
    recorded.check_sums(length, last)
    # The windows of the history are those of the answers.
    assert [recorded.last_second(each) for each in judged] == recorded.as_of()


@pytest.mark.parametrize("level", FLYING)
def test_a_slide_during_an_execution(level: str) -> None:
    """Under ws and ttu the answer is a window that was; under lws the execution begins again, and is as of its end."""
    recorded = Recorded(level, {"q": SUMS.format(length=3, slide=1)})
    for number in range(5):
        recorded.push(number)
    recorded.push(5, opens=9)
    (judged,) = recorded.judged()
    latest = level == "lws"
    assert judged.ws and judged.lws is latest and judged.snapshot_of_start
    assert recorded.as_of() == [3 if latest else 0] and recorded.group.statistics.beside_restarts == 3 * latest
    text = str(recorded.recorder.history)
    begun = "w8[0] c8 rQ1[6] rQ1[7] rQ1[0] w9[1] c9"
    assert text.startswith(f"{begun} aQ1 rQ2[7] rQ2[0] rQ2[1] w10[2]" if latest else f"{begun} w10[2] c10 w11[3]")


def test_under_serial_a_slide_waits_for_its_executions() -> None:
    recorded = Recorded("serial", {"q": SUMS.format(length=3, slide=1)})
    for number in range(5):
        recorded.push(number)
    assert recorded.as_of() == [0, 1, 2, 3] and all(each.lws for each in recorded.judged())


@pytest.mark.parametrize("level", FLYING)
def test_late_tuples_are_a_write(level: str) -> None:
    """They change a pane that the execution has read: under lws it begins again, though nothing slid."""
    recorded = Recorded(level, {"q": SUMS.format(length=3, slide=1)}, late_revise=True)
    for number in range(2):
        recorded.push(number)
    recorded.feed.push(to_table([(START, 7, None, 5, None, None)]), live())
    recorded.push(2, opens=9)
    (judged,), (answer,) = recorded.judged(), recorded.answers
    assert judged.ws and judged.lws is (level == "lws") and recorded.as_of() == [0]
    assert ({"k": 7, "t": 5} in answer.table.to_pylist()) is (level == "lws")


def test_an_execution_at_its_own_time_does_not_begin_again() -> None:
    """SLIDE EXACTLY answers each multiple as of itself; beside it, other queries are as of the end."""
    exactly = SUMS.format(length=2, slide="EXACTLY 2").replace("SUM(v)", "MAX(v)")
    recorded = Recorded("lws", {"own": exactly, "q": SUMS.format(length=2, slide=2)})
    for number in range(5):
        recorded.push(number)
    recorded.push(5, opens=9)
    times = {answer.query: time for answer, time in zip(recorded.answers, recorded.as_of(), strict=True)}
    assert times == {"own": 0, "q": 2}
    assert sorted(each.lws for each in recorded.judged()) == [False, True] and classify(recorded.recorder.history).ws


def test_what_has_begun_again_often_has_precedence() -> None:
    recorded = Recorded("lws", {"q": SUMS.format(length=3, slide=1)})
    for number in range(RESTARTS + 1):
        recorded.push(number)
    (flight,) = recorded.group.flights
    assert flight.attempts == RESTARTS and not flight.has_precedence
    recorded.push(RESTARTS + 1)
    assert flight.has_precedence


def test_an_execution_without_isolation_reads_a_window_that_never_was() -> None:
    """What the checker would say of an execution that took each pane when its turn came: the anomaly of section 7.3."""
    recorder = PaneRecorder(slots=3, length=1)
    recorder.slid(10)
    recorder.did("r", "Q1", 0)
    recorder.slid(12)
    for slot in (1, 2):
        recorder.did("r", "Q1", slot)
    recorder.did("c", "Q1")
    verdict = classify(recorder.history)
    assert verdict.serializable and not verdict.ws and not verdict.lws
