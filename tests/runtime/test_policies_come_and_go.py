"""Queries that come and go under every policy, identical ones among them: complete answers are right."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.periodic import stream_snapshot
from sash.runtime.settings import Settings
from sash.schedule import POLICIES
from tests.runtime.test_policies import Hurry
from tests.support.checks import check_answers
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.journal import reread
from tests.support.streams import START, Registered, batches, stream, to_table

FORMS = ["SELECT COUNT(*) AS n FROM s {w}", "SELECT k, MAX(v) AS m FROM s {w} GROUP BY k"]


@st.composite
def workloads(draw: st.DrawFn) -> list[Registered]:
    """Few forms and windows: many queries differ in nothing but SLIDE, and panes become finer and coarser."""
    queries = []
    for i in range(draw(st.integers(2, 6))):
        length, slide = draw(st.sampled_from([3, 4, 6, 8])), draw(st.integers(1, 8))
        exactly = draw(st.sampled_from(["", "", "EXACTLY "]))
        text = draw(st.sampled_from(FORMS)).format(w=f"[WINDOW {length} sec SLIDE {exactly}{slide} sec]")
        queries.append(Registered(f"q{i}", text, length * SECOND, slide * SECOND))
    return queries


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(25))
@given(workloads(), batches(most=40), st.data())
def test_complete_answers_are_right(
    policy: str, queries: list[Registered], parts: list[pa.Table], data: st.DataObject
) -> None:
    feed = Feed(stream(), Settings(policy))
    known = compiled({query.name: query.text for query in queries}, feed.declared)
    answers: list[Answer] = []
    for part in parts:
        alive = [each for each in known if data.draw(st.integers(0, 3)) > 0]
        feed.runtime.synchronise(alive)
        if data.draw(st.booleans()):
            saved = stream_snapshot.save(feed.runtime)
            feed.runtime = Feed(feed.declared, feed.runtime.settings).runtime
            feed.runtime.synchronise(alive)
            stream_snapshot.load(feed.runtime, reread(saved))
        steps = data.draw(st.lists(st.sampled_from([0.0, 0.1, 0.4]), max_size=8))
        answers += feed.push(part, Hurry(steps)) if steps else feed.push(part)
    check_answers(queries, [answer for answer in answers if answer.complete], parts, feed.declared)
    for query in queries:
        seen = [answer.as_of for answer in answers if answer.query == query.name]
        assert len(seen) == len(set(seen)), "answered twice as of one time"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_finer_query_makes_no_neighbour_wrong(policy: str) -> None:
    """Panes of 4 s lie in the windows when panes of 1 s begin: a query that was moved would see them cut in two."""
    eight = Registered("eight", "SELECT COUNT(*) AS n FROM s [WINDOW 8 sec SLIDE 4 sec]", 8 * SECOND, 4 * SECOND)
    three = Registered("three", "SELECT COUNT(*) AS n FROM s [WINDOW 3 sec SLIDE 3 sec]", 3 * SECOND, 3 * SECOND)
    feed = Feed(stream(), Settings(policy))
    first, second = compiled({eight.name: eight.text, three.name: three.text}, feed.declared)
    parts = [to_table([(START + i * SECOND // 2, 1, None, 1, None, None)]) for i in range(80)]
    feed.runtime.synchronise([first])
    answers = [answer for part in parts[:42] for answer in feed.push(part)]
    feed.runtime.synchronise([first, second])
    answers += [answer for part in parts[42:] for answer in feed.push(part)]
    complete = [answer for answer in answers if answer.complete]
    check_answers([eight, three], complete, parts, feed.declared)
    late = [answer for answer in complete if answer.query == "eight" and to_micros(answer.as_of) > START + 20 * SECOND]
    assert len(late) >= 4


def test_a_late_exactly_query_over_two_tables_finds_both() -> None:
    """The second table has no late task of its own, and must keep what the first one's query still asks for."""
    text = (
        "SELECT a.k, a.n, b.m FROM (SELECT k, COUNT(*) AS n FROM s [WINDOW 3 sec SLIDE EXACTLY 1 sec] GROUP BY k) a "
        "JOIN (SELECT k, v, COUNT(*) AS m FROM s [WINDOW 3 sec SLIDE EXACTLY 1 sec] GROUP BY k, v) b ON a.k = b.k"
    )
    rows = [(START + i * SECOND, i % 3, None, i % 3, None, None) for i in range(16)]

    def answers(*paces: Hurry) -> list[tuple[int, list[object]]]:
        feed = Feed(stream(), Settings("conservative"))
        feed.runtime.synchronise(compiled({"both": text}, feed.declared))
        told = [feed.push(to_table(rows[:3])), feed.push(to_table(rows[3:]), *paces), feed.finish()]
        rows_of = [(to_micros(a.as_of), sorted(map(str, a.table.to_pylist()))) for part in told for a in part]
        return [(time, list(found)) for time, found in rows_of]

    assert answers(Hurry([0.0, 0.0, 1.0])) == answers()
