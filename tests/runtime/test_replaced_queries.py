"""REGISTER OR REPLACE, ALTER, PAUSE and RESUME QUERY while a stream runs.

Oracles: each complete answer is recomputed from all tuples; a session with pauses gives the answers of one without
them; the time that ALTER names is the time of the first complete answer; a process that dies at any moment of a
statement gives the answers of one that does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash.storage.epochs
from sash.catalog import RegisteredQuery, Route
from sash.core.errors import CatalogError, CheckpointError, CqlError, SashError
from sash.core.time import SECOND, to_datetime, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import Query
from sash.runtime.records.catalog_history import CatalogHistory
from tests.support.examples import examples
from tests.support.faults import Killed, dying
from tests.support.oracle import recompute, same_rows
from tests.support.sparkless_session import SparklessSession, at, tuples
from tests.support.streams import START, stream, to_table

COUNT = "SELECT COUNT(*) AS n FROM s [WINDOW {} sec SLIDE EXACTLY {} sec]{}"


def seconds(first: int, last: int) -> Any:
    """A tuple in the middle of each second."""
    return tuples(*((second + 0.5, second % 3, second) for second in range(first, last)))


def told(answers: list[Answer]) -> list[tuple[float, bool, int]]:
    """(second, complete, n)"""
    return [((to_micros(each.as_of) - START) / SECOND, each.complete, each.table["n"][0].as_py()) for each in answers]


class Follower:
    """Subscribes once, to the handle that a query keeps."""

    def __init__(self, query: Query) -> None:
        self.answers: list[Answer] = []
        query.subscribe(self.answers.append)

    def take(self) -> list[tuple[float, bool, int]]:
        found = told(self.answers)
        self.answers.clear()
        return found


@pytest.fixture
def session() -> Iterator[SparklessSession]:
    with SparklessSession() as session:
        session.declare(stream())
        yield session


# -- OR REPLACE --------------------------------------------------------------------------------------------


def test_the_handle_and_its_subscribers_go_on_and_panes_stay(session: SparklessSession) -> None:
    query = session.register(COUNT.format(6, 2, ""), "q")
    follower = Follower(query)
    session.push("s", seconds(0, 11))
    assert follower.take()[-1] == (10.0, True, 6)
    again = session.register(COUNT.format(4, 1, ""), "Q", comment="shorter", replace=True)
    assert again is query and session.queries == {"q": query}
    assert (query.text, query.comment, query.serial) == (COUNT.format(4, 1, ""), "shorter", 2)
    session.push("s", seconds(11, 13))
    # The first second of a window that SLIDE 1 cuts out of panes of two is not known.
    assert [answer[:2] for answer in follower.take()] == [(11.0, False), (12.0, False)]
    session.push("s", seconds(13, 17))
    assert follower.take()[-1] == (16.0, True, 4)
    assert query.answered == len(query.answers()) == 11


def test_a_shorter_window_is_complete_at_once_and_a_longer_one_when_panes_reach(session: SparklessSession) -> None:
    query = session.register(COUNT.format(8, 2, ""), "q")
    follower = Follower(query)
    session.push("s", seconds(0, 21))
    follower.take()
    session.sql(f"REGISTER OR REPLACE QUERY q AS {COUNT.format(4, 2, '')}")
    session.push("s", seconds(21, 23))
    assert follower.take() == [(22.0, True, 4)]
    session.sql(f"REGISTER OR REPLACE QUERY q AS {COUNT.format(10, 2, '')}")
    session.push("s", seconds(23, 31))
    # Panes are stored from second 18 on.
    assert follower.take() == [(24.0, False, 6), (26.0, False, 8), (28.0, True, 10), (30.0, True, 10)]


def test_equal_text_changes_nothing(session: SparklessSession) -> None:
    session.register(COUNT.format(6, 2, ""), "q", priority=2, lifetime="1 min", comment="c")
    before, query = session.catalog.query("q"), session.queries["q"]
    text = f"REGISTER OR REPLACE QUERY q AS {COUNT.format(6, 2, '')} PRIORITY 2 LIFETIME 1 min COMMENT 'c'"
    assert session.sql(text) is query and session.catalog.query("q") is before


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM t [WINDOW 6 sec SLIDE 2 sec]",
        "SELECT COUNT(nothing) AS n FROM s [WINDOW 6 sec SLIDE 2 sec]",
        "SELECT COUNT(*) AS n FROM s [WINDOW 6500 milliseconds SLIDE 2 sec]",
        "SELECT FREQUENT(3, k) FROM s [UNBOUNDED SLIDE 2 sec]",
        "SELECT k FROM s [WINDOW 6 sec]",
        "SELECT a.k FROM s [WINDOW 6 sec SLIDE 2 sec] a, s [WINDOW 2 sec SLIDE 2 sec] b WHERE a.k = b.k",
    ],
)
def test_what_cannot_be_registered_leaves_the_query_as_it_is(session: SparklessSession, text: str) -> None:
    follower = Follower(session.register(COUNT.format(6, 2, ""), "q"))
    session.push("s", seconds(0, 8))
    version = session.catalog.query("q")
    with pytest.raises(SashError):
        session.register(text, "q", replace=True)
    assert session.catalog.query("q") is version
    session.push("s", seconds(8, 11))
    assert follower.take()[-2:] == [(8.0, True, 6), (10.0, True, 6)]


def test_continuous_queries_are_refused_at_the_word(session: SparklessSession) -> None:
    text = "SELECT k FROM s [RANGE 2 sec]"
    session.catalog.add_query(RegisteredQuery("c", text, "s", serial=2, streams=("s",), route=Route.CHANGES))
    statements = {
        f"REGISTER OR REPLACE QUERY c AS {COUNT.format(6, 2, '')}": ("OR REPLACE", "OR REPLACE cannot take over"),
        "ALTER QUERY c SET (COMMENT 'x')": ("c", "ALTER QUERY cannot take over"),
        "PAUSE QUERY c": ("c", "PAUSE QUERY does not stop"),
    }
    for text, (place, what) in statements.items():
        reason = rf"answered from the state of a plan, which {what}.* DROP QUERY it"
        with pytest.raises(CqlError, match=reason) as error:
            session.sql(text)
        assert error.value.span is not None and text[error.value.span.start : error.value.span.end] == place
    for text in ("PAUSE QUERY d", "RESUME QUERY d", "ALTER QUERY d SET (PRIORITY 1)"):
        with pytest.raises(CqlError, match=r"unknown query 'd'.*\(line 1"):
            session.sql(text)


def test_a_query_that_failed_goes_on_with_another_text() -> None:
    with SparklessSession(max_groups=2) as session:
        session.declare(stream())
        query = session.register("SELECT v, COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec] GROUP BY v", "q")
        session.push("s", tuples(*((0.5, 0, v) for v in range(5)), (5, 0, 0)))
        assert query.failure is not None
        with pytest.raises(CqlError, match=r"failed.*REGISTER OR REPLACE"):
            query.pause()
        session.register(COUNT.format(2, 2, ""), "q", replace=True)
        assert query.failure is None
        session.push("s", seconds(6, 11))
        assert query.failure is None and told(query.answers())[-1] == (10.0, True, 2)


class Sink:
    name, channel = "a list", None

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def write(self, answers: Any) -> None:
        self.rows += [each.table.to_pylist() for each in answers]


def test_sinks_go_on_and_columns_stay(session: SparklessSession) -> None:
    from sash.runtime.answers.outlet import Outlet

    query, sink = session.register(COUNT.format(2, 2, ""), "q"), Sink()
    query.outward.add(Outlet("q", sink, None, str))
    session.push("s", seconds(0, 5))
    with pytest.raises(CatalogError, match="query 'q' writes to a list, and its answers would have other columns"):
        session.register(COUNT.format(2, 2, "").replace("AS n", "AS m"), "q", replace=True)
    session.register(COUNT.format(4, 2, ""), "q", replace=True)
    session.push("s", seconds(5, 9))
    assert sink.rows == [[{"n": 2}], [{"n": 2}], [{"n": 4}], [{"n": 4}]]


def test_other_columns_are_taken_where_nothing_is_written(session: SparklessSession) -> None:
    query = session.register(COUNT.format(2, 2, ""), "q")
    session.push("s", seconds(0, 5))
    session.register("SELECT MAX(v) AS m FROM s [WINDOW 2 sec SLIDE 2 sec]", "q", replace=True)
    session.push("s", seconds(5, 9))
    assert [each.table.schema.names for each in query.answers()] == [["n"]] * 2 + [["m"]] * 2
    assert query.columns() == ([], ["m"])


def test_archives_of_a_query_go_on(tmp_path: Path) -> None:
    with SparklessSession(checkpoint=tmp_path) as session:
        session.declare(stream())
        session.register("SELECT k, COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec] GROUP BY k", "q")
        session.sql("CREATE ARCHIVE old FROM q KEY k LIFETIME UP TO 1 min UPDATE EVERY 10 sec")
        session.sql("ALTER QUERY q SET (WHERE v >= 0) ALLOW INCOMPLETE")
        session.sql("PAUSE QUERY q")
        session.sql("RESUME QUERY q")
        with pytest.raises(CatalogError, match="query 'q' writes to archive old, and"):
            session.register("SELECT k, MAX(v) AS n FROM s [WINDOW 2 sec SLIDE 2 sec] GROUP BY k", "q", replace=True)
        with pytest.raises(CatalogError, match="fills the archive old"):
            session.sql("DROP QUERY q")
    with SparklessSession(checkpoint=tmp_path) as session:
        assert session.stats()["archives"]["old"]["error"] is None
        assert [each.sink for each in session.queries["q"].outward.outlets] == ["archive old"]


def test_an_epoch_under_way_sees_the_query_before(session: SparklessSession) -> None:
    """A subscriber changes its query from inside of an epoch: the rest of the epoch's answers still comes."""
    query, seen = session.register(COUNT.format(4, 2, ""), "q"), list[Answer]()
    statements = ["ALTER QUERY q SET (WINDOW 2 sec)", "PAUSE QUERY q"]

    def change(answer: Answer) -> None:
        seen.append(answer)
        if statements and answer.complete:
            session.sql(statements.pop(0))

    query.subscribe(change)
    session.push("s", seconds(0, 9))
    assert query.is_paused
    assert told(seen) == [(2.0, False, 2), (4.0, True, 4), (6.0, True, 4), (8.0, True, 4)]
    query.resume()
    session.push("s", seconds(9, 13))
    assert told(seen)[4:] == [(10.0, True, 2), (12.0, True, 2)]


# -- ALTER -------------------------------------------------------------------------------------------------


def test_alter_says_what_would_be_lost_before_it_is(session: SparklessSession) -> None:
    session.register(COUNT.format(6, 2, " WHERE v >= 0"), "q")
    # Nothing has come: there is nothing to lose.
    session.sql("ALTER QUERY q SET (WHERE v >= 1)")
    follower = Follower(session.queries["q"])
    session.push("s", seconds(0, 21))
    follower.take()
    before = session.catalog.query("q")
    for settings_, until, word in [
        ("WINDOW 10 sec", "22:13:44", "10 sec"),
        ("SLIDE 1 sec", "22:13:48", "1 sec"),
        ("PRIORITY 2, WHERE v > 5", "22:13:48", "v > 5"),
    ]:
        text = f"ALTER QUERY q SET ({settings_})"
        moment = re.escape(until)
        with pytest.raises(CqlError, match=f"not be complete before .*{moment}.*: ALTER .* ALLOW INCOMPLETE") as error:
            session.sql(text)
        assert error.value.span is not None and text[error.value.span.start : error.value.span.end] == word
        assert session.catalog.query("q") is before
    session.sql("ALTER QUERY q SET (SLIDE 4 sec, WINDOW 4 sec, PRIORITY 3, LIFETIME 1 min, COMMENT 'c')")
    now = session.catalog.query("q")
    assert (now.priority, now.lifetime, now.comment) == (3, 60 * SECOND, "c")
    assert now.text == COUNT.format(4, 4, " WHERE v >= 1")
    session.push("s", seconds(21, 25))
    assert follower.take() == [(24.0, True, 4)]


def test_alter_of_rows_counts_tuples(session: SparklessSession) -> None:
    session.register("SELECT COUNT(*) AS n FROM s [ROWS 4 SLIDE EXACTLY 1]", "q")
    session.push("s", seconds(0, 11))
    with pytest.raises(CqlError, match="not be complete before 12 tuples have been counted"):
        session.sql("ALTER QUERY q SET (WINDOW 6)")
    session.sql("ALTER QUERY q SET (WINDOW 6) ALLOW INCOMPLETE")
    session.push("s", seconds(11, 15))
    numbered = {each.rows: each.complete for each in session.queries["q"].answers()}
    assert numbered[10] and not numbered[11] and numbered[12] and numbered[14]


def test_alter_of_what_never_ends_is_never_complete_again(session: SparklessSession) -> None:
    session.register("SELECT COUNT(*) AS n FROM s [UNBOUNDED SLIDE EXACTLY 2 sec]", "q")
    session.push("s", seconds(0, 11))
    with pytest.raises(CqlError, match="never be complete again"):
        session.sql("ALTER QUERY q SET (WHERE v > 3)")
    session.sql("ALTER QUERY q SET (SLIDE 4 sec)")
    session.push("s", seconds(11, 17))
    assert told(session.queries["q"].answers())[-2:] == [(12.0, True, 12), (16.0, True, 16)]


SHAPES = st.tuples(
    st.integers(1, 12),
    st.integers(1, 6),
    st.sampled_from(["", " WHERE v > 0", " WHERE v > 0 AND k = 1", " WHERE k = 1"]),
)


@settings(max_examples=examples(60))
@given(before=SHAPES, beside=st.lists(SHAPES, max_size=2), after=SHAPES, now=st.integers(1, 40))
def test_the_time_that_alter_names_is_that_of_the_first_complete_answer(
    before: Any, beside: list[Any], after: Any, now: int
) -> None:
    with SparklessSession() as session:
        session.declare(stream())
        session.register(COUNT.format(*before), "q")
        for number, shape in enumerate(beside):
            session.register(COUNT.format(*shape), f"b{number}")
        session.push("s", seconds(0, now))
        follower, where = Follower(session.queries["q"]), after[2].removeprefix(" WHERE ") or "TRUE"
        change = f"ALTER QUERY q SET (WINDOW {after[0]} sec, SLIDE {after[1]} sec, WHERE {where})"
        first = 0.0
        try:
            session.sql(change)
        except CqlError as error:
            found = re.search(r"before (\S+?):? ALTER|before (\S+)", str(error))
            assert found is not None
            moment = datetime.fromisoformat((found[1] or found[2]).rstrip(":"))
            first = (to_micros(moment) - START) / SECOND
            session.sql(f"{change} ALLOW INCOMPLETE")
        session.push("s", seconds(now, now + 40))
        for second, complete, _ in follower.take():
            # The stream itself may be younger than the window.
            assert complete == (second >= max(first, after[0])), (first, second)


# -- PAUSE and RESUME --------------------------------------------------------------------------------------


def test_a_paused_query_is_silent_and_complete_when_it_is_resumed(session: SparklessSession) -> None:
    query = session.register(COUNT.format(6, 2, ""), "q")
    follower = Follower(query)
    session.push("s", seconds(0, 9))
    assert follower.take()[-1] == (8.0, True, 6)
    query.pause()
    query.pause()
    assert query.is_paused and "paused" in repr(query)
    assert session.sql("SHOW QUERIES")["state"].to_pylist() == ["paused"]
    assert session.stats()["queries"]["q"]["paused"]
    assert 'sash_query_paused{query="q"} 1' in session.metrics()
    session.push("s", seconds(9, 31))
    assert follower.take() == []
    assert session.schedule()["predicted_cost"]["conservative"] == 0
    facts = dict(zip(*session.sql("DESCRIBE q").to_pydict().values(), strict=True))  # type: ignore[union-attr]
    assert facts["state"] == "paused"
    extended = dict(zip(*session.sql("DESCRIBE EXTENDED q").to_pydict().values(), strict=True))  # type: ignore[union-attr]
    assert extended["state"] == "paused" and "schedule" in extended
    session.sql("RESUME QUERY Q")
    session.sql("RESUME QUERY Q")
    session.push("s", seconds(31, 35))
    assert not query.is_paused and follower.take() == [(32.0, True, 6), (34.0, True, 6)]


def test_what_is_paused_is_altered_and_stays_paused(session: SparklessSession) -> None:
    query = session.register(COUNT.format(6, 2, ""), "q")
    session.push("s", seconds(0, 9))
    query.pause()
    session.sql("ALTER QUERY q SET (WINDOW 4 sec)")
    session.register(COUNT.format(2, 2, ""), "q", replace=True)
    assert query.is_paused
    session.push("s", seconds(9, 13))
    query.resume()
    session.push("s", seconds(13, 17))
    assert told(query.answers())[-2:] == [(14.0, True, 2), (16.0, True, 2)]


def test_a_life_goes_on_while_its_query_is_paused_and_altered(session: SparklessSession) -> None:
    query = session.register(COUNT.format(2, 2, ""), "q", lifetime="10 sec")
    other = session.register(COUNT.format(2, 1, ""), "r", lifetime="10 sec")
    session.push("s", seconds(0, 5))
    session.sql("ALTER QUERY q SET (WINDOW 4 sec) ALLOW INCOMPLETE")
    other.pause()
    session.push("s", seconds(5, 9))
    assert set(session.queries) == {"q", "r"}
    session.push("s", seconds(9, 15))
    assert not session.queries and told(query.answers())[-1][0] == 10.0
    session.register(COUNT.format(2, 2, ""), "q", lifetime="10 sec")
    session.push("s", seconds(15, 20))
    # Another LIFETIME begins.
    session.sql("ALTER QUERY q SET (LIFETIME 20 sec)")
    session.push("s", seconds(20, 35))
    assert "q" in session.queries
    session.push("s", seconds(35, 45))
    assert not session.queries


@settings(max_examples=examples(40))
@given(
    windows=st.lists(st.tuples(st.integers(1, 10), st.integers(1, 5), st.sampled_from(["WINDOW", "ROWS", "UNBOUNDED"])),
                     min_size=1, max_size=3),
    steps=st.lists(st.tuples(st.sets(st.integers(0, 2)), st.integers(1, 9)), min_size=2, max_size=8),
)  # fmt: skip
def test_answers_with_pauses_are_those_without(windows: list[Any], steps: list[tuple[set[int], int]]) -> None:
    clauses = {
        "WINDOW": "[WINDOW {} sec SLIDE EXACTLY {} sec]",
        "ROWS": "[ROWS {} SLIDE EXACTLY {}]",
        "UNBOUNDED": "[UNBOUNDED SLIDE EXACTLY {1} sec]",
    }
    texts = {
        f"q{i}": f"SELECT COUNT(*) AS n, SUM(v) AS t FROM s {clauses[kind].format(length, slide)}"
        for i, (length, slide, kind) in enumerate(windows)
    }
    with SparklessSession() as paused, SparklessSession() as plain:
        for session in (paused, plain):
            session.declare(stream())
            for name, text in texts.items():
                session.register(text, name)
        expected: dict[str, list[Any]] = {name: [] for name in texts}
        now = 0
        for quiet, length in steps:
            marks = {name: len(plain.queries[name].answers()) for name in texts}
            for number, (name, query) in enumerate(paused.queries.items()):
                (query.pause if number in quiet else query.resume)()
                assert query.is_paused == (number in quiet), name
            for session in (paused, plain):
                session.push("s", seconds(now, now + length))
            now += length
            for number, name in enumerate(texts):
                if number not in quiet:
                    expected[name] += plain.queries[name].answers()[marks[name] :]
        for name, answers in expected.items():
            ours = paused.queries[name].answers()
            assert [(a.as_of, a.complete, a.table) for a in ours] == [(a.as_of, a.complete, a.table) for a in answers]


# -- any sequence, against recomputation -------------------------------------------------------------------

FORMS = [
    "SELECT COUNT(*) AS n, SUM(v) AS t FROM s {w}{where}",
    "SELECT k, MAX(v) AS m FROM s {w}{where} GROUP BY k",
    "SELECT g, COUNT(DISTINCT v) AS d FROM s {w}{where} GROUP BY g",
]
TEXTS = st.builds(
    lambda form, length, slide, exactly, where: (
        FORMS[form].format(w=f"[WINDOW {length} sec SLIDE {exactly}{slide} sec]", where=where), length
    ),
    st.integers(0, 2), st.integers(1, 9), st.integers(1, 4), st.sampled_from(["", "EXACTLY "]),
    st.sampled_from(["", " WHERE v > 0", " WHERE v > 0 AND k = 1"]),
)  # fmt: skip
STATEMENTS = st.one_of(
    st.tuples(st.just("register"), TEXTS),
    st.tuples(st.just("replace"), TEXTS),
    st.tuples(st.just("window"), st.integers(1, 9)),
    st.tuples(st.just("slide"), st.integers(1, 4)),
    st.tuples(st.just("where"), st.sampled_from(["v > 0", "v > 0 AND k = 1", "k = 1"])),
    st.tuples(st.sampled_from(["pause", "resume", "drop"]), st.none()),
)
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("abc"), STATEMENTS), max_size=4),
        st.lists(st.tuples(st.sampled_from([0, 300_000, SECOND, 1_300_000, 5 * SECOND]), st.integers(0, 2),
                           st.integers(-5, 9)), max_size=6),
    ),
    min_size=2, max_size=8,
)  # fmt: skip


class Model:
    """What each query asks now, and whether it is paused."""

    def __init__(self, session: SparklessSession) -> None:
        self.session = session
        self.texts: dict[str, tuple[str, int]] = {}
        self.paused: set[str] = set()

    def do(self, name: str, word: str, what: Any) -> None:
        if (word == "register") == (name in self.texts):
            if word in ("register", "replace"):
                word = "replace"
            elif name not in self.texts:
                return
        elif word != "register" and name not in self.texts and word != "replace":
            return
        text, length = self.texts.get(name, ("", 0))
        if word in ("register", "replace"):
            self.session.register(what[0], name, replace=word == "replace")
            self.texts[name] = what
        elif word == "window":
            self.session.sql(f"ALTER QUERY {name} SET (WINDOW {what} sec) ALLOW INCOMPLETE")
            self.texts[name] = (re.sub(r"WINDOW \d+", f"WINDOW {what}", text), what)
        elif word == "slide":
            self.session.sql(f"ALTER QUERY {name} SET (SLIDE {what} sec) ALLOW INCOMPLETE")
            self.texts[name] = (re.sub(r"(EXACTLY |SLIDE )\d+", rf"\g<1>{what}", text), length)
        elif word == "where":
            self.session.sql(f"ALTER QUERY {name} SET (WHERE {what}) ALLOW INCOMPLETE")
            plain, _, group = re.sub(r" WHERE .*?(?= GROUP|$)", "", text).partition(" GROUP")
            self.texts[name] = (f"{plain} WHERE {what}" + (f" GROUP{group}" if group else ""), length)
        elif word == "drop":
            self.session.drop_query(name)
            del self.texts[name]
            self.paused.discard(name)
        else:
            (self.session.pause_query if word == "pause" else self.session.resume_query)(name)
            (self.paused.add if word == "pause" else self.paused.discard)(name)


@settings(max_examples=examples(60))
@given(steps=STEPS, policy=st.sampled_from(["conservative", "no-sharing", "hybrid-late-pending"]))
def test_any_statements_between_micro_batches(steps: list[Any], policy: str) -> None:
    """Each epoch sees the queries of the model: their texts, and none that is paused; complete answers are right."""
    with SparklessSession(policy=policy) as session:
        session.declare(stream())
        model, now, rows, all_tuples = Model(session), START, list[Any](), to_table([])
        for statements, part in steps:
            for name, (word, what) in statements:
                model.do(name, word, what)
            assert {name: query.text for name, query in session.queries.items()} == {
                name: text for name, (text, _) in model.texts.items()
            }
            marks = {name: query.answered for name, query in session.queries.items()}
            rows = []
            for step, k, v in part:
                now += step
                rows.append((now, k, "abc"[k], v, v * 2**40, v / 4))
            table = to_table(rows)
            all_tuples = pa.concat_tables([all_tuples, table])
            session.push("s", table)
            for name, query in session.queries.items():
                assert query.error is None
                fresh = query.answers()[marks[name] :]
                assert not (fresh and name in model.paused)
                text, length = model.texts[name]
                for answer in [each for each in fresh if each.complete]:
                    theirs = recompute(text, all_tuples, to_micros(answer.as_of), length * SECOND)
                    assert same_rows(answer.table.to_pylist(), theirs), (text, answer)


# -- restarts ----------------------------------------------------------------------------------------------

STORY = [
    "REGISTER QUERY q AS SELECT k, COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE EXACTLY 2 sec] GROUP BY k",
    "REGISTER QUERY r AS SELECT COUNT(*) AS n FROM s [ROWS 8 SLIDE EXACTLY 3]",
    "REGISTER OR REPLACE QUERY q AS SELECT k, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE EXACTLY 2 sec] GROUP BY k",
    "PAUSE QUERY q",
    "ALTER QUERY r SET (WINDOW 5, PRIORITY 2)",
    "ALTER QUERY q SET (WHERE v > 3) ALLOW INCOMPLETE",
    "RESUME QUERY q",
    "ALTER QUERY q SET (WINDOW 6 sec) ALLOW INCOMPLETE",
]


class Life:
    """A program that tells its story to one checkpoint, in as many processes as it takes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.told: dict[tuple[str, Any], Any] = {}
        self.done = 0

    def _note(self, answer: Answer) -> None:
        found = (answer.complete, sorted(map(str, answer.table.to_pylist())))
        assert self.told.setdefault((answer.query, answer.as_of), found) == found

    def run(self) -> None:
        """Two seconds of tuples behind each statement."""
        session = SparklessSession(checkpoint=self.directory)
        try:
            session.declare(stream())
            self._go_on(session)
        finally:
            session.stop()
            assert session.checkpoint is not None
            session.checkpoint.close()

    def _go_on(self, session: SparklessSession) -> None:
        epoch = session.streams["s"].panes.epoch + 1
        # A statement whose line is in the history has happened, whether or not it has returned.
        for query in session.queries.values():
            query.subscribe(self._note)
        for number in range(epoch, len(STORY)):
            if session.catalog.queries == [] or self._version(session) < number + 1:
                known = set(session.queries)
                session.sql(STORY[number])
                for name in set(session.queries) - known:
                    session.queries[name].subscribe(self._note)
            session.push("s", seconds(4 * number, 4 * number + 4))

    @staticmethod
    def _version(session: SparklessSession) -> int:
        """How many statements about queries have happened."""
        assert session.checkpoint is not None
        return sum(change["change"] == "register query" for change in session.checkpoint.history.changes)


def died_at(directory: Path, moment: int, half: bool) -> Life:
    life = Life(directory)
    try:
        with dying(moment, half=half):
            life.run()
    except (Killed, CheckpointError):
        life.run()
    return life


@pytest.fixture(scope="module", autouse=True)
def no_syncs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


def check_deaths(directory: Path, step: int) -> None:
    whole = Life(directory / "whole")
    with dying(-1) as counting:
        whole.run()
    assert {name for name, _ in whole.told} == {"q", "r"} and len(whole.told) > 15
    for moment in range(3, counting.moments, step):
        assert died_at(directory / str(moment), moment, half=moment % 2 == 0).told == whole.told, moment


@pytest.mark.parametrize("snapshots", [2, 1_000])
def test_a_process_that_dies_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshots: int) -> None:
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", snapshots)
    check_deaths(tmp_path, step=31)


@pytest.mark.deep
@pytest.mark.parametrize("snapshots", [2, 1_000])
def test_a_process_that_dies_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshots: int) -> None:
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", snapshots)
    check_deaths(tmp_path, step=1)


def test_what_is_paused_and_altered_stays_so_after_a_restart(tmp_path: Path) -> None:
    first = COUNT.format(6, 2, "")
    with SparklessSession(checkpoint=tmp_path) as session:
        session.declare(stream())
        session.register(first, "q")
        session.register(first, "r", lifetime="30 sec")
        session.push("s", seconds(0, 9))
        session.sql("PAUSE QUERY q")
        session.sql("PAUSE QUERY r")
        session.push("s", seconds(9, 13))
        serial = session.queries["q"].serial
    with SparklessSession(checkpoint=tmp_path) as session:
        session.declare(stream())
        # The program registers its queries again.
        query = session.register(first, "q")
        assert query.is_paused and query.serial == serial
        session.push("s", seconds(13, 17))
        assert told(query.answers())[-1][0] == 8.0
        query.resume()
        session.push("s", seconds(17, 21))
        assert told(query.answers())[-2:] == [(18.0, True, 6), (20.0, True, 6)]
        session.sql("ALTER QUERY q SET (WINDOW 4 sec)")
        session.push("s", seconds(21, 41))
        assert set(session.queries) == {"q"}
    with SparklessSession(checkpoint=tmp_path) as session:
        session.declare(stream())
        with pytest.raises(CatalogError, match=r"its text is .* REGISTER OR REPLACE it"):
            session.register(first, "q")
        query = session.register(first, "q", replace=True)
        session.push("s", seconds(41, 49))
        assert told(query.answers())[-1] == (48.0, True, 6)


def test_the_history_forgets_what_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sash.runtime.records.catalog_history.COMPACT_EVERY", 5)
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 4)
    with SparklessSession(checkpoint=tmp_path) as session:
        session.declare(stream())
        session.register(COUNT.format(6, 2, ""), "q")
        for number in range(60):
            session.sql(f"ALTER QUERY q SET (PRIORITY {number + 1})")
            session.push("s", seconds(number, number + 1))
        expected = session.catalog.query("q")
    history = CatalogHistory(tmp_path / "catalog.jsonl")
    assert len(history.changes) < 25 and history.queries() == {"q": expected}
    assert to_datetime(at(0)) + timedelta(0) == to_datetime(START)
