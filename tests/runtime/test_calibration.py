"""What executions took against what the model expected: when that is reason to plan anew."""

from __future__ import annotations

import random

import pytest

from sash.runtime.periodic.pace import Calibration
from sash.sharing.choose import Prices


def observed(calibration: Calibration, executions: int, access: float, post: float) -> Calibration:
    """Executions of one to nine queries that cost so much per unit of access and of post-processing."""
    chance = random.Random(7)
    for _ in range(executions):
        expected = (chance.uniform(100, 200), 30.0 * chance.randint(1, 9))
        calibration.observe(expected, access * expected[0] + post * expected[1])
    return calibration


def test_a_few_executions_prove_nothing() -> None:
    assert observed(Calibration(), 20, 1.0, 50.0).drifted_from(Prices()) is None


def test_the_same_factor_on_both_parts_is_no_reason() -> None:
    """Another machine is twice as slow at everything: the best schedule is the same."""
    assert observed(Calibration(), 500, 2.0, 2.0).drifted_from(Prices()) is None


def test_a_drift_of_one_part_is_measured_and_then_is_the_price() -> None:
    calibration = observed(Calibration(), 500, 1.0, 4.0)
    prices = calibration.drifted_from(Prices())
    assert prices is not None and abs(prices.access / prices.post - 0.25) < 1e-6
    assert observed(calibration, 500, 1.0, 4.0).drifted_from(prices) is None


def test_a_plan_is_given_time_before_the_next() -> None:
    calibration = observed(Calibration(), 500, 1.0, 4.0)
    assert calibration.drifted_from(Prices()) is not None
    assert calibration.drifted_from(Prices()) is None


def test_recent_executions_weigh_more() -> None:
    calibration = observed(observed(Calibration(), 1_000, 1.0, 1.0), 600, 1.0, 10.0)
    prices = calibration.drifted_from(Prices())
    assert prices is not None and 0.09 < prices.access / prices.post < 0.12


def test_executions_that_are_all_alike_tell_nothing() -> None:
    calibration = Calibration()
    for _ in range(500):
        calibration.observe((100.0, 50.0), 3.0)
    assert calibration.drifted_from(Prices()) is None


@pytest.mark.parametrize("times", [10.0, 1_000.0])
@pytest.mark.parametrize("parts", [(200.0, 30.0), (100.0, 270.0)])
def test_one_slow_execution_changes_no_plan(parts: tuple[float, float], times: float) -> None:
    calibration = observed(Calibration(), 500, 1.0, 1.0)
    calibration.observe(parts, times * sum(parts))
    assert calibration.drifted_from(Prices()) is None
    assert observed(calibration, 100, 1.0, 1.0).drifted_from(Prices()) is None


def test_executions_that_have_become_slow_are_believed() -> None:
    prices = observed(observed(Calibration(), 500, 1.0, 1.0), 500, 1.0, 100.0).drifted_from(Prices())
    assert prices is not None and prices.access < 0.1
