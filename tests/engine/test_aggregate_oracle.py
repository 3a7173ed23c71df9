"""Holistic aggregates, item lists, several windows, row-based and unbounded windows against DuckDB, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.errors import SashError
from sash.core.time import SECOND, to_micros
from tests.support.examples import examples
from tests.support.feed import Feed, answers_of, compiled
from tests.support.forms import FORMS, SEVERAL, Form, Selections
from tests.support.oracle import duck, same_rows
from tests.support.streams import FORMS as PLAIN
from tests.support.streams import batches, stream

PLAIN_FORMS = [Form(text, re.sub(r"FROM s \{w\}", "FROM {t}", text)) for text in PLAIN if "ORDER BY" not in text]
ALL_FORMS = FORMS + PLAIN_FORMS
ANY_FORM = st.sampled_from(ALL_FORMS)
every_form = pytest.mark.parametrize("form", ALL_FORMS, ids=lambda form: form.ours)


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


def windows(longest: int, slowest: int, lag: int) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """Lengths, slides and lags of up to four queries over one table; identical ones would follow the fastest (CS8)."""
    one = st.tuples(st.integers(1, longest), st.integers(1, slowest), st.sampled_from([0, 0, lag]))
    return st.lists(one, min_size=1, max_size=4, unique_by=lambda window: (window[0], window[2]))


@every_form
@settings(max_examples=examples(5))
@given(windows(12, 6, 3), batches())
def test_time_windows(form: Form, asked: list[tuple[int, int, int]], parts: list[pa.Table]) -> None:
    texts = {
        f"q{i}": form.ours.format(w=f"[WINDOW {length} sec SLIDE {slide} sec LAG {lag} sec]")
        for i, (length, slide, lag) in enumerate(asked)
    }
    tuples = pa.concat_tables(parts)
    for (name, answers), (length, _, lag) in zip(answers_of(stream(), texts, parts).items(), asked, strict=True):
        for answer in answers:
            theirs = expect(form, tuples, by_time(to_micros(answer.as_of), lag), length)
            assert same_rows(answer.table.to_pylist(), theirs), (texts[name], answer.as_of, theirs)


@every_form
@settings(max_examples=examples(5))
@given(windows(20, 9, 4), batches(disorder=2 * SECOND))
def test_row_windows(form: Form, asked: list[tuple[int, int, int]], parts: list[pa.Table]) -> None:
    texts = {
        f"q{i}": form.ours.format(w=f"[ROWS {length} SLIDE {slide} LAG {lag}]")
        for i, (length, slide, lag) in enumerate(asked)
    }
    tuples = numbered(parts)
    found = answers_of(stream(delay=2 * SECOND), texts, parts)
    for (name, answers), (length, slide, lag) in zip(found.items(), asked, strict=True):
        # A window that lies before the first tuple is empty: told once.
        positions = [p for p in range(slide, len(tuples) + 1, slide) if p > lag]
        for position, answer in zip(positions, answers[len(answers) - len(positions) :], strict=True):
            theirs = expect(form, tuples, by_rows(position, lag), length)
            assert same_rows(answer.table.to_pylist(), theirs), (texts[name], position, theirs)
            assert to_micros(answer.as_of) == tuples["_us"][position - 1].as_py()
            assert answer.complete == (position >= length + lag) and answer.rows == position


@every_form
@settings(max_examples=examples(5))
@given(windows(4, 9, 1), batches(disorder=2 * SECOND), st.sampled_from(["k", "g", "k, g"]))
def test_partitioned_row_windows(
    form: Form, asked: list[tuple[int, int, int]], parts: list[pa.Table], keys: str
) -> None:
    texts = {
        f"q{i}": form.ours.format(w=f"[PARTITION BY {keys} ROWS {length} SLIDE {slide} LAG {lag}]")
        for i, (length, slide, lag) in enumerate(asked)
    }
    tuples = numbered(parts)
    found = answers_of(stream(delay=2 * SECOND), texts, parts)
    for (name, answers), (length, slide, lag) in zip(found.items(), asked, strict=True):
        positions = range(slide, len(tuples) + 1, slide)
        for position, answer in zip(positions, answers, strict=True):
            theirs = expect(form, tuples, by_partition(position, lag, keys), length)
            assert same_rows(answer.table.to_pylist(), theirs), (texts[name], position, theirs)
            assert to_micros(answer.as_of) == tuples["_us"][position - 1].as_py()


@every_form
@settings(max_examples=examples(3))
@given(windows(1, 9, 3), batches(most=25), st.booleans())
def test_unbounded_windows(
    form: Form, asked: list[tuple[int, int, int]], parts: list[pa.Table], neighbours: bool
) -> None:
    texts = {
        f"q{i}": form.ours.format(w=f"[UNBOUNDED SLIDE {slide + 1} sec LAG {lag} sec]")
        for i, (_, slide, lag) in enumerate(asked)
    }
    if neighbours:
        texts["short"] = form.ours.format(w="[WINDOW 2 sec SLIDE 1 sec]")
    tuples = pa.concat_tables(parts)
    found = answers_of(stream(), texts, parts)
    for i, (_, _, lag) in enumerate(asked):
        for answer in found[f"q{i}"]:
            assert answer.complete
            theirs = expect(form, tuples, by_time(to_micros(answer.as_of), lag), 10**6)
            assert same_rows(answer.table.to_pylist(), theirs), (texts[f"q{i}"], answer.as_of)


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
    "running": r"\b(MAX|MIN|STDDEV|VARIANCE)\(|(SUM|AVG)\(x\)",
    "interval": r"\b(STDDEV|VARIANCE)\(|MAX\(g\)",
}


@pytest.mark.parametrize("rows", [False, True], ids=["time", "rows"])
@pytest.mark.parametrize("kind", KINDS)
@every_form
@settings(max_examples=examples(2))
@given(windows=windows(12, 6, 3), parts=batches(most=40))
def test_every_synopsis(
    form: Form, kind: str, rows: bool, windows: list[tuple[int, int, int]], parts: list[pa.Table]
) -> None:
    """Every aggregate x every synopsis that accepts it x time-based and row-based windows, historical ones too."""
    unit, scale = ("ROWS", "{}") if rows else ("WINDOW", "{} sec")
    texts = {
        f"q{i}": form.ours.format(w="[{} {} SLIDE {} LAG {}]".format(unit, *(scale.format(n) for n in window)))
        for i, window in enumerate(windows)
    }
    reason = re.search(REFUSED["interval" if kind == "landmark" else kind], form.ours)
    (first, *_) = compiled(texts, stream(), kind)
    if reason:
        with pytest.raises(SashError, match=f"{kind} synopsis cannot answer"):
            first.check()
        return
    first.check()
    tuples, found = numbered(parts), answers_of(stream(), texts, parts, kind)
    for (name, answers), (length, slide, lag) in zip(found.items(), windows, strict=True):
        positions = [p for p in range(slide, len(tuples) + 1, slide) if p > lag]
        told = answers[len(answers) - len(positions) :] if rows else answers
        for i, answer in enumerate(told):
            select = by_rows(positions[i], lag) if rows else by_time(to_micros(answer.as_of), lag)
            theirs = expect(form, tuples, select, length)
            assert same_rows(answer.table.to_pylist(), theirs), (kind, texts[name], answer.as_of, theirs)
