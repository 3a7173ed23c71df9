"""Queries that come and go while the stream runs: nothing fails, and complete answers are right."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery
from tests.runtime.test_aggregate_oracle import PLAIN_FORMS, by_partition, by_rows, by_time, expect
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.forms import FORMS, Form
from tests.support.oracle import same_rows
from tests.support.streams import START, stream, to_table

ALL_FORMS = [*FORMS, *PLAIN_FORMS]
# A query: a form, a kind of window, its length, slide and lag.
Asked = tuple[int, str, int, int, int]
CLAUSES = {
    "time": "[WINDOW {} sec SLIDE {} sec LAG {} sec]",
    "unbounded": "[UNBOUNDED SLIDE {1} sec LAG {2} sec]",
    "rows": "[ROWS {} SLIDE {} LAG {}]",
    "partition": "[PARTITION BY k ROWS {} SLIDE {} LAG {}]",
}
ASKED = st.tuples(
    st.integers(0, len(ALL_FORMS) - 1),
    st.sampled_from([*["time"] * 3, "unbounded", *["rows"] * 2, "partition"]),
    st.integers(1, 12),
    st.integers(1, 6),
    st.sampled_from([0, 0, 2]),
)


def form_of(asked: Asked) -> Form:
    return ALL_FORMS[asked[0]]


@cache
def query(name: str, asked: Asked) -> CompiledQuery:
    text = form_of(asked).ours.format(w=CLAUSES[asked[1]].format(*asked[2:]))
    (found,) = compiled({name: text}, stream())
    return found


def truth(asked: Asked, tuples: pa.Table, answer: Answer) -> list[dict[str, Any]]:
    """The answer from all tuples so far; no two have the same time, so a time tells a position."""
    _, kind, length, _, lag = asked
    as_of = to_micros(answer.as_of)
    if kind in ("time", "unbounded"):
        return expect(form_of(asked), tuples, by_time(as_of, lag), length if kind == "time" else 10**6)
    position = tuples["_us"].to_pylist().index(as_of) + 1
    numbered = tuples.append_column("_n", pa.array(range(1, len(tuples) + 1)))
    select = by_rows(position, lag) if kind == "rows" else by_partition(position, lag, "k")
    return expect(form_of(asked), numbered, select, length)


VALUES = st.tuples(
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, "a", "b"]),
    st.one_of(st.none(), st.integers(-20, 60)),
    st.one_of(st.none(), st.integers(-(2**40), 2**40)),
    st.one_of(st.none(), st.sampled_from([0.0, -1.5, 2.25, 1e6])),
)
STEPS = st.lists(
    st.tuples(
        st.frozensets(st.integers(0, 5), min_size=1),
        st.lists(st.tuples(st.sampled_from([100_000, 700_000, SECOND, 4 * SECOND, 30 * SECOND]), VALUES), max_size=8),
    ),
    min_size=2,
    max_size=8,
)


@settings(max_examples=examples(30))
@given(st.lists(ASKED, min_size=6, max_size=6), STEPS)
def test_complete_answers_are_right(asked: list[Asked], steps: list[tuple[frozenset[int], list[Any]]]) -> None:
    declared, now = stream(), START + 1
    feed, tuples = Feed(declared), to_table([])
    for chosen, steps_and_values in steps:
        feed.runtime.synchronise([query(f"q{i}", asked[i]) for i in sorted(chosen)])
        rows = []
        for step, values in steps_and_values:
            now += step
            rows.append((now, *values))
        part = to_table(rows)
        tuples = pa.concat_tables([tuples, part])
        for answer in feed.push(part):
            each = asked[int(answer.query[1:])]
            if answer.complete:
                theirs = truth(each, tuples, answer)
                assert same_rows(answer.table.to_pylist(), theirs), (each, answer.as_of, answer.table, theirs)


# -- what has gone wrong -----------------------------------------------------------------------------------


def tuple_at(at: float, v: int, k: int = 1) -> pa.Table:
    return to_table([(START + round(at * SECOND), k, "g", v, None, None)])


@pytest.mark.parametrize("aggregate", ["MIN(v)", "MAX(v)", "MAX(ts)", "MIN(g)"])
def test_extremes_that_come_later_than_their_count(aggregate: str) -> None:
    """Over a gap, the long window has counts from before the query and no extreme; the short one has neither."""
    feed = Feed(stream())
    argument = aggregate[4:-1]
    first = compiled({"n": f"SELECT COUNT({argument}) AS n FROM s [WINDOW 100 sec SLIDE 1 sec]"}, feed.declared)
    texts = {f"m{n}": f"SELECT {aggregate} AS m FROM s [WINDOW {n} sec SLIDE 1 sec]" for n in (2, 100)}
    feed.runtime.synchronise(first)
    for at in range(6):
        feed.push(tuple_at(at + 0.5, at))
    feed.runtime.synchronise([*first, *compiled(texts, feed.declared)])
    # The feed asserts that no query fails.
    answers = feed.push(tuple_at(20, 7))
    assert [a.table.to_pylist() for a in answers if a.query == "m2"][-1] == [{"m": None}]


def test_the_last_rows_of_partitions_are_not_complete_when_nobody_counted_before() -> None:
    """The query came in the middle of the stream: it lacks the tuples before."""
    feed = Feed(stream())
    time = compiled({"t": "SELECT COUNT(*) AS n FROM s [WINDOW 9 sec SLIDE 1 sec]"}, feed.declared)
    feed.runtime.synchronise(time)
    for at in range(6):
        feed.push(tuple_at(at, at, at % 2))
    last = compiled({"p": "SELECT k, SUM(v) AS t FROM s [PARTITION BY k ROWS 3 SLIDE 1] GROUP BY k"}, feed.declared)
    feed.runtime.synchronise([*time, *last])
    answers = [answer for at in (6, 7) for answer in feed.push(tuple_at(at, at, at % 2)) if answer.query == "p"]
    assert answers
    assert not any(answer.complete for answer in answers), answers[-1].table.to_pylist()


def test_rows_are_complete_when_so_many_were_seen() -> None:
    feed = Feed(stream())
    time = compiled({"t": "SELECT COUNT(*) AS n FROM s [WINDOW 9 sec SLIDE 1 sec]"}, feed.declared)
    rows = compiled({"r": "SELECT COUNT(*) AS n FROM s [ROWS 3 SLIDE 1]"}, feed.declared)
    other = compiled({"o": "SELECT SUM(v) AS t FROM s [ROWS 3 SLIDE 1]"}, feed.declared)
    told: dict[str, list[tuple[bool, int]]] = {"r": [], "o": []}
    for at in range(40):
        wanted = [*time, *(rows if 10 <= at < 20 else []), *(other if at >= 25 else [])]
        feed.runtime.synchronise(wanted)
        for answer in feed.push(tuple_at(at, 1)):
            if answer.query in told:
                told[answer.query].append((answer.complete, answer.table[0][0].as_py()))
    for name in told:
        assert told[name][:2] == [(False, 1), (False, 2)] and set(told[name][2:]) == {(True, 3)}, name
