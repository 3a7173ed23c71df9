"""Exact sums in limbs against Python's whole numbers."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sash.expr.decimals import from_unscaled, half_up, rescale, unscaled
from sash.panes.limbs import carry, join_decimal, join_int64, split_decimal
from tests.support.examples import examples

LOW, HIGH = -(2**63), 2**63 - 1
INT64 = st.one_of(st.integers(LOW, HIGH), st.sampled_from([LOW, HIGH, -1, 0, 1, 2**32, -(2**32), 2**31, 2**32 - 1]))
BOUND = 10**38
UNSCALED = st.one_of(
    st.integers(-BOUND + 1, BOUND - 1), st.sampled_from([BOUND - 1, -BOUND + 1, 0, 1, -1, 2**64, 2**96])
)


def split_int64(values: list[int]) -> list[np.ndarray]:
    """As Spark lifts them: x & 4294967295 and shiftright(x, 32)."""
    return [np.array([v & 0xFFFFFFFF for v in values], np.int64), np.array([v >> 32 for v in values], np.int64)]


def total(limbs: list[np.ndarray]) -> list[np.ndarray]:
    return [np.array([limb.sum()], dtype=np.int64) for limb in limbs]


@given(st.lists(INT64, min_size=1, max_size=20))
@settings(max_examples=examples(80))
@example([HIGH, 1])
@example([LOW, -1])
@example([HIGH, HIGH, LOW, LOW, 2])
def test_sums_of_int64(values: list[int]) -> None:
    exact, limbs = sum(values), total(split_int64(values))
    if LOW <= exact <= HIGH:
        assert join_int64(limbs).tolist() == [exact]
    else:
        with pytest.raises(OverflowError, match="BIGINT"):
            join_int64(limbs)


@given(st.lists(INT64, max_size=20))
@settings(max_examples=examples(40))
def test_int64_round_trip(values: list[int]) -> None:
    assert join_int64(split_int64(values)).tolist() == values


def decimals(numbers: list[int | None], scale: int = 4) -> pa.Array:
    return from_unscaled(numbers, pa.decimal128(38, scale))


@given(st.lists(UNSCALED, min_size=1, max_size=12))
@settings(max_examples=examples(80))
@example([BOUND - 1, 1])
@example([-BOUND + 1, -1])
@example([BOUND - 1] * 12)
@example([BOUND - 1, BOUND - 1, -BOUND + 1])
def test_sums_of_decimals(numbers: list[int]) -> None:
    limbs, valid = total(split_decimal(decimals([*numbers]))), np.array([True])
    exact = sum(numbers)
    if abs(exact) < BOUND:
        joined = join_decimal(limbs, pa.decimal128(38, 4), valid)
        joined.validate(full=True)
        assert unscaled(joined) == [exact]
    else:
        with pytest.raises(OverflowError, match="decimal"):
            join_decimal(limbs, pa.decimal128(38, 4), valid)


@pytest.mark.parametrize("precision", [5, 17, 18, 20, 37, 38])
def test_the_edge_of_a_precision(precision: int) -> None:
    type, edge = pa.decimal128(precision, 2), 10**precision
    far = [(n, abs(n) < edge) for k in (31, 32, 63, 64, 95, 96, 126) for n in (2**k, -(2**k), 2**k - 1, -(2**k) - 1)]
    for number, fits in ((edge - 1, True), (-edge + 1, True), (edge, False), (-edge, False), *far):
        limbs = [np.array([(number >> 32 * i) & 0xFFFFFFFF], np.int64) for i in range(3)]
        limbs.append(np.array([number >> 96], np.int64))
        if fits:
            assert unscaled(join_decimal(limbs, type, np.array([True]))) == [number]
        else:
            with pytest.raises(OverflowError):
                join_decimal(limbs, type, np.array([True]))


@given(st.lists(st.one_of(st.none(), UNSCALED), max_size=12), st.integers(0, 3))
@settings(max_examples=examples(40))
def test_nulls_and_slices(numbers: list[int | None], skipped: int) -> None:
    array = decimals(numbers)[skipped:]
    kept = numbers[skipped:]
    assert unscaled(array) == kept
    limbs = split_decimal(array)
    valid = np.array([number is not None for number in kept], dtype=bool)
    assert unscaled(join_decimal(limbs, pa.decimal128(38, 4), np.ones(len(kept), dtype=bool))) == [n or 0 for n in kept]
    assert unscaled(join_decimal(limbs, pa.decimal128(38, 4), valid)) == kept


def test_a_group_without_values_does_not_overflow() -> None:
    limbs = [np.array([0, 7], np.int64) for _ in range(3)] + [np.array([2**40, 0], np.int64)]
    joined = join_decimal(limbs, pa.decimal128(38, 0), np.array([False, True]))
    assert joined.to_pylist() == [None, Decimal(7 + 7 * 2**32 + 7 * 2**64)]


@given(st.lists(st.integers(-(2**62), 2**62), min_size=4, max_size=4))
def test_carry_keeps_the_number(limbs: list[int]) -> None:
    done = carry([np.array([limb], np.int64) for limb in limbs])
    assert sum(int(limb[0]) << 32 * i for i, limb in enumerate(done)) == sum(n << 32 * i for i, n in enumerate(limbs))
    assert all(0 <= int(limb[0]) < 2**32 for limb in done[:-1])


@given(st.integers(-(10**9), 10**9), st.integers(-1000, 1000).filter(bool))
def test_half_up(numerator: int, denominator: int) -> None:
    nearest = half_up(numerator, denominator)
    assert 2 * abs(nearest * denominator - numerator) <= abs(denominator)
    assert abs(nearest * denominator) >= abs(numerator) or 2 * abs(nearest * denominator - numerator) != abs(
        denominator
    )


@given(UNSCALED, st.integers(0, 20), st.integers(0, 20))
def test_rescale(number: int, scale: int, more: int) -> None:
    assert rescale(rescale(number, scale, scale + more), scale + more, scale) == number


def test_too_many_digits() -> None:
    with pytest.raises(OverflowError, match=r"DECIMAL\(3,1\)"):
        from_unscaled([1000], pa.decimal128(3, 1))
