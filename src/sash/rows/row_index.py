"""Attribute-valued indexes: from a value to its rows.

A directory finds the entry of a value, and from there a ring goes through the tuples that have it (see `rings`):

    12 ─► row 0 ─► row 5 ─► row 9 ─► back to 12
    14 ─► row 1 ─► back to 14

It serves selections by value, window sorts, and the probes of joins. Rows with a NULL are in no ring: no selection or
join finds them, and a sort has them first.

`break_ties` sorts rows that are in the order of one indexed column by further columns, within equal values:

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

from sash.isolation import Optimistic
from sash.rows.directories import DIRECTORIES
from sash.rows.rings import METHODS, Rings, kernel_collect
from sash.rows.subwindows import Storage, SubWindow
from sash.rows.value_keys import Ints, forget_values, keys_of, without_nulls


class Further(NamedTuple):
    """A further column to order rows that are equal so far."""

    values: pa.ChunkedArray
    descending: bool = False
    nulls_first: bool = True


def break_ties(order: Ints, bounds: Ints, further: Sequence[Further]) -> Ints:
    """The places of rows in columns, in order; rows that are still equal keep their order.

    >>> v = pa.chunked_array([[5, 1, 4, None]])
    >>> break_ties(np.array([3, 0, 1, 2]), np.array([0, 1, 4]), [Further(v, descending=True)]).tolist()
    [3, 0, 2, 1]
    """
    if not (np.diff(bounds) > 1).any():
        return order
    # The last column first: a stable sort by an earlier column keeps its order among equals.
    for each in reversed(further):
        # Only in the middle of a slide: kernels do not check the ends of arrays.
        if not 0 <= int(order.min()) <= int(order.max()) < len(each.values):
            raise IndexError("the index is being changed")
        codes, present = _codes(each.values)
        order = kernel_sort_runs(order, bounds, ~codes if each.descending else codes)
        if not present.all():
            order = kernel_sort_runs(order, bounds, (present == each.nulls_first).astype(np.int64))
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
def kernel_sort_runs(order: Any, bounds: Any, codes: Any) -> Any:
    """Sort each run of rows by their codes; equal rows keep their order."""
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


# Measured by papers/window_index/run.py; the figures are in docs/windows.md.
DEFAULT_METHOD = "db"
DEFAULT_DIRECTORY = "tree"


class RowIndex:
    """The rows of each value of one column.

    Needs: LIST. Time: see `rings`; a query takes what the directory needs, and one step per row. Space: a node per
    tuple, D entries; with DB up to D more nodes.

    >>> index = RowIndex(pa.string())
    >>> index.add(0, 100, pa.array(["b", "a", None, "b"]))
    >>> index.rows("b").tolist(), index.sorted_rows().tolist()
    ([100, 103], [102, 101, 100, 103])
    """

    def __init__(self, type: pa.DataType, method: str = DEFAULT_METHOD, directory: str = DEFAULT_DIRECTORY) -> None:
        for name, known in ((method, METHODS), (directory, DIRECTORIES)):
            if name not in known:
                raise ValueError(f"unknown index {name!r}; known: {', '.join(known)}")
        self.type = type.value_type if pa.types.is_dictionary(type) else type
        self.method, self._make = method, DIRECTORIES[directory]
        self.keys = keys_of(self.type)
        self.sides = 1
        self.taken: dict[int, Optimistic] = {}
        self._empty()

    def _empty(self) -> None:
        directories = [self._make()] if self.method == "ring" else [self._make(), self._make()]
        self.rings: Rings = METHODS[self.method](*directories)
        self.directory = self.rings.directory
        self._sub_windows: dict[int, tuple[Ints, Ints]] = {}

    # For windows.

    def refuse(self, column: str, storage: Storage | None) -> None:
        """Raise if the index cannot be kept from the storage of a column."""
        if storage is not None:
            raise ValueError(f"{column!r} is stored as {storage.name.upper()}, which has no rows: use LIST")

    def attach(self, sub_window: SubWindow, column: str, side: int = 0) -> None:
        self.add(sub_window.number, sub_window.first_row, sub_window.rows[column])

    def add(self, number: int, first_row: int, column: pa.Array | pa.ChunkedArray) -> None:
        """Link the tuples of a sub-window. Sub-windows come in order."""
        values, present = without_nulls(column)
        rows = np.arange(first_row, first_row + len(column), dtype=np.int64)
        nodes = self.rings.insert(self.keys.encode(values), rows[present])
        self._sub_windows[number] = nodes, rows[~present]

    def evict(self, number: int, side: int = 0) -> None:
        """Unlink the tuples of the oldest sub-window."""
        nodes, _ = self._sub_windows.pop(number)
        self.rings.delete(nodes)

    def clear(self, side: int = 0) -> None:
        self._empty()

    def purge(self) -> None:
        """Forget the values that have no rows."""
        alive = np.zeros(self.directory.capacity, dtype=bool)
        known = self.rings.alive()
        alive[: len(known)] = known
        entries = self.directory.ordered()
        self.rings.forget(entries[~alive[entries]])
        self.directory.keep(alive)
        forget_values(self.keys, self.directory)

    # For queries. Rows of the same value are in order of arrival.

    def rows(self, value: Any) -> Ints:
        """The rows with a value; none for NULL."""
        return self.probe(pa.array([value], self.type))[1]

    def probe(self, values: pa.Array | pa.ChunkedArray) -> tuple[Ints, Ints]:
        """All pairs of a place in `values` and a row with the value there; NULL has none."""
        asked, present = without_nulls(values)
        keys, known = self.keys.find(asked)
        places = np.flatnonzero(present)[known]
        rows, bounds = self._collect(self.directory.find(np.ascontiguousarray(keys[known])))
        return np.repeat(places, np.diff(bounds)), rows

    def sorted_rows(self) -> Ints:
        """All rows in ascending order of their values, those with NULL first."""
        return self.sorted_runs()[0]

    def sorted_runs(self, descending: bool = False, nulls_first: bool = True) -> tuple[Ints, Ints]:
        """All rows in the order of their values, and where the rows of each value begin and end; NULL is one value.

        >>> index = RowIndex(pa.int64())
        >>> index.add(0, 100, pa.array([7, 3, None, 7]))
        >>> rows, bounds = index.sorted_runs(descending=True, nulls_first=False)
        >>> rows.tolist(), bounds.tolist()
        ([100, 103, 101, 102], [0, 2, 3, 4])
        """
        nulls, entries = self._null_rows(), self._in_order()
        in_order = np.ascontiguousarray(entries[::-1]) if descending else entries
        rows, bounds = self._collect(in_order, self.rings.nodes.used)
        if nulls_first:
            return np.concatenate([nulls, rows]), np.concatenate([[0], len(nulls) + bounds])
        return np.concatenate([rows, nulls]), np.append(bounds, len(rows) + len(nulls))

    def leading_rows(self, least: int, descending: bool = False, nulls_first: bool = True) -> Ints:
        """The rows of the first values in order, of as few values as have `least` rows; NULL is one value.

        >>> index = RowIndex(pa.int64())
        >>> index.add(0, 100, pa.array([7, 3, None, 7, 5]))
        >>> index.leading_rows(2).tolist(), index.leading_rows(1, descending=True, nulls_first=False).tolist()
        ([102, 101], [100, 103])
        """
        nulls = self._null_rows()
        wanted = least - len(nulls) if nulls_first else least
        entries = self._in_order()
        found = self._leading(np.ascontiguousarray(entries[::-1]) if descending else entries, max(0, wanted))
        if nulls_first:
            return np.concatenate([nulls[: len(nulls) if least > 0 else 0], found])
        return found if len(found) >= least else np.concatenate([found, nulls])

    def _leading(self, entries: Ints, least: int) -> Ints:
        """The rows of as few of the first entries as suffice. An entry has one row at least, or waits to be purged."""
        number = least
        while True:
            rows, bounds = self._collect(entries[:number])
            if len(rows) >= least or number >= len(entries):
                last = min(int(np.searchsorted(bounds, least)), len(bounds) - 1)
                return rows[: bounds[last]]
            number *= 2

    def _in_order(self) -> Ints:
        """The entries in ascending order of their values."""
        entries = self.directory.ordered()
        if self.keys.ordered:
            return entries
        values = self.keys.decode(self.directory.keys[entries])
        return entries[np.array(pc.sort_indices(values), dtype=np.int64)]

    def _null_rows(self) -> Ints:
        return np.concatenate([np.empty(0, np.int64), *(rows for _, rows in self._sub_windows.values())])

    def _collect(self, entries: Ints, room: int = 0) -> tuple[Ints, Ints]:
        start, link, row, dirty, _ = self.rings.nodes.arrays
        # Only in the middle of a slide: kernels do not check the ends of arrays.
        if len(entries) and int(entries.max()) >= len(start):
            raise IndexError("the index is being changed")
        rows, bounds = kernel_collect(entries, start, link, row, dirty, self.rings.newest_first, room)
        return rows, bounds
