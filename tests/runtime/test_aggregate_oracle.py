"""Holistic aggregates, item lists, several windows, row-based and unbounded windows against DuckDB, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Stream
from sash.core.errors import SashError
from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from tests.support.examples import examples
from tests.support.feed import Feed, answers_of, compiled
from tests.support.forms import FORMS, SEVERAL, Form, Selections
from tests.support.oracle import duck, same_rows
from tests.support.streams import FORMS as PLAIN
from tests.support.streams import batches, stream

PLAIN_FORMS = [Form(text, re.sub(r"FROM s \{w\}", "FROM {t}", text)) for text in PLAIN if "ORDER BY" not in text]
ALL_FORMS = FORMS + PLAIN_FORMS
ANY_FORM = st.sampled_from(ALL_FORMS)
Window = tuple[int, int, int]
# Several forms are queries of one stream: every bundle has all kinds of aggregates.
BUNDLES = [ALL_FORMS[i::4] for i in range(4)]
every_form = pytest.mark.parametrize("forms", BUNDLES, ids=["first", "second", "third", "fourth"])


def expect(form: Form, tuples: pa.Table, select: Callable[[int], str], length: int) -> list[dict[str, Any]]:
    connection = duck()
    connection.register("tuples", tuples)
    return connection.sql(form.theirs.format(t=Selections(select, length))).to_arrow_table().to_pylist()


def by_time(as_of: int, lag: int) -> Callable[[int], str]:
    newest = as_of - lag * SECOND
    return lambda length: f"(SELECT * FROM tuples WHERE _us > {newest - length * SECOND} AND _us <= {newest})"


def by_rows(position: int, lag: int) -> Callable[[int], str]:
    return lambda length: f"(SELECT * FROM tuples WHERE _n > {position - lag - length} AND _n <= {position - lag})"


def by_partition(position: int, lag: int, keys: str) -> Callable[[int], str]:
    return lambda length: (
        f"(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY _n DESC) AS age FROM tuples "
        f"WHERE _n <= {position}) WHERE age > {lag} AND age <= {lag + length})"
    )


def numbered(parts: list[pa.Table]) -> pa.Table:
    tuples = pa.concat_tables(parts)
    order = np.argsort(np.asarray(tuples["_us"], dtype=np.int64), kind="stable")
    return tuples.take(pa.array(order)).append_column("_n", pa.array(np.arange(1, len(order) + 1)))


def asked_of(forms: list[Form], windows: list[Window], clause: str) -> dict[str, tuple[Form, Window, str]]:
    """Every form over every window, by the name of the query: with the window and the query's text."""
    return {
        f"q{i}_{j}": (form, window, form.ours.format(w=clause.format(*window)))
        for i, form in enumerate(forms)
        for j, window in enumerate(windows)
    }


def answers_to(
    declared: Stream, asked: dict[str, tuple[Form, Window, str]], parts: list[pa.Table], synopsis: str | None = None
) -> Iterator[tuple[Form, Window, str, list[Answer]]]:
    found = answers_of(declared, {name: text for name, (_, _, text) in asked.items()}, parts, synopsis)
    for name, (form, window, text) in asked.items():
        yield form, window, text, found[name]


def windows(longest: int, slowest: int, lag: int) -> st.SearchStrategy[list[Window]]:
    """Lengths, slides and lags of one or two windows; identical ones would follow the fastest (CS8)."""
    one = st.tuples(st.integers(1, longest), st.integers(1, slowest), st.sampled_from([0, 0, lag]))
    return st.lists(one, min_size=1, max_size=2, unique_by=lambda window: (window[0], window[2]))


@every_form
@settings(max_examples=examples(5))
@given(windows(12, 6, 3), batches())
def test_time_windows(forms: list[Form], asked: list[Window], parts: list[pa.Table]) -> None:
    queries = asked_of(forms, asked, "[WINDOW {} sec SLIDE {} sec LAG {} sec]")
    tuples = pa.concat_tables(parts)
    for form, (length, _, lag), text, answers in answers_to(stream(), queries, parts):
        for answer in answers:
            theirs = expect(form, tuples, by_time(to_micros(answer.as_of), lag), length)
            assert same_rows(answer.table.to_pylist(), theirs), (text, answer.as_of, theirs)


@every_form
@settings(max_examples=examples(5))
@given(windows(20, 9, 4), batches(disorder=2 * SECOND))
def test_row_windows(forms: list[Form], asked: list[Window], parts: list[pa.Table]) -> None:
    queries = asked_of(forms, asked, "[ROWS {} SLIDE {} LAG {}]")
    tuples = numbered(parts)
    for form, (length, slide, lag), text, answers in answers_to(stream(delay=2 * SECOND), queries, parts):
        # A window that lies before the first tuple is empty: told once.
        positions = [p for p in range(slide, len(tuples) + 1, slide) if p > lag]
        for position, answer in zip(positions, answers[len(answers) - len(positions) :], strict=True):
            theirs = expect(form, tuples, by_rows(position, lag), length)
            assert same_rows(answer.table.to_pylist(), theirs), (text, position, theirs)
            assert to_micros(answer.as_of) == tuples["_us"][position - 1].as_py()
            assert answer.complete == (position >= length + lag) and answer.rows == position


@every_form
@settings(max_examples=examples(5))
@given(windows(4, 9, 1), batches(disorder=2 * SECOND), st.sampled_from(["k", "g", "k, g"]))
def test_partitioned_row_windows(forms: list[Form], asked: list[Window], parts: list[pa.Table], keys: str) -> None:
    queries = asked_of(forms, asked, f"[PARTITION BY {keys} ROWS {{}} SLIDE {{}} LAG {{}}]")
    tuples = numbered(parts)
    for form, (length, slide, lag), text, answers in answers_to(stream(delay=2 * SECOND), queries, parts):
        positions = range(slide, len(tuples) + 1, slide)
        for position, answer in zip(positions, answers, strict=True):
            theirs = expect(form, tuples, by_partition(position, lag, keys), length)
            assert same_rows(answer.table.to_pylist(), theirs), (text, position, theirs)
            assert to_micros(answer.as_of) == tuples["_us"][position - 1].as_py()


@every_form
@settings(max_examples=examples(3))
@given(windows(1, 9, 3), batches(most=25), st.booleans())
def test_unbounded_windows(forms: list[Form], asked: list[Window], parts: list[pa.Table], neighbours: bool) -> None:
    queries = asked_of(forms, [(0, slide + 1, lag) for _, slide, lag in asked], "[UNBOUNDED SLIDE {1} sec LAG {2} sec]")
    others = asked_of(forms, [(2, 1, 0)] if neighbours else [], "[WINDOW {} sec SLIDE {} sec LAG {} sec]")
    tuples = pa.concat_tables(parts)
    beside = {f"short_{name}": query for name, query in others.items()}
    for form, (length, _, lag), text, answers in answers_to(stream(), {**queries, **beside}, parts):
        for answer in answers if length == 0 else []:
            assert answer.complete
            theirs = expect(form, tuples, by_time(to_micros(answer.as_of), lag), 10**6)
            assert same_rows(answer.table.to_pylist(), theirs), (text, answer.as_of)


@settings(max_examples=examples(40))
@given(st.sampled_from(SEVERAL), st.integers(1, 4), batches(), st.booleans())
def test_several_windows(form: Form, slide: int, parts: list[pa.Table], rows: bool) -> None:
    unit, scale = ("ROWS", "{}") if rows else ("WINDOW", "{} sec")
    lengths = [scale.format(n) for n in range(10)]
    text = form.ours.format(u=unit, l=lengths, s=scale.format(slide))
    tuples = numbered(parts)
    found = answers_of(stream(), {"q": text}, parts)["q"]
    for i, answer in enumerate(found):
        select = by_rows(slide * (i + 1), 0) if rows else by_time(to_micros(answer.as_of), 0)
        theirs = expect(form, tuples, select, 0)
        assert same_rows(answer.table.to_pylist(), theirs), (text, answer.as_of, answer.table.to_pylist(), theirs)


def test_history_survives_queries_that_come_and_go() -> None:
    """An UNBOUNDED query that comes later begins where the stored panes begin, and says that it is not complete."""
    declared = stream()
    feed = Feed(declared)
    texts = {"a": "SELECT COUNT(*) AS n, SUM(v) AS t FROM s [UNBOUNDED SLIDE 1 sec]"}
    late = {"b": "SELECT COUNT(*) AS n, SUM(v) AS t, MAX(v) AS m FROM s [UNBOUNDED SLIDE 1 sec]"}
    first, second = compiled(texts, declared), compiled(late, declared)
    from tests.support.streams import START, to_table

    for step in range(120):
        feed.runtime.synchronise(first if step < 60 else [*first, *second])
        answers = feed.push(to_table([(START + step * SECOND + 1, 1, None, step, None, None)]))
    by_name = {answer.query: answer for answer in answers}
    assert by_name["a"].complete and by_name["a"].table.to_pylist() == [{"n": 119, "t": sum(range(119))}]
    assert not by_name["b"].complete
    (row,) = by_name["b"].table.to_pylist()
    assert row["n"] == 59 and row["t"] == sum(range(60, 119)) and row["m"] == 118


KINDS = ["basic", "running", "interval", "landmark"]
# What each synopsis cannot hold: a reason why it is refused when the query is planned.
REFUSED = {
    "basic": r"^$",
    "running": r"\b(MAX|MIN|STDDEV|VARIANCE|BOOL_AND|BIT_AND|COVAR_POP|FIRST)\(|(SUM|AVG)\(x\)",
    "interval": r"\b(STDDEV|VARIANCE|BOOL_AND|BIT_AND|COVAR_POP|FIRST)\(|MAX\(g\)",
}


def is_refused(form: Form, kind: str) -> bool:
    return re.search(REFUSED["interval" if kind == "landmark" else kind], form.ours) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_synopsis_refuses_what_it_cannot_hold(kind: str) -> None:
    queries = {form.ours.format(w="[WINDOW 4 sec SLIDE 2 sec]"): is_refused(form, kind) for form in ALL_FORMS}
    for text, refused in queries.items():
        (query,) = compiled({"q": text}, stream(), kind)
        with pytest.raises(SashError, match=f"{kind} synopsis cannot answer") if refused else nullcontext():
            query.check()


@pytest.mark.parametrize("rows", [False, True], ids=["time", "rows"])
@pytest.mark.parametrize("kind", KINDS)
@every_form
@settings(max_examples=examples(2))
@given(windows=windows(12, 6, 3), parts=batches(most=40))
def test_every_synopsis(forms: list[Form], kind: str, rows: bool, windows: list[Window], parts: list[pa.Table]) -> None:
    """Every aggregate x every synopsis that accepts it x time-based and row-based windows, historical ones too."""
    clause = "[ROWS {} SLIDE {} LAG {}]" if rows else "[WINDOW {} sec SLIDE {} sec LAG {} sec]"
    queries = asked_of([form for form in forms if not is_refused(form, kind)], windows, clause)
    tuples = numbered(parts)
    for form, (length, slide, lag), text, answers in answers_to(stream(), queries, parts, kind):
        positions = [p for p in range(slide, len(tuples) + 1, slide) if p > lag]
        told = answers[len(answers) - len(positions) :] if rows else answers
        for i, answer in enumerate(told):
            select = by_rows(positions[i], lag) if rows else by_time(to_micros(answer.as_of), lag)
            theirs = expect(form, tuples, select, length)
            assert same_rows(answer.table.to_pylist(), theirs), (kind, text, answer.as_of, theirs)
