"""Windows with fixed edges: [SINCE ..], [SINCE midnight], [FROM .. TO ..], against recomputation from all tuples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.errors import SashError
from sash.core.time import SECOND, UNITS, format_instant, to_micros
from sash.core.window import FOREVER, LandmarkWindow
from sash.panes import basic_interval
from sash.panes.basic_interval import MOST_UNMERGED
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery
from sash.runtime.explaining.explain import explain, tried
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.onetime import look_up
from tests.support.examples import examples
from tests.support.feed import Feed, answers_of, compiled
from tests.support.journal import reread
from tests.support.oracle import recompute, same_rows
from tests.support.streams import FORMS, stream, to_table

# Half a minute before a midnight.
START = 19_675 * UNITS["day"] - 30 * SECOND
# Days of the oracle are short, so that many of them pass.
DAY = 40 * SECOND


@dataclass(frozen=True)
class Asked:
    """`clause` is the window without SLIDE; `first` and `last` its edges as of `as_of`, seen from the raw tuples."""

    form: int
    kind: str
    first: int
    length: int
    slide: int
    lag: int
    exactly: bool

    @property
    def clause(self) -> str:
        since, until = START + self.first * SECOND, START + (self.first + self.length) * SECOND
        extent = {
            "since": f"SINCE '{format_instant(since)}'",
            "midnight": "SINCE midnight",
            "fixed": f"FROM '{format_instant(since)}' TO '{format_instant(until)}'",
            "unbounded": "UNBOUNDED",
            "window": f"WINDOW {self.length} sec",
        }[self.kind]
        lag = f" LAG {self.lag} sec" if self.lag and self.kind != "fixed" else ""
        return f"[{extent} SLIDE {'EXACTLY ' if self.exactly else ''}{self.slide} sec{lag}]"

    def edges(self, as_of: int, offset: int) -> tuple[int, int]:
        end = as_of - (0 if self.kind == "fixed" else self.lag * SECOND)
        if self.kind == "since":
            return START + self.first * SECOND, end
        if self.kind == "midnight":
            return (end - offset - 1) // DAY * DAY + offset, end
        if self.kind == "fixed":
            return START + self.first * SECOND, min(end, START + (self.first + self.length) * SECOND)
        return (0 if self.kind == "unbounded" else end - self.length * SECOND), end

    def truth(self, tuples: pa.Table, as_of: int, offset: int, closed_left: bool) -> list[dict[str, Any]]:
        start, end = self.edges(as_of, offset)
        return recompute(FORMS[self.form].format(w="[]"), tuples, end, end - start, closed_left=closed_left)


ASKED = st.builds(
    Asked,
    st.integers(0, len(FORMS) - 1),
    st.sampled_from(["since", "since", "midnight", "midnight", "fixed", "fixed", "unbounded", "window"]),
    st.integers(-10, 90),
    st.integers(1, 40),
    st.integers(1, 8),
    st.sampled_from([0, 0, 3]),
    st.booleans(),
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([0, 500_000, SECOND, 3 * SECOND, 15 * SECOND]),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, "a", "b"]),
        st.one_of(st.none(), st.integers(-20, 60)),
        st.sampled_from([None, 2**40]),
        st.sampled_from([None, 0.0, -1.5, 60.25]),
    ),
    max_size=6,
)
STEPS = st.lists(st.tuples(st.frozensets(st.integers(0, 4), min_size=1), ROWS), min_size=2, max_size=8)


@cache
def query(name: str, asked: Asked, offset: int, closed_left: bool) -> CompiledQuery:
    text = FORMS[asked.form].format(w=asked.clause)
    with patch.dict(UNITS, day=DAY):
        (found,) = compiled({name: text}, stream(offset=offset, closed_left=closed_left))
        # The plan is flattened while days are short.
        assert found.windows
    return found


@settings(max_examples=examples(200))
@given(
    st.lists(ASKED, min_size=5, max_size=5), STEPS, st.sampled_from([0, SECOND // 2]), st.booleans(), st.integers(0, 7)
)
def test_complete_answers_are_right(
    every: list[Asked], steps: list[tuple[frozenset[int], Any]], offset: int, closed_left: bool, saved_at: int
) -> None:
    """While queries come and go, through a snapshot; and an answer that can be complete is.

    A query over a fixed window is not brought again once it ended. Panes are merged soon, so that edges matter.
    """
    offset = 0 if any(asked.kind in ("since", "fixed") for asked in every) else offset
    declared = stream(offset=offset, closed_left=closed_left)
    feed, tuples, now, ended = Feed(declared), to_table([]), START, set[str]()
    always = set(steps[0][0])
    with patch.object(basic_interval, "MOST_UNMERGED", 2):
        for number, (chosen, rows) in enumerate(steps):
            always &= chosen
            wanted = [query(f"q{i}", every[i], offset, closed_left) for i in sorted(chosen) if f"q{i}" not in ended]
            feed.runtime.synchronise(wanted)
            if number == saved_at:
                saved, feed.runtime = reread(stream_snapshot.save(feed.runtime)), Feed(declared).runtime
                feed.runtime.synchronise(wanted)
                stream_snapshot.load(feed.runtime, saved)
            stamped = []
            for step, *values in rows:
                now += step
                stamped.append((now, *values))
            part = to_table(stamped)
            tuples = pa.concat_tables([tuples, part])
            for answer in feed.push(part):
                asked, as_of = every[int(answer.query[1:])], to_micros(answer.as_of)
                whole = len(tuples) and asked.edges(as_of, offset)[0] >= tuples["_us"][0].as_py()
                assert answer.complete or not (whole and int(answer.query[1:]) in always), (asked, answer.as_of)
                if answer.complete:
                    theirs = asked.truth(tuples, as_of, offset, closed_left)
                    assert same_rows(answer.table.to_pylist(), theirs), (asked, answer.as_of, answer.table, theirs)
            ended |= {each.name for each in wanted} - feed.runtime.active.keys()
            assert all(every[int(name[1:])].kind == "fixed" for name in ended)


def at(second: float) -> int:
    return START + round(second * SECOND)


def tuples(*seconds: float) -> pa.Table:
    return to_table([(at(second), 1, "g", 1, None, None) for second in seconds])


def counts(answers: list[Answer]) -> list[tuple[float, int, bool]]:
    return [((to_micros(a.as_of) - START) / SECOND, a.table["n"][0].as_py(), a.complete) for a in answers]


def clause(extent: str, *seconds: float) -> str:
    return extent.format(*(format_instant(at(second)) for second in seconds))


def count(window: str, *seconds: float) -> str:
    return f"SELECT COUNT(*) AS n FROM s [{clause(window, *seconds)}]"


def test_since_a_time() -> None:
    text = count("SINCE '{}' SLIDE 10 sec", 10)
    found = answers_of(stream(), {"q": text}, [tuples(1, 10, 11), tuples(25, 41)])["q"]
    # The window is (10, t]: it begins with an empty answer, and a tuple at its start is not in it.
    assert counts(found) == [(10, 0, True), (20, 1, True), (30, 2, True), (40, 2, True), (50, 3, True)]


def test_a_start_that_the_stream_has_not_reached() -> None:
    """An empty window answers once; the next answer comes with the first tuple after the start."""
    found = answers_of(stream(), {"q": count("SINCE '{}' SLIDE 5 sec", 30)}, [tuples(1, 7, 13), tuples(33)])["q"]
    assert counts(found) == [(5, 0, True), (35, 1, True)]


def test_a_start_before_the_stream() -> None:
    """The stream cannot tell whether the window lacks tuples."""
    found = answers_of(stream(), {"q": count("SINCE '{}' SLIDE 10 sec", -60)}, [tuples(1, 12)])["q"]
    assert counts(found) == [(10, 1, False), (20, 2, False)]


def test_midnight_begins_anew() -> None:
    """Midnight is at 30; as of midnight, the day that ends is whole."""
    found = answers_of(stream(), {"q": count("SINCE midnight SLIDE 10 sec")}, [tuples(5, 15, 30), tuples(31, 62)])["q"]
    assert counts(found) == [(10, 1, False), (20, 2, False), (30, 3, False), (40, 1, True), (50, 1, True),
                             (60, 1, True), (70, 2, True)]  # fmt: skip


def test_midnight_of_days_that_begin_later() -> None:
    declared = stream(offset=10 * SECOND)
    found = answers_of(declared, {"q": count("SINCE midnight SLIDE 10 sec")}, [tuples(35, 40, 41)])["q"]
    assert counts(found) == [(40, 2, False), (50, 1, True)]


def test_a_fixed_window_ends_its_query() -> None:
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({"q": count("FROM '{}' TO '{}' SLIDE 10 sec", 0, 15)}, feed.declared))
    answers = feed.push(tuples(-5, 2, 12, 15, 18, 41))
    assert counts(answers) == [(0, 0, True), (10, 1, True), (20, 3, True)]
    assert "q" not in feed.runtime.active


@pytest.mark.parametrize("slide", ["SLIDE 10 sec", "SLIDE EXACTLY 10 sec", "SLIDE 2 sec"])
def test_a_fixed_window_without_tuples_has_a_last_answer(slide: str) -> None:
    """An empty window answers once, and then as of its end, whether or not tuples come there."""
    for parts in ([tuples(-5, 1, 41)], [tuples(-5), tuples(1), tuples(41)]):
        feed = Feed(stream())
        feed.runtime.synchronise(compiled({"q": count(f"FROM '{{}}' TO '{{}}' {slide}", 10, 20)}, feed.declared))
        first, last = counts([answer for part in parts for answer in feed.push(part)])
        assert first[0] <= 0 and first[1:] == (0, True) and last == (20, 0, True)
        assert "q" not in feed.runtime.active


def test_a_fixed_window_that_lies_behind() -> None:
    """One answer tells what is known of it, and that this is not all."""
    feed = Feed(stream())
    feed.push(tuples(1, 50))
    feed.runtime.synchronise(compiled({"q": count("FROM '{}' TO '{}' SLIDE 10 sec", 0, 20)}, feed.declared))
    answers = [*feed.push(tuples(71)), *feed.push(tuples(95))]
    assert [(n, complete) for _, n, complete in counts(answers)] == [(0, False)]
    assert "q" not in feed.runtime.active


def test_a_lifetime_may_end_before_the_window() -> None:
    feed = Feed(stream())
    (query,) = compiled({"q": count("FROM '{}' TO '{}' SLIDE 10 sec", 0, 90)}, feed.declared)
    feed.runtime.synchronise([CompiledQuery("q", query.plan, lifetime=20 * SECOND)])
    assert [as_of for as_of, _, _ in counts(feed.push(tuples(1, 12, 100)))] == [10, 20]


def test_panes_are_merged_up_to_the_edges() -> None:
    """State does not grow with time: some panes gather, the rest is one pane for each stretch between edges."""
    feed, most = Feed(stream()), 0
    texts = {"a": count("SINCE '{}' SLIDE 1 sec", 20), "b": count("SINCE midnight SLIDE 1 sec")}
    both = compiled(texts, feed.declared)
    feed.runtime.synchronise(both)
    (group,) = feed.runtime.groups.values()
    for second in range(200):
        feed.push(tuples(second + 0.5))
        most = max(most, group.panes.panes)
    assert most <= MOST_UNMERGED + 4
    feed.runtime.synchronise(both[1:])
    for second in range(200, 240):
        feed.push(tuples(second + 0.5))
    # Nobody asks for the tuples before midnight any more.
    assert group.history_from == at(30)


def test_a_question_finds_the_panes_of_its_window() -> None:
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({"q": count("SINCE '{}' SLIDE 10 sec", 10)}, feed.declared))
    for second in range(5, 100, 5):
        feed.push(tuples(second + 1))

    def ask(window: str, *seconds: float) -> Answer:
        (question,) = compiled({"q": count(f"{window} SLIDE 10 sec", *seconds)}, feed.declared)
        return look_up(question, feed.runtime).compute()

    assert counts([ask("SINCE '{}'", 10)]) == [(90, 16, True)]
    assert ask("SINCE '{}'", 90).table["n"][0].as_py() == 0
    with pytest.raises(SashError, match=r"does not keep all of \[SINCE '2023-11-13 23:59:20'"):
        ask("SINCE '{}'", -10)
    with pytest.raises(SashError, match="register a query with such a window first"):
        ask("SINCE '{}'", 12)


@pytest.mark.parametrize("window", ["SINCE '{}'", "UNBOUNDED", "WINDOW 4 sec"])
def test_a_question_does_not_claim_the_tuples_of_an_open_pane(window: str) -> None:
    """A finer query comes: the open pane of four seconds stays, and panes of a second close before it."""
    feed = Feed(stream())
    fine = {"fine": count("WINDOW 1 sec SLIDE 1 sec")}
    coarse, finer = compiled({"q": count(f"{window} SLIDE 4 sec", 2), **fine}, feed.declared)
    feed.runtime.synchronise([coarse])
    feed.push(tuples(3, 14.5))
    feed.runtime.synchronise([coarse, finer])
    feed.push(tuples(16.5))
    answer = look_up(coarse, feed.runtime).compute()
    assert (to_micros(answer.as_of) - START) / SECOND == 16 and not answer.complete


def test_beside_a_sliding_window_in_one_query() -> None:
    text = f"""SELECT d.n AS day, l.n AS last FROM ({count("SINCE midnight SLIDE 10 sec")}) d
        CROSS JOIN ({count("WINDOW 10 sec SLIDE 10 sec")}) l"""
    found = answers_of(stream(), {"q": text}, [tuples(31, 41, 42, 53)])["q"]
    assert [tuple(row.values()) for answer in found for row in answer.table.to_pylist()] == [(1, 1), (3, 2), (4, 1)]


def test_explain_names_the_edges() -> None:
    feed = Feed(stream())
    first, second = compiled(
        {"a": count("SINCE midnight SLIDE 10 sec"), "b": count("FROM '{}' TO '{}' SLIDE 30 sec", 0, 60)}, feed.declared
    )
    told = explain(second, tried(feed.runtime, [first], second))
    assert "StreamWindow [FROM '2023-11-13 23:59:30' TO '2023-11-14 00:00:30' SLIDE 30 sec]" in told
    assert "older ones merged for FROM '2023-11-13 23:59:30' TO '2023-11-14 00:00:30', SINCE midnight" in told
    assert "panes of 10 sec" in told


@given(st.integers(-5, 5), st.integers(0, 50), st.integers(1, 5), st.integers(0, 5))
def test_a_window_has_the_edges_that_its_resolution_divides(since: int, now: int, slide: int, lag: int) -> None:
    windows = [
        LandmarkWindow(FOREVER, slide, lag, since=since),
        LandmarkWindow(FOREVER, slide, lag, every=10, offset=3),
        LandmarkWindow(FOREVER, slide, lag, since=since, until=since + 7, offset=1),
    ]
    for window in windows:
        as_of = window.offset + now * slide
        for edge in (window.start(as_of), window.end(as_of)):
            assert window.resolution == 0 or (edge - window.offset) % window.resolution == 0
