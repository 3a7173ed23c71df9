"""Mistakes with aggregates and windows: the errors and their words, and queries that fail alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.catalog import Catalog, Stream
from sash.core.errors import NotSupportedError, SashError
from sash.core.time import SECOND
from sash.runtime.answers.answer import Answer
from sash.runtime.commands.declare import checked
from sash.runtime.compiler import as_select, compile_panes
from sash.runtime.periodic.onetime import look_up, stamped
from sash.runtime.route import decide_registered, question_of
from sash.sql import bind
from tests.runtime.test_session import create, seconds, write
from tests.support.feed import Feed, answers_of, compiled
from tests.support.sparkless_session import SparklessSession
from tests.support.streams import START, stream, to_table

# -- when planned ------------------------------------------------------------------------------------------


NO_LENGTH = "FREQUENT keeps a list per sub-window, and [UNBOUNDED ..] has no length: give a WINDOW"
TWO_WINDOWS = (
    "SELECT a.v FROM (SELECT FREQUENT(3, v) FROM s [UNBOUNDED SLIDE 1 sec]) a "
    "JOIN (SELECT TOP(3, v) FROM s [WINDOW 5 sec SLIDE 1 sec]) b USING (v)"
)
NO_MAX = (
    "a running synopsis cannot answer this query: MAX is not subtractable: a running synopsis would have to take back"
)
NO_PARTITIONS = "a running synopsis cannot answer PARTITION BY windows: leave out SYNOPSIS RUNNING"


@pytest.mark.parametrize(
    ("text", "synopsis", "why"),
    [
        ("SELECT k, FREQUENT(3, v) FROM s [UNBOUNDED SLIDE 1 sec] GROUP BY k", None, NO_LENGTH),
        (TWO_WINDOWS, None, NO_LENGTH),
        ("SELECT FREQUENT(3, v) FROM s [SINCE midnight SLIDE 1 sec]", None, "[SINCE ..] has no length: give a WINDOW"),
        ("SELECT SUM(v) AS t FROM s [SINCE midnight SLIDE 1 sec]", "running", "cannot answer SINCE windows"),
        (
            "SELECT k, SUM(v) FROM s [SINCE midnight SLIDE 1 sec] GROUP BY k",
            "cluster",
            "with a length: SINCE ones",
        ),
        ("SELECT MAX(v) AS m FROM s [WINDOW 9 sec SLIDE 1 sec]", "running", NO_MAX),
        ("SELECT SUM(v) AS t FROM s [PARTITION BY k ROWS 5 SLIDE 5]", "running", NO_PARTITIONS),
    ],
)
def test_impossible_queries(text: str, synopsis: str | None, why: str) -> None:
    (query,) = compiled({"q": text}, stream(), synopsis)
    with pytest.raises(SashError, match=re.escape(why)):
        query.check()


# -- one-time questions ------------------------------------------------------------------------------------


ROWS: list[tuple[Any, ...]] = [(START + i * SECOND, i % 3, "ab"[i % 2], i, None, None) for i in range(1, 41)]
REGISTERED = {
    "rows": "SELECT k, SUM(v) AS t, MAX(v) AS m FROM s [ROWS 12 SLIDE 3] GROUP BY k",
    "values": "SELECT COUNT(DISTINCT v) AS d FROM s [ROWS 12 SLIDE 4 LAG 4]",
    "last": "SELECT k, SUM(v) AS t FROM s [PARTITION BY k ROWS 4 SLIDE 5] GROUP BY k",
    "ever": "SELECT g, COUNT(*) AS n, SUM(v) AS t FROM s [UNBOUNDED SLIDE 4 sec LAG 4 sec] GROUP BY g",
    "time": "SELECT SUM(v) AS t FROM s [WINDOW 12 sec SLIDE 4 sec]",
}


def fed(texts: dict[str, str], rows: list[tuple[Any, ...]] = ROWS, **clauses: Any) -> Feed:
    feed = Feed(stream(**clauses))
    feed.runtime.synchronise(compiled(texts, feed.declared))
    for start in range(0, len(rows), 7):
        feed.push(to_table(rows[start : start + 7]))
    return feed


def ask(feed: Feed, text: str) -> pa.Table:
    catalog = Catalog()
    catalog.add_stream(feed.declared)
    question = compile_panes(bind(as_select(text), catalog), "(one-time)", one_time=True)
    return stamped(look_up(question, feed.runtime).compute())


BY_REGISTRATION = {
    "SELECT DISTINCT k FROM s [RANGE 5 sec]": "SELECT DISTINCT",
    "SELECT k, v FROM s [RANGE 5 sec]": "a SELECT without aggregates",
    "SELECT s.k FROM s [RANGE 5 sec], t [RANGE 5 sec] WHERE s.k = t.k": "joins of streams",
    "SELECT k FROM s [RANGE 5 sec] WHERE NOT EXISTS (SELECT 1 FROM t [RANGE 2 sec] WHERE t.k = s.k)": "EXISTS",
    "SELECT k FROM s [RANGE 5 sec] WHERE k NOT IN (SELECT k FROM t [RANGE 2 sec])": "IN",
    "SELECT k FROM s [RANGE 5 sec] EXCEPT SELECT k FROM t [RANGE 5 sec]": "EXCEPT",
    "SELECT k FROM s [RANGE 5 sec] UNION ALL SELECT k FROM t [RANGE 5 sec]": "UNION",
}


def asked(text: str) -> object:
    known = two_streams()
    return question_of(as_select(text), known, partial(decide_registered, catalog=known))


@pytest.mark.parametrize(("text", "what"), BY_REGISTRATION.items())
def test_a_question_that_only_a_continuous_query_answers_names_the_way(text: str, what: str) -> None:
    with pytest.raises(NotSupportedError, match=r"REGISTER QUERY \.\. AS this SELECT") as refused:
        asked(text)
    assert what in refused.value.what and (refused.value.line, str(refused.value).count("REGISTER")) == (1, 1)


@pytest.mark.parametrize("text", ["DISTINCT nothing FROM s [NOW]", "DISTINCT k FROM s [NOW] ORDER BY k"])
def test_what_cannot_be_registered_either_is_not_sent_there(text: str) -> None:
    with pytest.raises(SashError) as refused:
        asked(f"SELECT {text}")
    assert "REGISTER" not in str(refused.value)


def two_streams() -> Catalog:
    catalog = Catalog()
    for name in ("s", "t"):
        catalog.add_stream(replace(stream(), name=name))
    return catalog


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def complete(table: pa.Table) -> bool:
    return bool(json.loads(table.schema.metadata[b"complete"]))


def test_questions_about_the_last_rows() -> None:
    """The last tuple waits for the watermark: 39 are counted, in panes of 3."""
    feed = fed(REGISTERED)
    assert feed.runtime.counted == 39
    for length in (3, 6, 12):
        chosen = ROWS[39 - length : 39]
        answer = ask(feed, f"SELECT k, SUM(v) AS t, AVG(v) AS a, MAX(v) AS m FROM s [ROWS {length}] GROUP BY k")
        by_key = {k: [row[3] for row in chosen if row[1] == k] for k in range(3)}
        assert rows_of(answer) == [(k, sum(v), sum(v) / len(v), max(v)) for k, v in by_key.items()]
        assert complete(answer)
        assert answer.schema.metadata[b"as_of"].startswith(b"2023-11-14T22:13:59")
    lagged = ask(feed, "SELECT k, SUM(v) AS t FROM s [ROWS 3 LAG 6] GROUP BY k")
    assert rows_of(lagged) == [(row[1], row[3]) for row in sorted(ROWS[30:33], key=lambda row: row[1])]


def test_questions_about_the_last_rows_of_partitions() -> None:
    feed = fed(REGISTERED)
    for length in (1, 3, 4):
        answer = ask(feed, f"SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [PARTITION BY k ROWS {length}] GROUP BY k")
        by_key = {k: [row[3] for row in ROWS[:39] if row[1] == k][-length:] for k in range(3)}
        assert rows_of(answer) == [(k, sum(v), len(v)) for k, v in by_key.items()]
        assert complete(answer)


def test_questions_about_everything() -> None:
    feed = fed(REGISTERED)
    answer = ask(feed, "SELECT g, COUNT(*) AS n, AVG(v) AS a FROM s [UNBOUNDED] GROUP BY g")
    # The pane that ends at 36 is the newest closed one: later tuples close the pane up to 40.
    known = {g: [row[3] for row in ROWS[:36] if row[2] == g] for g in "ab"}
    assert rows_of(answer) == [(g, len(v), sum(v) / len(v)) for g, v in sorted(known.items())]
    assert complete(answer)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT k, SUM(v) AS t FROM s [ROWS 15] GROUP BY k", "keeps 12 rows, the question looks back 15 rows"),
        ("SELECT k, SUM(v) AS t FROM s [ROWS 12 LAG 3] GROUP BY k", "keeps 12 rows, the question looks back 15 rows"),
        ("SELECT k, SUM(v) AS t FROM s [ROWS 4] GROUP BY k", "does not fit the stored panes of 3 rows"),
        ("SELECT k, MIN(v) AS t FROM s [ROWS 3] GROUP BY k", "no synopsis of stream 's' holds MIN(v) by (k)"),
        ("SELECT SUM(v) AS t FROM s [ROWS 3]", "no synopsis of stream 's' holds SUM(v) by ()"),
        ("SELECT k, SUM(v) AS t FROM s [WINDOW 4 sec] GROUP BY k", "no synopsis of stream 's' holds SUM(v) by (k)"),
        (
            "SELECT k, SUM(v) AS t FROM s [PARTITION BY k ROWS 5] GROUP BY k",
            "keeps 4 rows, the question looks back 5 rows",
        ),
        ("SELECT g, SUM(v) AS t FROM s [PARTITION BY g ROWS 2] GROUP BY g", "no synopsis of stream 's' holds SUM(v)"),
        ("SELECT k, SUM(v) AS t FROM s [PARTITION BY g ROWS 2] GROUP BY k", "no synopsis of stream 's' holds SUM(v)"),
        ("SELECT SUM(v) AS t FROM s [UNBOUNDED]", "forgets what its windows have passed; register a query with an"),
        ("SELECT k, SUM(v) AS t FROM s [UNBOUNDED] GROUP BY k", "no synopsis of stream 's' holds SUM(v) by (k)"),
        ("SELECT g, SUM(v) AS t FROM s [WINDOW 40 sec] GROUP BY g", "the question looks back 40 sec"),
        ("SELECT FREQUENT(2, v) FROM s [UNBOUNDED]", "FREQUENT keeps a list per sub-window"),
    ],
)
def test_questions_that_nothing_covers(text: str, why: str) -> None:
    with pytest.raises(SashError, match=re.escape(why)):
        ask(fed(REGISTERED), text)


def test_questions_before_anything_is_counted() -> None:
    """Nothing has come; then tuples wait behind the watermark."""
    feed = fed(REGISTERED, [], delay=100 * SECOND)
    for rows in ([], ROWS):
        feed.push(to_table(rows))
        with pytest.raises(SashError, match="nothing to ask"):
            ask(feed, "SELECT k, SUM(v) AS t FROM s [ROWS 3] GROUP BY k")


def test_a_question_by_frequent_items_has_the_whole_window_as_its_sub_window() -> None:
    rows = [(START + i * SECOND // 4, 1, "aaabbc"[i % 6], i, None, None) for i in range(1, 100)]
    feed = fed({"h": "SELECT HISTOGRAM(g) FROM s [WINDOW 12 sec SLIDE 3 sec]"}, rows)
    answer = ask(feed, "SELECT FREQUENT(2, g) FROM s [WINDOW 12 sec] WITH BOUNDS")
    # 48 tuples: 24 a, 16 b, 8 c; the second of the list is the threshold.
    assert answer.to_pylist() == [{"g": "a", "count": 24, "lower": 24, "upper": 40}]


def test_a_question_over_several_windows() -> None:
    feed = fed(REGISTERED)
    answer = ask(
        feed,
        "SELECT a.k, a.t - b.t AS more FROM (SELECT k, SUM(v) AS t FROM s [ROWS 12] GROUP BY k) a "
        "JOIN (SELECT k, SUM(v) AS t FROM s [ROWS 3] GROUP BY k) b USING (k)",
    )
    expected = {k: sum(row[3] for row in ROWS[27:36] if row[1] == k) for k in range(3)}
    assert rows_of(answer) == sorted(expected.items())


# -- late tuples -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revise", [False, True])
def test_a_tuple_before_the_watermark_gets_no_number(revise: bool) -> None:
    """Rows are counted in order: with LATE REVISE, too, a place that is taken stays taken."""
    feed = Feed(stream(late_revise=revise))
    texts = {
        "q": "SELECT SUM(v) AS t FROM s [ROWS 3 SLIDE 1]",
        "w": "SELECT SUM(v) AS t FROM s [WINDOW 60 sec SLIDE 1 sec]",
    }
    feed.runtime.synchronise(compiled(texts, feed.declared))
    answers = []
    for at, v in ((1, 1), (2, 2), (3, 4), (2, 100), (3, 8), (4, 16)):
        answers += feed.push(to_table([(START + at * SECOND, 1, None, v, None, None)]))
    answers += feed.finish()
    # The second tuple at 3 is no earlier than the watermark: it is behind its equal.
    assert [a.table["t"][0].as_py() for a in answers if a.query == "q"] == [1, 3, 7, 14, 28]
    assert feed.runtime.counted == 5
    # The tuple at 2 was late for its pane; the second one at 3 came while its pane was open.
    assert feed.runtime.statistics.late_tuples == 1
    assert [a.table["t"][0].as_py() for a in answers if a.query == "w"][-1] == (131 if revise else 31)


# -- corners of input --------------------------------------------------------------------------------------


CORNERS = {
    "rows": "SELECT k, COUNT(*) AS n, COUNT(DISTINCT v) AS d FROM s [ROWS 4 SLIDE 2] GROUP BY k",
    "last": "SELECT k, COUNT(*) AS n FROM s [PARTITION BY k ROWS 2 SLIDE 1] GROUP BY k",
    "ever": "SELECT k, COUNT(*) AS n, MEDIAN(v) AS m FROM s [UNBOUNDED SLIDE 1 sec] GROUP BY k",
    "top": "SELECT k, TOP(1, v) FROM s [WINDOW 2 sec SLIDE 1 sec] GROUP BY k",
    "gaps": "SELECT COUNT(*) AS n, MODE(g) AS m FROM s [WINDOW 1 sec SLIDE 3 sec]",
}


def test_empty_micro_batches() -> None:
    empty = to_table([])
    parts = [to_table(ROWS[i : i + 3]) for i in range(0, 12, 3)]
    padded = [each for part in parts for each in (empty, part, empty)]
    ours, theirs = answers_of(stream(), CORNERS, padded), answers_of(stream(), CORNERS, parts)
    for name in CORNERS:
        found = [[(a.as_of, a.complete, rows_of(a.table)) for a in answers[name]] for answers in (ours, theirs)]
        assert found[0] == found[1]
    assert all(not answers for answers in answers_of(stream(), CORNERS, [empty, empty]).values())


def test_nothing_but_nulls() -> None:
    rows = [(START + i * SECOND, None, None, None, None, None) for i in range(1, 7)]
    found = {
        name: [a.table.to_pylist() for a in answers]
        for name, answers in answers_of(stream(), CORNERS, [to_table(rows)]).items()
    }
    assert found["rows"] == [[{"k": None, "n": n, "d": 0}] for n in (2, 4, 4)]
    assert found["last"] == [[{"k": None, "n": n}] for n in (1, 2, 2, 2, 2, 2)]
    assert found["ever"][-1] == [{"k": None, "n": 6, "m": None}]
    assert all(rows == [] for rows in found["top"])
    assert all(rows == [{"n": 1, "m": None}] for rows in found["gaps"])


def test_tuples_without_a_timestamp_get_no_number() -> None:
    rows = [row if i % 2 else (None, *row[1:]) for i, row in enumerate(ROWS[:10])]
    answers = answers_of(stream(), {"q": "SELECT COUNT(*) AS n, SUM(v) AS t FROM s [ROWS 9 SLIDE 5]"}, [to_table(rows)])
    assert [a.table.to_pylist() for a in answers["q"]] == [[{"n": 5, "t": 2 + 4 + 6 + 8 + 10}]]


def test_ties_at_the_watermark_are_counted_in_the_order_of_arrival() -> None:
    """All tuples of one timestamp, in several micro-batches: none may be counted before the watermark has passed it."""
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({"q": "SELECT HISTOGRAM(v) FROM s [ROWS 1 SLIDE 1]"}, feed.declared))
    for v in (3, 1, 2):
        assert feed.push(to_table([(START, 1, None, v, None, None)] * 2)) == []
    answers = feed.push(to_table([(START + 1, 1, None, 9, None, None)])) + feed.finish()
    assert [a.table["v"][0].as_py() for a in answers] == [3, 3, 1, 1, 2, 2, 9]


def heartbeat(feed: Feed, at: float) -> list[Answer]:
    """No tuple before a time is to come: what waits for it is counted."""
    watermark = START + round(at * SECOND)
    passed = max(watermark, feed.runtime.watermark or watermark)
    counted = None if feed.pending is None else feed.number(to_table([]), passed)
    return feed.runtime.advance(watermark, counted).answers


def test_heartbeats_count_what_waits() -> None:
    feed = Feed(stream(delay=10 * SECOND))
    feed.runtime.synchronise(
        compiled({"q": "SELECT SUM(v) AS t, COUNT(*) AS n FROM s [ROWS 3 SLIDE 1]"}, feed.declared)
    )

    def at(seconds: float, v: int) -> list[Answer]:
        return feed.push(to_table([(START + round(seconds * SECOND), 1, None, v, None, None)]))

    assert heartbeat(feed, 0) == []
    assert at(5, 1) + at(3, 2) + at(4, 4) == []
    # Those at 3 and 4 are passed, the one at the very time of the heartbeat is not.
    assert [a.table["t"][0].as_py() for a in heartbeat(feed, 5)] == [2, 6]
    # A heartbeat of the past changes nothing; a tuple before the last one is late, one at its time is not.
    assert heartbeat(feed, 1) == []
    assert at(4.9, 100) + at(5, 8) == []
    assert [a.table["t"][0].as_py() for a in heartbeat(feed, 30)] == [7, 13]
    assert feed.finish() == []
    assert feed.runtime.counted == 4


# -- failures through Spark --------------------------------------------------------------------------------


@pytest.fixture
def session(spark: Any) -> Iterator[sash.Session]:
    with sash.connect(spark=spark) as opened:
        yield opened


@pytest.mark.spark
def test_a_division_by_zero_fails_its_query_alone(session: sash.Session, tmp_path: Path) -> None:
    """In an item, an argument, and a row-based window; a guard protects, neighbours go on."""
    for part in range(2):
        write(tmp_path / "data", part, [(part * 4 + i + 0.1, i, 0 if (part, i) == (1, 1) else i + 1) for i in range(4)])
    create(session, tmp_path / "data")
    good = session.register("SELECT COUNT(DISTINCT v) AS d FROM s [WINDOW 4 sec SLIDE 4 sec]", "good")
    guarded = session.register(
        "SELECT COUNT(DISTINCT 12 / v) AS d FROM s [WINDOW 4 sec SLIDE 4 sec] WHERE v <> 0", "guarded"
    )
    rows = session.register("SELECT COUNT(*) AS n FROM s [ROWS 4 SLIDE 4]", "rows")
    shielded = session.register("SELECT COUNT(DISTINCT 12 / v) AS d FROM s [ROWS 4 SLIDE 4] WHERE v <> 0", "shielded")
    bad = [
        session.register("SELECT COUNT(DISTINCT 12 / v) AS d FROM s [WINDOW 4 sec SLIDE 4 sec]", "distinct"),
        session.register("SELECT TOP(2, k, SUM(12 / v)) FROM s [WINDOW 4 sec SLIDE 4 sec]", "weighed"),
        session.register("SELECT APPROX_COUNT_DISTINCT(12 / v) AS d FROM s [WINDOW 4 sec SLIDE 4 sec]", "sketch"),
        session.register("SELECT HISTOGRAM(12 / v) FROM s [ROWS 4 SLIDE 4]", "by_rows"),
    ]
    session.run()
    for query in bad:
        assert "DIVIDE_BY_ZERO" in str(query.error), query.name
    for query in (good, guarded, rows, shielded):
        assert query.error is None, query.name
    assert [a.table["d"][0].as_py() for a in good.answers()] == [4, 4]
    assert [a.table["d"][0].as_py() for a in guarded.answers()] == [4, 3]
    assert [a.table["n"][0].as_py() for a in rows.answers()] == [4, 4]
    assert [a.table["d"][0].as_py() for a in shielded.answers()] == [4, 3]


@pytest.mark.spark
@pytest.mark.parametrize("after", [True, False])
def test_a_division_by_zero_of_a_tuple_that_waited_fails_its_query_alone(
    session: sash.Session, tmp_path: Path, after: bool
) -> None:
    """A later micro-batch than its own, or the end of input, counts the tuple."""
    write(tmp_path / "data", 0, [(0.1, 1, 1), (1.1, 1, 2), (2.1, 1, 0)])
    if after:
        write(tmp_path / "data", 1, [(3.1, 1, 1), (4.1, 1, 2)])
    create(session, tmp_path / "data")
    good = session.register("SELECT COUNT(*) AS n FROM s [ROWS 2 SLIDE 1]", "good")
    bad = session.register("SELECT COUNT(DISTINCT 12 / v) AS d FROM s [ROWS 2 SLIDE 1]", "bad")
    session.run()
    assert "DIVIDE_BY_ZERO" in str(bad.error)
    assert good.error is None
    assert [a.table["n"][0].as_py() for a in good.answers()] == [1, *[2] * (4 if after else 2)]


@pytest.mark.spark
def test_a_tuple_that_waited_fails_no_query_that_never_sees_it(session: sash.Session, tmp_path: Path) -> None:
    """A query over time that came after the tuple was read would fail on it, but does not read it."""
    write(tmp_path / "data", 0, [(0.1, 1, 1), (1.1, 1, 2), (2.1, 1, 0)])
    write(tmp_path / "data", 1, [(5.1, 1, 1), (6.1, 1, 2), (9.1, 1, 3)])
    create(session, tmp_path / "data")
    bad = session.register("SELECT SUM(12 / v) AS t FROM s [ROWS 1 SLIDE 1]", "bad")
    late: list[sash.Query] = []

    def come(answer: sash.Answer) -> None:
        if not late:
            late.append(session.register("SELECT SUM(12 / v) AS t FROM s [WINDOW 2 sec SLIDE 2 sec]", "late"))

    bad.subscribe(come)
    session.run()
    assert "DIVIDE_BY_ZERO" in str(bad.error)
    (query,) = late
    assert query.error is None
    assert [a.table["t"][0].as_py() for a in query.answers() if a.complete][-1] == 4.0


@pytest.mark.spark
def test_late_tuples_of_row_windows_are_dropped_and_counted(session: sash.Session, tmp_path: Path) -> None:
    """Also when no window over time is there to notice them."""
    write(tmp_path / "data", 0, [(1.1, 1, 1), (2.1, 1, 2), (9.1, 1, 4)])
    write(tmp_path / "data", 1, [(3.1, 1, 100), (4.1, 1, 100), (10.1, 1, 8)])
    create(session, tmp_path / "data", "LATE REVISE")
    query = session.register("SELECT SUM(v) AS t FROM s [ROWS 3 SLIDE 1]", "q")
    session.run()
    assert [a.table["t"][0].as_py() for a in query.answers()] == [1, 3, 7, 14]
    assert session.stats()["late_tuples"] == 2


@pytest.mark.spark
def test_what_a_session_refuses_and_answers(session: sash.Session, tmp_path: Path) -> None:
    """Refused when registered, so that nothing is stored for it; questions before, with and without cover."""
    for part in range(3):
        write(tmp_path / "data", part, [(part * 4 + i + 0.1, i % 2, i) for i in range(4)])
    create(session, tmp_path / "data")
    with pytest.raises(SashError, match="MAX is not subtractable"):
        session.register("SELECT MAX(v) AS m FROM s [WINDOW 9 sec SLIDE 1 sec]", "max", synopsis="running")
    with pytest.raises(SashError, match="MAX is not subtractable"):
        session.sql("REGISTER QUERY max AS SELECT MAX(v) AS m FROM s [WINDOW 9 sec SLIDE 1 sec] SYNOPSIS RUNNING")
    with pytest.raises(SashError, match="has no length"):
        session.register("SELECT FREQUENT(2, v) FROM s [UNBOUNDED SLIDE 1 sec]", "frequent")
    assert not session.queries
    with pytest.raises(SashError, match="nothing to ask"):
        session.query("SELECT SUM(v) AS t FROM s [ROWS 4]")
    session.register("SELECT SUM(v) AS t FROM s [ROWS 8 SLIDE 4]", "rows")
    session.register("SELECT k, MAX(v) AS m FROM s [UNBOUNDED SLIDE 2 sec] GROUP BY k", "ever")
    session.run()
    assert session.query("SELECT SUM(v) AS t FROM s [ROWS 4]").to_pylist() == [{"t": 6}]
    assert session.query("SELECT AVG(v) AS t FROM s [ROWS 8]").to_pylist() == [{"t": 1.5}]
    assert session.query("SELECT k, MAX(v) AS m FROM s [UNBOUNDED] GROUP BY k").num_rows == 2
    for text, why in (
        ("SELECT SUM(v) AS t FROM s [ROWS 2]", "does not fit the stored panes of 4 rows"),
        ("SELECT SUM(v) AS t FROM s [ROWS 12]", "keeps 8 rows, the question looks back 12 rows"),
        ("SELECT SUM(v) AS t FROM s [PARTITION BY k ROWS 2]", "no synopsis of stream 's' holds SUM"),
        ("SELECT k, MIN(v) AS m FROM s [UNBOUNDED] GROUP BY k", "no synopsis of stream 's' holds MIN"),
    ):
        with pytest.raises(SashError, match=re.escape(why)):
            session.query(text)
    # A query that comes now is answered at once from the rows that are there.
    late = session.register("SELECT SUM(v) AS t FROM s [ROWS 4 SLIDE 4]", "late")
    (first,) = late.answers()
    assert first.complete and first.table.to_pylist() == [{"t": 6}] and seconds([first]) == [11.1]


def test_execute_refuses_a_text() -> None:
    with SparklessSession() as session, pytest.raises(SashError, match=r"a parsed statement, not a str; sql\(\) takes"):
        session.execute("SHOW QUERIES")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["_t", "_arrival", "_leaf", "_bucket", "_K0"])
def test_a_column_named_as_one_of_ours_is_refused(name: str) -> None:
    declared = Stream("s", pa.schema([("ts", pa.timestamp("us", "UTC")), (name, pa.int32())]), "ts")
    with pytest.raises(sash.CatalogError, match=f"column '{name}' of stream 's' has a name that Sash uses itself"):
        checked(declared)
