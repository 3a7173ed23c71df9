"""Each Numba kernel against a plain version of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.changes.distinct import GONE, kernel_changes_of_presence, kernel_delta_star
from sash.changes.group_by import ADD, MAX, MIN, group_trees, kernel_replay, kernel_replay_moments
from sash.changes.join import Int64s, kernel_pairs, kernel_pairs_in_time
from sash.changes.key_numbers import dense_codes, kernel_numbers
from sash.changes.matching import (
    EXCEPT_ALL,
    INTERSECT_ALL,
    WITH_MATCH,
    WITHOUT_MATCH,
    kernel_matching,
    key_starts,
    shown,
    times_by_key,
)

Pairs = Callable[[Int64s, Int64s, Int64s, Int64s, Int64s, Int64s], tuple[Int64s, Int64s]]
lives = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(1, 9)), max_size=12)
# Some are taken back at the instant at which they come.
brief = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(0, 9)), max_size=12)


def arrays(tuples: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes, ts, lengths = (np.array([each[i] for each in tuples], dtype=np.int64) for i in range(3))
    return codes, ts, ts + lengths


def reference_pairs(
    built: Int64s, built_ts: Int64s, built_out: Int64s, probing: Int64s, probing_ts: Int64s, probing_out: Int64s
) -> tuple[Int64s, Int64s]:
    """`kernel_pairs` by comparing everything with everything."""
    same = built[:, None] == probing[None, :]
    start = np.maximum(built_ts[:, None], probing_ts[None, :])
    ones, others = np.nonzero(same & (start < np.minimum(built_out[:, None], probing_out[None, :])))
    order = np.lexsort((ones, others))
    return ones[order], others[order]


@pytest.mark.parametrize("kernel", [kernel_pairs, kernel_pairs_in_time])
@given(brief, brief)
def test_pairs(kernel: Pairs, left: list[tuple[int, int, int]], right: list[tuple[int, int, int]]) -> None:
    found, expected = (pairs(*arrays(left), *arrays(right)) for pairs in (kernel, reference_pairs))
    assert sorted(zip(*map(np.ndarray.tolist, found), strict=True)) == sorted(
        zip(*map(np.ndarray.tolist, expected), strict=True)
    )


# For a value: when its shown tuple expires, and how much later its spare duplicate does (None: there is none).
standing = st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 20), st.one_of(st.none(), st.integers(1, 9)))),
                    min_size=5, max_size=5)  # fmt: skip


def reference_delta_star(
    values: Int64s, ts: Int64s, exp: Int64s, expiring: Int64s, shown: Int64s, spare: Int64s, spare_exp: Int64s,
    first: int, high: int,
) -> tuple[Int64s, Int64s]:  # fmt: skip
    """`kernel_delta_star`, instant by instant, from everything that lives: no spare duplicates are kept."""
    every = [(v, GONE, int(spare_exp[v]), int(spare[v])) for v in range(len(shown)) if spare[v] >= 0]
    every += zip(values.tolist(), ts.tolist(), exp.tolist(), range(first, first + len(ts)), strict=True)
    instants = {int(t) for t in shown if t != GONE} | {t for _, come, gone, _ in every for t in (come, gone)}
    found: list[tuple[int, int]] = []
    for now in sorted(t for t in instants if GONE < t < high):
        for value in range(len(shown)):
            if shown[value] <= now:
                alive = [(gone, place) for v, come, gone, place in every if v == value and come <= now < gone]
                shown[value], place = max(alive, default=(GONE, -1))
                found += [(place, now)] if alive else []
    spare[:], spare_exp[:] = -1, GONE
    places, times = zip(*found, strict=True) if found else ((), ())
    return np.array(places, dtype=np.int64), np.array(times, dtype=np.int64)


@given(lives, standing, st.integers(0, 32))
@example([(1, 0, 2)], [None, (0, 1), None, None, None], 1)
def test_delta_star(
    tuples: list[tuple[int, int, int]], standing: list[tuple[int, int | None] | None], high: int
) -> None:
    early = [each for each in tuples if each[1] < high]
    values, ts, exp = arrays(sorted(early, key=lambda each: (each[1], -each[2])))
    results = []
    for function in (kernel_delta_star, reference_delta_star):
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


def reference_numbers(rows: Int64s, known: Int64s, number: int, slots: Int64s) -> tuple[Int64s, int]:
    """`kernel_numbers` with a dictionary; `slots` stay as they are."""
    numbers = {tuple(row): place for place, row in enumerate(known[:number].tolist())}
    found = [numbers.setdefault(tuple(row), len(numbers)) for row in rows.tolist()]
    for row, place in numbers.items():
        known[place] = row
    return np.array(found, dtype=np.int64), len(numbers)


@given(st.lists(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([0, 1, -(2**63), 2**63 - 1])), max_size=9)))
def test_numbers(batches: list[list[tuple[int, int]]]) -> None:
    results = []
    for function in (kernel_numbers, reference_numbers):
        known, number, slots, found = np.zeros((28, 2), dtype=np.int64), 0, np.full(32, -1, dtype=np.int64), []
        for batch in batches:
            rows = np.array(batch, dtype=np.int64).reshape(-1, 2)
            numbers, number = function(rows, known, number, slots)
            found.append(numbers.tolist())
        results.append((found, known[:number].tolist()))
    assert results[0] == results[1]


COMBINATIONS = {ADD: operator.add, MIN: min, MAX: max}


def reference_replay(
    kind: int, values: Any, identity: Any, roots: Int64s, leaves: Int64s, active: Any,
    switched: Int64s, on: Any, ends: Int64s, groups: Int64s,
) -> Any:  # fmt: skip
    """`kernel_replay` by combining all that is on, after every instant."""
    is_on, out, change = np.array(active, dtype=bool), [], 0
    group_of = np.searchsorted(roots, leaves, side="right") - 1
    for instant in range(len(ends)):
        while change < ends[instant]:
            is_on[switched[change]] = on[change]
            change += 1
        result = identity
        for value in values[is_on & (group_of == groups[instant])]:
            result = COMBINATIONS[kind](result, value)
        out.append(result)
    return np.array(out, dtype=values.dtype)


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
    roots, leaves = group_trees(codes)
    ends = np.arange(1, len(switched) + 1)
    identity = {ADD: 0, MIN: 2**62, MAX: -(2**62)}[kind]
    arguments = (kind, values, np.int64(identity), roots, leaves, active, switched, on, ends, codes[switched])
    assert kernel_replay(*arguments).tolist() == reference_replay(*arguments).tolist()


def reference_replay_moments(
    means: Any, squares: Any, roots: Int64s, leaves: Int64s, active: Any, counts: Int64s,
    switched: Int64s, on: Any, ends: Int64s, groups: Int64s,
) -> tuple[Any, Any]:  # fmt: skip
    """`kernel_replay_moments` from all that is on, after every instant; 0 where that is nothing."""
    is_on, change = np.array(active, dtype=bool), 0
    group_of = np.searchsorted(roots, leaves, side="right") - 1
    found = np.zeros((2, len(ends)))
    for instant in range(len(ends)):
        while change < ends[instant]:
            is_on[switched[change]] = on[change]
            change += 1
        mine = is_on & (group_of == groups[instant]) & (counts > 0)
        if mine.any():
            mean = (counts * means)[mine].sum() / counts[mine].sum()
            found[:, instant] = mean, (squares + counts * (means - mean) ** 2)[mine].sum()
    return found[0], found[1]


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
    roots, leaves = group_trees(codes)
    happening = (switched, on, np.arange(1, len(switched) + 1), codes[switched])
    there = reference_replay(ADD, counts, np.int64(0), roots, leaves, active, *happening) > 0
    found = kernel_replay_moments(means, squares, roots, leaves, active, counts, *happening)
    expected = reference_replay_moments(means, squares, roots, leaves, active, counts, *happening)
    for one, other in zip(found, expected, strict=True):
        assert one[there] == pytest.approx(other[there], rel=1e-9, abs=1e-6)


def reference_changes_of_presence(
    codes: Int64s, times: Int64s, steps: Int64s, present: Int64s
) -> tuple[Int64s, Int64s]:  # fmt: skip
    """`kernel_changes_of_presence`, all events of an instant at a time."""
    places, signs = [], []
    for value, now in sorted(set(zip(codes.tolist(), times.tolist(), strict=True))):
        events = np.flatnonzero((codes == value) & (times == now))
        before = present[value]
        present[value] += steps[events].sum()
        if (before > 0) != (present[value] > 0):
            places.append(int(events[-1]))
            signs.append(1 if present[value] > 0 else -1)
    return np.array(places, dtype=np.int64), np.array(signs, dtype=np.int64)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.sampled_from([1, -1])), max_size=14))
def test_changes_of_presence(events: list[tuple[int, int, int]]) -> None:
    codes, times, steps = np.array(sorted(events), dtype=np.int64).reshape(-1, 3).T
    results = []
    for function in (kernel_changes_of_presence, reference_changes_of_presence):
        present = np.array([0, 1, 3], dtype=np.int64)
        results.append([part.tolist() for part in (*function(codes, times, steps, present), present)])
    assert results[0] == results[1]


# Tuples of a key: it, their first instant, how long they would live, and after how long they are taken back, if so.
matched = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 12), st.one_of(st.none(), st.integers(1, 12))),
    max_size=14,
)
LOW, HIGH = 5, 14


def reference_matching(
    rule: int, starts: Int64s, ts: Int64s, exp: Int64s, out: Int64s, by_out: Int64s, right_starts: Int64s,
    right_came: Int64s, right_went_starts: Int64s, right_went: Int64s, low: int, high: int,
) -> tuple[Int64s, Int64s, Int64s]:  # fmt: skip
    """`kernel_matching` by comparing the shown tuples of each instant with those of the instant before."""
    found: list[tuple[int, int, int]] = []
    for key in range(len(starts) - 1):
        ours = range(starts[key], starts[key + 1])
        came = right_came[right_starts[key] : right_starts[key + 1]]
        went = right_went[right_went_starts[key] : right_went_starts[key + 1]]
        before: set[int] = set()
        for now in range(low - 1, high):
            alive = [place for place in ours if ts[place] <= now < out[place]]
            number = shown(rule, len(alive), int((came <= now).sum() - (went <= now).sum()))
            after = set(alive[len(alive) - number :])
            if now >= low:
                found += [(now, place, -1) for place in sorted(before - after) if now < exp[place]]
                found += [(now, place, 1) for place in sorted(after - before)]
            before = after
    times, places, signs = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return times, places, signs


@pytest.mark.parametrize("rule", [EXCEPT_ALL, WITHOUT_MATCH, INTERSECT_ALL, WITH_MATCH])
@given(matched, matched)
def test_matching(rule: int, left: list[tuple[int, ...]], right: list[tuple[int, ...]]) -> None:
    codes, ts, exp, out = alive_from(LOW, left)
    others, right_ts, _, right_out = alive_from(LOW, right)
    leaving = right_out < HIGH
    arguments = (
        rule, key_starts(codes, 3), ts, exp, out, np.lexsort((out, codes)),
        *reversed(times_by_key(others, right_ts, 3)),
        *reversed(times_by_key(others[leaving], right_out[leaving], 3)), LOW, HIGH,
    )  # fmt: skip
    found, expected = kernel_matching(*arguments), reference_matching(*arguments)
    assert sorted(zip(*map(list, found), strict=True)) == sorted(zip(*map(list, expected), strict=True))


def alive_from(low: int, tuples: list[tuple[int, int, int, int | None]]) -> list[np.ndarray]:
    """(key, ts, exp, out) in order, for tuples that are in their window at `low` - 1 or come later."""
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
