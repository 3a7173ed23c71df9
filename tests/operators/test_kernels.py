"""Each Numba kernel against the plain version beside it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.distinct_kernels import (
    GONE,
    _kernel_changes_of_presence,
    _kernel_delta_star,
    reference_changes_of_presence,
    reference_delta_star,
)
from sash.operators.group_by import _trees
from sash.operators.join_kernels import _kernel_pairs, reference_pairs
from sash.operators.keys import dense_codes
from sash.operators.matching import _by_key, _starts
from sash.operators.matching_kernels import (
    EXCEPT_ALL,
    INTERSECT_ALL,
    WITH_MATCH,
    WITHOUT_MATCH,
    _kernel_matching,
    reference_matching,
)
from sash.operators.numbering_kernels import _kernel_numbers, reference_numbers
from sash.operators.replay_kernels import (
    ADD,
    MAX,
    MIN,
    _kernel_replay,
    _kernel_replay_moments,
    reference_replay,
    reference_replay_moments,
)

lives = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(1, 9)), max_size=12)


def arrays(tuples: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes, ts, lengths = (np.array([each[i] for each in tuples], dtype=np.int64) for i in range(3))
    return codes, ts, ts + lengths


@given(lives, lives)
def test_pairs(left: list[tuple[int, int, int]], right: list[tuple[int, int, int]]) -> None:
    found = set(zip(*(part.tolist() for part in _kernel_pairs(*arrays(left), *arrays(right))), strict=True))
    assert found == set(zip(*(part.tolist() for part in reference_pairs(*arrays(left), *arrays(right))), strict=True))


# Of a value: when what stands for it expires, and how much later its spare duplicate does (None: there is none).
standing = st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 20), st.one_of(st.none(), st.integers(1, 9)))),
                    min_size=5, max_size=5)  # fmt: skip


@given(lives, standing, st.integers(0, 32))
@example([(1, 0, 2)], [None, (0, 1), None, None, None], 1)
def test_delta_star(
    tuples: list[tuple[int, int, int]], standing: list[tuple[int, int | None] | None], high: int
) -> None:
    early = [each for each in tuples if each[1] < high]
    values, ts, exp = arrays(sorted(early, key=lambda each: (each[1], -each[2])))
    results = []
    for function in (_kernel_delta_star, reference_delta_star):
        shown, spare, spare_exp = (np.full(5, empty, dtype=np.int64) for empty in (GONE, -1, GONE))
        for value, each in enumerate(standing):
            if each is not None:
                shown[value] = each[0]
                spare[value], spare_exp[value] = (-1, GONE) if each[1] is None else (value, each[0] + each[1])
        every_value, every_exp = np.concatenate([np.arange(5), values]), np.concatenate([spare_exp, exp])
        expiring = np.flatnonzero((shown > GONE) & (shown < high))
        places, times = function(values, ts, exp, expiring, shown, spare, spare_exp, 5, high)
        found = zip(times.tolist(), every_value[places].tolist(), every_exp[places].tolist(), strict=True)
        results.append((sorted(found), shown.tolist()))
    assert results[0] == results[1]


@given(st.lists(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([0, 1, -(2**63), 2**63 - 1])), max_size=9)))
def test_numbers(batches: list[list[tuple[int, int]]]) -> None:
    results = []
    for function in (_kernel_numbers, reference_numbers):
        known, number, slots, found = np.zeros((28, 2), dtype=np.int64), 0, np.full(32, -1, dtype=np.int64), []
        for batch in batches:
            rows = np.array(batch, dtype=np.int64).reshape(-1, 2)
            numbers, number = function(rows, known, number, slots)
            found.append(numbers.tolist())
        results.append((found, known[:number].tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", [ADD, MIN, MAX])
@given(st.data())
def test_replay(kind: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 10))
    codes = np.sort(np.array(data.draw(st.lists(st.integers(0, 2), min_size=number, max_size=number)), dtype=np.int64))
    codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    values = np.array(data.draw(st.lists(st.integers(-5, 5), min_size=number, max_size=number)), dtype=np.int64)
    active = np.array(data.draw(st.lists(st.booleans(), min_size=number, max_size=number)))
    switched = np.array(
        sorted(data.draw(st.lists(st.integers(0, number - 1), max_size=12)), key=lambda i: codes[i]), dtype=np.int64
    )
    on = np.array(data.draw(st.lists(st.booleans(), min_size=len(switched), max_size=len(switched))), dtype=np.bool_)
    roots, leaves = _trees(codes)
    ends = np.arange(1, len(switched) + 1)
    identity = {ADD: 0, MIN: 2**62, MAX: -(2**62)}[kind]
    arguments = (kind, values, np.int64(identity), roots, leaves, active, switched, on, ends, codes[switched])
    assert _kernel_replay(*arguments).tolist() == reference_replay(*arguments).tolist()


@given(st.data())
def test_replay_moments(data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 10))

    def drawn(values: st.SearchStrategy) -> np.ndarray:
        return np.array(data.draw(st.lists(values, min_size=number, max_size=number)))

    codes = np.unique(np.sort(drawn(st.integers(0, 2))), return_inverse=True)[1].astype(np.int64)
    means, squares = drawn(st.floats(-100, 100)), drawn(st.floats(0, 100))
    counts, active = drawn(st.integers(0, 3)).astype(np.int64), drawn(st.booleans())
    switched = np.array(
        sorted(data.draw(st.lists(st.integers(0, number - 1), max_size=12)), key=lambda i: codes[i]), dtype=np.int64
    )
    on = np.array(data.draw(st.lists(st.booleans(), min_size=len(switched), max_size=len(switched))), dtype=np.bool_)
    roots, leaves = _trees(codes)
    happening = (switched, on, np.arange(1, len(switched) + 1), codes[switched])
    there = reference_replay(ADD, counts, np.int64(0), roots, leaves, active, *happening) > 0
    found = _kernel_replay_moments(means, squares, roots, leaves, active, counts, *happening)
    expected = reference_replay_moments(means, squares, roots, leaves, active, counts, *happening)
    for one, other in zip(found, expected, strict=True):
        assert one[there] == pytest.approx(other[there], rel=1e-9, abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.sampled_from([1, -1])), max_size=14))
def test_changes_of_presence(events: list[tuple[int, int, int]]) -> None:
    codes, times, steps = np.array(sorted(events), dtype=np.int64).reshape(-1, 3).T
    results = []
    for function in (_kernel_changes_of_presence, reference_changes_of_presence):
        present = np.array([0, 1, 3], dtype=np.int64)
        results.append([part.tolist() for part in (*function(codes, times, steps, present), present)])
    assert results[0] == results[1]


# Tuples of a key: it, their first instant, how long they would live, and after how long they are taken back, if so.
matched = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 12), st.one_of(st.none(), st.integers(1, 12))),
    max_size=14,
)
LOW, HIGH = 5, 14


@pytest.mark.parametrize("rule", [EXCEPT_ALL, WITHOUT_MATCH, INTERSECT_ALL, WITH_MATCH])
@given(matched, matched)
def test_matching(rule: int, left: list[tuple[int, ...]], right: list[tuple[int, ...]]) -> None:
    codes, ts, exp, out = alive_from(LOW, left)
    others, right_ts, _, right_out = alive_from(LOW, right)
    leaving = right_out < HIGH
    arguments = (
        rule, _starts(codes, 3), ts, exp, out, np.lexsort((out, codes)), *reversed(_by_key(others, right_ts, 3)),
        *reversed(_by_key(others[leaving], right_out[leaving], 3)), LOW, HIGH,
    )  # fmt: skip
    found, expected = _kernel_matching(*arguments), reference_matching(*arguments)
    assert sorted(zip(*map(list, found), strict=True)) == sorted(zip(*map(list, expected), strict=True))


def alive_from(low: int, tuples: list[tuple[int, int, int, int | None]]) -> list[np.ndarray]:
    """(key, ts, exp, out) in order, of those that are in their window at `low` - 1 or come later."""
    lived = [(key, ts, ts + life, ts + min(life, back or life)) for key, ts, life, back in tuples]
    found = sorted(each for each in lived if each[3] >= low)
    return [np.array([each[i] for each in found], dtype=np.int64) for i in range(4)]


def test_rows_with_lists_are_compared() -> None:
    table = pa.table({"a": pa.array([[1, 2], None, [1, 2], [], [2]]), "b": [1, 1, 1, 1, 1]})
    (codes,) = dense_codes([table], [["a", "b"]], null_safe=True)
    assert codes[0] == codes[2] and len(set(codes.tolist())) == 4


@pytest.mark.parametrize("values", [[0.0, -0.0], [math.nan, math.nan]])
def test_numbers_that_spark_takes_for_equal_are_equal(values: list[float]) -> None:
    (codes,) = dense_codes([pa.table({"a": values})], [["a"]], null_safe=True)
    assert codes[0] == codes[1]
