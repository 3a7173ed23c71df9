"""Rule SS4 in the engine: a WHERE of several terms answered from the synopses of its terms, and the stored partials."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog
from sash.core.errors import SashError
from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.onetime import look_up
from sash.runtime.settings import PREDICATE_SHARING, Settings
from sash.sharing.choose import Load
from sash.sql import bind
from tests.support.checks import check_answers
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.journal import reread
from tests.support.streams import START, Registered, batches, stream, to_table

AGGREGATES = [
    "SUM(v) AS t, COUNT(*) AS n",
    "MAX(v) AS hi, MIN(x) AS lo",
    "AVG(v) AS mean",
    "COUNT(w) AS n",
    "SUM(x) AS t",
    "COUNT(DISTINCT v) AS d",
    "STDDEV(v) AS s",
    "MAX(g) AS last",
    "MAX(v) AS hi, COUNT(*) AS n",
]
PREDICATES = [
    "k = 1",
    "k = 2",
    "k = 3",
    "k = 1 OR k = 2",
    "k IN (1, 2, 3)",
    "v > 10",
    "k = 1 OR v > 10",
    "g IS NULL",
    "k = 2 OR k = 3",
    "v <= 10 OR v > 10",
    "v <= 10",
]
# Conditions that no tuple fulfils, or every tuple, or that are never known.
BAD_PREDICATES = [
    "v > 3 AND v < 2",
    "v BETWEEN 5 AND 1",
    "k = 1 AND k = 2",
    "k = 1 AND NOT k = 1",
    "1 = 2",
    "FALSE",
    "TRUE",
    "NULL",
    "NOT NULL",
    "v = NULL",
    "v <> v",
    "v > NULL OR v <= NULL",
    "k IN (NULL)",
    "k NOT IN (1, NULL)",
    "NULL AND k = 1",
    "k = 1 OR NULL",
    "(v > 3) IS NULL",
    "v IS NULL AND v > 0",
]


@st.composite
def workloads(draw: st.DrawFn, predicates: Sequence[str] = PREDICATES) -> list[Registered]:
    """Queries of a few aggregates under many predicates: covers are frequent."""
    chosen = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=2, unique=True))
    queries = []
    for i in range(draw(st.integers(2, 8))):
        length, slide = draw(st.integers(1, 9)), draw(st.integers(1, 4))
        by = draw(st.sampled_from(["", "g"]))
        what, where = draw(st.sampled_from(chosen)), draw(st.sampled_from(predicates))
        text = f"SELECT {by + ', ' if by else ''}{what} FROM s [WINDOW {length} sec SLIDE EXACTLY {slide} sec] "
        text += f"WHERE {where}{' GROUP BY ' + by if by else ''}"
        queries.append(Registered(f"q{i}", text, length * SECOND, slide * SECOND))
    return queries


def texts(queries: list[Registered]) -> dict[str, str]:
    return {query.name: query.text for query in queries}


@pytest.mark.parametrize("mode", PREDICATE_SHARING)
@settings(max_examples=examples(40))
@given(workloads(), batches(most=40))
def test_answers(mode: str, queries: list[Registered], parts: list[pa.Table]) -> None:
    feed = Feed(stream(), Settings("conservative", share_predicates=mode))
    feed.runtime.synchronise(compiled(texts(queries), feed.declared))
    answers = [answer for part in parts for answer in feed.push(part)] + feed.finish()
    check_answers(queries, answers, parts, feed.declared)


@pytest.mark.parametrize("mode", PREDICATE_SHARING)
@settings(max_examples=examples(40))
@given(workloads([*BAD_PREDICATES, *PREDICATES[:4]]), batches(most=40))
def test_conditions_that_contradict_themselves_or_are_null(
    mode: str, queries: list[Registered], parts: list[pa.Table]
) -> None:
    """They share panes with each other and with others, which have their own answers."""
    feed = Feed(stream(), Settings("conservative", share_predicates=mode))
    feed.runtime.synchronise(compiled(texts(queries), feed.declared))
    answers = [answer for part in parts for answer in feed.push(part)] + feed.finish()
    check_answers(queries, answers, parts, feed.declared)


@pytest.mark.parametrize("where", BAD_PREDICATES)
def test_a_bad_condition_beside_good_ones(where: str) -> None:
    """Its window is never empty: it answers at each slide, for whatever tuples it has; the others go on."""
    window = "[WINDOW 4 sec SLIDE EXACTLY 1 sec]"
    bad = Registered("bad", f"SELECT SUM(v) AS t, COUNT(*) AS n FROM s {window} WHERE {where}", 4 * SECOND, SECOND)
    good = Registered("good", f"SELECT SUM(v) AS t, COUNT(*) AS n FROM s {window} WHERE k = 1", 4 * SECOND, SECOND)
    part = to_table(
        [(START + t * SECOND, None if t == 5 else t % 3 + 1, None, t % 4 or None, t, None) for t in range(12)]
    )
    feed = Feed(stream(), Settings("conservative", share_predicates="always"))
    feed.runtime.synchronise(compiled(texts([bad, good]), feed.declared))
    answers = feed.push(part) + feed.finish()
    check_answers([bad, good], answers, [part], feed.declared)
    assert sum(answer.query == "bad" for answer in answers) == sum(answer.query == "good" for answer in answers) == 12


@settings(max_examples=examples(60))
@given(workloads(), batches(most=40), st.data())
def test_queries_come_and_go(queries: list[Registered], parts: list[pa.Table], data: st.DataObject) -> None:
    """Complete answers are right while queries come and go, and through a save and a load in between."""
    feed = Feed(stream(), Settings("conservative", share_predicates="always"))
    known = {each.name: each for each in compiled(texts(queries), feed.declared)}
    answers: list[Answer] = []
    for part in parts:
        alive = [each for each in known.values() if data.draw(st.integers(0, 4)) > 0]
        feed.runtime.synchronise(alive)
        if data.draw(st.booleans()):
            _restart(feed, alive)
        answers += [answer for answer in feed.push(part) if answer.complete]
    check_answers(queries, answers, parts, feed.declared)


def _restart(feed: Feed, alive: list[CompiledQuery]) -> None:
    saved = stream_snapshot.save(feed.runtime)
    fresh = Feed(feed.declared, feed.runtime.settings)
    fresh.runtime.synchronise(alive)
    stream_snapshot.load(fresh.runtime, reread(saved))
    feed.runtime = fresh.runtime


SUM = "SELECT SUM(v) AS t FROM s [WINDOW 4 sec SLIDE 1 sec] WHERE {where}"
TCP, UDP, BOTH = (SUM.format(where=where) for where in ("k = 1", "k = 2", "k = 1 OR k = 2"))


def predicates(feed: Feed) -> set[str]:
    (group,) = feed.runtime.groups.values()
    return {partial.predicate.sql for partial in group.table.partials if partial.predicate is not None}


def run(feed: Feed, first: int, last: int) -> list[Answer]:
    rows = [(START + t * SECOND, t % 3 + 1, None, t, None, None) for t in range(first, last)]
    return [answer for row in rows for answer in feed.push(to_table([row]))]


def sums(answers: list[Answer], query: str) -> dict[int, int]:
    mine = [answer for answer in answers if answer.query == query]
    return {(to_micros(a.as_of) - START) // SECOND: a.table["t"][0].as_py() for a in mine}


def expected(t: int, keys: tuple[int, ...]) -> int | None:
    values = [i for i in range(max(0, t - 3), t + 1) if i % 3 + 1 in keys]
    return sum(values) if values else None


def test_two_synopses_serve_three_queries() -> None:
    """The papers' saving of a third; never: each has its own."""
    always, never = (Feed(stream(), Settings("conservative", share_predicates=mode)) for mode in ("always", "never"))
    for feed in (always, never):
        feed.runtime.synchronise(compiled({"tcp": TCP, "udp": UDP, "both": BOTH}, feed.declared))
        answers = sums(run(feed, 0, 12), "both")
        assert answers == {t: expected(t, (1, 2)) for t in range(11)}
    assert len(predicates(always)) == 2 and len(predicates(never)) == 3


def test_by_subtraction() -> None:
    feed = Feed(stream(), Settings("conservative", share_predicates="always"))
    feed.runtime.synchronise(compiled({"both": BOTH, "udp": UDP, "tcp": TCP}, feed.declared))
    answers = run(feed, 0, 12)
    assert sums(answers, "tcp") == {t: expected(t, (1,)) for t in range(11)}
    assert len(predicates(feed)) == 2


def test_a_new_query_has_the_past_of_those_that_cover_it() -> None:
    feed = Feed(stream(), Settings("conservative", share_predicates="always"))
    tcp, udp, both = compiled({"tcp": TCP, "udp": UDP, "both": BOTH}, feed.declared)
    feed.runtime.synchronise([tcp, udp])
    run(feed, 0, 8)
    feed.runtime.synchronise([tcp, udp, both])
    answers = [answer for answer in run(feed, 8, 9) if answer.query == "both"]
    assert [answer.complete for answer in answers] == [True]
    assert sums(answers, "both") == {7: expected(7, (1, 2))}


def test_a_cover_that_nobody_else_reads_is_put_together_for_good() -> None:
    feed = Feed(stream(), Settings("conservative", share_predicates="always"))
    tcp, udp, both = compiled({"tcp": TCP, "udp": UDP, "both": BOTH}, feed.declared)
    feed.runtime.synchronise([tcp, udp, both])
    run(feed, 0, 8)
    feed.runtime.synchronise([udp, both])
    assert len(predicates(feed)) == 2, "one part has another reader: nothing would be saved"
    feed.runtime.synchronise([both])
    assert predicates(feed) == {"k = 1 OR k = 2"}
    answers = [answer for answer in run(feed, 8, 12) if answer.query == "both"]
    assert all(answer.complete for answer in answers)
    assert sums(answers, "both") == {t: expected(t, (1, 2)) for t in range(7, 11)}


def test_auto_weighs_reading_against_storing() -> None:
    """A window of many slides is read again and again: there an own synopsis costs less."""
    often = {"tcp_w": TCP, "udp_w": UDP, "often": BOTH.replace("WINDOW 4", "WINDOW 90")}
    often = {name: text.replace("SUM(v)", "SUM(w)") for name, text in often.items()}
    queries = {"tcp": TCP, "udp": UDP, "seldom": BOTH.replace("SLIDE 1", "SLIDE 4"), **often}
    feed = Feed(stream(), Settings("conservative"))
    known = compiled(queries, feed.declared)
    feed.runtime.synchronise(known[:1])
    (group,) = feed.runtime.groups.values()
    # Panes with a thousand groups: an execution reads as many values as Spark would write.
    group.choices.load = Load(SECOND, 1_000, 1_000.0)
    feed.runtime.synchronise(known)
    covered = {name for name, active in feed.runtime.active.items() if active.readings[0].covered is not None}
    assert covered == {"seldom"}


@pytest.mark.parametrize("mode", PREDICATE_SHARING)
def test_a_question_is_answered_from_the_synopses_of_its_terms(mode: str) -> None:
    feed = Feed(stream(), Settings("conservative", share_predicates=mode))
    feed.runtime.synchronise(compiled({"tcp": TCP, "udp": UDP}, feed.declared))
    run(feed, 0, 9)
    catalog = Catalog()
    catalog.add_stream(feed.declared)
    text = "SELECT SUM(v) AS t FROM s [WINDOW 4 sec] WHERE k = 2 OR k = 1"
    question = compile_panes(bind(as_select(text), catalog), "(one-time)", one_time=True)
    if mode == "never":
        with pytest.raises(SashError, match="no synopsis of stream 's' holds SUM"):
            look_up(question, feed.runtime)
    else:
        assert look_up(question, feed.runtime).compute().table["t"].to_pylist() == [expected(7, (1, 2))]


@pytest.mark.parametrize("aggregate", ["MAX(v)", "SUM(v)"])
def test_what_comes_after_a_restart_is_stored_as_without_one(aggregate: str) -> None:
    """Otherwise the log of another process could not be read: parts that only a cover keeps have their terms still."""
    wheres = {"a": "k = 1", "b": "k = 2", "ab": "k = 1 OR k = 2", "c": "k = 3", "abc": "k IN (1, 2, 3)"}
    texts = {n: f"SELECT {aggregate} AS t FROM s [WINDOW 4 sec SLIDE 1 sec] WHERE {w}" for n, w in wheres.items()}
    steady, restarted = (Feed(stream(), Settings("conservative", share_predicates="always")) for _ in range(2))
    tables = []
    for feed in (steady, restarted):
        known = {each.name: each for each in compiled(texts, feed.declared)}
        feed.runtime.synchronise([known[name] for name in ("a", "b", "ab", "c")])
        run(feed, 0, 6)
        alive = [known[name] for name in ("b", "ab", "c")]
        feed.runtime.synchronise(alive)
        if feed is restarted:
            _restart(feed, alive)
        feed.runtime.synchronise([*alive, known["abc"]])
        tables.append([[partial.signature for partial in table.partials] for table in feed.runtime.tables()])
    assert tables[0] == tables[1]
