"""Levels: what the arithmetic promises, for every distance and threshold of a stretch."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sash.panes.substreams.collective import Levels

PS = [1, 2, 3, 5, 8, 16]
FAR = 3_000


@pytest.mark.parametrize("p", PS)
def test_levels_follow_each_other(p: int) -> None:
    levels = Levels(p)
    assert [levels.size(level) for level in range(3 * p)] == [1] * p + [2] * p + [4] * p
    assert levels.first(0) == 1
    assert all(levels.last(level) + 1 == levels.first(level + 1) for level in range(10 * p))
    for distance in range(1, FAR):
        level = levels.of(distance)
        assert levels.first(level) <= distance <= levels.last(level)


@pytest.mark.parametrize("p", PS)
def test_a_level_stores_the_multiple_of_its_size(p: int) -> None:
    levels = Levels(p)
    for length in range(1, 200):
        for level in range(levels.of(length) + 2):
            position = levels.stored(length, level)
            assert (position is not None) == (level < levels.full(length)) == (length >= levels.last(level))
            if position is not None:
                assert position % levels.size(level) == 0
                assert levels.of(length - position + 1) == level


@pytest.mark.parametrize("p", PS)
def test_thresholds_and_their_levels(p: int) -> None:
    levels = Levels(p)
    for v in range(FAR):
        above, below = levels.above(v), levels.below(v)
        # A superset: a key with more than v (less than v) has the level's unit in the window (outside).
        assert levels.last(above) <= max(v, 1) and levels.first(below) >= v
        # Relaxed no further than promised.
        assert levels.first(above) > v * (1 - levels.epsilon)
        assert levels.last(below) - 1 < max(v, 1) * (1 + levels.excess)
        # Two levels up it is certain.
        assert levels.first(above + 2) > v
        assert below == 0 or levels.first(below - 1) < v


def test_the_bounds_are_as_tight_as_can_be() -> None:
    for p in PS:
        levels = Levels(p)
        far = [(1 << c) * p + d for c in range(30, 32) for d in range(-p, (1 << c) * p, (1 << c) // 8)]
        far += [levels.last(level) + d for level in range(30 * p, 32 * p) for d in (-1, 0, 1, 2)]
        assert max(1 - Fraction(levels.first(levels.above(v)), v) for v in far) > levels.epsilon - Fraction(1, 10**6)
        assert max(Fraction(levels.last(levels.below(v)), v) - 1 for v in far) > levels.excess - Fraction(1, 10**6)


def test_there_is_no_level_without_p() -> None:
    with pytest.raises(ValueError, match="at least one level"):
        Levels(0)
