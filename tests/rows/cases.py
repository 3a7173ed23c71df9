"""Every storage and every index of a column of whole numbers, and what the oracle says of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sash.rows import DIRECTORIES, METHODS, Aggr, Group, GroupIndex, Groups, Hash, RowIndex, SetIndex
from sash.rows.subwindows import Storage

GROUPS = Groups(pa.int64(), [-3, 0, 4, 5], 9)
STORAGES: dict[str, Storage | None] = {
    "LIST": None,
    "AGGR": Aggr(),
    "AGGR one by one": Aggr(one_by_one=True),
    "HASH": Hash(),
    "HASH one by one": Hash(3, one_by_one=True),
    "GROUP": Group(GROUPS),
}
SET_INDEXES: dict[str, Callable[[int], Any]] = {
    name: lambda sides, name=name: SetIndex(pa.int64(), name, sides) for name in DIRECTORIES
}
ROW_INDEXES: dict[str, Callable[[], Any]] = {
    f"{method} over {name}": lambda method=method, name=name: RowIndex(pa.int64(), method, name)
    for method in METHODS
    for name in DIRECTORIES
}


def group_index(sides: int) -> GroupIndex:
    return GroupIndex(GROUPS, sides)


# Few values, so that they repeat, disappear and come back; NULL, and the ends of the type.
VALUES = st.one_of(st.integers(-5, 12), st.none(), st.sampled_from([-(2**63), 2**63 - 1, 100, 200, 300]))
STREAMS = st.lists(st.lists(VALUES, max_size=8), max_size=12)
SLOTS = st.integers(1, 7)

Window = list[list[Any]]


def flat(window: Window) -> list[Any]:
    """The tuples of a window, a list of sub-windows."""
    return [value for sub_window in window for value in sub_window]


def counts(window: Window) -> dict[Any, int]:
    """How often each value occurs, in ascending order; NULL is none."""
    found = Counter(value for value in flat(window) if value is not None)
    return {value: found[value] for value in sorted(found)}


def null_first(values: set[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (value is not None, value or 0))


def ranges(values: list[Any]) -> list[tuple[Any, Any]]:
    """The groups that values are in, one by one."""
    bounds = [(None, -4), (-3, -1), (0, 3), (4, 4), (5, 9), (10, None)]
    return [
        (low, high)
        for low, high in bounds
        if any((low is None or value >= low) and (high is None or value <= high) for value in values)
    ]
