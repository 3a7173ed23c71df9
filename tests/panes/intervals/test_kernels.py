"""Each compiled kernel of the shared synopses against a NumPy version of it, on arrays of arbitrary contents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.synopses import basic_intervals as basic
from papers.synopses import quantile_intervals as quantile
from sash.panes.intervals import interval, landmark, running, synopsis
from sash.panes.intervals.landmark import partition_by_spread
from sash.panes.intervals.synopsis import Positions, decompose
from sash.panes.pane_ring import Dtype
from sash.panes.partials import Component
from tests.panes.intervals.cases import DTYPES, INTS, PAIRS, new_base_intervals, numbers
from tests.support.examples import examples

OPERATIONS = range(len(synopsis.UFUNCS))
START = {(synopsis.OPERATIONS[combine], dtype): synopsis.identity(combine, dtype) for combine, dtype in PAIRS}


# What the kernels do, in NumPy: a function is named by the module and the kernel.


def rows_fold(operation: int, old: Any, new: Any) -> Any:
    return synopsis.UFUNCS[operation](old, new)


def rows_fold_row(operation: int, target: Component, t: int, source: Component, s: int) -> None:
    target[t] = synopsis.UFUNCS[operation](target[t], source[s])


def rows_copy_row(target: Component, t: int, source: Component, s: int) -> None:
    target[t] = source[s]


def running_extend(running: Component, length: int, values: Component) -> None:
    sums = running[length % len(running)] + np.cumsum(values, axis=0)
    for right, row in enumerate(sums, length + 1):
        running[right % len(running)] = row


def running_lookup(running: Component, lefts: Positions, rights: Positions, out: Component) -> None:
    out[:] = running[rights % len(running)] - running[(lefts - 1) % len(running)]


def interval_extend(operation: int, tree: Component, length: int, values: Component) -> None:
    leaves = len(tree) // 2
    for position, row in enumerate(values, length + 1):
        tree[interval.node_of(leaves, (position, position))] = row
        for left, right in new_base_intervals(position, leaves)[1:]:
            middle = (left + right) // 2
            halves = [tree[interval.node_of(leaves, half)] for half in ((left, middle), (middle + 1, right))]
            tree[interval.node_of(leaves, (left, right))] = synopsis.UFUNCS[operation](*halves)


def interval_lookup(operation: int, tree: Component, lefts: Positions, rights: Positions, out: Component) -> None:
    for i, (left, right) in enumerate(zip(lefts.tolist(), rights.tolist(), strict=True)):
        for part in decompose(left, right):
            out[i] = synopsis.UFUNCS[operation](out[i], tree[interval.node_of(len(tree) // 2, part)])


def basic_extend(ring: Component, length: int, values: Component) -> None:
    for i, row in enumerate(values):
        ring[(length + i) % len(ring)] = row


def basic_lookup(operation: int, ring: Component, lefts: Positions, rights: Positions, out: Component) -> None:
    for i, (left, right) in enumerate(zip(lefts.tolist(), rights.tolist(), strict=True)):
        for position in range(right, left - 1, -1):
            out[i] = synopsis.UFUNCS[operation](out[i], ring[(position - 1) % len(ring)])


def landmark_extend(
    operation: int, plan: landmark.Plan, slots: int, table: Component, length: int, values: Component
) -> None:
    combined = synopsis.UFUNCS[operation]
    for position, row in enumerate(values, length + 1):
        for step, layers, first in plan.tolist():
            starts = first + slots * np.arange(layers + 1)
            from_landmarks = combined(table[starts[1:] + (position - 1) % slots], row)
            if position % step == 0:
                from_landmarks = np.concatenate([[row], from_landmarks[:-1]])
            table[starts + position % slots] = np.concatenate([[row], from_landmarks])
            if (position + 1) % step == 0:
                block = first + np.arange(max(position - step + 1, 1), position + 1) % slots
                table[block] = combined.accumulate(table[block][::-1])[::-1]


def landmark_lookup(
    operation: int,
    plan: landmark.Plan,
    slots: int,
    table: Component,
    partitions: Positions,
    lefts: Positions,
    rights: Positions,
    out: Component,
) -> None:
    for i, (j, left, right) in enumerate(zip(partitions.tolist(), lefts.tolist(), rights.tolist(), strict=True)):
        step, _, first = plan[j].tolist()
        for a, b in landmark.landmark_parts(left, right, step):
            begins = a % step == 0 or (a, b) == (1, right)
            layer = 1 + b // step - a // step if begins else 0
            out[i] = synopsis.UFUNCS[operation](out[i], table[first + layer * slots + (b if begins else a) % slots])


def quantile_extend(runs: Component, size: int, length: int, values: Component) -> None:
    for position, value in enumerate(values, length + 1):
        runs[(position - 1) % size] = value
        for level, (left, _) in enumerate(new_base_intervals(position)[: runs.size // size]):
            begin = (left - 1) % size
            runs[level * size + begin :][: 1 << level] = np.sort(runs[begin:][: 1 << level])


def quantile_merge(runs: Component, source: int, target: int, width: int) -> None:
    runs[target : target + width] = np.sort(runs[source : source + width])


def quantile_lookup(
    runs: Component, size: int, lefts: Positions, rights: Positions, ranks: Positions, out: Component
) -> None:
    for i, (left, right, rank) in enumerate(zip(lefts.tolist(), rights.tolist(), ranks.tolist(), strict=True)):
        parts = [((b - a).bit_length(), (a - 1) % size, b - a + 1) for a, b in decompose(left, right)]
        elements = np.concatenate([runs[level * size + begin :][:width] for level, begin, width in parts])
        out[i] = np.sort(elements)[rank - 1]


def selection_sink(heap: Component, size: int, keys: Component, place: int) -> None:
    while True:
        family = [p for p in (place, 2 * place + 1, 2 * place + 2) if p < size]
        least = min(family, key=lambda p: keys[heap[p]])
        if keys[heap[least]] == keys[heap[place]]:
            return
        heap[[place, least]] = heap[[least, place]]
        place = least


def selection_select(
    elements: Component, starts: Component, ends: Component, runs: int, rank: int, heap: Component, keys: Component
) -> Any:
    return np.sort(np.concatenate([elements[starts[run] : ends[run]] for run in range(runs)]))[rank - 1]


interval_extend_one, interval_lookup_one = interval_extend, interval_lookup


def check(kernel: Callable[..., Any], reference: Callable[..., Any], *arguments: Any) -> None:
    """The same results, returned or left in the arrays."""
    ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2))
    with np.errstate(invalid="ignore", over="ignore"):
        found = kernel(*ours)
        expected = reference(*theirs)
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
    check(synopsis.kernel_fold, rows_fold, operation, target[0, 0], source[0, 0])
    for groups in (3, 1):
        narrow, other = target[:, :groups].copy(), source[:, :groups].copy()
        check(synopsis.kernel_fold_row, rows_fold_row, operation, narrow, 1, other, 0)
        check(synopsis.kernel_copy_row, rows_copy_row, narrow, 1, other, 0)


@given(data=st.data())
@settings(max_examples=examples(30))
def test_running(data: st.DataObject) -> None:
    capacity, length, groups = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 20)), 2
    table = array(data, np.int64, capacity + 1, groups)
    check(
        running.kernel_extend,
        running_extend,
        table,
        length,
        array(data, np.int64, data.draw(st.integers(0, 9)), groups),
    )
    lefts, rights = intervals(data, length, capacity)
    check(running.kernel_lookup, running_lookup, table, lefts, rights, np.zeros((len(lefts), groups), np.int64))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_interval(operation: int, dtype: Dtype, data: st.DataObject) -> None:
    leaves, length, groups = data.draw(st.sampled_from([1, 2, 4, 8])), data.draw(st.integers(0, 20)), 2
    tree = array(data, dtype, 2 * leaves, groups)
    check(
        interval.kernel_extend,
        interval_extend,
        operation,
        tree,
        length,
        array(data, dtype, data.draw(st.integers(0, 9)), groups),
    )
    lefts, rights = intervals(data, length, leaves)
    check(
        interval.kernel_lookup, interval_lookup, operation, tree, lefts, rights, array(data, dtype, len(lefts), groups)
    )


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_interval_of_one_group(operation: int, dtype: Dtype, data: st.DataObject) -> None:
    leaves, length = data.draw(st.sampled_from([1, 2, 4, 8])), data.draw(st.integers(0, 20))
    tree = array(data, dtype, 2 * leaves, 1)
    check(
        interval.kernel_extend_one,
        interval_extend_one,
        operation,
        tree,
        length,
        array(data, dtype, data.draw(st.integers(0, 9)), 1),
    )
    tree[0] = START[operation, dtype]
    lefts, rights = intervals(data, length, leaves)
    check(
        interval.kernel_lookup_one,
        interval_lookup_one,
        operation,
        tree,
        lefts,
        rights,
        array(data, dtype, len(lefts), 1),
    )


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_basic(operation: int, dtype: Dtype, data: st.DataObject) -> None:
    capacity, length, groups = data.draw(st.integers(1, 7)), data.draw(st.integers(0, 20)), 2
    ring = array(data, dtype, capacity, groups)
    check(basic.kernel_extend, basic_extend, ring, length, array(data, dtype, data.draw(st.integers(0, 9)), groups))
    lefts, rights = intervals(data, length, capacity)
    order = np.lexsort((-lefts, rights))
    # All rows begin alike, as identities do: a scan goes on from the row before.
    out = np.repeat(array(data, dtype, 1, groups), len(lefts), axis=0)
    check(basic.kernel_lookup, basic_lookup, operation, ring, lefts[order], rights[order], out)


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
    check(landmark.kernel_extend, landmark_extend, operation, plan, slots, table, length, batch)
    lefts, rights = intervals(data, length, slots, most=20)
    found = np.searchsorted([high for _, high in partitions], rights - lefts + 1)
    known = np.array([f < len(plan) and w >= plan[f, 0] for f, w in zip(found, rights - lefts + 1, strict=True)], bool)
    lefts, rights, found = lefts[known], rights[known], found[known]
    # A lookup overwrites its output, which holds only the identity.
    out = np.full((len(lefts), groups), START[operation, dtype], dtype)
    check(landmark.kernel_lookup, landmark_lookup, operation, plan, slots, table, found, lefts, rights, out)


@given(data=st.data())
@settings(max_examples=examples(30))
def test_quantile(data: st.DataObject) -> None:
    capacity, length = data.draw(st.integers(1, 20)), 0
    size, runs = quantile.QuantileIntervals.allocated(capacity)
    for _ in range(2):
        values = array(data, np.int64, data.draw(st.integers(0, 30)))
        check(quantile.kernel_extend, quantile_extend, runs, size, length, values)
        quantile.kernel_extend(runs, size, length, values)
        length += len(values)
    lefts, rights = intervals(data, length, capacity)
    ranks = np.array([data.draw(st.integers(1, b - a + 1)) for a, b in zip(lefts, rights, strict=True)], np.int64)
    check(quantile.kernel_lookup, quantile_lookup, runs, size, lefts, rights, ranks, np.zeros(len(lefts), np.int64))


@given(st.lists(INTS, min_size=8, max_size=8))
@settings(max_examples=examples(30))
def test_merge(values: list[int]) -> None:
    halves = np.array([*sorted(values[:4]), *sorted(values[4:]), *[0] * 8], np.int64)
    check(quantile.kernel_merge, quantile_merge, halves, 0, 8, 8)


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
    expected = selection_select(elements, starts, ends, len(runs), rank, heap, keys)
    assert quantile.kernel_select(elements, starts, ends, len(runs), rank, heap, keys) == expected


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12, unique=True))
@settings(max_examples=examples(30))
def test_sink(values: list[int]) -> None:
    """A heap but for its top."""
    keys = np.array([values[0], *sorted(values[1:])], np.int64)
    check(quantile.kernel_sink, selection_sink, np.arange(len(keys)), len(keys), keys, 0)
