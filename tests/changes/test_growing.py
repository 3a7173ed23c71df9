"""Groups over streams that never forget: the answers of all tuples, from partials alone."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.core.window import FOREVER, TimeWindow
from sash.plan.continuous import STRATEGIES, Aggregated, BaseWindow, Column, Filter, GroupBy
from sash.plan.expressions import RowExpression
from tests.changes.test_plans_oracle import END, run
from tests.support.examples import examples
from tests.support.plans import INT, dense_tuples, less, window
from tests.support.relational import answer, view

CALLS = tuple(
    Aggregated(function, function, "S.b", pa.float64() if function == "avg" else INT)
    for function in ("count", "sum", "min", "max", "avg")
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(60))
def test_groups_without_a_window(strategy: str, data: st.DataObject) -> None:
    keys = data.draw(st.sampled_from([("S.a",), ()]))
    plan = GroupBy(Filter(window("S", TimeWindow(FOREVER)), less("S.a", 3)), keys, CALLS)
    given_tuples = [data.draw(dense_tuples)]
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=6))
    changes = run(plan, given_tuples, cuts, strategy=strategy)
    for now in range(END):
        assert view(changes, now) == answer(plan, given_tuples, now), now
    assert Counter(changes) == Counter(run(plan, given_tuples, [], strategy=strategy))


def stepped(epochs: int) -> tuple[list[dict[str, object]], int]:
    """The rows at the end, and the size of the state, for words and floats in a number of epochs."""
    columns = (Column("S.k", RowExpression("k", INT)), Column("S.w", RowExpression("w", pa.string())),
               Column("S.x", RowExpression("x", pa.float64())))  # fmt: skip
    base = BaseWindow("S", "S", TimeWindow(FOREVER), columns)
    calls = (Aggregated("lo", "min", "S.w", pa.string()), Aggregated("hi", "max", "S.w", pa.string()),
             Aggregated("spread", "stddev", "S.x", pa.float64()), Aggregated("n", "count", "S.w", INT))  # fmt: skip
    stage, state, standing = Stage(GroupBy(base, ("S.k",), calls)), State(), dict[object, dict[str, object]]()
    words = [None if i % 7 == 0 else f"w{i * 37 % 101:03d}" for i in range(600)]
    table = pa.table({"S.k": [i % 3 for i in range(600)], "S.w": words, "S.x": [math.sin(i) for i in range(600)]})
    size = 600 // epochs
    for low in range(0, 600, size):
        arrived = {0: Arrivals(table.slice(low, size), np.arange(low, low + size))}
        changes, state = stage.step(state, arrived, low, low + size)
        for row, sign in zip(changes.rows.to_pylist(), changes.sign.tolist(), strict=True):
            if sign > 0:
                standing[row["S.k"]] = row
    return list(standing.values()), state.tuples


def test_partials_of_words_and_moments_are_kept_from_epoch_to_epoch() -> None:
    (at_once, _), (often, stored) = stepped(1), stepped(60)
    assert len(at_once) == len(often) == 3
    for one, other in zip(at_once, often, strict=True):
        assert {**one, "spread": None} == {**other, "spread": None}
        assert one["spread"] == pytest.approx(other["spread"], rel=1e-12)
    # A row and the partials of each group, not 600 tuples.
    assert stored == 2 * 3
