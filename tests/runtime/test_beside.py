"""Executions beside slides: what each level makes of a slide that comes in the middle of one.

A pace whose hand is turned by the test says when panes arrive; threads meet at events, never at times.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog, RegisteredQuery
from sash.core.time import SECOND, to_micros
from sash.isolation import Isolation, isolation
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import compile_query
from sash.runtime.periodic.advance import RepeatedPace
from sash.runtime.periodic.executor import JointAnswers
from sash.runtime.periodic.flight import RESTARTS
from sash.runtime.periodic.pace import Pace
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.periodic.stream_runtime import Progress, StreamRuntime
from sash.runtime.records.journal import GroupService
from sash.runtime.settings import Settings
from tests.runtime.test_policies import Hurry, fed, times
from tests.support.checks import check_answers
from tests.support.duck_pass import aggregate
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.shelf import Shelf
from tests.support.streams import START, Registered, batches, query_sets, stream, to_table
from tests.support.threads import PATIENCE, join, start

LEVELS = ("ws", "lws", "ttu")
TOTAL = "SELECT SUM(w) AS t, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec]"
PANES = 6


class Hand:
    """A pace whose part of the time is set by hand."""

    hurries = True
    services = None

    def __init__(self) -> None:
        self.part = 0.0

    def passed(self) -> float:
        return self.part

    def seconds_until(self, part: float) -> float | None:
        return 0.001


def second(number: int) -> pa.Table:
    """Tuples of one pane, which ends with this second; their sum distinguishes it from all others."""
    return to_table([(START + number * SECOND, k, None, k, 10**number, None) for k in range(3)])


def total(last: int) -> list[dict[str, Any]]:
    panes = range(max(0, last - 3), last + 1)
    return [{"t": sum(3 * 10**pane for pane in panes), "n": 3 * len(panes)}]


class Stream:
    """Ten panes are behind it; one micro-batch brings the next ones, which arrive as the hand is turned."""

    def __init__(
        self, level: str, texts: dict[str, str], workers: int = 2, isolated_by: Isolation | None = None
    ) -> None:
        self.declared, self.hand = stream(), Hand()
        chosen = Settings("conservative", workers=workers)
        if isolated_by is None:
            self.runtime = StreamRuntime(self.declared, chosen, level=level)
        else:
            self.runtime = StreamRuntime(self.declared, chosen, isolated_by.give_way, level, isolated_by.away)
        self.runtime.synchronise(compiled(texts, self.declared))
        for number in range(10):
            self.apply([second(number)], None)
        (self.group, *_) = self.runtime.ordered()

    def apply(self, parts: list[pa.Table], pace: Pace | None) -> Progress:
        facts = aggregate(self.declared, self.runtime.tables(), pa.concat_tables(parts))
        return self.runtime.apply(facts) if pace is None else self.runtime.apply(facts, pace=pace)

    def live(self) -> Progress:
        """The panes 9 to 14: the last second of those ten was not over."""
        return self.apply([second(number) for number in range(10, 10 + PANES)], self.hand)

    def arrive(self, panes: int) -> None:
        """Let some panes arrive, and wait until they are taken in."""
        before = self.group.clock.position
        self.hand.part = (before + panes * SECOND - self.began) / (PANES * SECOND) + 1e-9
        wait_for(lambda: self.group.clock.position >= before + panes * SECOND)

    @property
    def began(self) -> int:
        return START + 8 * SECOND


def wait_for(condition: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(int(PATIENCE * 1_000)):
        if condition():
            return
        waited.wait(0.001)
    raise AssertionError("nothing happened")


def slides_in(monkeypatch: pytest.MonkeyPatch, method: str, slides: Callable[[int], int], live: Stream) -> list[int]:
    """Panes arrive while a method of an execution runs: a number in its first call, in its second, ..."""
    original, calls = getattr(JointAnswers, method), list[int]()

    def run(joint: JointAnswers) -> Any:
        calls.append((joint.as_of - START) // SECOND)
        if panes := slides(len(calls)):
            live.arrive(panes)
        return original(joint)

    monkeypatch.setattr(JointAnswers, method, run)
    return calls


def as_of(answers: list[Answer]) -> list[int]:
    return [(to_micros(answer.as_of) - START) // SECOND for answer in answers]


def check_totals(answers: list[Answer]) -> None:
    for answer, last in zip(answers, as_of(answers), strict=True):
        assert answer.table.to_pylist() == total(last), last


def test_under_ws_an_execution_is_as_of_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Stream("ws", {"q": TOTAL})
    slides_in(monkeypatch, "compute", lambda call: 2 if call == 1 else 0, live)
    progress = live.live()
    assert as_of(progress.answers) == [9, 11, 12, 13, 14], "as of 9 though 11 had come; 10 was late, and is not made up"
    check_totals(progress.answers)
    assert (live.group.statistics.beside_slides, live.group.statistics.restarts) == (1, 0)


def test_under_lws_it_begins_again_and_is_as_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Stream("lws", {"q": TOTAL})
    computed = slides_in(monkeypatch, "compute", lambda call: 1 if call <= 2 else 0, live)
    progress = live.live()
    assert computed[:3] == [9, 10, 11]
    assert as_of(progress.answers) == [11, 12, 13, 14]
    check_totals(progress.answers)
    assert (live.group.statistics.beside_slides, live.group.statistics.restarts) == (1, 2)


@pytest.mark.parametrize(("panes", "restarts"), [(1, 0), (2, 1)])
def test_under_ttu_one_slide_costs_nothing(monkeypatch: pytest.MonkeyPatch, panes: int, restarts: int) -> None:
    """Theorem 7.4: the pane that leaves next is read last, so all panes that were read are still in the window."""
    live = Stream("ttu", {"q": TOTAL})
    read = slides_in(monkeypatch, "read_ahead", lambda call: panes if call == 1 else 0, live)
    progress = live.live()
    assert read[: 1 + restarts] == [9, 9 + panes][: 1 + restarts]
    assert as_of(progress.answers)[0] == 9 + panes and as_of(progress.answers)[-1] == 14
    check_totals(progress.answers)
    assert (live.group.statistics.beside_slides, live.group.statistics.restarts) == (1, restarts)


def test_under_ttu_slides_while_the_answer_is_made_come_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Stream("ttu", {"q": TOTAL})
    slides_in(monkeypatch, "compute", lambda call: 2 if call == 1 else 0, live)
    progress = live.live()
    assert as_of(progress.answers)[:2] == [9, 11]
    check_totals(progress.answers)
    assert (live.group.statistics.beside_slides, live.group.statistics.restarts) == (1, 0)


@pytest.mark.parametrize("level", ["lws", "ttu"])
def test_after_so_many_restarts_a_slide_waits(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.setattr("sash.runtime.periodic.flight.RESTARTS", 2)
    live, method = Stream(level, {"q": TOTAL}), "compute" if level == "lws" else "read_ahead"
    original, calls = getattr(JointAnswers, method), list[int]()

    def run(joint: JointAnswers) -> Any:
        calls.append((joint.as_of - START) // SECOND)
        if len(calls) <= 2:
            live.arrive(2)
        elif len(calls) == 3:
            # Everything has arrived, and the time is nearly up.
            live.hand.part = 0.999
            threading.Event().wait(0.02)
            assert live.group.clock.position == START + 13 * SECOND, "it waits for this"
        return original(joint)

    monkeypatch.setattr(JointAnswers, method, run)
    progress = live.live()
    assert calls[:3] == [9, 11, 13] and as_of(progress.answers)[0] == 13
    check_totals(progress.answers)
    assert live.group.statistics.restarts == 2 < RESTARTS


@pytest.mark.parametrize("level", LEVELS)
def test_exactly_is_as_of_itself(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    live = Stream(level, {"q": TOTAL, "exact": TOTAL.replace("SLIDE 1", "SLIDE EXACTLY 1")})
    slides_in(monkeypatch, "compute", lambda call: 3 if call == 1 else 0, live)
    answers = live.live().answers
    exact = [answer for answer in answers if answer.query == "exact"]
    assert as_of(exact) == [9, 10, 11, 12, 13, 14]
    check_totals(answers)


@pytest.mark.parametrize("level", LEVELS)
def test_an_error_fails_its_query_only(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    """Whatever slides meanwhile, the query gets no answer after its failure."""
    fails = "SELECT SUM(w) * 8388608 AS t FROM s [WINDOW 4 sec SLIDE 1 sec]"
    live = Stream(level, {"q": TOTAL, "fails": fails})
    slides_in(monkeypatch, "compute", lambda call: 1 if call == 1 else 0, live)
    progress = live.live()
    assert set(progress.outcome.failed) == {"fails"} and list(live.runtime.active) == ["q"]
    told = [answer for answer in progress.answers if answer.query == "fails"]
    assert all(answer.table["t"][0].as_py() < 2**63 for answer in told)
    assert max(as_of(told), default=9) < 14
    kept = [answer for answer in progress.answers if answer.query == "q"]
    assert as_of(kept)[-1] == 14
    check_totals(kept)


@pytest.mark.parametrize("level", LEVELS)
def test_groups_and_tasks_that_are_due_together_are_executed_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """Two executions wait for each other: with one thread neither would end."""
    other = "SELECT k, SUM(w) AS t FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY k"
    live, meeting = Stream(level, {"q": TOTAL, "other": other}), threading.Barrier(2, timeout=PATIENCE)
    original, threads = JointAnswers.compute, set[str]()

    def compute(joint: JointAnswers) -> Any:
        threads.add(threading.current_thread().name)
        meeting.wait()
        return original(joint)

    monkeypatch.setattr(JointAnswers, "compute", compute)
    progress = live.live()
    assert len(progress.answers) == 2 * PANES
    assert len(threads) == 2 and all(name.startswith("sash-worker") for name in threads)
    assert not any(thread.name.startswith("sash-worker") for thread in threading.enumerate())


@pytest.mark.parametrize("level", LEVELS)
def test_a_defect_in_a_worker_is_raised(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    def compute(joint: JointAnswers) -> Any:
        raise LookupError("a defect")

    monkeypatch.setattr(JointAnswers, "compute", compute)
    with pytest.raises(LookupError, match="a defect"):
        Stream(level, {"q": TOTAL}).live()


@pytest.mark.parametrize("level", LEVELS)
def test_others_have_the_windows_while_workers_compute(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    held, asked = isolation(level), list[int]()
    live = Stream(level, {"q": TOTAL}, isolated_by=held)
    original = JointAnswers.compute

    def ask() -> None:
        with held.read():
            asked.append(live.group.clock.position)

    def compute(joint: JointAnswers) -> Any:
        join(start(ask))
        return original(joint)

    monkeypatch.setattr(JointAnswers, "compute", compute)
    with held.slide():
        check_totals(live.live().answers)
    assert len(asked) == PANES


def test_a_query_whose_life_ends_meanwhile_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    live, catalog = Stream("lws", {"q": TOTAL}), Catalog()
    catalog.add_stream(live.declared)
    short = RegisteredQuery("short", TOTAL.replace("COUNT(*)", "COUNT(w)"), "s", lifetime=2 * SECOND)
    live.runtime.synchronise([live.runtime.active["q"].compiled, compile_query(short, catalog)])
    slides_in(monkeypatch, "compute", lambda call: 4 if call == 1 else 0, live)
    progress = live.live()
    assert progress.outcome.ended == ["short"]
    assert as_of([answer for answer in progress.answers if answer.query == "q"])[0] == 13
    assert not [answer for answer in progress.answers if answer.query == "short"]


def repeated(progress: Progress) -> Pace:
    assert progress.services is not None
    stored = json.loads(json.dumps(progress.services))
    return RepeatedPace([[GroupService(*each) for each in part] for part in stored])


def told(progress: Progress) -> list[Any]:
    return [
        [(a.query, a.as_of, a.complete, a.scheduled, repr(a.table.to_pylist())) for a in progress.answers],
        progress.outcome,
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_it_is_recovered_as_it_was(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    """Slides in the middle, restarts, EXACTLY, a failure: the log says enough to do it once more."""
    texts = {
        "q": TOTAL,
        "two": "SELECT SUM(w) AS t, COUNT(DISTINCT v) AS d FROM s [WINDOW 6 sec SLIDE 2 sec]",
        "by_key": "SELECT k, MAX(w) AS t, AVG(v) AS m FROM s [WINDOW 5 sec SLIDE 1 sec] GROUP BY k",
        "exact": "SELECT MIN(w) AS t FROM s [WINDOW 3 sec SLIDE EXACTLY 1 sec]",
        "fails": "SELECT SUM(w) * 8388608 AS t FROM s [WINDOW 4 sec SLIDE 1 sec]",
    }
    live, again = Stream(level, texts, workers=3), Stream("serial", texts, workers=1)
    with monkeypatch.context() as patch:
        slides_in(patch, "compute", lambda call: 1 if call in (1, 3) else 0, live)
        slides_in(patch, "read_ahead", lambda call: 1 if call == 2 else 0, live)
        progress = live.live()
    parts = [second(number) for number in range(10, 10 + PANES)]
    assert told(again.apply(parts, repeated(progress))) == told(progress)
    for ours, theirs in zip(live.runtime.ordered(), again.runtime.ordered(), strict=True):
        assert ours.schedule.local.snapshot() == theirs.schedule.local.snapshot()
        assert ours.clock.position == theirs.clock.position and ours.under_way == theirs.under_way == 0


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=examples(20))
@given(query_sets(6), batches(most=40))
def test_where_there_is_time_answers_are_those_of_one_thread(
    level: str, queries: list[Registered], parts: list[pa.Table]
) -> None:
    calm = [Hurry([]) for _ in parts]
    alone = fed(queries, parts, Settings("hybrid-late-pending"))
    beside = fed(queries, parts, Settings("hybrid-late-pending", workers=3), list(calm), level=level)
    assert by_query(beside.answers + beside.finish()) == by_query(alone.answers + alone.finish())


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=examples(25))
@given(query_sets(), batches(most=40), st.data())
def test_however_time_passes(level: str, queries: list[Registered], parts: list[pa.Table], data: st.DataObject) -> None:
    """Answers are right as of their time, multiples of EXACTLY are all answered, and it can be done once more."""
    steps = st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.4, 1.0]), max_size=12)
    policy = data.draw(st.sampled_from(["no-sharing", "conservative", "hybrid-late-pending"]))
    chosen = Settings(policy, refresh_when_idle=data.draw(st.booleans()), workers=data.draw(st.sampled_from([2, 3])))
    feed = fed(queries, parts, chosen, [Hurry(data.draw(steps)) for _ in parts], level=level)
    answers, rest = feed.answers, feed.finish()
    check_answers(queries, answers + rest, parts, feed.declared)
    for query in queries:
        seen = times(answers + rest, query)
        assert seen == sorted(set(seen)), "in order, and none twice"
        if "EXACTLY" in query.text:
            calm = fed(queries, parts, Settings("no-sharing"))
            assert set(times(calm.answers + calm.finish(), query)) <= set(seen)
    again = fed(queries, parts, chosen, [_again(services) for services in feed.services], level=level)
    assert by_query(again.answers) == by_query(answers)
    assert by_query(again.finish()) == by_query(rest)
    assert schedules(again) == schedules(feed)


def _again(services: list[list[GroupService]] | None) -> Pace:
    stored = json.loads(json.dumps(services or [[], []]))
    return RepeatedPace([[GroupService(*each) for each in part] for part in stored])


def by_query(answers: list[Answer]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for answer in answers:
        facts = (answer.as_of, answer.rows, answer.complete, answer.scheduled, repr(answer.table.to_pylist()))
        found.setdefault(answer.query, []).append(facts)
    return found


def schedules(feed: Feed) -> list[Any]:
    return [group.schedule.local.snapshot() for group in feed.runtime.ordered()]


def test_under_serial_slides_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ever: executions are within the slide, and the next pane is applied after them."""
    live, positions = Stream("serial", {"q": TOTAL}), list[int]()
    original = PaneGroup.move_to
    monkeypatch.setattr(JointAnswers, "freeze", lambda joint: pytest.fail("nothing is taken under serial"))

    def move_to(group: PaneGroup, position: int, outcome: Any) -> None:
        positions.append((position - START) // SECOND)
        original(group, position, outcome)

    monkeypatch.setattr(PaneGroup, "move_to", move_to)
    progress = live.live()
    assert as_of(progress.answers) == positions == [9, 10, 11, 12, 13, 14]
    check_totals(progress.answers)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=examples(10))
@given(st.lists(st.lists(st.sampled_from([0.0, 0.1, 0.4, 1.0]), max_size=8), min_size=3, max_size=3))
def test_windows_of_rows(level: str, steps: list[list[float]]) -> None:
    """As of a number of tuples an answer equals that of `run()`; several may have one time, and stay in order."""
    texts = {
        "rows": "SELECT SUM(w) AS t FROM s [ROWS 5 SLIDE 1]",
        "last": "SELECT k, MAX(w) AS t FROM s [PARTITION BY k ROWS 3 SLIDE 2] GROUP BY k",
    }
    parts = [
        to_table([(START + (10 * part + i // 4) * SECOND, i % 3, None, None, 20 * part + i, None) for i in range(20)])
        for part in range(3)
    ]

    def answered(feed: Feed, paces: list[Pace] | None) -> list[Answer]:
        feed.runtime.synchronise(compiled(texts, feed.declared))
        told = [feed.push(part) if paces is None else feed.push(part, paces[i]) for i, part in enumerate(parts)]
        return [answer for some in told for answer in some] + feed.finish()

    calm = {(a.query, a.rows): a for a in answered(Feed(stream()), None)}
    beside = answered(Feed(stream(), Settings("conservative", workers=2), level), [Hurry(each) for each in steps])
    for name in texts:
        numbers = [answer.rows for answer in beside if answer.query == name]
        assert numbers == sorted(set(numbers)) and numbers[-1] == max(n for query, n in calm if query == name)
    for answer in beside:
        if (expected := calm.get((answer.query, answer.rows))) is not None:
            assert (answer.as_of, answer.complete) == (expected.as_of, expected.complete)
            assert repr(answer.table.to_pylist()) == repr(expected.table.to_pylist())


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=examples(15))
@given(query_sets(4), batches(most=40), st.data())
def test_panes_in_the_cluster(
    level: str, queries: list[Registered], parts: list[pa.Table], data: st.DataObject
) -> None:
    """An execution reads the files of the moment at which they were taken, and then lets them go."""
    steps = st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.4, 1.0]), max_size=12)
    open_files, original = list[None](), Shelf.reading

    @contextmanager
    def reading(shelf: Shelf) -> Iterator[None]:
        open_files.append(None)
        with original(shelf):
            yield
        open_files.pop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shelf, "reading", reading)
        paces: list[Pace] = [Hurry(data.draw(steps)) for _ in parts]
        feed = fed(queries, parts, Settings("conservative", workers=2), paces, "cluster", level)
        check_answers(queries, feed.answers + feed.finish(), parts, feed.declared)
    assert not open_files
