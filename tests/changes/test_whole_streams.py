"""Windows without an end that are remembered as their different tuples, the number of each, or the least and greatest
values beside each: the definition's answers, and little state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.core.window import TimeWindow
from sash.plan.continuous import (
    STRATEGIES,
    BaseWindow,
    Distinct,
    Node,
    RememberedValues,
    edges,
    inputs,
    windows,
    with_inputs,
)
from tests.changes.test_plans_oracle import END, run
from tests.sql.examples import continuous_plan
from tests.support.examples import examples
from tests.support.relational import answer, check_net, view

ALIKE = "a.src = b.dst AND a.src BETWEEN 0 AND 2"
SHORT = "packets [RANGE 1 sec]"
OTHER = f"(SELECT 1 FROM {SHORT} a WHERE {ALIKE})"
QUERIES = [
    "SELECT DISTINCT src FROM packets [UNBOUNDED] WHERE src BETWEEN 0 AND 2",
    f"SELECT DISTINCT a.src FROM packets [UNBOUNDED] a, packets [UNBOUNDED] b WHERE {ALIKE}",
    f"SELECT DISTINCT a.src FROM packets [UNBOUNDED] a, {SHORT} b WHERE {ALIKE}",
    f"SELECT DISTINCT a.src, b.length FROM packets [UNBOUNDED] a, packets [ROWS 3] b WHERE {ALIKE}",
    f"SELECT length FROM {SHORT} b WHERE EXISTS (SELECT 1 FROM packets [UNBOUNDED] a WHERE {ALIKE})",
    f"SELECT DISTINCT b.dst FROM packets [UNBOUNDED] b WHERE b.dst < 3 AND b.dst >= 0 AND NOT EXISTS {OTHER}",
]


WHOLE, A_DAY = "packets [UNBOUNDED]", "packets [RANGE 1 day]"
BOTH = f"{WHOLE} a, {WHOLE} b"
# A join of windows with an end needs an equality; this one always holds.
TIE = " AND a.src % 1 = b.dst % 1"
# Joins that count equal tuples, and joins of which only extremes matter. Over windows of a day, longer than the test,
# nothing is summed up.
SUMMED_UP = [
    f"SELECT a.src, b.dst FROM {BOTH} WHERE {ALIKE}",
    f"SELECT a.src + c.src AS x FROM {BOTH}, {WHOLE} c WHERE {ALIKE} AND c.src = b.dst AND a.src + c.src < 4",
    f"SELECT b.dst - a.src AS zero FROM {WHOLE} a, {SHORT} b WHERE {ALIKE}",
    f"SELECT COUNT(*) AS n FROM {BOTH} WHERE {ALIKE}",
    (
        f"SELECT a.src, COUNT(b.dst) AS n, SUM(a.src + b.dst) AS s, MIN(b.dst) AS m FROM {BOTH} WHERE {ALIKE}"
        " GROUP BY a.src HAVING COUNT(*) > 1"
    ),
    (
        f"SELECT b.dst, COUNT(b.length) AS n, SUM(b.length) AS s, MAX(b.length) AS m FROM {WHOLE} a, packets [ROWS 3] b"
        f" WHERE {ALIKE} GROUP BY b.dst"
    ),
    f"SELECT DISTINCT a.src FROM {BOTH} WHERE a.src BETWEEN 0 AND 2 AND a.dst < b.length{TIE}",
    f"SELECT DISTINCT b.src FROM {BOTH} WHERE b.src BETWEEN 0 AND 2 AND a.dst >= b.length{TIE}",
    f"SELECT DISTINCT a.src, b.dst FROM {BOTH} WHERE {ALIKE} AND a.length >= b.length",
    f"SELECT DISTINCT a.src FROM {BOTH} WHERE {ALIKE} AND a.length >= b.src AND a.length > b.dst",
    f"SELECT DISTINCT a.src, b.port FROM {WHOLE} a, {SHORT} b WHERE {ALIKE} AND a.length > b.length",
    (
        f"SELECT length FROM {SHORT} s WHERE EXISTS (SELECT 1 FROM {BOTH} WHERE {ALIKE} AND a.length < b.length"
        " AND a.src = s.src)"
    ),
]


def _planned(text: str) -> Node:
    """The plan, with windows of five instants instead of a second."""
    return _shortened(continuous_plan(text))


def _shortened(plan: Node) -> Node:
    if isinstance(plan, BaseWindow):
        return replace(plan, window=TimeWindow(5)) if plan.window == TimeWindow(1_000_000) else plan
    return with_inputs(plan, tuple(_shortened(node) for node in inputs(plan)))


def _as_written(plan: Node) -> Node:
    """The plan without the Distincts over windows: what the query says."""
    if isinstance(plan, BaseWindow):
        return plan
    if isinstance(plan, Distinct) and isinstance(plan.input, BaseWindow):
        return plan.input
    return with_inputs(plan, tuple(_as_written(node) for node in inputs(plan)))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", QUERIES)
@given(st.data())
@settings(max_examples=examples(15))
def test_answers_are_the_definitions(text: str, strategy: str, data: st.DataObject) -> None:
    plan = _planned(text)
    written = _as_written(plan)
    given_tuples = []
    for window in windows(plan):
        row = st.tuples(*(st.integers(0, 2) for _ in window.schema))
        tuples = st.lists(st.tuples(st.integers(0, END - 1), row), max_size=12)
        given_tuples.append(sorted(data.draw(tuples, label=window.alias)))
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=5), label="cuts")
    changes = run(plan, given_tuples, cuts, strategy=strategy)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(written, given_tuples, now)


COLUMNS = ("src", "dst", "length", "port")
values = st.tuples(*[st.integers(0, 2)] * 2, *[st.sampled_from([None, 0, 1, 2, 3])] * 2)


def _for_window(
    window: BaseWindow, drawn: list[tuple[int, tuple[int | None, ...]]]
) -> list[tuple[int, tuple[object, ...]]]:
    """Tuples of the stream with the columns of a window; the computed one is 0."""
    columns = [made.expression.column for made in window.columns]
    return [(ts, tuple(row[COLUMNS.index(name)] if name in COLUMNS else 0 for name in columns)) for ts, row in drawn]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", SUMMED_UP)
@given(st.data())
@settings(max_examples=examples(15))
def test_what_is_summed_up_answers_like_all_tuples(text: str, strategy: str, data: st.DataObject) -> None:
    plan, written = _planned(text.replace(TIE, "")), _planned(text.replace(WHOLE, A_DAY))
    assert any(isinstance(node, RememberedValues) for _, node in edges(plan))
    given_tuples, all_tuples = _drawn(data, plan, written)
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=5), label="cuts")
    changes = run(plan, given_tuples, cuts, strategy=strategy)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(written, all_tuples, now)


@given(st.data())
@settings(max_examples=examples(30))
def test_a_number_of_copies_over_nothing_is_zero(data: st.DataObject) -> None:
    text = f"SELECT COUNT(*) AS n, COUNT(b.port) AS p, MAX(b.length) AS m FROM {WHOLE} a, {SHORT} b WHERE {ALIKE}"
    plan, written = _planned(text), _planned(text.replace(WHOLE, A_DAY))
    given_tuples, all_tuples = _drawn(data, plan, written)
    changes, all_changes = (
        run(plan, given_tuples, [7], over_nothing=True),
        run(written, all_tuples, [], over_nothing=True),
    )
    for now in range(END):
        assert view(changes, now) == view(all_changes, now)


def _drawn(data: st.DataObject, *plans: Node) -> list[list[list[tuple[int, tuple[object, ...]]]]]:
    """The same tuples for the windows of each plan."""
    tuples = st.lists(st.tuples(st.integers(0, END - 1), values), max_size=8).map(lambda each: sorted(each, key=_at))
    drawn = {window.alias: data.draw(tuples, label=window.alias) for window in windows(plans[0])}
    return [[_for_window(window, drawn[window.alias]) for window in windows(plan)] for plan in plans]


def _at(pair: tuple[int, object]) -> int:
    return pair[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", [*QUERIES[:2], SUMMED_UP[0], SUMMED_UP[4], SUMMED_UP[7]])
def test_state_does_not_grow_with_the_stream(text: str, strategy: str) -> None:
    plan = _planned(text.replace(TIE, ""))
    stage, state, sizes = Stage(plan, 3, strategy), State(), list[int]()
    for low in range(0, 5_000, 100):
        ts = np.arange(low, low + 100, dtype=np.int64)
        arrived = {
            place: Arrivals(pa.table({name: pa.array(ts % 3, pa.int32()) for name in window.schema.names}), ts)
            for place, window in enumerate(windows(plan))
        }
        _, state = stage.step(state, arrived, low, low + 100, {})
        sizes.append(sum(len(chunk.tuples) for chunks in state.buffers.values() for chunk in chunks))
    # Three values; a buffer may have as many rows again that are dead.
    assert max(sizes[5:]) <= 3 * 5 * (1 if text in QUERIES else 3), sizes
