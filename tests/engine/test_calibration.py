"""What executions took against what the model expected: when that is reason to plan anew."""

from __future__ import annotations

from sash.engine.calibration import Calibration
from sash.sharing.prices import Prices


def observed(executions: int, expected: tuple[float, float], took: tuple[float, float]) -> Calibration:
    calibration = Calibration()
    for _ in range(executions):
        calibration.observe(expected, took)
    return calibration


def test_a_few_executions_prove_nothing() -> None:
    assert observed(5, (100.0, 100.0), (1.0, 50.0)).drifted_from(Prices()) is None


def test_the_same_factor_on_both_parts_is_no_reason() -> None:
    """Another machine is twice as slow at everything: the best schedule is the same."""
    assert observed(50, (100.0, 300.0), (2.0, 6.0)).drifted_from(Prices()) is None


def test_a_drift_of_one_part_is_measured_and_then_is_the_price() -> None:
    calibration = observed(50, (100.0, 100.0), (1.0, 4.0))
    prices = calibration.drifted_from(Prices())
    assert prices is not None and abs(prices.access / prices.post - 0.25) < 1e-9
    assert calibration.drifted_from(prices) is None


def test_recent_executions_weigh_more() -> None:
    calibration = observed(500, (100.0, 100.0), (1.0, 1.0))
    for _ in range(300):
        calibration.observe((100.0, 100.0), (1.0, 10.0))
    prices = calibration.drifted_from(Prices())
    assert prices is not None and 0.08 < prices.access / prices.post < 0.12


def test_what_was_never_expected_to_cost_anything_tells_nothing() -> None:
    assert observed(50, (0.0, 100.0), (1.0, 1.0)).drifted_from(Prices()) is None
