"""Windows without an end that are remembered as their different tuples: the definition's answers, and little state."""

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
from sash.plan.continuous import STRATEGIES, BaseWindow, Distinct, Node, inputs, windows, with_inputs
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


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", QUERIES[:2])
def test_state_does_not_grow_with_the_stream(text: str, strategy: str) -> None:
    plan = _planned(text)
    stage, state = Stage(plan, 3, strategy), State()
    for low in range(0, 5_000, 100):
        ts = np.arange(low, low + 100, dtype=np.int64)
        arrived = {
            place: Arrivals(pa.table({name: pa.array(ts % 3, pa.int32()) for name in window.schema.names}), ts)
            for place, window in enumerate(windows(plan))
        }
        _, state = stage.step(state, arrived, low, low + 100, {})
    stored = sum(len(chunk.tuples) for chunks in state.buffers.values() for chunk in chunks)
    assert stored <= 3 * 5  # three values, in at most five buffers
