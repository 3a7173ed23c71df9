"""Histories of substreams for tests, and the answers that a look at every tuple gives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sash.panes.substreams import CollectiveIndex

KEYS = 6
# One update: how much later than the one before, and (key, amount or value) rows.
Update = tuple[int, list[tuple[int, Any]]]
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def updates(amounts: st.SearchStrategy[Any], most: int = 25) -> st.SearchStrategy[list[Update]]:
    rows = st.lists(st.tuples(st.integers(0, KEYS - 1), amounts), max_size=KEYS, unique_by=lambda row: row[0])
    return st.lists(st.tuples(st.integers(0, 3), rows), min_size=1, max_size=most)


def apply(index: Any, time: int, rows: list[tuple[int, Any]], dtype: Any = np.int64) -> None:
    index.update(time, np.array([key for key, _ in rows], dtype=np.int64), np.array([x for _, x in rows], dtype=dtype))


def window(history: list[tuple[int, int, Any]], tau: int, length: int) -> dict[int, list[Any]]:
    """The values in (tau - length, tau] by key; a history is (time, key, value)."""
    found: dict[int, list[Any]] = {}
    for time, key, value in history:
        if tau - length < time <= tau:
            found.setdefault(key, []).append(value)
    return found


def of_tuples(substreams: dict[int, list[int]], p: int) -> CollectiveIndex:
    """An index of single tuples, from the timestamps of each key."""
    index = CollectiveIndex(p)
    for time, key in sorted((time, key) for key, times in substreams.items() for time in times):
        index.update(time, np.array([key]), np.array([1]))
    return index


def stamp(index: CollectiveIndex, key: int, level: int) -> int | None:
    """The time that a level has of a key: TSTAMP[key, level]."""
    if level + 1 >= index.stamps.shape[1] or not (number := int(index.stamps[key, level + 1])):
        return None
    return int(index.panes.times[number - 1 - index.panes.forgotten])
