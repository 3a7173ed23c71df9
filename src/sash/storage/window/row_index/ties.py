"""Rows that an index has in the order of one column, in the order of further columns where that one is equal.

    k   7 7 7 | 9 | NULL NULL          runs of the index: those of one row stay where they are
    v   3 1 2 | 5 |   4    0      ─►   7 7 7 | 9 | NULL NULL
                                       1 2 3 | 5 |   0    4

Needs: columns that could be indexed. Time: for each column, that of reading it (of text: of sorting its distinct
values), and of sorting each run by itself. Values compare as in Spark: one NaN, greater than all numbers, one zero,
text by its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from sash.storage.window.keys import Ints, keys_of, without_nulls


class Further(NamedTuple):
    """A column by which rows are ordered that are equal so far."""

    values: pa.ChunkedArray
    descending: bool = False
    nulls_first: bool = True


def break_ties(order: Ints, bounds: Ints, further: Sequence[Further]) -> Ints:
    """The places of rows in columns, in order; what is still equal then stays as it is in `order`.

    >>> v = pa.chunked_array([[5, 1, 4, None]])
    >>> break_ties(np.array([3, 0, 1, 2]), np.array([0, 1, 4]), [Further(v, descending=True)]).tolist()
    [3, 0, 2, 1]
    """
    if not (np.diff(bounds) > 1).any():
        return order
    # The last column first: a stable sort by those before it keeps its order among what is equal there.
    for each in reversed(further):
        # Only in the middle of a slide: kernels do not look where arrays end.
        if not 0 <= int(order.min()) <= int(order.max()) < len(each.values):
            raise IndexError("the index is being changed")
        codes, present = _codes(each.values)
        order = _kernel_sort_runs(order, bounds, ~codes if each.descending else codes)
        if not present.all():
            order = _kernel_sort_runs(order, bounds, (present == each.nulls_first).astype(np.int64))
    return order


def _codes(column: pa.ChunkedArray) -> tuple[Ints, NDArray[np.bool_]]:
    """Numbers in the order of the values, and which rows have a value."""
    values, present = without_nulls(column)
    keys = keys_of(values.type)
    codes = np.zeros(len(present), dtype=np.int64)
    codes[present] = keys.encode(values) if keys.ordered else _ranks(values)
    return codes, present


def _ranks(values: pa.Array) -> Ints:
    distinct = values.dictionary_encode()
    ascending = np.asarray(pc.sort_indices(distinct.dictionary))
    ranks = np.empty(len(ascending), dtype=np.int64)
    ranks[ascending] = np.arange(len(ascending))
    return ranks[np.asarray(distinct.indices)]


@njit(cache=True)
def _kernel_sort_runs(order: Any, bounds: Any, codes: Any) -> Any:
    """Each run of rows by their codes; what is equal stays as it is."""
    found = order.copy()
    for run in range(bounds.size - 1):
        low, high = bounds[run], bounds[run + 1]
        if high - low > 32:
            rows = order[low:high]
            found[low:high] = rows[np.argsort(codes[rows], kind="mergesort")]
            continue
        # Few rows: one after the other goes back to where it belongs.
        for place in range(low + 1, high):
            row, back = found[place], place
            while back > low and codes[found[back - 1]] > codes[row]:
                found[back] = found[back - 1]
                back -= 1
            found[back] = row
    return found
