"""Every shared synopsis with every combine that it takes, against recomputation from all values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.intervals.synopsis import SharedSynopsis
from sash.panes.pane_ring import Dtype
from sash.panes.partials import Combine
from tests.panes.intervals.cases import ACCEPTED, SYNOPSES, Stream, numbers, recomputed, rows, streams
from tests.support.examples import examples


def check_all(synopsis: SharedSynopsis, stream: Stream, values: Any, combine: Combine, dtype: Dtype) -> None:
    intervals = stream.answerable(synopsis.name, synopsis.oldest, synopsis.length)
    found = synopsis.lookup_many([left for left, _ in intervals], [right for _, right in intervals])
    assert found.dtype == dtype and found.shape == (len(intervals), values.shape[1])
    np.testing.assert_array_equal(found, recomputed(combine, dtype, values, intervals))


@pytest.mark.parametrize(("name", "combine", "dtype"), ACCEPTED)
@given(data=st.data())
@settings(max_examples=examples(25))
def test_every_active_interval(name: str, combine: Combine, dtype: Dtype, data: st.DataObject) -> None:
    """Suffix, historical and empty intervals, after every batch."""
    stream = data.draw(streams(dtype))
    synopsis = stream.make(name, combine, dtype)
    for number, batch in enumerate(stream.batches, 1):
        synopsis.extend(batch)
        values = np.concatenate(stream.batches[:number])
        assert synopsis.length == len(values)
        assert synopsis.oldest == max(1, len(values) - stream.capacity + 1)
        check_all(synopsis, stream, values, combine, dtype)


@pytest.mark.parametrize(("name", "combine", "dtype"), ACCEPTED)
@given(data=st.data())
@settings(max_examples=examples(8))
def test_one_by_one_is_the_same(name: str, combine: Combine, dtype: Dtype, data: st.DataObject) -> None:
    stream = data.draw(streams(dtype))
    synopsis = stream.make(name, combine, dtype)
    for row in stream.values:
        synopsis.update(row)
    intervals = stream.answerable(name, synopsis.oldest, synopsis.length)
    found = [synopsis.lookup(left, right) for left, right in intervals]
    np.testing.assert_array_equal(found, recomputed(combine, dtype, stream.values, intervals))


@pytest.mark.parametrize(("name", "combine", "dtype"), ACCEPTED)
@given(data=st.data())
@settings(max_examples=examples(12))
def test_growing_loses_nothing(name: str, combine: Combine, dtype: Dtype, data: st.DataObject) -> None:
    """Between batches the synopsis gets more positions, more groups, or both."""
    stream = data.draw(streams(dtype))
    synopsis = stream.make(name, combine, dtype)
    values, oldest = stream.batches[0], 1
    synopsis.extend(values)
    for _ in range(3):
        oldest = max(oldest, synopsis.oldest)
        more = data.draw(st.integers(0, 9))
        synopsis.grow(stream.capacity + more)
        stream = Stream(stream.capacity + more, stream.groups, stream.widths, stream.batches)
        assert synopsis.oldest == oldest
        groups = values.shape[1] + data.draw(st.integers(0, 2))
        synopsis.grow_groups(groups)
        absent = recomputed(combine, dtype, np.empty((0, 1), dtype), [(1, 0)])[0, 0]
        values = np.pad(values, ((0, 0), (0, groups - values.shape[1])), constant_values=absent)
        drawn = data.draw(st.lists(st.lists(numbers(dtype), min_size=groups, max_size=groups), max_size=8))
        synopsis.extend(batch := rows(drawn, groups, dtype))
        values = np.concatenate([values, batch])
        oldest = max(oldest, len(values) - stream.capacity + 1)
        assert synopsis.oldest == oldest
        check_all(synopsis, stream, values, combine, dtype)


@pytest.mark.parametrize(("name", "combine", "dtype"), ACCEPTED)
@given(data=st.data())
@settings(max_examples=examples(12))
def test_probes_are_stored_and_make_up_the_answer(
    name: str, combine: Combine, dtype: Dtype, data: st.DataObject
) -> None:
    stream = data.draw(streams(dtype))
    synopsis = stream.make(name, combine, dtype)
    synopsis.extend(stream.values)
    stored = set(synopsis.stored())
    assert len(stored) == len(synopsis.stored())
    for left, right in stream.answerable(name, synopsis.oldest, synopsis.length):
        probed = synopsis.probed(left, right)
        assert stored.issuperset(probed)
        covered = sorted(position for a, b in probed for position in range(a, b + 1))
        if name == "running":
            assert probed == [(1, right), (1, left - 1)]
        else:
            assert covered == list(range(left, right + 1)), "disjoint, and all of it"


@pytest.mark.parametrize("name", SYNOPSES)
@pytest.mark.parametrize("groups", [1, 5])
def test_a_long_stream(name: str, groups: int) -> None:
    """Many turns of the circular buffers, with a capacity that is no power of two."""
    chance = np.random.default_rng(7)
    capacity, widths = 1000, [1, 30, 31, 500, 700, 1000]
    synopsis = SYNOPSES[name](capacity, groups, Combine.ADD, np.int64, widths)
    values = chance.integers(-100, 100, (10_000, groups))
    for batch in np.split(values, [1, 2, 700, 701, 5_000]):
        synopsis.extend(batch)
    width = chance.choice(widths, 500)
    left = synopsis.oldest + (chance.random(500) * (capacity - width + 1)).astype(np.int64)
    intervals = list(zip(left.tolist(), (left + width - 1).tolist(), strict=True))
    expected = recomputed(Combine.ADD, np.int64, values, intervals)
    np.testing.assert_array_equal(synopsis.lookup_many(left, left + width - 1), expected)
