"""Panes in the cluster: the answers of panes in memory, for all aggregates, changing queries and late tuples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.packet_panes import ALL_THE_TIME
from sash.catalog import Stream
from sash.core.errors import SashError
from sash.core.time import SECOND, to_datetime, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery
from sash.runtime.explaining.explain import explain, tried
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.pace import UNHURRIED, Pace
from sash.runtime.settings import Settings
from tests.runtime.test_aggregate_oracle import (
    ALL_FORMS,
    Form,
    Window,
    answers_to,
    asked_of,
    by_time,
    every_form,
    expect,
    windows,
)
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.oracle import same_rows
from tests.support.shelf import SHELVES, Shelf, panes_of
from tests.support.streams import START, batches, stream, to_table

KEYED = [form for form in ALL_FORMS if "GROUP BY" in form.ours or "TOP(" in form.ours or "HISTOGRAM" in form.ours]


@every_form
@settings(max_examples=examples(4))
@given(windows(12, 6, 3), batches())
def test_every_aggregate(forms: list[Form], asked: list[Window], parts: list[pa.Table]) -> None:
    queries = asked_of(forms, asked, "[WINDOW {} sec SLIDE {} sec LAG {} sec]")
    tuples = pa.concat_tables(parts)
    for form, (length, _, lag), text, answers in answers_to(stream(), queries, parts, "cluster"):
        for answer in answers:
            theirs = expect(form, tuples, by_time(to_micros(answer.as_of), lag), length)
            assert same_rows(answer.table.to_pylist(), theirs), (text, answer.as_of, theirs)


def said(answer: Answer) -> tuple[Any, ...]:
    return answer.query, answer.as_of, answer.complete, answer.scheduled


def all_same(mine: list[Answer], theirs: list[Answer]) -> None:
    """As of one time, the order of queries depends on which are computed together."""
    mine, theirs = (sorted(answers, key=lambda answer: (answer.as_of, answer.query)) for answers in (mine, theirs))
    assert list(map(said, mine)) == list(map(said, theirs))
    for one, other in zip(mine, theirs, strict=True):
        assert one.table.schema == other.table.schema
        assert same_rows(one.table.to_pylist(), other.table.to_pylist()), (said(one), other.table.to_pylist())


def same_when_scheduled(mine: list[Answer], theirs: list[Answer]) -> None:
    """Only unscheduled answers may be on one side: who is executed with whom depends on how windows are read.

    An unscheduled answer may also have told before that a window is empty: that is told once.
    """
    sides = [{(answer.query, answer.as_of): answer for answer in answers} for answers in (mine, theirs)]
    for one, other in (sides, sides[::-1]):
        for query, as_of in [key for key, answer in one.items() if answer.scheduled and key not in other]:
            last = max((key for key in other if key[0] == query and key[1] < as_of), default=None)
            assert last is not None and last not in one and not other[last].scheduled, (query, as_of)
            assert not one[query, as_of].table.num_rows and not other[last].table.num_rows, (query, as_of)
    both = sides[0].keys() & sides[1].keys()
    all_same(*([answer for key, answer in side.items() if key in both] for side in sides))


def grouped(feed: Feed) -> set[frozenset[str]]:
    """The queries that would be executed together."""
    found: dict[tuple[str, str], list[str]] = {}
    for group in feed.runtime.ordered():
        for task in group.schedule.local.tasks():
            found.setdefault((group.label, task.key.group), []).extend(task.members)
    return set(map(frozenset, found.values()))


DECLARED = [
    stream(delay=2 * SECOND),
    stream(closed_left=True, offset=SECOND // 2),
    stream(late_revise=True),
    stream(delay=SECOND, late_revise=True, closed_left=True),
]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(DECLARED),
    st.lists(st.tuples(st.sampled_from(KEYED), windows(9, 4, 2), st.booleans()), min_size=1, max_size=4),
    batches(disorder=4 * SECOND),
    st.data(),
)
def test_as_in_memory(
    declared: Stream,
    asked: list[tuple[Form, list[Window], bool]],
    parts: list[pa.Table],
    data: st.DataObject,
) -> None:
    """Queries that come and go, some of them STORED IN CLUSTER; tuples out of order and late."""
    texts = {
        f"q{i}": form.ours.format(w=f"[WINDOW {length} sec SLIDE {slide} sec LAG {lag} sec]")
        for i, (form, ((length, slide, lag), *_), _) in enumerate(asked)
    }
    there = [f"q{i}" for i, (*_, chosen) in enumerate(asked) if chosen or i == 0]
    in_memory = {query.name: query for query in compiled(texts, declared)}
    in_cluster = {
        name: replace(query, synopsis="cluster" if name in there else None) for name, query in in_memory.items()
    }
    story = [(data.draw(st.lists(st.sampled_from(sorted(texts)), unique=True)), part) for part in parts]
    mine, theirs, alike = followed(declared, in_cluster, in_memory, story)
    if alike:
        all_same(mine, theirs)
    else:
        same_when_scheduled(mine, theirs)


def followed(
    declared: Stream,
    in_cluster: dict[str, CompiledQuery],
    in_memory: dict[str, CompiledQuery],
    story: list[tuple[list[str], pa.Table]],
) -> tuple[list[Answer], list[Answer], bool]:
    """All answers there and here, and whether the same queries were executed together.

    Each micro-batch finds some of the queries. It gives the same answers there and here as long as they are.
    """
    sides, alike = ((Feed(declared), in_cluster), (Feed(declared), in_memory)), True
    told: tuple[list[Answer], list[Answer]] = ([], [])
    (far, _), (near, _) = sides
    for wanted, part in story:
        for feed, queries in sides:
            feed.runtime.synchronise([queries[name] for name in wanted])
        alike = alike and grouped(far) == grouped(near)
        answers = far.push(part), near.push(part)
        alike = alike and grouped(far) == grouped(near)
        if alike:
            all_same(*answers)
        for some, new in zip(told, answers, strict=True):
            some += new
        assert far.runtime.statistics.late_tuples == near.runtime.statistics.late_tuples
    return told[0] + far.finish(), told[1] + near.finish(), alike


def test_queries_that_are_looked_up_alone_in_memory() -> None:
    """A window is promised an answer at 7, and the job that gives it answers the other window, too.

    SLIDE 3 is answered as of 4. Then SLIDE 2 of the same window comes, and leads (CS8): it keeps the promise of 7. In
    memory, the long window is looked up, the short one is scanned, and neither brings the other along.
    """
    windows = {"slow": (100, 3), "fast": (100, 2), "short": (8, 2)}
    text = "SELECT k, COUNT(*) AS n FROM s [WINDOW {} sec SLIDE {} sec] GROUP BY k"
    in_memory = {each.name: each for each in compiled({n: text.format(*w) for n, w in windows.items()}, stream())}
    in_cluster = {name: replace(query, synopsis="cluster") for name, query in in_memory.items()}
    story = [(["slow", "short"] if t < 8 else list(windows), rows(t, t + 1)) for t in range(20)]
    mine, theirs, alike = followed(stream(), in_cluster, in_memory, story)
    assert not alike
    same_when_scheduled(mine, theirs)
    (more,) = {(a.query, a.as_of, a.scheduled) for a in mine} - {(a.query, a.as_of, a.scheduled) for a in theirs}
    assert more == ("short", to_datetime(START + 7 * SECOND), False) and len(mine) == len(theirs) + 1


def test_a_query_there_and_one_that_does_not_say_so_share_their_output() -> None:
    """They read the same panes, so the slower one gets the answers of the faster one (CS8)."""
    text = "SELECT k, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE {} sec] GROUP BY k"
    near, far = Feed(stream()), Feed(stream())
    queries = compiled({f"q{slide}": text.format(slide) for slide in (1, 3)}, near.declared)
    near.runtime.synchronise(queries)
    far.runtime.synchronise([replace(queries[0], synopsis="cluster"), queries[1]])
    answers = far.push(rows(0, 9))
    assert sum(answer.query == "q3" and not answer.scheduled for answer in answers) > 3
    all_same(answers, near.push(rows(0, 9)))


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.sampled_from(KEYED), min_size=1, max_size=3), batches(most=60), st.integers(1, 6))
def test_a_table_that_has_become_large_goes_there(forms: list[Form], parts: list[pa.Table], most: int) -> None:
    declared = stream()
    texts = {f"q{i}": form.ours.format(w=f"[WINDOW {5 + i} sec SLIDE 2 sec]") for i, form in enumerate(forms)}
    near, far = Feed(declared), Feed(declared, Settings("conservative", cluster_groups=most))
    for feed in (near, far):
        feed.runtime.synchronise(compiled(texts, declared))
    for part in parts:
        due = {group.label for group in far.runtime.ordered() if group.in_cluster or group.is_too_large}
        all_same(far.push(part), near.push(part))
        assert {group.label for group in far.runtime.ordered() if group.in_cluster} == due
    all_same(far.finish(), near.finish())


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.sampled_from(KEYED), min_size=1, max_size=3), batches(most=60, disorder=SECOND), st.integers(0, 8))
def test_a_snapshot_has_the_files(forms: list[Form], parts: list[pa.Table], when: int) -> None:
    declared = stream(delay=SECOND)
    texts = {f"q{i}": form.ours.format(w=f"[WINDOW {5 + i} sec SLIDE 2 sec]") for i, form in enumerate(forms)}
    queries = compiled(texts, declared, "cluster")
    near, far = Feed(declared), Feed(declared)
    for feed in (near, far):
        feed.runtime.synchronise(queries if feed is far else compiled(texts, declared))
    for number, part in enumerate(parts):
        if number == when:
            far = _restored(far, queries)
        all_same(far.push(part), near.push(part))
    all_same(far.finish(), near.finish())


def _restored(feed: Feed, queries: list[CompiledQuery]) -> Feed:
    saved = stream_snapshot.save(feed.runtime)
    other = Feed(feed.declared)
    other.runtime.synchronise(queries)
    stream_snapshot.load(other.runtime, saved)
    shelves = {group.label: SHELVES[group] for group in feed.runtime.ordered() if group.in_cluster}
    for group in other.runtime.ordered():
        if group.in_cluster:
            panes_of(group).cluster = SHELVES[group] = shelves[group.label]
    return other


def rows(first: int, last: int) -> pa.Table:
    return to_table([(START + t * SECOND, t % 3, "x", t, t, float(t)) for t in range(first, last)])


def test_one_inquiry_for_all_windows_and_queries() -> None:
    declared, feed = stream(), Feed(stream())
    aggregates = ["SUM(v) AS a", "MAX(x) AS a", "COUNT(*) AS a", "COUNT(*) AS b"]
    texts = {
        f"q{i}": f"SELECT k, {each} FROM s [WINDOW {4 + i} sec SLIDE 4 sec] GROUP BY k HAVING COUNT(*) > {i}"
        for i, each in enumerate(aggregates)
    }
    feed.runtime.synchronise(compiled(texts, declared, "cluster"))
    answers = feed.push(rows(0, 41)) + feed.finish()
    (group,) = feed.runtime.ordered()
    shelf = panes_of(group).cluster
    assert isinstance(shelf, Shelf)
    assert shelf.inquiries == len({answer.as_of for answer in answers}) and len(answers) == 4 * shelf.inquiries


def inquired(policy: str, slides: list[int], pace: Pace) -> tuple[int, list[Answer]]:
    """The inquiries for sums over different windows, and their answers."""
    feed = Feed(stream(), Settings(policy))
    texts = {
        f"q{i}": f"SELECT k, SUM(v) AS a FROM s [WINDOW {10 + i} sec SLIDE {slide} sec] GROUP BY k"
        for i, slide in enumerate(slides)
    }
    feed.runtime.synchronise(compiled(texts, feed.declared, "cluster"))
    answers = feed.push(rows(0, 61), pace)
    (group,) = feed.runtime.ordered()
    shelf = panes_of(group).cluster
    assert isinstance(shelf, Shelf)
    return shelf.inquiries, answers


def test_live_one_inquiry_answers_all_windows_that_are_due() -> None:
    """There executions are decided one by one: windows of one table are one group of queries (CS2)."""
    inquiries, answers = inquired("conservative", [4, 4, 4], ALL_THE_TIME)
    assert inquiries == len({answer.as_of for answer in answers}) and len(answers) == 3 * inquiries


def test_slides_are_synchronised_because_an_inquiry_is_a_job() -> None:
    """A job costs so much more than an answer that SLIDE 3 sec and 5 sec are executed every 2 sec, too."""
    inquiries, answers = inquired("hybrid", [2, 3, 5], UNHURRIED)
    assert inquiries == len({answer.as_of for answer in answers}) and len(answers) == 3 * inquiries
    apart, _ = inquired("conservative", [2, 3, 5], UNHURRIED)
    assert inquiries < 0.8 * apart


def test_an_overflow_there_fails_its_query_alone() -> None:
    declared, feed = stream(), Feed(stream())
    texts = {
        "bad": "SELECT k, SUM(w) AS t FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY k",
        "good": "SELECT k, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY k",
    }
    feed.runtime.synchronise(compiled(texts, declared, "cluster"))
    part = to_table([(START + t * SECOND, 1, None, None, 2**63 - 1, None) for t in range(1, 9)])
    with pytest.raises(AssertionError, match="does not fit into BIGINT"):
        feed.push(part)
    assert list(feed.runtime.active) == ["good"]
    assert {answer.query for answer in feed.finish()} == {"good"}


def test_nobody_is_asked_while_nobody_is_to_be_answered() -> None:
    declared, feed = stream(), Feed(stream())
    text = "SELECT k, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY k"
    feed.runtime.synchronise(compiled({"q": text}, declared, "cluster"))
    assert feed.push(rows(0, 9))
    (group,) = feed.runtime.ordered()
    shelf, panes_of(group).cluster = panes_of(group).cluster, None
    assert isinstance(shelf, Shelf)
    before = shelf.inquiries
    feed.runtime.advance(START + 20 * SECOND)
    assert shelf.inquiries == before and "q" in feed.runtime.active


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT k, COUNT(*) AS n FROM s [ROWS 9 SLIDE 3] GROUP BY k", "windows of time"),
        ("SELECT k, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 3 sec] GROUP BY k", "windows with a length"),
        ("SELECT COUNT(*) AS n FROM s [WINDOW 9 sec SLIDE 3 sec]", "this query has one"),
    ],
)
def test_what_cannot_be_there(text: str, why: str) -> None:
    (query,) = compiled({"q": text}, stream(), "cluster")
    with pytest.raises(SashError, match=f"STORED IN CLUSTER is for .*{why}"):
        query.check()


def test_explain_tells_which_panes_answer() -> None:
    """A query with a SYNOPSIS whose panes have gone to the cluster is answered there."""
    text = "SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 1 sec] GROUP BY k"
    feed = Feed(stream(), Settings("conservative", cluster_groups=2))
    queries = [*compiled({"wished": text}, feed.declared, "running"), *compiled({"other": text}, feed.declared)]
    feed.runtime.synchronise(queries)
    told = []
    for second in range(6):
        feed.push(rows(second, second + 1))
        told.append(explain(queries[0], tried(feed.runtime, queries, queries[0])))
    (group,) = feed.runtime.groups.values()
    assert group.in_cluster
    assert "Synopsis: running (R-INT) over 6 panes, two values per window\n  because the query asks for it" in told[0]
    assert "in the cluster: one job reads all windows that are due\n  because it has many groups" in told[-1]
