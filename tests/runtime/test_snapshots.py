"""A runtime saved and loaded at any moment goes on as if nothing had been: every kind of window, without Spark."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog, RegisteredQuery, Stream
from sash.core.time import SECOND
from sash.panes import basic_interval, partitioned
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery, compile_query
from sash.runtime.periodic import stream_snapshot
from sash.runtime.records.journal import HeartbeatEntry, ReplayedSettings, StreamEntry
from sash.runtime.settings import Settings
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.forms import SEVERAL
from tests.support.journal import reread
from tests.support.oracle import same_rows
from tests.support.shelf import SHELVES
from tests.support.streams import START, batches, stream, to_table

SEVERAL_WINDOWS = [
    SEVERAL[0].ours.format(u="WINDOW", l=[f"{n} sec" for n in range(10)], s="2 sec"),
    SEVERAL[1].ours.format(u="ROWS", l=list(range(10)), s="3"),
]
# (text, synopsis that it insists on, lifetime in seconds)
POOL: list[tuple[str, str | None, int | None]] = [
    ("SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 9 sec SLIDE 3 sec] GROUP BY k", None, None),
    ("SELECT k, SUM(w) AS t FROM s [WINDOW 12 sec SLIDE 1 sec LAG 2 sec] GROUP BY k", "running", None),
    ("SELECT k, MAX(v) AS m FROM s [WINDOW 8 sec SLIDE 2 sec] GROUP BY k", "interval", None),
    ("SELECT SUM(v) AS t, MIN(x) AS m FROM s [WINDOW 6 sec SLIDE 2 sec]", "landmark", None),
    ("SELECT MAX(g) AS last, MIN(g) AS first FROM s [WINDOW 7 sec SLIDE 1 sec] WHERE v > 10", None, None),
    ("SELECT g, STDDEV(x) AS d, AVG(v) AS m FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY g", None, None),
    ("SELECT k, COUNT(DISTINCT v) AS d, MEDIAN(x) AS m FROM s [WINDOW 9 sec SLIDE 3 sec] GROUP BY k", None, None),
    ("SELECT TOP(2, g, SUM(w)) FROM s [WINDOW 9 sec SLIDE 2 sec]", None, None),
    ("SELECT k, FREQUENT(2, v) FROM s [WINDOW 8 sec SLIDE 2 sec LAG 4 sec] GROUP BY k WITH BOUNDS", None, None),
    ("SELECT k, COUNT_MIN(v, 3) AS n FROM s [WINDOW 8 sec SLIDE 2 sec] WHERE v > 1 GROUP BY k", None, None),
    ("SELECT k, COUNT(*) AS n, MAX(g) AS m, AVG(x) AS a FROM s [UNBOUNDED SLIDE 2 sec] GROUP BY k", None, None),
    ("SELECT COUNT(DISTINCT v) AS d, MODE(g) AS m FROM s [UNBOUNDED SLIDE 4 sec LAG 2 sec]", None, None),
    ("SELECT SUM(v) AS t, COUNT(DISTINCT g) AS d FROM s [ROWS 7 SLIDE 3]", None, None),
    ("SELECT g, COUNT(*) AS n, MIN(v) AS m FROM s [ROWS 6 SLIDE 2 LAG 4] WHERE v > 0 GROUP BY g", "interval", None),
    ("SELECT FREQUENT(2, g) FROM s [ROWS 12 SLIDE 4] WITH BOUNDS", "running", None),
    ("SELECT k, MAX(g) AS m, SUM(v) AS t FROM s [PARTITION BY k ROWS 2 SLIDE 3] GROUP BY k", None, None),
    ("SELECT k, MEDIAN(v) AS m FROM s [PARTITION BY g ROWS 3 SLIDE 1 LAG 1] GROUP BY k", None, None),
    ("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE EXACTLY 3 sec]", None, 12),
    ("SELECT COUNT(*) AS n FROM s [ROWS 5 SLIDE 2]", None, 9),
    (
        "SELECT k, COLLECT_LIST(v) AS l, LISTAGG(g) WITHIN GROUP (ORDER BY v) AS a FROM s [ROWS 9 SLIDE 3] GROUP BY k",
        None,
        None,
    ),
    *((text, None, None) for text in SEVERAL_WINDOWS),
]


@cache
def queries() -> list[CompiledQuery]:
    catalog = Catalog()
    catalog.add_stream(stream())
    return [
        compile_query(RegisteredQuery(f"q{i}", text, "s", synopsis=kind, lifetime=life and life * SECOND), catalog)
        for i, (text, kind, life) in enumerate(POOL)
    ]


def reloaded(feed: Feed, wanted: list[CompiledQuery]) -> Feed:
    """The feed of another process, from what this one has written."""
    saved = reread(stream_snapshot.save(feed.runtime))
    fresh = Feed(feed.declared, files_lists=feed.files_lists)
    fresh.runtime.lists_before = {name: query.by_lists for name, query in saved.queries.items()}
    fresh.runtime.synchronise(wanted)
    fresh.runtime.lists_before = {}
    SHELVES.update({fresh.runtime.groups[group.name]: SHELVES[group] for group in feed.runtime.ordered()
                    if group.in_cluster})  # fmt: skip
    stream_snapshot.load(fresh.runtime, replace(saved, tables=[_written(table) for table in saved.tables]))
    fresh.pending = feed.pending
    return fresh


def _written(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_file(sink.getvalue()).read_all()


Step = tuple[frozenset[int], pa.Table, bool]


def story(
    declared: Stream, steps: list[Step], restarting: bool, files_lists: bool = False
) -> tuple[list[Answer], list[int]]:
    """The answers, and how many tuples were late; each step has its queries, its tuples, and whether it restarts."""
    pool, gone, feed = queries(), set[str](), Feed(declared, files_lists=files_lists)
    answers, late = [], []
    for wanted, part, restart in steps:
        chosen = [query for i, query in enumerate(pool) if i in wanted and query.name not in gone]
        feed.runtime.synchronise(chosen)
        answers += feed.push(part)
        late.append(feed.runtime.statistics.late_tuples)
        # A query that has ended stays ended.
        over = {query.name for query in chosen} - feed.runtime.active.keys()
        gone |= over
        if restarting and restart:
            feed = reloaded(feed, [query for query in chosen if query.name not in over])
    return answers + feed.finish(), late


def check_same(ours: list[Answer], theirs: list[Answer]) -> None:
    assert [(a.query, a.as_of) for a in ours] == [(a.query, a.as_of) for a in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        text = POOL[int(mine.query[1:])]
        assert (mine.complete, mine.scheduled) == (other.complete, other.scheduled), (text, mine.as_of)
        assert mine.table.schema == other.table.schema
        assert same_rows(mine.table.to_pylist(), other.table.to_pylist()), (text, mine.as_of, mine.table, other.table)


@st.composite
def stories(draw: st.DrawFn, changing: bool) -> list[Step]:
    parts = draw(batches(disorder=2 * SECOND, most=50))
    some = st.frozensets(st.integers(0, len(POOL) - 1), min_size=1, max_size=6)
    chosen = draw(some)
    steps = []
    for part in parts:
        if changing:
            chosen = draw(st.one_of(st.just(chosen), some))
        steps.append((chosen, part, draw(st.booleans())))
    return steps


@settings(max_examples=examples(15))
@given(stories(changing=False), st.booleans(), st.booleans())
def test_saved_and_loaded_between_micro_batches(steps: list[Step], revise: bool, delayed: bool) -> None:
    """With DELAY tuples wait for their numbers; without it some come late."""
    declared = stream(delay=2 * SECOND if delayed else 0, late_revise=revise)
    ours, late = story(declared, steps, restarting=True)
    theirs, expected = story(declared, steps, restarting=False)
    check_same(ours, theirs)
    assert late == expected


@settings(max_examples=examples(15))
@given(stories(changing=True), st.booleans())
def test_while_queries_come_and_go(steps: list[Step], files_lists: bool) -> None:
    declared = stream(delay=2 * SECOND)
    ours, _ = story(declared, steps, restarting=True, files_lists=files_lists)
    theirs, _ = story(declared, steps, restarting=False)
    check_same(ours, theirs)


def test_all_kinds_at_once_over_a_long_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough for panes to be merged, rows to be dropped and dictionaries to be compacted, before and after."""
    monkeypatch.setattr(basic_interval, "LEAST_COMPACTED", 8)
    monkeypatch.setattr(partitioned, "LEAST_DROPPED", 8)
    steps = []
    for step in range(30):
        rows = [
            (START + (step * 10 + i) * SECOND // 5, (step + i) % 40, "abc"[i % 3], (step * i) % 17, i, i / 4)
            for i in range(10)
        ]
        steps.append((frozenset(range(len(POOL))), to_table(rows), step % 6 == 4))
    ours, _ = story(stream(delay=SECOND), steps, restarting=True, files_lists=True)
    theirs, _ = story(stream(delay=SECOND), steps, restarting=False)
    check_same(ours, theirs)
    assert len({answer.query for answer in ours}) == len(POOL)


def test_a_runtime_without_data() -> None:
    declared = stream()
    pool = queries()
    feed = Feed(declared)
    feed.runtime.synchronise(pool)
    feed.push(to_table([]))
    again = reloaded(feed, pool)
    rows: list[Any] = [(START + i * SECOND, 1, "a", i, i, 1.0) for i in range(20)]
    check_same(again.push(to_table(rows)) + again.finish(), feed.push(to_table(rows)) + feed.finish())


def test_float_sums_are_the_same_to_the_last_bit() -> None:
    """The same input gives the same answers after a crash: sums must not depend on when their synopsis was built."""
    declared, chance = stream(), random.Random(1)
    (query,) = compiled({"q": "SELECT SUM(x) AS t FROM s [WINDOW 64 sec SLIDE 1 sec]"}, declared)
    parts = [to_table([(START + i * SECOND + 1, 1, None, 1, 1, chance.random() * 10**8)]) for i in range(150)]

    def sums(restarts: set[int]) -> list[float]:
        feed, found = Feed(declared), []
        feed.runtime.synchronise([query])
        for i, part in enumerate(parts):
            found += [answer.table["t"][0].as_py() for answer in feed.push(part)]
            if i in restarts:
                feed = reloaded(feed, [query])
        return found

    assert sums({75, 76, 101}) == sums(set())


def test_a_checkpoint_from_before_short_lists_goes_on() -> None:
    """Its snapshot and its entries have no word of lists: FREQUENT goes on with the counts of all items."""
    declared = stream()
    (query,) = compiled({"q": "SELECT FREQUENT(2, v) FROM s [WINDOW 6 sec SLIDE 2 sec] WITH BOUNDS"}, declared)
    parts = [to_table([(START + (i * 9 + j) * SECOND // 3, 1, "a", j % (i + 2), j, 1.0) for j in range(9)])
             for i in range(6)]  # fmt: skip
    old = Feed(declared)
    old.runtime.has_lists = False
    old.runtime.synchronise([query])
    answers = [answer for part in parts[:3] for answer in old.push(part)]
    written = stream_snapshot.save(old.runtime)
    earlier = replace(
        written,
        queries={name: _without(saved, "by_lists") for name, saved in written.queries.items()},
        groups=[_without(saved, "open_files") for saved in written.groups],
    )
    fresh = Feed(declared, files_lists=True)
    fresh.runtime.lists_before = {name: saved.by_lists for name, saved in earlier.queries.items()}
    fresh.runtime.synchronise([query])
    stream_snapshot.load(fresh.runtime, earlier)
    answers += [answer for part in parts[3:] for answer in fresh.push(part)] + fresh.finish()
    (group,) = fresh.runtime.groups.values()
    assert group.name.lists is None
    new = Feed(declared, files_lists=True)
    new.runtime.synchronise([query])
    expected = [answer for part in parts for answer in new.push(part)] + new.finish()
    assert [(a.as_of, a.table.to_pylist()) for a in answers] == [(a.as_of, a.table.to_pylist()) for a in expected]
    entry = HeartbeatEntry(epoch=1, version=1, settings=ReplayedSettings.of(Settings()), failed={}, watermark=5)
    record = entry.record()
    del record.facts["has_lists"]
    assert not StreamEntry.read(record).has_lists


def _without(saved: Any, field: str) -> Any:
    """A part of a snapshot as it was before it had a field."""
    facts = {name: value for name, value in vars(saved).items() if name != field}
    return type(saved)(**facts)
