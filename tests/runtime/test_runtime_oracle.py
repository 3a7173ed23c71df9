"""Every answer of the engine, without Spark, equals a recomputation from the raw tuples in DuckDB."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog, RegisteredQuery, Stream
from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery, compile_query
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.onetime import is_cut
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from tests.support.checks import check_answers, check_schedule
from tests.support.duck_pass import aggregate
from tests.support.examples import examples
from tests.support.journal import reread
from tests.support.oracle import same_rows
from tests.support.streams import START, Registered, batches, query_sets, stream, to_table


def compiled(queries: list[Registered], declared: Stream) -> list[CompiledQuery]:
    catalog = Catalog()
    catalog.add_stream(declared)
    return [compile_query(RegisteredQuery(q.name, q.text, "s"), catalog) for q in queries]


def run(declared: Stream, queries: list[Registered], parts: list[pa.Table]) -> tuple[StreamRuntime, list[Answer]]:
    runtime, answers = StreamRuntime(declared, Settings("conservative")), []
    runtime.synchronise(compiled(queries, declared))
    for part in parts:
        progress = runtime.apply(aggregate(declared, runtime.tables(), part))
        assert not progress.outcome.failed
        answers += progress.answers
    answers += runtime.finish().answers
    return runtime, answers


@settings(max_examples=examples(60))
@given(query_sets(), batches())
def test_in_order(queries: list[Registered], parts: list[pa.Table]) -> None:
    declared = stream()
    _, answers = run(declared, queries, parts)
    check_answers(queries, answers, parts, declared)
    for query in queries:
        check_schedule(query, answers, parts, declared)


@settings(max_examples=examples(40))
@given(query_sets(3), batches(disorder=3 * SECOND), st.booleans(), st.sampled_from([0, SECOND, 5 * SECOND // 2]))
def test_disorder_within_the_delay(
    queries: list[Registered], parts: list[pa.Table], closed_left: bool, offset: int
) -> None:
    declared = stream(delay=3 * SECOND, closed_left=closed_left, offset=offset)
    runtime, answers = run(declared, queries, parts)
    assert runtime.statistics.late_tuples == 0
    check_answers(queries, answers, parts, declared)
    for query in queries:
        check_schedule(query, answers, parts, declared)


@settings(max_examples=examples(30))
@given(query_sets(4), batches())
def test_answers_do_not_depend_on_micro_batches_or_neighbours(queries: list[Registered], parts: list[pa.Table]) -> None:
    """But for the very end: the end of input closes the last pane, and neighbours may have made that pane shorter."""
    declared = stream()
    last = max(pa.concat_tables(parts)["_us"].to_pylist())
    _, together = run(declared, queries, parts)
    for query in queries:
        _, everything = run(declared, [query], [pa.concat_tables(parts)])
        alone = [answer for answer in everything if to_micros(answer.as_of) <= last]
        mine = [answer for answer in together if answer.query == query.name and to_micros(answer.as_of) <= last]
        assert [a.as_of for a in mine] == [a.as_of for a in alone]
        for ours, theirs in zip(mine, alone, strict=True):
            assert same_rows(ours.table.to_pylist(), theirs.table.to_pylist(), query.ordered)


def test_state_does_not_grow_with_time() -> None:
    declared = stream()
    text = "SELECT k, SUM(v) AS t FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY k"
    query = Registered("q", text, 4 * SECOND, 2 * SECOND)
    runtime = StreamRuntime(declared, Settings("conservative"))
    runtime.synchronise(compiled([query], declared))
    sizes = []
    for step in range(300):
        rows = [(START + step * SECOND + i, 10_000 * step + i, None, i, None, None) for i in range(100)]
        runtime.apply(aggregate(declared, runtime.tables(), to_table(rows)))
        (group,) = runtime.groups.values()
        sizes.append((group.panes.groups, group.panes.rows))
    assert max(groups for groups, _ in sizes) < 2_500
    assert max(rows for _, rows in sizes) <= 800


def test_a_query_that_comes_at_the_edge_of_a_left_closed_pane() -> None:
    """The newest tuple lies on a multiple: with CLOSED LEFT its pane has only begun, and it was seen before."""
    declared = stream(closed_left=True)
    first = Registered("first", "SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec]", 2 * SECOND, SECOND)
    later = Registered("later", "SELECT SUM(v) AS t FROM s [WINDOW 1 sec SLIDE 1 sec]", SECOND, SECOND)
    runtime = StreamRuntime(declared, Settings("conservative"))
    old, new = compiled([first, later], declared)
    runtime.synchronise([old])
    parts = [to_table([(START + i * SECOND, 1, None, 100, None, None)]) for i in range(4)]
    answers = []
    for i, part in enumerate(parts):
        if i == 2:
            runtime.synchronise([old, new])
        answers += runtime.apply(aggregate(declared, runtime.tables(), part)).answers
    answers += runtime.finish().answers
    mine = [answer for answer in answers if answer.query == "later" and answer.complete]
    check_answers([later], mine, parts, declared)
    assert len(mine) == 2


@st.composite
def stories(draw: st.DrawFn) -> tuple[Stream, list[Registered], list[tuple[int, int]]]:
    """A stream, queries, and for each query between which micro-batches it lives."""
    declared = stream(
        delay=draw(st.sampled_from([0, SECOND])),
        closed_left=draw(st.booleans()),
        offset=draw(st.sampled_from([0, SECOND // 2])),
        late_revise=draw(st.booleans()),
    )
    queries = draw(query_sets(5))
    lives = [(draw(st.integers(0, 4)), draw(st.integers(2, 7))) for _ in queries]
    return declared, queries, lives


@settings(max_examples=examples(120))
@given(stories(), batches(most=40, start=-4 * SECOND), st.integers(0, 6), st.booleans())
def test_queries_that_come_and_go(
    story: tuple[Stream, list[Registered], list[tuple[int, int]]], parts: list[pa.Table], saved_at: int, beats: bool
) -> None:
    """Complete answers are right while queries come and go, around time 0, through heartbeats and a snapshot."""
    declared, queries, lives = story
    every = compiled(queries, declared)
    runtime, answers = StreamRuntime(declared, Settings("conservative")), list[Answer]()
    for i, part in enumerate(parts):
        runtime.synchronise([query for query, (first, last) in zip(every, lives, strict=True) if first <= i < last])
        for query in every:
            active = runtime.covers(query)
            if active is not None and not is_cut(active):
                answers += [answer for answer in [runtime.probe(active)] if answer is not None]
        answers += runtime.apply(aggregate(declared, runtime.tables(), part)).answers
        if beats and runtime.latest is not None:
            answers += runtime.advance(runtime.latest - declared.delay).answers
        if i == saved_at:
            runtime = restored(runtime)
    answers += runtime.finish().answers
    assert runtime.statistics.late_tuples == 0
    check_answers(queries, [answer for answer in answers if answer.complete], parts, declared)


def restored(runtime: StreamRuntime) -> StreamRuntime:
    """The runtime after a snapshot, and back."""
    saved = stream_snapshot.save(runtime)
    again = StreamRuntime(runtime.stream, Settings("conservative"))
    again.synchronise([active.compiled for active in runtime.active.values()])
    stream_snapshot.load(again, reread(saved))
    return again


def test_a_tuple_before_the_first_micro_batch_is_answered_at_its_own_multiple() -> None:
    """Out of order within the delay: the data begin earlier than the first micro-batch showed, and so do deadlines."""
    declared = stream(delay=3 * SECOND)
    query = Registered("q", "SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec]", 2 * SECOND, 2 * SECOND)
    stamps = [START + SECOND // 2, START - SECOND // 2, START + 9 * SECOND]
    parts = [to_table([(stamp, 1, None, 1, None, None)]) for stamp in stamps]
    _, answers = run(declared, [query], parts)
    check_answers([query], answers, parts, declared)
    assert to_micros(answers[0].as_of) == START
