"""INTERSECT and EXCEPT at the multiples of SLIDE in a session: from one index, and the definition's answers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sash
from sash.core.time import SECOND, to_micros
from sash.storage.epochs import Entry, EpochLog
from tests.runtime.test_continuous import declare, tuples, with_numbers, write
from tests.support.streams import START
from tests.support.windows_in_duckdb import Definition

pytestmark = pytest.mark.spark


def over(first: str, second: str, word: str = "INTERSECT", where: str = "") -> str:
    """`first` and `second` are written as column, stream, window, slide: k s 3 1."""
    parts = [each.rsplit(maxsplit=3) for each in (first, second)]
    left, right = (f"SELECT {x} FROM {s} [RANGE {w} sec SLIDE {d} sec]" for x, s, w, d in parts)
    return f"{left} {word} {right} {where}".strip()


QUERIES = {
    "both": over("k s 3 1", "k t 3 1"),
    "texts": over("g s 4 2", "g t 2 2", "EXCEPT"),
    "where": over("v s 3 2", "v t 4 2", where="WHERE g = 'x' AND v > 3"),
    "of_one": over("v s 1 1", "k s 4 1"),
    "casts": over("CAST(v AS DECIMAL(4,1)) s 2 1", "v t 2 1", "EXCEPT"),
    "seldom": over("v s 1 4", "v t 2 4"),
}
# An index answers for one column: this one runs as other plans do.
COLUMNS = over("k, g s 4 1", "k, g t 4 1")
APPROX = over("v s 3 1", "v t 3 1", "APPROX INTERSECT GROUPS 4")
PARTS = {name: tuples(seed, parts=6) for seed, name in enumerate("st", 31)}
DEFINITION = Definition({name: with_numbers(parts) for name, parts in PARTS.items()})
BEGIN = min(pc.min(with_numbers(parts)["_us"]).as_py() for parts in PARTS.values())
END = START + 12 * SECOND
Told = dict[str, list[tuple[int, bool, Counter[Any]]]]


def feed(directory: Path, first: int, last: int) -> None:
    for name, parts in PARTS.items():
        write(parts[first:last], directory / name, first)


def open_session(spark: Any, directory: Path, **options: Any) -> sash.Session:
    session = sash.connect(spark=spark, checkpoint=directory / "state", **options)
    declare(session, directory, "st")
    return session


def listed(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def register(session: sash.Session, texts: dict[str, str], told: Told) -> None:
    for name, text in texts.items():
        mine = told.setdefault(name, [])

        def take(answer: sash.Answer, mine: list[Any] = mine) -> None:
            assert answer.scheduled
            mine.append((to_micros(answer.as_of), answer.complete, listed(answer.table)))

        session.register(text, name=name).subscribe(take)


def defined(text: str, first: int, last: int) -> list[tuple[int, Counter[Any]]]:
    """The answers between two times: where there are rows, or were some at the multiple before; and the first."""
    slide = int(re.findall(r"SLIDE (\d+) sec", text)[0]) * SECOND
    plain, answers, had_rows = re.sub(r" SLIDE \d+ sec\]", "]", text), [], first <= BEGIN
    for at in range(-(-max(first, BEGIN) // slide) * slide, last + 1, slide):
        rows = DEFINITION.answer(plain, at)
        if rows or had_rows:
            answers.append((at, rows))
        had_rows = bool(rows)
    return answers


def test_the_definitions_answers_from_an_index(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every multiple, with a restart in the middle, beside a plan that an index cannot answer."""
    monkeypatch.setattr("sash.storage.epochs.SNAPSHOT_EVERY", 5)
    told: Told = {}
    every = QUERIES | {"columns": COLUMNS}
    feed(tmp_path, 0, 4)
    with open_session(spark, tmp_path) as session:
        register(session, every, told)
        register(session, {"again": QUERIES["both"]}, told)
        assert session.stats()["plans"] == len(every), "the same question is asked once"
        stored = {path.name.split("-")[0] for path in (tmp_path / "state" / "plans").iterdir()}
        assert "set" in stored
        session.run()
        remembered = {name: query.answers() for name, query in session.queries.items()}
        views = {name: listed(query.view()) for name, query in session.queries.items()}
    feed(tmp_path, 4, 6)
    with open_session(spark, tmp_path) as session:
        for name, query in session.queries.items():
            assert listed(query.view()) == views[name], name
            since = [(each.as_of, each.complete, listed(each.table)) for each in query.answers()]
            before = [(each.as_of, each.complete, listed(each.table)) for each in remembered[name]]
            assert since == before[len(before) - len(since) :], name
        register(session, every, told)
        register(session, {"again": QUERIES["both"]}, told)
        session.run()
        assert [query.error for query in session.queries.values()] == [None] * (len(every) + 1)
        for name in list(session.queries):
            session.sql(f"DROP QUERY {name}")
        assert session.stats()["plans"] == 0 and not list((tmp_path / "state" / "plans").iterdir())
    for name, text in every.items():
        assert [(at, rows) for at, _, rows in told[name]] == defined(text, START, END), name
    assert told["again"] == told["both"]


def test_as_the_plan_answers(spark: Any, tmp_path: Path) -> None:
    """As of the same times, complete or not, with the same rows; late tuples are left out of both, and counted."""
    late = pa.concat_tables([PARTS["s"][3], PARTS["s"][0].slice(3, 5)])
    write([*PARTS["s"][:3], late, PARTS["s"][4]], tmp_path / "s")
    write(PARTS["t"][1:5], tmp_path / "t")
    found: dict[str, Told] = {}
    texts = {name: QUERIES[name] for name in ("both", "where", "of_one")}
    for execution in ("auto", "nt"):
        told: Told = {}
        with sash.connect(spark=spark) as session:
            declare(session, tmp_path, "st")
            session.sql(f"SET EXECUTION {execution}")
            register(session, texts, told)
            shown = session.explain(QUERIES["both"])
            assert ("T-INDEX" in shown) == (execution == "auto"), shown
            session.run()
            missed = [session.stats()["queries"][name]["late_tuples"] for name in texts]
            assert missed == [5, 5, 5]
        found[execution] = told
    assert found["auto"] == found["nt"]
    assert any(complete for _, complete, _ in found["auto"]["both"])
    assert not all(complete for _, complete, _ in found["auto"]["both"])


def test_ranges_of_an_approximate_intersection(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value of the exact answer is in a range, before and after a restart; a range has values of both windows."""
    monkeypatch.setattr("sash.storage.epochs.SNAPSHOT_EVERY", 3)
    told: Told = {}
    exact = dict(defined(over("v s 3 1", "v t 3 1"), START, END))
    for first, last in ((0, 3), (3, 6)):
        feed(tmp_path, first, last)
        with open_session(spark, tmp_path) as session:
            register(session, {"ranges": APPROX}, told)
            session.run()
            assert session.queries["ranges"].error is None
            assert session.queries["ranges"].view().schema.names == ["low", "high"]
    answers = {at: rows for at, _, rows in told["ranges"]}
    assert set(exact) <= set(answers) and len(answers) == len(told["ranges"])
    wide = 0
    for at, ranges in answers.items():
        assert len(ranges) <= 4
        for (value,) in exact.get(at, ()):
            assert sum(low <= value <= high for low, high in ranges) == 1, (at, value)
        wide += sum(low < high for low, high in ranges)
    assert wide, "ten values are more than four groups"


def test_an_expression_that_fails_fails_the_query_alone(spark: Any, tmp_path: Path) -> None:
    feed(tmp_path, 0, 2)
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "st")
        bad = session.register(over("10 DIV v s 2 1", "v t 2 1"), name="bad")
        good = session.register(QUERIES["both"], name="good")
        session.run()
        assert bad.error is not None and "zero" in str(bad.error).lower()
        assert good.error is None and good.answers()


def test_an_epoch_that_breaks_off_is_not_counted_twice(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(tmp_path, 0, 6)
    append, failures = EpochLog.append, []

    def fail_once(log: EpochLog, entry: Entry) -> None:
        if "counts" in entry.tables and entry.facts["low"] > START and not failures:
            failures.append(entry)
            raise OSError("no space left")
        append(log, entry)

    monkeypatch.setattr(EpochLog, "append", fail_once)
    with open_session(spark, tmp_path) as session:
        query = session.register(QUERIES["both"], name="q")
        with pytest.raises(sash.SashError, match="stopped"):
            session.run()
        session.run()
        assert failures and query.error is None
        found = {to_micros(answer.as_of): listed(answer.table) for answer in query.answers()}
    assert list(found.items()) == defined(QUERIES["both"], START, END)


def test_explain_says_which_index_with_two_counts(spark: Any, tmp_path: Path) -> None:
    feed(tmp_path, 0, 1)
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "st")
        shown = session.explain(QUERIES["where"]).splitlines()
        assert shown == [
            "Continuous, answered at the multiples of 2 sec",
            "Answered from one T-INDEX of both windows, with two counts for each value",
            "  INTERSECT: values of which both counts are above 0",
            "  first count: Window s [WINDOW 3 sec SLIDE 2 sec], 3 panes, Project s.v AS v",
            "  second count: Window t [WINDOW 4 sec SLIDE 2 sec] where g = 'x' AND v > 3, 4 panes, Project t.v AS v",
            "On Spark: the values of each pane of 1 sec are counted; no tuple leaves it",
            "Not shared yet",
        ]
        session.register(QUERIES["where"], name="one")
        assert "Shared with one" in session.explain(QUERIES["where"])
        assert "EXCEPT: values of which the first count is above 0, and the second is 0" in session.explain(
            QUERIES["texts"]
        )
        grouped = session.explain(APPROX)
        assert "Answered from one G-INDEX of both windows, with two counts for each group of values" in grouped
        assert "at most 4 groups" in grouped
        assert "INDEX" not in session.explain(COLUMNS)
