"""Each compiled kernel against a NumPy version of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.accumulator import FOLDS, MOMENT_FOLDS, SCANS
from sash.panes.partials import Combine
from sash.panes.partitioned import kernel_ages
from tests.support.examples import examples

GROUPS = 4
INTS, FLOATS = st.integers(-(2**40), 2**40), st.floats(width=64)
SIMPLE = (Combine.ADD, Combine.MIN, Combine.MAX)
IDENTITIES: dict[tuple[Combine, type], Any] = {
    (Combine.ADD, np.int64): 0,
    (Combine.ADD, np.float64): 0.0,
    (Combine.MIN, np.int64): 2**63 - 1,
    (Combine.MIN, np.float64): math.nan,
    (Combine.MAX, np.int64): -(2**63),
    (Combine.MAX, np.float64): -math.inf,
}


def reference_add(codes: Any, values: Any, accumulator: Any) -> None:
    np.add.at(accumulator, codes, values)


def reference_min(codes: Any, values: Any, accumulator: Any) -> None:
    np.fmin.at(accumulator, codes, values)


def reference_max(codes: Any, values: Any, accumulator: Any) -> None:
    np.maximum.at(accumulator, codes, values)


REFERENCES = {Combine.ADD: reference_add, Combine.MIN: reference_min, Combine.MAX: reference_max}


def rows(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[int, Any]]]:
    return st.lists(st.tuples(st.integers(0, GROUPS - 1), values), max_size=30)


@pytest.mark.parametrize("combine", SIMPLE)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("groups", [1, GROUPS])
@given(data=st.data())
@settings(max_examples=examples(40))
def test_a_kernel_is_its_reference(combine: Combine, dtype: type, groups: int, data: st.DataObject) -> None:
    drawn = data.draw(rows(INTS if dtype is np.int64 else FLOATS))
    codes = np.array([code % groups for code, _ in drawn], dtype=np.int32)
    values = np.array([value for _, value in drawn], dtype=dtype)
    ours, theirs = (np.full(groups, IDENTITIES[combine, dtype], dtype=dtype) for _ in range(2))
    FOLDS[combine](codes, values, ours)
    with np.errstate(invalid="ignore", over="ignore"):
        REFERENCES[combine](codes, values, theirs)
    np.testing.assert_array_equal(ours, theirs)


def reference_scan(combine: Combine, codes: Any, values: Any, cuts: Any, out: Any) -> None:
    """What every scan kernel does, in NumPy."""
    for i in range(out.shape[0]):
        if i > 0:
            out[i] = out[i - 1]
        REFERENCES[combine](codes[cuts[i + 1] : cuts[i]], values[cuts[i + 1] : cuts[i]], out[i])


@pytest.mark.parametrize("combine", SIMPLE)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@given(data=st.data())
@settings(max_examples=examples(25))
def test_a_scan_is_its_reference(combine: Combine, dtype: type, data: st.DataObject) -> None:
    """Windows of any lengths, some of them equal, some without rows."""
    drawn = data.draw(rows(INTS if dtype is np.int64 else FLOATS))
    codes = np.array([code for code, _ in drawn], dtype=np.int32)
    values = np.array([value for _, value in drawn], dtype=dtype)
    edges = data.draw(st.lists(st.integers(0, len(drawn)), min_size=1, max_size=5))
    cuts = np.array([len(drawn), *sorted(edges, reverse=True)], dtype=np.int64)
    ours, theirs = (np.full((len(edges), GROUPS), IDENTITIES[combine, dtype], dtype=dtype) for _ in range(2))
    SCANS[combine](codes, values, cuts, ours)
    with np.errstate(invalid="ignore", over="ignore"):
        reference_scan(combine, codes, values, cuts, theirs)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("combine", "values", "expected"),
    [
        (Combine.MIN, [math.nan, 1.0], 1.0),
        (Combine.MIN, [1.0, math.nan], 1.0),
        (Combine.MIN, [math.nan, math.inf], math.inf),
        (Combine.MIN, [math.nan], math.nan),
        (Combine.MAX, [math.nan, math.inf], math.nan),
        (Combine.MAX, [1.0, math.nan, 2.0], math.nan),
        (Combine.MAX, [-math.inf], -math.inf),
        (Combine.ADD, [math.inf, -math.inf], math.nan),
    ],
)
def test_nan_is_the_greatest_number(combine: Combine, values: list[float], expected: float) -> None:
    accumulator = np.full(1, IDENTITIES[combine, np.float64])
    FOLDS[combine](np.zeros(len(values), dtype=np.int32), np.array(values), accumulator)
    np.testing.assert_array_equal(accumulator, [expected])


@pytest.mark.parametrize("combine", SIMPLE)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_identities_change_nothing(combine: Combine, dtype: type) -> None:
    """A pane that lacks a value holds the identity."""
    identity = IDENTITIES[combine, dtype]
    values = [5, -7, 0] if dtype is np.int64 else [5.0, -math.inf, math.nan]
    accumulator = np.array([*values, identity], dtype=dtype)
    before = accumulator.copy()
    FOLDS[combine](np.arange(4, dtype=np.int32), np.full(4, identity, dtype=dtype), accumulator)
    np.testing.assert_array_equal(accumulator, before)


MOMENTS = st.tuples(st.integers(0, 5), st.floats(-1e9, 1e9), st.floats(0, 1e9))


def reference_moments(codes: Any, counts: Any, means: Any, squares: Any, n: Any, mean: Any, square: Any) -> None:
    for g, added, x, s in zip(codes.tolist(), counts.tolist(), means.tolist(), squares.tolist(), strict=True):
        if added and not n[g]:
            n[g], mean[g], square[g] = added, x, s
        elif added:
            total = n[g] + added
            old_mean, new_mean = mean[g], mean[g] + (x - mean[g]) * (added / total)
            square[g] += s + n[g] * (old_mean - new_mean) ** 2 + added * (x - new_mean) ** 2
            mean[g], n[g] = new_mean, total


@given(rows(MOMENTS))
@settings(max_examples=examples(60))
def test_moments_are_their_reference(drawn: list[tuple[int, tuple[int, float, float]]]) -> None:
    codes = np.array([code for code, _ in drawn], dtype=np.int32)
    counts = np.array([n for _, (n, _, _) in drawn], dtype=np.int64)
    means, squares = (np.array([row[i] for _, row in drawn], dtype=np.float64) for i in (1, 2))
    ours, theirs = ([np.zeros(GROUPS, dtype=np.int64), np.zeros(GROUPS), np.zeros(GROUPS)] for _ in range(2))
    MOMENT_FOLDS["moments"](codes, counts, means, squares, *ours)
    reference_moments(codes, counts, means, squares, *theirs)
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9, atol=1e-3)
    np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-9, atol=1e-3)


def fold(*panes: tuple[int, float, float]) -> tuple[int, float, float]:
    n, mean, square = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1)
    counts, means, squares = (np.array([pane[i] for pane in panes]) for i in range(3))
    MOMENT_FOLDS["moments"](
        np.zeros(len(panes), dtype=np.int32), counts.astype(np.int64), means, squares, n, mean, square
    )
    return int(n[0]), float(mean[0]), float(square[0])


def test_moments_of_one_pane_are_its_own() -> None:
    assert fold((3, 1e200, 0.0)) == (3, 1e200, 0.0), "although the square of its mean is not a double"
    assert fold((0, 0.0, 0.0), (2, -1e308, 5.0), (0, 0.0, 0.0)) == (2, -1e308, 5.0)


def test_moments_do_not_cancel() -> None:
    """One value per pane, far from zero: 1e9, 1e9 + 1, 1e9 + 2."""
    n, mean, square = fold(*((1, 1e9 + i, 0.0) for i in range(3)))
    assert (n, mean) == (3, 1e9 + 1)
    assert math.isclose(square, 2.0, rel_tol=1e-12)


def test_moments_of_nan() -> None:
    n, mean, square = fold((1, 1.0, 0.0), (1, math.nan, 0.0), (1, 2.0, 0.0))
    assert n == 3 and math.isnan(mean) and math.isnan(square)


@pytest.mark.parametrize("combine", [Combine.AND, Combine.OR, Combine.XOR])
@given(rows(INTS))
@settings(max_examples=examples(20))
def test_bits(combine: Combine, drawn: list[tuple[int, int]]) -> None:
    codes = np.array([code for code, _ in drawn], dtype=np.int32)
    values = np.array([value for _, value in drawn], dtype=np.int64)
    ours, theirs = (np.full(GROUPS, -1 if combine is Combine.AND else 0) for _ in range(2))
    FOLDS[combine](codes, values, ours)
    ufunc = {Combine.AND: np.bitwise_and, Combine.OR: np.bitwise_or, Combine.XOR: np.bitwise_xor}[combine]
    ufunc.at(theirs, codes, values)
    np.testing.assert_array_equal(ours, theirs)


def co_moments(x: Any, y: Any) -> list[float]:
    one, other = x - x.mean(), y - y.mean()
    return [x.mean(), y.mean(), (one**2).sum(), (other**2).sum(), (one * other).sum()]


def high_moments(x: Any, _: Any) -> list[float]:
    return [x.mean(), *(((x - x.mean()) ** power).sum() for power in (2, 3, 4))]


SMALL = st.integers(-50, 50)


@pytest.mark.parametrize("moments", [co_moments, high_moments], ids=["co_moments", "high_moments"])
@given(st.lists(st.lists(st.tuples(SMALL, SMALL), max_size=6), max_size=6))
@settings(max_examples=examples(40))
def test_moments_of_panes_are_those_of_all_values(moments: Any, panes: list[list[tuple[int, int]]]) -> None:
    """Far from zero, where differences of sums of powers would cancel; an empty pane changes nothing."""
    arrays = [np.array(pane, dtype=np.float64).reshape(-1, 2) + 1e6 for pane in panes]
    width = len(moments(np.zeros(1), np.zeros(1)))
    lifted = [moments(*each.T) if len(each) else [0.0] * width for each in arrays]
    columns = [np.array([row[i] for row in lifted], dtype=np.float64) for i in range(width)]
    counts = np.array([len(each) for each in arrays], dtype=np.int64)
    n, found = np.zeros(1, dtype=np.int64), [np.zeros(1) for _ in range(width)]
    MOMENT_FOLDS[moments.__name__](np.zeros(len(panes), dtype=np.int32), counts, *columns, n, *found)
    every = np.concatenate([np.zeros((0, 2)), *arrays])
    assert n[0] == len(every)
    if len(every):
        np.testing.assert_allclose([each[0] for each in found], moments(*every.T), rtol=1e-9, atol=1e-3)


def reference_ages(partitions: Any, last: int, seen: Any, ages: Any) -> None:
    for row in range(last):
        ages[row] = seen[partitions[row]] + np.count_nonzero(partitions[row:last] == partitions[row])
    np.add.at(seen, partitions[:last], 1)


@given(st.lists(st.integers(0, GROUPS - 1), max_size=20), st.data())
@settings(max_examples=examples(40))
def test_ages_are_their_reference(partitions: list[int], data: st.DataObject) -> None:
    last = data.draw(st.integers(0, len(partitions)))
    ours, theirs = ([np.array([0, 2, 0, 5]), np.full(len(partitions), -1, dtype=np.int64)] for _ in range(2))
    kernel_ages(np.array(partitions, dtype=np.int64), last, *ours)
    reference_ages(np.array(partitions, dtype=np.int64), last, *theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
