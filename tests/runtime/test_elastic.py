"""Elastic windows: the answers over all lengths equal recomputations from the tuples, one length at a time."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND, to_micros
from sash.runtime.explaining.explain import explain, tried
from sash.runtime.periodic.onetime import look_up
from tests.support.examples import examples
from tests.support.feed import Feed, answers_of, compiled
from tests.support.oracle import recompute, same_rows
from tests.support.streams import FORMS, START, batches, stream, to_table

# No LIMIT: over several lengths it cuts the rows of all of them.
HOLISTIC = "SELECT k, MEDIAN(v) AS m, COUNT(DISTINCT g) AS d, SUM(v) AS t FROM s {w} GROUP BY k"
# What registration refuses of an interval synopsis.
HELD_BY_BASIC = re.compile(r"\b(STDDEV|VARIANCE)\(|MAX\(g\)")
ELASTIC_FORMS = [*(form for form in FORMS if "LIMIT" not in form), HOLISTIC]
WINDOWS = st.tuples(st.integers(1, 4), st.integers(0, 4), st.integers(1, 3), st.integers(1, 6), st.sampled_from([0, 2]))


def clause(shortest: int, steps: int, step: int, slide: int, lag: int) -> str:
    longest = shortest + max(1, steps) * step
    return f"[WINDOW {shortest} TO {longest} sec STEP {step} sec SLIDE {slide} sec LAG {lag} sec]"


def lengths(shortest: int, steps: int, step: int) -> range:
    return range(shortest, shortest + max(1, steps) * step + 1, step)


def truth(form: str, window: tuple[int, ...], tuples: pa.Table, as_of: int, left: bool) -> list[dict[str, Any]]:
    return [
        {"window_length": float(length), **row}
        for length in lengths(*window[:3])
        for row in recompute(form.format(w="[]"), tuples, as_of, length * SECOND, window[4] * SECOND, left)
    ]


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.sampled_from(ELASTIC_FORMS), WINDOWS), min_size=1, max_size=3),
    batches(disorder=SECOND),
    st.booleans(),
    st.sampled_from([None, None, "interval", "cluster"]),
)
def test_every_length_is_right(
    asked: list[tuple[str, tuple[int, ...]]], parts: list[pa.Table], left: bool, synopsis: str | None
) -> None:
    declared, tuples = stream(delay=SECOND, closed_left=left), pa.concat_tables(parts)
    texts = {
        f"q{i}": form.replace("SELECT ", "SELECT window_length, ", 1).format(w=clause(*window))
        for i, (form, window) in enumerate(asked)
        if synopsis != "cluster" or "GROUP BY" in form
        if synopsis != "interval" or HELD_BY_BASIC.search(form) is None
    }
    for name, answers in answers_of(declared, texts, parts, synopsis).items():
        form, window = asked[int(name[1:])]
        for answer in answers:
            theirs = truth(form, window, tuples, to_micros(answer.as_of), left)
            assert same_rows(answer.table.to_pylist(), theirs), (form, window, answer.as_of, answer.table, theirs)


def a_tuple_per_second(count: int) -> pa.Table:
    return to_table([(START + i * SECOND, i % 2, "g", i, None, None) for i in range(1, count + 1)])


BURSTS = """SELECT k, window_length, COUNT(*) AS n FROM s [WINDOW 1 TO 6 sec STEP 1 sec SLIDE 6 sec]
    GROUP BY k HAVING COUNT(*) >= 1 + window_length / 4 ORDER BY n DESC, window_length, k LIMIT 3"""


def test_thresholds_order_and_limit_are_over_all_lengths() -> None:
    last = answers_of(stream(), {"q": BURSTS}, [a_tuple_per_second(20)])["q"][-1]
    assert last.table.to_pylist() == [
        {"k": 0, "window_length": 5.0, "n": 3},
        {"k": 0, "window_length": 6.0, "n": 3},
        {"k": 1, "window_length": 6.0, "n": 3},
    ]


def test_equal_rows_are_cut_in_the_order_of_lengths_and_keys() -> None:
    text = "SELECT k, window_length FROM s [WINDOW 2 TO 4 sec STEP 1 sec SLIDE 6 sec] GROUP BY k LIMIT 3"
    last = answers_of(stream(), {"q": text}, [a_tuple_per_second(20)])["q"][-1]
    assert [tuple(row.values()) for row in last.table.to_pylist()] == [(0, 2.0), (1, 2.0), (0, 3.0)]


def test_an_answer_is_complete_when_the_longest_window_is() -> None:
    text = "SELECT window_length, COUNT(*) AS n FROM s [WINDOW 1 TO 4 sec STEP 3 sec SLIDE 1 sec]"
    answers = answers_of(stream(), {"q": text}, [a_tuple_per_second(7)])["q"]
    assert [answer.complete for answer in answers] == [False, False, False, *[True] * 4]
    # A window without tuples has a row, as it has over one length.
    assert all(answer.table.num_rows == 2 for answer in answers)


def test_all_lengths_cost_one_scan_of_the_longest() -> None:
    elastic = "SELECT window_length, COUNT(*) AS n FROM s [WINDOW 1 TO 60 sec STEP 1 sec SLIDE 1 sec]"
    alone = "SELECT COUNT(*) AS n FROM s [WINDOW 60 sec SLIDE 1 sec]"
    costs, told = [], ""
    for text in (elastic, alone):
        feed = Feed(stream())
        (query,) = compiled({"q": text}, feed.declared)
        feed.runtime.synchronise([query])
        feed.push(a_tuple_per_second(100))
        (group,) = feed.runtime.groups.values()
        costs.append(group.statistics.joint_cost)
        told = told or explain(query, tried(feed.runtime, [query], query))
    assert costs[0] == costs[1]
    assert "StreamWindow [WINDOW 1 sec TO 1 min STEP 1 sec SLIDE 1 sec]" in told
    assert "60 lengths, in one scan as far as the longest" in told


def test_a_question_over_all_lengths() -> None:
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({"q": "SELECT COUNT(*) AS n FROM s [WINDOW 9 sec SLIDE 1 sec]"}, feed.declared))
    feed.push(a_tuple_per_second(30))
    text = "SELECT window_length, COUNT(*) AS n FROM s [WINDOW 3 TO 9 sec STEP 3 sec SLIDE 1 sec]"
    (question,) = compiled({"question": text}, feed.declared)
    found = look_up(question, feed.runtime).compute()
    assert [tuple(row.values()) for row in found.table.to_pylist()] == [(3.0, 3), (6.0, 6), (9.0, 9)]


@pytest.mark.parametrize("side", ["LEFT ", ""])
def test_lengths_in_a_sub_query(side: str) -> None:
    """Bursts against the longest window, as of one time."""
    text = f"""SELECT e.window_length AS w, e.n AS n, l.n AS base
        FROM (SELECT k, window_length, COUNT(*) AS n FROM s [WINDOW 2 TO 4 sec STEP 2 sec SLIDE 4 sec] GROUP BY k) e
        {side}JOIN (SELECT k, COUNT(*) AS n FROM s [WINDOW 8 sec SLIDE 4 sec] GROUP BY k) l USING (k)
        WHERE k = 1 ORDER BY w"""
    last = answers_of(stream(), {"q": text}, [a_tuple_per_second(20)])["q"][-1]
    assert [tuple(row.values()) for row in last.table.to_pylist()] == [(2.0, 1, 4), (4.0, 2, 4)]
