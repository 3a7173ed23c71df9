"""The tuples that continuous groups store: of MIN and MAX about ln n of n, of other aggregates all that live."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.core.window import TimeWindow
from sash.plan.continuous import Aggregated, GroupBy
from tests.support.plans import INT, window

LIVE, STEP = 10_000, 500


def stored(values: np.ndarray, groups: int, *functions: str) -> float:
    """The average number of stored tuples of a group, once the window of LIVE tuples of each group is full."""
    calls = tuple(Aggregated(name, name, "S.b", INT) for name in functions)
    plan = GroupBy(window("S", TimeWindow(LIVE)), ("S.a",), calls)
    stage, state, sizes = Stage(plan), State(), []
    for low in range(0, len(values), STEP):
        rows = {"S.a": np.repeat(np.arange(groups), STEP), "S.b": np.tile(values[low : low + STEP], groups)}
        ts = np.tile(np.arange(low, low + STEP), groups)
        _, state = stage.step(state, {0: Arrivals(pa.table(rows, schema=plan.input.schema), ts)}, low, low + STEP)
        sizes.append(sum(map(len, state.chunks("0.live"))) / groups)
    return float(np.mean(sizes[LIVE // STEP :]))


@pytest.mark.parametrize("functions", [("max",), ("min",), ("max", "min")])
def test_extremes_of_a_random_stream_need_the_logarithm_of_its_window(functions: tuple[str, ...]) -> None:
    values = np.random.default_rng(7).integers(0, 1 << 40, 3 * LIVE)
    expected = len(functions) * (math.log(LIVE) + np.euler_gamma)
    # Up to half of the stored tuples are dead, because a chunk goes as a whole.
    assert 0.5 * expected < stored(values, 3, *functions) < 2.5 * expected


def test_tuples_in_the_worst_order_are_all_stored_and_in_the_best_order_one_is() -> None:
    rising = np.arange(2 * LIVE)
    assert stored(rising, 2, "max") == 1
    assert LIVE <= stored(rising, 2, "min") <= 2 * LIVE


def test_with_another_aggregate_all_live_tuples_are_stored() -> None:
    values = np.random.default_rng(7).integers(0, 1 << 40, 2 * LIVE)
    assert stored(values, 2, "max", "count") >= LIVE
