"""Rows in the order of an index and of further columns, of all types, against Python's own sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.rows import Further, RowIndex, break_ties
from sash.rows.row_index import kernel_sort_runs
from sash.rows.value_keys import Ints
from tests.rows.test_types import TYPES, plain
from tests.support.examples import examples

FLAGS = st.tuples(st.booleans(), st.booleans())


def by(values: list[Any], descending: bool, nulls_first: bool) -> Callable[[list[int]], list[int]]:
    """A stable sort of rows by one column."""

    def put(rows: list[int]) -> list[int]:
        nulls = [row for row in rows if values[row] is None]
        present = [row for row in rows if values[row] is not None]
        # Not by `reverse`, which would reverse equal rows, too.
        ranks = {key: rank for rank, key in enumerate(sorted({plain(values[row]) for row in present}))}
        sign = -1 if descending else 1
        present.sort(key=lambda row: sign * ranks[plain(values[row])])
        return nulls + present if nulls_first else present + nulls

    return put


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_further_columns_of_any_type(name: str, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 20))
    few = st.one_of(st.none(), st.sampled_from(data.draw(st.lists(TYPES[name][1], min_size=1, max_size=4))))
    columns = [
        [data.draw(st.one_of(st.none(), st.integers(0, 2))) for _ in range(size)],
        [data.draw(few) for _ in range(size)],
        [data.draw(st.one_of(st.none(), st.integers(-1, 1))) for _ in range(size)],
    ]
    flags = [data.draw(FLAGS) for _ in columns]
    index = RowIndex(pa.int64())
    index.add(0, 0, pa.array(columns[0], pa.int64()))
    cut = data.draw(st.integers(0, size))
    further = [
        Further(pa.chunked_array([values[:cut], values[cut:]], type), *flag)
        for values, type, flag in zip(columns[1:], [TYPES[name][0], pa.int8()], flags[1:], strict=True)
    ]
    expected = list(range(size))
    for values, flag in reversed(list(zip(columns, flags, strict=True))):
        expected = by(values, *flag)(expected)
    assert break_ties(*index.sorted_runs(*flags[0]), further).tolist() == expected


def reference_sort_runs(order: Ints, bounds: Ints, codes: Ints) -> Ints:
    """`kernel_sort_runs` by NumPy."""
    runs = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return order[np.lexsort((codes[order], runs))]


@given(data=st.data())
@settings(max_examples=examples(50))
def test_the_kernel_is_its_reference(data: st.DataObject) -> None:
    """Runs of none, of a few and of many rows."""
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 2, 5, 32, 33, 100]), max_size=6))
    random = np.random.default_rng(data.draw(st.integers(0, 9)))
    order, bounds = random.permutation(sum(sizes)), np.cumsum([0, *sizes])
    codes = random.integers(-5, data.draw(st.sampled_from([-3, 5, 1000])), sum(sizes))
    assert kernel_sort_runs(order, bounds, codes).tolist() == reference_sort_runs(order, bounds, codes).tolist()


def test_what_is_not_tied_is_not_looked_at() -> None:
    """A column without an order does no harm where nothing is equal."""
    lists = pa.chunked_array([pa.array([[1], [2]])])
    assert break_ties(np.array([1, 0]), np.array([0, 1, 2]), [Further(lists)]).tolist() == [1, 0]
    with pytest.raises(TypeError, match="have no order"):
        break_ties(np.array([1, 0]), np.array([0, 2]), [Further(lists)])


def test_rows_that_are_not_there_are_noticed() -> None:
    for order in ([0, 2], [-1, 0]):
        with pytest.raises(IndexError, match="being changed"):
            break_ties(np.array(order), np.array([0, 2]), [Further(pa.chunked_array([[1, 2]]))])
