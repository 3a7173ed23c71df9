"""Aggregates over one join in a session: one plan and its synopses, and the definition's answers (thesis 8.3.2)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import SECOND, to_micros
from sash.storage.epochs import Entry, EpochLog
from tests.runtime.test_continuous import declare, tuples, with_numbers, write
from tests.support.streams import START
from tests.support.windows_in_duckdb import Definition

pytestmark = pytest.mark.spark


def over(first: int, second: int, slide: int, asked: str, groups: str = "", where: str = "s.k = t.k") -> str:
    windows = f"s [RANGE {first} sec SLIDE {slide} sec], t [RANGE {second} sec SLIDE {slide} sec]"
    return f"SELECT {asked} FROM {windows} WHERE {where} {groups}".strip()


QUERIES = {
    "thesis": over(3, 4, 1, "MAX(s.v) AS x"),
    "equal": over(2, 2, 1, "COUNT(*) AS n, SUM(t.v) AS x"),
    "groups": over(4, 1, 1, "t.g, COUNT(*) AS n, MIN(s.v) AS x", "GROUP BY t.g"),
    "seldom": over(2, 4, 2, "t.g, MAX(s.v) AS x", "GROUP BY t.g"),
    "texts": over(1, 3, 4, "s.k, MIN(t.g) AS x, COUNT(t.g) AS n", "GROUP BY s.k"),
    "having": over(4, 4, 2, "s.k, SUM(s.v) AS x", "GROUP BY s.k HAVING COUNT(*) > 2"),
    "short": over(1, 1, 2, "COUNT(*) AS n"),
}
# The kept synopses answer windows with the differences of "seldom", too; longer ones are not answered.
LATER = over(1, 3, 1, "t.g, MAX(s.v) AS x", "GROUP BY t.g")
LONGER = over(9, 2, 1, "t.g, MAX(s.v) AS x", "GROUP BY t.g")
PARTS = {name: tuples(seed, parts=6) for seed, name in enumerate("st", 21)}
DEFINITION = Definition({name: with_numbers(parts) for name, parts in PARTS.items()})
Answers = dict[str, dict[int, Counter[Any]]]


def defined(text: str, now: int) -> Counter[Any]:
    return DEFINITION.answer(re.sub(r" SLIDE \d+ sec\]", "]", text), now)


def listed(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def feed(directory: Path, first: int, last: int) -> None:
    for name, parts in PARTS.items():
        write(parts[first:last], directory / name, first)


def open_session(spark: Any, directory: Path, files: int = 1, **options: Any) -> sash.Session:
    session = sash.connect(spark=spark, checkpoint=directory / "state", **options)
    declare(session, directory, "st", files)
    return session


def register(session: sash.Session, texts: dict[str, str], told: Answers) -> None:
    for name, text in texts.items():
        mine = told.setdefault(name, {})

        def take(answer: sash.Answer, mine: dict[int, Counter[Any]] = mine) -> None:
            assert to_micros(answer.as_of) not in mine, "answered twice"
            mine[to_micros(answer.as_of)] = listed(answer.table)

        session.register(text, name=name).subscribe(take)


def check(text: str, told: dict[int, Counter[Any]], first: int, last: int) -> None:
    """At every multiple of SLIDE; nothing only where there is nothing to say."""
    (slide,) = {int(each) * SECOND for each in re.findall(r"SLIDE (\d+) sec", text)}
    multiples = range(-(-first // slide) * slide, last + 1, slide)
    assert multiples and not [at for at in told if at % slide], text
    for at in multiples:
        expected = defined(text, at)
        if at in told or "GROUP BY" in text:
            assert told.get(at, Counter()) == expected, (text, at)
        else:
            assert expected in (Counter([(0,)]), Counter([(None,)]), Counter([(0, None)])), (text, at)


HERE, THERE = 500_000, 0
END = START + 12 * SECOND


def test_many_windows_over_one_join_are_one_plan(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the definition at every slide, with a restart in the middle, after which one comes and one goes."""
    monkeypatch.setattr("sash.storage.epochs.SNAPSHOT_EVERY", 4)
    told: Answers = {}
    middle = START + 8 * SECOND
    feed(tmp_path, 0, 4)
    with open_session(spark, tmp_path, policy="conservative", executor_rows=HERE) as session:
        register(session, QUERIES, told)
        assert session.stats()["plans"] == 1
        session.run()
        remembered = {name: query.answers() for name, query in session.queries.items()}
        views = {name: query.view() for name, query in session.queries.items()}
    for name, text in QUERIES.items():
        check(text, told[name], START, middle - SECOND)
    feed(tmp_path, 4, 6)
    with open_session(spark, tmp_path, policy="conservative", executor_rows=THERE) as session:
        for name, query in session.queries.items():
            assert listed(query.view()) == listed(views[name]), name
            since, before = (
                [(each.as_of, listed(each.table)) for each in answers]
                for answers in (query.answers(), remembered[name])
            )
            assert 0 < len(since) < len(before) and since == before[-len(since) :], "those since the last snapshot"
        register(session, QUERIES, told)
        session.sql("DROP QUERY having")
        register(session, {"later": LATER}, told)
        assert session.stats()["plans"] == 1, "covered by what is kept"
        register(session, {"longer": LONGER}, told)
        assert session.stats()["plans"] == 2, "a group's plan does not change while it runs"
        session.run()
        assert [query.error for query in session.queries.values()] == [None] * len(session.queries)
        for name in list(session.queries):
            session.sql(f"DROP QUERY {name}")
        assert session.stats()["plans"] == 0 and not list((tmp_path / "state" / "plans").iterdir())
    for name, text in QUERIES.items():
        check(text, told[name], START, middle - SECOND if name == "having" else END)
    check(LATER, told["later"], middle + SECOND, END)


def test_explain_says_from_which_synopsis_and_with_whom(spark: Any, tmp_path: Path) -> None:
    feed(tmp_path, 0, 1)
    with open_session(spark, tmp_path) as session:
        alone = session.explain(QUERIES["thesis"])
        assert "answered at the multiples of 1 sec" in alone and "not shared yet" in alone
        assert "Answered from a join synopsis over 3 and 4 panes of 1 sec" in alone and "per interval" in alone
        session.register(QUERIES["equal"], name="equal")
        session.register(QUERIES["groups"], name="groups")
        shared = session.explain(QUERIES["thesis"])
        assert "One join over windows of 4 sec and 4 sec: shared with equal, groups" in shared
        session.sql("SET EXECUTION nt")
        alone = session.explain(QUERIES["thesis"])
        assert "join synopsis" not in alone and "SET EXECUTION nt gives it its own plan" in alone
        session.register(QUERIES["thesis"], name="own")
        assert session.stats()["plans"] == 2


def test_the_sessions_policy_decides_who_is_answered_early(spark: Any, tmp_path: Path) -> None:
    """Each answer is that of its own time, and nobody waits longer than SLIDE."""
    feed(tmp_path, 0, 6)
    told: Answers = {}
    texts = {f"every_{n}": over(3, 3, n, "t.g, MAX(s.v) AS x", "GROUP BY t.g") for n in (2, 3)}
    with sash.connect(spark=spark, policy="aggressive") as session:
        declare(session, tmp_path, "st", files=3)
        register(session, texts, told)
        session.run()
        report = session.schedule()
    assert any(at % (3 * SECOND) for at in told["every_3"])
    turns = [turn for each in report["executed"] for turn in each["turns"]]
    assert {name for turn in turns for name in turn["queries"]} == set(texts)
    assert {each["stream"] for each in report["executed"]} == {"s, t"} and "early" in {turn["state"] for turn in turns}
    assert report["predicted_cost"]["aggressive"] > 0
    for name, text in texts.items():
        for at, answer in told[name].items():
            assert answer == defined(text, at), (name, at)


def test_an_epoch_that_breaks_off_is_not_counted_twice(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(tmp_path, 0, 6)
    text, append, failures = QUERIES["groups"], EpochLog.append, []

    def fail_once(log: EpochLog, entry: Entry) -> None:
        if "entered" in entry.facts and entry.facts["progress"]["low"] > START and not failures:
            failures.append(entry)
            raise OSError("no space left")
        append(log, entry)

    monkeypatch.setattr(EpochLog, "append", fail_once)
    with open_session(spark, tmp_path, files=2) as session:
        query = session.register(text, name="q")
        with pytest.raises(sash.SashError, match="stopped"):
            session.run()
        session.run()
        assert failures and query.error is None
        check(text, {to_micros(answer.as_of): listed(answer.table) for answer in query.answers()}, START, END)


def test_what_may_fail_is_not_shared_with_those_who_do_not_ask_for_it(spark: Any, tmp_path: Path) -> None:
    """A column that has to be computed makes a group of its own; a sum that overflows fails its query alone."""
    feed(tmp_path, 0, 6)
    good, large = QUERIES["equal"], "CAST(9000000000000000000 AS BIGINT)"
    sums = over(2, 2, 1, f"SUM({large} + s.v + t.v) AS x")
    with open_session(spark, tmp_path, files=3) as session:
        query = session.register(good, name="good")
        session.register(sums, name="sums")
        session.register(over(3, 2, 1, f"SUM({large} + s.v + t.v) AS x, MAX(t.v) AS m"), name="too")
        assert session.stats()["plans"] == 2
        session.run()
        assert session.queries["sums"].error is not None and "does not fit" in str(session.queries["sums"].error)
        assert query.error is None and query.answers()
        failed = str(session.queries["sums"].error)
    with open_session(spark, tmp_path, files=3) as session:
        session.run()
        assert str(session.queries["sums"].error) == failed and session.queries["good"].error is None


def test_a_registration_that_is_refused_widens_no_join(spark: Any, tmp_path: Path) -> None:
    feed(tmp_path, 0, 1)
    with open_session(spark, tmp_path) as session:
        session.register(over(2, 3, 1, "COUNT(*) AS n"), name="q")
        with pytest.raises(sash.SashError, match="registered already"):
            session.register(over(86400, 3, 1, "COUNT(*) AS n"), name="q")
        assert "One join over windows of 2 sec and 3 sec" in session.explain(over(1, 2, 1, "COUNT(*) AS n"))


def test_explain_says_why_a_join_is_not_shared(spark: Any, tmp_path: Path) -> None:
    feed(tmp_path, 0, 1)
    with open_session(spark, tmp_path) as session:
        session.register(over(2, 4, 2, "t.g, MAX(s.v) AS x", "GROUP BY t.g"), name="q")
        reason = "not shared with q: other columns of it are computed"
        assert reason in session.explain(over(2, 4, 2, "SUM(s.v + t.v) AS x"))
        assert "shared with q" in session.explain(over(9, 9, 1, "COUNT(*) AS n")), "before the first tuple"
        session.run()
        apart = {
            over(8, 2, 2, "t.g, MAX(s.v) AS x", "GROUP BY t.g"):
                "windows of 8 sec and 2 sec are longer than those of 2 sec and 4 sec that are kept",
            over(2, 3, 1, "t.g, MAX(s.v) AS x", "GROUP BY t.g"): "3 sec is not a multiple of its panes of 2 sec",
            over(2, 4, 2, "t.g, MAX(t.v) AS x", "GROUP BY t.g"): "column t.v is not kept",
            over(2, 4, 2, "MAX(s.v) AS x"): "nothing is kept without groups",
            over(2, 4, 2, "t.g, SUM(s.v) AS x", "GROUP BY t.g"): "no sum of s.v is kept by t.g",
            over(2, 2, 2, "t.g, MAX(s.v) AS x", "GROUP BY t.g"): "no synopsis by t.g answers windows of 1 and 1 panes",
        }  # fmt: skip
        for text, why in apart.items():
            asked = 8 if "8 sec" in text else 2
            assert f"One join over windows of {asked} sec" in session.explain(text)
            shown = session.explain(text)
            assert f"not shared with q: {why}" in shown and "Begins with empty windows" in shown, text
        assert "not shared yet" in session.explain(over(2, 4, 2, "COUNT(*) AS n", where="s.v = t.v"))
        swapped = "SELECT y.g, MAX(x.v) AS x FROM t [RANGE 4 sec SLIDE 2 sec] y, s [RANGE 2 sec SLIDE 2 sec] x"
        assert "shared with q" in session.explain(f"{swapped} WHERE y.k = x.k GROUP BY y.g")


def test_a_founder_that_is_dropped_before_anything_came_has_founded_nothing(spark: Any, tmp_path: Path) -> None:
    """In the session in which it came, and in a later one."""
    feed(tmp_path, 0, 6)
    kept, mine = over(2, 3, 1, "COUNT(*) AS n"), "2 sec and 3 sec"
    long = over(9, 9, 1, "t.g, COUNT(*) AS n", "GROUP BY t.g")
    told: Answers = {}
    with open_session(spark, tmp_path, files=3, policy="conservative") as session:
        register(session, {"q": kept}, told)
        session.register(long, name="long")
        assert "One join over windows of 9 sec and 9 sec: shared with q, long" in session.explain(kept)
        session.sql("DROP QUERY long")
        assert f"One join over windows of {mine}: shared with q" in session.explain(kept)
        session.register(long, name="longer")
    with open_session(spark, tmp_path, files=3, policy="conservative") as session:
        session.sql("DROP QUERY longer")
        register(session, {"q": kept}, told)
        assert f"One join over windows of {mine}: shared with q" in session.explain(kept)
        session.run()
        assert session.stats()["plans"] == 1
        session.register(over(2, 3, 2, "COUNT(*) AS n"), name="founded")
        session.sql("DROP QUERY q")
        assert f"One join over windows of {mine}: shared with founded" in session.explain(kept), "it stays as it is"
    check(kept, told["q"], START, END)
