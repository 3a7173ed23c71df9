"""Sessions: every answer equals a recomputation from the tuples, and every session is told once."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
import sash.storage.epochs
from sash.catalog import Stream
from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.explaining.explain import explain, tried
from sash.runtime.periodic import stream_snapshot
from sash.runtime.settings import Settings
from sash.schedule import POLICIES
from tests.runtime.test_policies import Hurry
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.journal import reread
from tests.support.oracle import same_rows
from tests.support.sessions import FORMS, Sessions
from tests.support.sparkless_session import SparklessSession
from tests.support.streams import START, batches, stream, to_table

ASKED = st.builds(
    lambda form, gap, more, slide: Sessions(form, gap, gap + more, slide),
    st.integers(0, len(FORMS) - 1),
    st.integers(1, 8),
    st.sampled_from([0, 1, 2, 5, 7, 60]),
    st.integers(1, 9),
)
OTHERS = [
    "SELECT k, COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k",
    "SELECT k, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 3 sec] WHERE v > 0 GROUP BY k",
]


def check(asked: Sessions, answer: Answer, tuples: pa.Table, declared: Stream) -> None:
    as_of = to_micros(answer.as_of)
    assert answer.scheduled
    theirs = asked.told(tuples, declared, as_of - asked.slide * SECOND, as_of)
    assert same_rows(answer.table.to_pylist(), theirs), (asked, answer.as_of, answer.table, theirs)


@settings(max_examples=examples(150))
@given(
    st.lists(ASKED, min_size=1, max_size=3),
    batches(disorder=2 * SECOND),
    st.booleans(),
    st.sampled_from([0, SECOND // 2]),
    st.sampled_from([0, SECOND, 2 * SECOND]),
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from([None, None, None, "cluster"]),
    st.integers(0, 5),
)
def test_every_session_is_told_once(
    every: list[Sessions], parts: list[pa.Table], left: bool, offset: int, delay: int, policy: str,
    synopsis: str | None, saved_at: int,
) -> None:  # fmt: skip
    """Under all policies, through a snapshot, beside other queries; late tuples are merged."""
    declared = stream(delay=delay, closed_left=left, offset=offset, late_revise=True)
    queries = {f"q{i}": asked for i, asked in enumerate(every) if synopsis is None or "GROUP BY" in asked.text}
    chosen = Settings(policy)

    def fresh() -> Feed:
        feed = Feed(declared, chosen)
        texts = {name: asked.text for name, asked in queries.items()}
        others = {f"other{i}": text for i, text in enumerate(OTHERS[: 1 if synopsis else 2])}
        wanted = [*compiled(texts, declared, synopsis), *compiled(others, declared)]
        feed.runtime.synchronise(wanted)
        return feed

    feed, tuples, told = fresh(), to_table([]), {name: list[Any]() for name in queries}
    for number, part in enumerate(parts):
        if number == saved_at and synopsis is None:
            saved, feed = reread(stream_snapshot.save(feed.runtime)), fresh()
            stream_snapshot.load(feed.runtime, saved)
        tuples = pa.concat_tables([tuples, part])
        for answer in feed.push(part):
            if answer.query in queries:
                check(queries[answer.query], answer, tuples, declared)
                assert answer.complete
                told[answer.query] += answer.table.to_pylist()
    for answer in feed.finish():
        if answer.query in queries:
            told[answer.query] += answer.table.to_pylist()
    if delay == 2 * SECOND:
        # No tuple was late: all sessions have been told, each once.
        for name, asked in queries.items():
            theirs = asked.told(tuples, declared)
            assert same_rows(told[name], theirs), (asked, told[name], theirs)


@settings(max_examples=examples(60))
@given(ASKED, st.lists(batches(most=15), min_size=2, max_size=4), st.booleans(), st.booleans())
def test_the_end_of_input_ends_sessions(asked: Sessions, lives: list[list[pa.Table]], left: bool, saves: bool) -> None:
    """A stream that goes on begins new sessions: each is told once, in the order of time."""
    declared, told, theirs = stream(closed_left=left), list[Any](), list[Any]()
    feed, times, now = Feed(declared), list[int](), 0
    feed.runtime.synchronise(compiled({"q": asked.text}, declared))
    for parts in lives:
        every = pa.concat_tables(parts)
        # What comes after the end is not late: it begins behind the pane that the end has closed.
        shift = max(0, now + 8 * SECOND - START) if now else 0
        moved = to_table([(us + shift, *rest) for us, *rest in rows_of(every)])
        if len(moved):
            now = max(moved["_us"].to_pylist())
        if saves and feed.runtime.groups:
            saved, feed = reread(stream_snapshot.save(feed.runtime)), Feed(declared)
            feed.runtime.synchronise(compiled({"q": asked.text}, declared))
            stream_snapshot.load(feed.runtime, saved)
        answers = [*feed.push(moved), *feed.finish(), *feed.finish()]
        told += [row for answer in answers for row in answer.table.to_pylist()]
        times += [to_micros(answer.as_of) for answer in answers]
        theirs += asked.told(moved, declared)
    assert same_rows(told, theirs), (asked, told, theirs)
    assert times == sorted(times)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [table["_us"], *(table[name] for name in ("k", "g", "v", "w", "x"))]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


BY_KEY = "SELECT k, COUNT(*) AS n, window_start() AS a, window_end() AS b FROM s {w} GROUP BY k"


def at(*moments: tuple[float, int]) -> pa.Table:
    """Tuples of a key at a second."""
    return to_table([(START + int(second * SECOND), k, "abc"[k], k, 2**33, 0.5) for second, k in moments])


def seconds(answers: list[Answer], query: str = "q") -> list[tuple[float, ...]]:
    """When sessions were told, their keys, their numbers of tuples and their windows, in seconds."""
    return [
        ((to_micros(answer.as_of) - START) / SECOND, row["k"], row["n"], *(_second(row[edge]) for edge in "ab"))
        for answer in answers
        if answer.query == query
        for row in answer.table.to_pylist()
    ]


def _second(moment: datetime) -> float:
    return (to_micros(moment) - START) / SECOND


def test_a_tuple_more_than_a_gap_later_begins_a_session() -> None:
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({"q": BY_KEY.format(w="[SESSION GAP 5 sec]")}, feed.declared))
    answers = [*feed.push(at((1, 0), (1.5, 1), (6, 0), (11, 1), (11.000001, 0), (13, 1))), *feed.finish()]
    assert seconds(answers) == [
        *[(10, 1, 1, 1.5, 6.5), (15, 0, 2, 1, 11)],
        # The input ends in the pane up to 15: the answer as of the next multiple has what is open.
        *[(20, 0, 1, 11.000001, 16.000001), (20, 1, 2, 11, 18)],
    ]


def test_a_long_session_is_cut_at_multiples_of_its_maximum() -> None:
    every = [(1 + second, 0) for second in range(30)]
    feed = Feed(stream(closed_left=True))
    queries = {"q": BY_KEY.format(w="[SESSION GAP 2 sec MAX 10 sec SLIDE 1 sec]")}
    feed.runtime.synchronise(compiled(queries, feed.declared))
    answers = [*feed.push(at(*every, (20, 1))), *feed.finish()]
    # The first part is told when it is known that there is more than ten seconds of it.
    assert seconds(answers) == [
        *[(12, 0, 9, 1, 10), (20, 0, 10, 10, 20), (23, 1, 1, 20, 22), (30, 0, 10, 20, 30), (32, 0, 1, 30, 32)],
    ]


def test_gaps_share_a_pane_table() -> None:
    clauses = ["GAP 6 sec", "GAP 4 sec MAX 20 sec SLIDE 2 sec", "GAP 10 sec SLIDE 20 sec"]
    texts = {f"q{i}": BY_KEY.format(w=f"[SESSION {clause}]") for i, clause in enumerate(clauses)}
    texts["plain"] = "SELECT k, MAX(v) AS m FROM s [WINDOW 8 sec SLIDE 4 sec] GROUP BY k"
    feed = Feed(stream())
    wanted = compiled(texts, feed.declared)
    feed.runtime.synchronise(wanted)
    ((_, group),) = feed.runtime.groups.items()
    assert group.clock.length == 2 * SECOND
    assert sorted(partial.kind for partial in group.table.partials) == ["count", "max", "max", "min", "rows"]
    told = explain(wanted[1], tried(feed.runtime, wanted[:1], wanted[1]))
    assert "StreamWindow [SESSION GAP 4 sec MAX 20 sec SLIDE 2 sec]" in told and "panes of 2 sec" in told
    assert "min(ts): shared with q0" in told and "basic interval, 306 panes" in told
    assert "at most 4 sec apart; longer ones than 20 sec are cut at its multiples" in told


def test_idleness_ends_no_session() -> None:
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({"q": BY_KEY.format(w="[SESSION GAP 5 sec SLIDE 1 sec]")}, feed.declared))
    answers = [*feed.push(at((1, 0))), *feed.finish(is_end=False), *feed.push(at((5, 0), (20, 0)))]
    assert seconds(answers) == [(10, 0, 2, 1, 10)]


def test_late_tuples_prolong_sessions_that_were_told() -> None:
    """What was told stays told: the longer session is told, too."""
    feed = Feed(stream(late_revise=True))
    feed.runtime.synchronise(compiled({"q": BY_KEY.format(w="[SESSION GAP 4 sec SLIDE 1 sec]")}, feed.declared))
    answers = [*feed.push(at((1, 0), (6, 1))), *feed.push(at((4, 0), (20, 1)))]
    assert seconds(answers) == [(5, 0, 1, 1, 5), (8, 0, 2, 1, 8), (10, 1, 1, 6, 10)]


def test_order_limit_having_and_functions_over_sessions() -> None:
    window = "[SESSION GAP 2 sec SLIDE 25 sec]"
    texts = {
        "ordered": f"SELECT k, COUNT(*) AS n FROM s {window} GROUP BY k ORDER BY n DESC LIMIT 3",
        "long": f"SELECT k, window_bounds() AS b FROM s {window} GROUP BY k "
        "HAVING UNIX_MICROS(window_end()) - UNIX_MICROS(window_start()) > 2000000 ORDER BY window_start() DESC",
        "over": f"SELECT k, window_start(s) AS a, ROW_NUMBER() OVER (PARTITION BY k ORDER BY COUNT(*) DESC) AS r "
        f"FROM s {window} GROUP BY k QUALIFY r = 1",
        "joined": f"SELECT a.k, a.n AS short, b.n AS long FROM (SELECT k, COUNT(*) AS n FROM s {window} GROUP BY k) a "
        "JOIN (SELECT k, COUNT(*) AS n FROM s [SESSION GAP 9 sec SLIDE 25 sec] GROUP BY k) b USING (k)",
        "ranked": f"SELECT k, MIN_BY(g, v) AS d, FIRST(v) AS f FROM s {window} GROUP BY k",
    }
    feed = Feed(stream())
    feed.runtime.synchronise(compiled(texts, feed.declared))
    part = at((1, 0), (2, 0), (3, 1), (6, 0), (11, 1), (12, 1), (13, 1), (40, 2))
    answers = {answer.query: answer.table for answer in feed.push(part) if answer.table.num_rows}
    assert [tuple(row.values()) for row in answers["ordered"].to_pylist()] == [(1, 3), (0, 2), (0, 1)]
    assert [_second(row["b"]["start"]) for row in answers["long"].to_pylist()] == [11, 1]
    assert sorted((row["k"], _second(row["a"])) for row in answers["over"].to_pylist()) == [(0, 1), (1, 11)]
    joined = sorted(tuple(row.values()) for row in answers["joined"].to_pylist())
    assert joined == [(0, 1, 3), (0, 2, 3), (1, 1, 4), (1, 3, 4)]
    assert sorted(tuple(row.values()) for row in answers["ranked"].to_pylist()) == [(0, "a", 0)] * 2 + [(1, "b", 1)] * 2


def test_a_query_that_comes_later_is_complete_once_it_reaches_no_further_back() -> None:
    feed = Feed(stream())
    feed.push(at((0, 0), (1.5, 0)))
    early, late = (compiled({name: BY_KEY.format(w=clause)}, feed.declared) for name, clause in LATER.items())
    feed.runtime.synchronise(early)
    told = feed.push(at((2.5, 0), (4, 0)))
    feed.runtime.synchronise([*early, *late])
    told += feed.push(at(*((second, 0) for second in range(5, 60, 7))))
    whole = {name: [answer.complete for answer in told if answer.query == name] for name in LATER}
    assert whole["early"] == sorted(whole["early"]) and whole["late"] == sorted(whole["late"])
    assert not whole["early"][0] and whole["early"][-1] and not whole["late"][0] and whole["late"][-1]
    assert seconds([answer for answer in told if answer.complete], "late")[0][2:] == (1, 19, 22)


LATER = {"early": "[SESSION GAP 4 sec MAX 8 sec]", "late": "[SESSION GAP 3 sec MAX 9 sec]"}


@settings(max_examples=examples(40))
@given(
    st.lists(ASKED, min_size=1, max_size=3), batches(), st.sampled_from(sorted(POLICIES)),
    st.lists(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), max_size=8), min_size=6, max_size=6),
)  # fmt: skip
def test_in_a_hurry_sessions_are_told_late(
    every: list[Sessions], parts: list[pa.Table], policy: str, hurry: list[list[float]]
) -> None:
    declared, queries = stream(), {f"q{i}": asked for i, asked in enumerate(every)}
    feed = Feed(declared, Settings(policy))
    texts = {name: asked.text for name, asked in queries.items()}
    feed.runtime.synchronise(compiled(texts, declared) + compiled({"other": OTHERS[0]}, declared))
    answers = [answer for part, steps in zip(parts, hurry, strict=False) for answer in feed.push(part, Hurry(steps))]
    answers += feed.finish()
    tuples = pa.concat_tables(parts)
    for name, asked in queries.items():
        told = [row for answer in answers if answer.query == name for row in answer.table.to_pylist()]
        assert same_rows(told, asked.told(tuples, declared))


@pytest.mark.parametrize("every", [1, 3, 100])
def test_a_restart_before_each_micro_batch_changes_nothing(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", every)
    text, answers = BY_KEY.format(w="[SESSION GAP 5 sec MAX 20 sec SLIDE 3 sec]"), list[Answer]()
    parts = [[(2.5 * step + 7 * (step // 4) + i / 4, i % 3) for i in range(0, 10, 1 + step % 5)] for step in range(12)]
    for step, part in enumerate(parts):
        with SparklessSession(checkpoint=tmp_path) as session:
            if step == 0:
                session.declare(stream())
                session.register(text, name="q")
            else:
                session.declare(stream())
            session.queries["q"].subscribe(answers.append)
            session.push("s", at(*part))
            if step == 5:
                session.streams["s"].finish()
    with SparklessSession(checkpoint=tmp_path) as session:
        session.declare(stream())
        session.queries["q"].subscribe(answers.append)
        session.streams["s"].finish()
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({"q": text}, feed.declared))
    theirs = [each for step, part in enumerate(parts) for each in [*feed.push(at(*part)), *_end(feed, step == 5)]]
    assert seconds(answers) == seconds([*theirs, *feed.finish()])
    assert len(seconds(answers)) > 8


def test_windows_and_sessions_of_one_select_keep_apart() -> None:
    """Their answers are made together where queries differ in their windows alone; sessions have more columns."""
    text = "SELECT k, COUNT(*) AS n FROM s {} GROUP BY k ORDER BY n LIMIT 3"
    # The first one looks back less far than the window: it is read before.
    clauses = [
        "[SESSION GAP 3 sec MAX 4 sec SLIDE 5 sec]",
        "[WINDOW 60 sec SLIDE EXACTLY 5 sec]",
        "[SESSION GAP 2 sec SLIDE 5 sec]",
    ]
    rows = [START + second * SECOND for second in (1, 3, 4, 9, 14, 16, 26)]
    found = []
    for together in (clauses, clauses[::-1], *([each] for each in clauses)):
        feed = Feed(stream())
        feed.runtime.synchronise(compiled({each: text.format(each) for each in together}, feed.declared))
        answers = feed.push(to_table([(us, us // SECOND % 2, "a", 1, 1, 1.0) for us in rows]))
        found.append({(each.query, each.as_of): each.table.to_pylist() for each in answers})
    alone = found[2] | found[3] | found[4]
    assert found[0] == found[1] == alone and len(alone) == 15


def _end(feed: Feed, ends: bool) -> list[Answer]:
    return feed.finish() if ends else []


@pytest.mark.spark
def test_spark_gives_the_same_sessions(spark: Any) -> None:
    chance = random.Random(41)
    times = sorted(START + chance.randrange(400) * SECOND + chance.choice([0, 0, 1, 999_999]) for _ in range(300))
    rows = [(ts, chance.randrange(4), chance.choice("abc"), chance.randrange(100), 7, 0.5) for ts in times]
    spark.createDataFrame(to_table(rows).drop_columns(["_us"])).createOrReplaceTempView("s")
    keys, texts = ["", ", k", ", k, g"], []
    for gap in (2, 5, 11):
        texts += [
            f"SELECT session_window.start, session_window.end{key}, SUM(v) AS total, COUNT(*) AS n FROM s {where} "
            f"GROUP BY session_window(ts, '{gap} seconds'){key}"
            for key in keys
            for where in ("", "WHERE v % 3 > 0")
        ]
    for closed in ("left", "right"):
        with sash.connect(spark=spark) as session:
            session.create_stream("s", spark.table("s"), timestamp="ts", closed=closed)
            queries = [session.register(text, name=f"q{place}") for place, text in enumerate(texts)]
            estimated = session.register(texts[-1].replace("SUM(v)", "APPROX_COUNT_DISTINCT(v)"), name="estimated")
            session.run()
            assert estimated.error is None and sum(answer.table.num_rows for answer in estimated.answers()) > 50
            for query in queries:
                assert query.error is None, query.text
                told = [row for answer in query.answers() for row in answer.table.to_pylist()]
                # MAX is a hundred gaps: no session here is longer.
                assert same_rows(told, spark.sql(query.text).toArrow().to_pylist()), (closed, query.text)
