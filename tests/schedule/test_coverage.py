"""What periods cover, against marking every multiple; the count within a horizon against the exact fraction."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.schedule import cost
from sash.schedule.cost import HORIZON, multiples, primitive, uncovered


@given(st.integers(1, 12), st.lists(st.integers(1, 12), max_size=6))
def test_uncovered_multiples(period: int, others: list[int]) -> None:
    multiple = lcm(period, *others)
    free = [time for time in range(period, multiple + 1, period) if all(time % other for other in others)]
    assert uncovered(period, others) == Fraction(len(free), multiple // period)


def test_astronomical_multiples_are_exact() -> None:
    primes = [10_007, 10_009, 10_037, 10_039, 10_061, 10_067]
    left = Fraction(1)
    for prime in primes:
        left *= 1 - Fraction(1, prime)
    assert uncovered(9_973, primes) == left
    assert uncovered(86_400_000_000, [7_000_000, 1_000_000]) == 0


def test_units_do_not_count() -> None:
    assert uncovered(6_000_000, [4_000_000, 9_000_000]) == uncovered(6, [4, 9]) == Fraction(1, 3)


@pytest.mark.parametrize(
    ("period", "others"), [(1, [2, 3, 5, 7]), (7, list(range(40, 51))), (11, [13, 17, 19, 23]), (30, [44, 18, 25])]
)
def test_the_count_within_the_horizon_is_near(monkeypatch: pytest.MonkeyPatch, period: int, others: list[int]) -> None:
    exact = uncovered(period, others)
    monkeypatch.setattr(cost, "EXACT_STEPS", 0)
    assert float(uncovered(period, others)) == pytest.approx(float(exact), rel=0.01)


def test_masks_and_primitive_sets() -> None:
    for step in (1, 7, 2_520, HORIZON):
        assert multiples(step) == sum(1 << position for position in range(step, HORIZON + 1, step))
    assert multiples(HORIZON + 1) == 0
    assert primitive([]) == () and primitive([9, 3, 10, 5]) == (3, 5)
