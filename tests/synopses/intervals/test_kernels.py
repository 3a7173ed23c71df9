"""Each compiled kernel of the shared synopses against its NumPy reference, on arrays of arbitrary contents."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.synopses.intervals import basic, interval, landmark, quantile, running, selection
from sash.synopses.intervals import rows as row_kernels
from sash.synopses.intervals.landmark_intervals import partition_by_spread
from sash.synopses.partials import Component, Dtype
from tests.support.examples import examples
from tests.synopses.intervals.cases import DTYPES, INTS, PAIRS, numbers

OPERATIONS = range(len(row_kernels.UFUNCS))
START = {(row_kernels.OPERATIONS[combine], dtype): row_kernels.identity(combine, dtype) for combine, dtype in PAIRS}


def check(module: ModuleType, name: str, *arguments: Any) -> None:
    """The same results, returned or left in the arrays."""
    ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2))
    with np.errstate(invalid="ignore", over="ignore"):
        found = getattr(module, f"_kernel_{name}")(*ours)
        expected = getattr(module, f"_reference_{name}")(*theirs)
    assert found == expected or (found != found and expected != expected)
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(our, their)


def array(data: st.DataObject, dtype: Dtype, *shape: int) -> Component:
    count = int(np.prod(shape))
    return np.array(data.draw(st.lists(numbers(dtype), min_size=count, max_size=count)), dtype=dtype).reshape(shape)


def intervals(data: st.DataObject, length: int, capacity: int, most: int = 6) -> tuple[Component, Component]:
    """Some active intervals."""
    ends = st.integers(max(1, length - capacity + 1), max(1, length))
    drawn = data.draw(st.lists(st.tuples(ends, ends).map(sorted), max_size=most)) if length else []
    lefts, rights = np.array(drawn, dtype=np.int64).reshape(-1, 2).T.copy()
    return lefts, rights


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=examples(20))
def test_rows(operation: int, dtype: Dtype, data: st.DataObject) -> None:
    target, source = array(data, dtype, 2, 3), array(data, dtype, 2, 3)
    check(row_kernels, "fold", operation, target[0, 0], source[0, 0])
    for groups in (3, 1):
        narrow, other = target[:, :groups].copy(), source[:, :groups].copy()
        check(row_kernels, "fold_row", operation, narrow, 1, other, 0)
        check(row_kernels, "copy_row", narrow, 1, other, 0)


@given(data=st.data())
@settings(max_examples=examples(30))
def test_running(data: st.DataObject) -> None:
    capacity, length, groups = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 20)), 2
    table = array(data, np.int64, capacity + 1, groups)
    check(running, "extend", table, length, array(data, np.int64, data.draw(st.integers(0, 9)), groups))
    lefts, rights = intervals(data, length, capacity)
    check(running, "lookup", table, lefts, rights, np.zeros((len(lefts), groups), np.int64))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_interval(operation: int, dtype: Dtype, data: st.DataObject) -> None:
    leaves, length, groups = data.draw(st.sampled_from([1, 2, 4, 8])), data.draw(st.integers(0, 20)), 2
    tree = array(data, dtype, 2 * leaves, groups)
    check(interval, "extend", operation, tree, length, array(data, dtype, data.draw(st.integers(0, 9)), groups))
    lefts, rights = intervals(data, length, leaves)
    check(interval, "lookup", operation, tree, lefts, rights, array(data, dtype, len(lefts), groups))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_interval_of_one_group(operation: int, dtype: Dtype, data: st.DataObject) -> None:
    leaves, length = data.draw(st.sampled_from([1, 2, 4, 8])), data.draw(st.integers(0, 20))
    tree = array(data, dtype, 2 * leaves, 1)
    check(interval, "extend_one", operation, tree, length, array(data, dtype, data.draw(st.integers(0, 9)), 1))
    tree[0] = START[operation, dtype]
    lefts, rights = intervals(data, length, leaves)
    check(interval, "lookup_one", operation, tree, lefts, rights, array(data, dtype, len(lefts), 1))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_basic(operation: int, dtype: Dtype, data: st.DataObject) -> None:
    capacity, length, groups = data.draw(st.integers(1, 7)), data.draw(st.integers(0, 20)), 2
    ring = array(data, dtype, capacity, groups)
    check(basic, "extend", ring, length, array(data, dtype, data.draw(st.integers(0, 9)), groups))
    lefts, rights = intervals(data, length, capacity)
    order = np.lexsort((-lefts, rights))
    # All rows begin alike, as identities do: a scan goes on from the row before.
    out = np.repeat(array(data, dtype, 1, groups), len(lefts), axis=0)
    check(basic, "lookup", operation, ring, lefts[order], rights[order], out)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_landmark(operation: int, dtype: Dtype, data: st.DataObject) -> None:
    slots, groups = data.draw(st.integers(1, 9)), 2
    partitions = partition_by_spread(data.draw(st.lists(st.integers(1, slots), min_size=1, max_size=4)), 3)
    layers = [-(-high // low) for low, high in partitions]
    firsts = np.cumsum([0, *(each + 1 for each in layers)]) * slots
    plan = np.array([[low, each, f] for (low, _), each, f in zip(partitions, layers, firsts[:-1], strict=True)])
    table, length = array(data, dtype, int(firsts[-1]), groups), data.draw(st.integers(0, 20))
    batch = array(data, dtype, data.draw(st.integers(0, 9)), groups)
    check(landmark, "extend", operation, plan, slots, table, length, batch)
    lefts, rights = intervals(data, length, slots, most=20)
    found = np.searchsorted([high for _, high in partitions], rights - lefts + 1)
    known = np.array([f < len(plan) and w >= plan[f, 0] for f, w in zip(found, rights - lefts + 1, strict=True)], bool)
    lefts, rights, found = lefts[known], rights[known], found[known]
    # A lookup overwrites what it is given: only the identity is given.
    out = np.full((len(lefts), groups), START[operation, dtype], dtype)
    check(landmark, "lookup", operation, plan, slots, table, found, lefts, rights, out)


@given(data=st.data())
@settings(max_examples=examples(30))
def test_quantile(data: st.DataObject) -> None:
    capacity, length = data.draw(st.integers(1, 20)), 0
    size, runs = quantile.QuantileIntervals._allocated(capacity)
    for _ in range(2):
        values = array(data, np.int64, data.draw(st.integers(0, 30)))
        check(quantile, "extend", runs, size, length, values)
        quantile._kernel_extend(runs, size, length, values)
        length += len(values)
    lefts, rights = intervals(data, length, capacity)
    ranks = np.array([data.draw(st.integers(1, b - a + 1)) for a, b in zip(lefts, rights, strict=True)], np.int64)
    check(quantile, "lookup", runs, size, lefts, rights, ranks, np.zeros(len(lefts), np.int64))


@given(st.lists(INTS, min_size=8, max_size=8))
@settings(max_examples=examples(30))
def test_merge(values: list[int]) -> None:
    halves = np.array([*sorted(values[:4]), *sorted(values[4:]), *[0] * 8], np.int64)
    check(quantile, "merge", halves, 0, 8, 8)


@given(st.lists(st.lists(st.integers(0, 50) | INTS, max_size=40), min_size=1, max_size=8), st.data())
@settings(max_examples=examples(60))
def test_select(runs: list[list[int]], data: st.DataObject) -> None:
    """Runs of any lengths, some of them empty, with many equal elements."""
    total = sum(map(len, runs))
    if total == 0:
        return
    elements = np.array([element for run in runs for element in sorted(run)], np.int64)
    ends = np.cumsum([len(run) for run in runs])
    starts = ends - [len(run) for run in runs]
    heap, keys = np.zeros(len(runs), np.int64), np.zeros(len(runs), np.int64)
    rank = data.draw(st.integers(1, total))
    expected = selection._reference_select(elements, starts, ends, len(runs), rank, heap, keys)
    assert selection._kernel_select(elements, starts, ends, len(runs), rank, heap, keys) == expected


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12, unique=True))
@settings(max_examples=examples(30))
def test_sink(values: list[int]) -> None:
    """A heap but for its top."""
    keys = np.array([values[0], *sorted(values[1:])], np.int64)
    check(selection, "sink", np.arange(len(keys)), len(keys), keys, 0)
