"""Statistics for the optimiser: rates, selectivities and values, from what passes by."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.time import SECOND
from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow
from sash.plan.estimates import Statistics, occupied
from sash.plan.expressions import RowExpression
from sash.runtime.observed import SAMPLE, ObservedWindows, RateMeter, number_of_values
from tests.support.plans import window

S = window("S", TimeWindow(SECOND))
SOME = replace(S, alias="some", predicate=RowExpression("b > 1", pa.bool_(), ("b",)))
T = window("T", TimeWindow(SECOND))


def came(*leaves: tuple[int, int, int]) -> pa.Table:
    """(window, a, b) as Spark lays them out: all windows of two columns in the same slots."""
    columns = zip(*leaves, strict=True) if leaves else ([], [], [])
    leaf, a, b = (list(column) for column in columns)
    return pa.table({"_leaf": pa.array(leaf, pa.int32()), "s0": pa.array(a), "s1": pa.array(b)})


def observed(*windows: BaseWindow) -> ObservedWindows:
    return ObservedWindows(windows, [(0, 1)] * len(windows))


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 10_000)), min_size=2))
def test_rates_are_tuples_after_the_first_micro_batch_by_time(batches: list[tuple[int, int]]) -> None:
    meter = RateMeter()
    for rows, second in batches:
        meter.take(rows, second * SECOND)
    span = max(second for _, second in batches) - batches[0][1]
    rows = sum(rows for rows, _ in batches[1:])
    assert meter.rate == (pytest.approx(rows / span) if span and rows else None)
    assert meter.epochs == (pytest.approx((len(batches) - 1) / span) if span else None)


def test_one_micro_batch_says_nothing_about_rates() -> None:
    meter = RateMeter()
    meter.take(0, None)
    meter.take(1_000, SECOND)
    assert meter.rate is None and meter.epochs is None


def test_selectivities_are_tuples_that_came_of_rows_that_were_read() -> None:
    plan = observed(S, SOME, T)
    plan.take("s", came(*[(0, 1, 1)] * 10, *[(1, 1, 2)] * 3), 10)
    plan.take("s", came(*[(0, 1, 1)] * 10), 10)
    plan.take("t", came((2, 1, 1)), 1)
    assert plan.selectivities({"s", "t"}) == {"s where b > 1": 3 / 20}
    assert plan.selectivities({"t"}) == {}
    rare = observed(SOME)
    rare.take("s", came(), 100)
    assert rare.selectivities({"s"}) == {"s where b > 1": 1 / 100}


def test_values_are_those_of_windows_without_a_condition() -> None:
    plan = observed(S, SOME)
    plan.take("s", came(*((0, each % 7, each % 2) for each in range(700)), *((1, 5, 5) for _ in range(100))), 700)
    assert plan.distinct({"s"}) == {"s.a": pytest.approx(7, abs=1e-3), "s.b": pytest.approx(2, abs=1e-3)}
    only = observed(SOME)
    only.take("s", came(*((0, each, 5) for each in range(20))), 90)
    assert only.distinct({"s"})["s.b"] == pytest.approx(1, abs=1e-3) and only.distinct({"t"}) == {}


def test_a_large_micro_batch_is_sampled() -> None:
    plan = observed(S)
    plan.take("s", came(*((0, each % 50, each) for each in range(3 * SAMPLE))), 3 * SAMPLE)
    found = plan.distinct({"s"})
    assert found["s.a"] == pytest.approx(50, rel=0.01) and found["s.b"] > 1_000 * SAMPLE


def test_columns_that_cannot_be_compared_are_left_out() -> None:
    plan = observed(S)
    lists = pa.table({"_leaf": pa.array([0], pa.int32()), "s0": pa.array([[1]]), "s1": pa.array([None], pa.int64())})
    plan.take("s", lists, 1)
    assert plan.distinct({"s"}) == {}


@given(st.integers(1, 10**6), st.integers(1, 10**5))
def test_the_number_of_values_explains_the_sample(values: int, tuples: int) -> None:
    different = max(1, min(tuples, round(occupied(values, tuples))))
    found = number_of_values(different, tuples)
    assert found >= different and math.isfinite(found)
    if 1 < different < 0.9 * tuples and occupied(different, tuples) < different - 0.5:
        assert occupied(found, tuples) == pytest.approx(different, rel=0.01)


names = st.text(max_size=5)
numbers = st.dictionaries(names, st.floats(0.001, 1e9))


@given(numbers, numbers, numbers, st.floats(0.01, 1e3))
def test_measurements_are_read_as_they_were_written(
    rates: dict[str, float], parts: dict[str, float], values: dict[str, float], epochs: float
) -> None:
    known = Statistics(rates, parts, values, epochs if rates else Statistics.epochs)
    assert Statistics.of(known.measurements) == known
    assert Statistics().measurements == ()
