"""Every storage under every index, against lists of the tuples in the window.

What cannot go together is refused; everything else answers as a scan of the window would, after every slide.
"""

from __future__ import annotations

from itertools import pairwise, product
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.isolation import Optimistic
from sash.rows import GroupIndex, Groups, SetIndex, SlidingWindow, new_slides
from tests.rows.cases import (
    GROUPS,
    ROW_INDEXES,
    SET_INDEXES,
    SLOTS,
    STORAGES,
    STREAMS,
    VALUES,
    Window,
    counts,
    flat,
    group_index,
    null_first,
    ranges,
)
from tests.rows.tables import of_values
from tests.support.examples import examples

SCHEMA = pa.schema({"value": pa.int64()})


def window_of(storage: str, slots: int, slides: Optimistic | None = None) -> SlidingWindow:
    kind = STORAGES[storage]
    return SlidingWindow(slots, SCHEMA, {} if kind is None else {"value": kind}, slides)


def slide(window: SlidingWindow, values: list[Any]) -> None:
    """In two parts, so that a sub-window has several chunks."""
    window.add(of_values(values[:3]))
    window.add(of_values(values[3:]))
    window.attach()


@pytest.mark.parametrize("storage", [name for name in STORAGES if name != "GROUP"])
@pytest.mark.parametrize("directory", SET_INDEXES)
@given(stream=STREAMS, slots=SLOTS, late=st.integers(0, 4))
@settings(max_examples=examples(25))
def test_a_set_index_answers_as_a_scan_does(
    storage: str, directory: str, stream: Window, slots: int, late: int
) -> None:
    window, index = window_of(storage, slots), SET_INDEXES[directory](1)
    for number, values in enumerate(stream):
        if number == late:
            window.keep(index, "value")
        slide(window, values)
        if number >= late:
            check_set_index(index, stream[max(0, number + 1 - slots) : number + 1])
            assert window.rows().num_rows == (len(window) if storage == "LIST" else 0)
    if len(stream) > late:
        window.drop(index)
        window.keep(index, "value")
        check_set_index(index, stream[-slots:])


def check_set_index(index: SetIndex, contents: Window) -> None:
    expected, tuples = counts(contents), sorted(value for value in flat(contents) if value is not None)
    values, amounts = index.items()
    assert dict(zip(values.to_pylist(), amounts.tolist(), strict=True)) == expected
    assert index.histogram()["value"].to_pylist() == list(expected)
    assert index.distinct() == len(expected)
    for value in [*expected, 7, -99]:
        assert index.count(value) == expected.get(value, 0)
    assert index.count(None) == flat(contents).count(None)
    with_zeros = index.items(zeros=True)[0].to_pylist()
    assert with_zeros == sorted(with_zeros) and set(expected) <= set(with_zeros)
    # Spark computes it from doubles.
    assert index.median() == (median(map(float, tuples)) if tuples else None)


@pytest.mark.parametrize("directory", SET_INDEXES)
@given(streams=st.tuples(STREAMS, STREAMS), slots=SLOTS)
@settings(max_examples=examples(25))
def test_two_windows_share_one_index(directory: str, streams: tuple[Window, Window], slots: int) -> None:
    slides, index = new_slides(), SET_INDEXES[directory](2)
    windows = [window_of(storage, slots, slides) for storage in ("LIST", "AGGR")]
    for side, window in enumerate(windows):
        window.keep(index, "value", side)
    # One window slides twice as often as the other.
    for number in range(max(map(len, streams))):
        for side, (window, stream) in enumerate(zip(windows, streams, strict=True)):
            if number < len(stream):
                slide(window, stream[number])
                check_both(index, [part[max(0, at - slots) : at] for part, at in seen(streams, number, side)])
    windows[0].drop(index)
    assert index.distinct(0) == 0 and index.distinct(1) == len(counts(streams[1][-slots:]))


def seen(streams: tuple[Window, Window], number: int, side: int) -> list[tuple[Window, int]]:
    """How far each stream has come when `side` has just brought sub-window `number`."""
    ends = [number + 1, number + (side == 1)]
    return [(stream, min(len(stream), end)) for stream, end in zip(streams, ends, strict=True)]


def check_both(index: SetIndex, contents: list[Window]) -> None:
    one, other = (set(flat(window)) for window in contents)
    assert index.intersection().to_pylist() == null_first(one & other)
    assert index.difference(0).to_pylist() == null_first(one - other)
    assert index.difference(1).to_pylist() == null_first(other - one)
    for side, window in enumerate(contents):
        assert dict(zip(*(column.to_pylist() for column in index.histogram(side).columns), strict=True)) == counts(
            window
        )


@pytest.mark.parametrize("storage", STORAGES)
@given(streams=st.tuples(STREAMS, STREAMS), slots=SLOTS)
@settings(max_examples=examples(25))
def test_a_group_index_answers_in_ranges(storage: str, streams: tuple[Window, Window], slots: int) -> None:
    slides, index = new_slides(), group_index(2)
    windows = [window_of(storage, slots, slides) for _ in range(2)]
    for side, window in enumerate(windows):
        window.keep(index, "value", side)
        for values in streams[side]:
            slide(window, values)
    ones, others = ([v for v in flat(stream[-slots:]) if v is not None] for stream in streams)
    for side, values in enumerate((ones, others)):
        table = index.histogram(side)
        assert list(zip(table["low"].to_pylist(), table["high"].to_pylist(), strict=True)) == ranges(values)
        assert sum(table["count"].to_pylist()) == len(values)
    both = [(row["low"], row["high"]) for row in index.intersection().to_pylist()]
    assert both == [each for each in ranges(ones) if each in ranges(others)]
    # Approximate, but nothing of the exact answer is missing.
    assert set(ranges(sorted(set(ones) & set(others)))) <= set(both)
    only = [(row["low"], row["high"]) for row in index.difference().to_pylist()]
    assert only == [each for each in ranges(ones) if each not in ranges(others)]


@pytest.mark.parametrize("name", ROW_INDEXES)
@given(stream=STREAMS, slots=SLOTS, late=st.integers(0, 4), probes=st.lists(VALUES, max_size=5))
@settings(max_examples=examples(25))
def test_a_row_index_answers_as_a_scan_does(
    name: str, stream: Window, slots: int, late: int, probes: list[Any]
) -> None:
    window, index = window_of("LIST", slots), ROW_INDEXES[name]()
    for number, values in enumerate(stream):
        if number == late:
            window.keep(index, "value")
        slide(window, values)
        if number >= late:
            check_row_index(index, window, stream[: number + 1], slots, probes)


def leading(ids: dict[Any, list[int]], least: int, descending: bool, nulls_first: bool) -> list[int]:
    """The rows of one value after the other, until there are enough."""
    values = sorted((value for value in ids if value is not None), reverse=descending)
    found: list[int] = []
    for value in [None, *values] if nulls_first else [*values, None]:
        found += ids.get(value, []) if len(found) < least else []
    return found


def check_row_index(index: Any, window: SlidingWindow, stream: Window, slots: int, probes: list[Any]) -> None:
    contents = flat(stream[-slots:])
    first = len(flat(stream)) - len(contents)
    ids = {value: [first + at for at, each in enumerate(contents) if each == value] for value in {*contents, *probes}}
    for value, rows in ids.items():
        if value is not None:
            assert index.rows(value).tolist() == rows
            assert window.take(index.rows(value))["value"].to_pylist() == [value] * len(rows)
    assert index.rows(None).tolist() == []
    expected = [row for value in null_first(set(contents)) for row in ids[value]]
    assert index.sorted_rows().tolist() == expected
    for least in (0, 1, 3, len(contents)):
        for descending, nulls_first in product((False, True), repeat=2):
            found = index.leading_rows(least, descending, nulls_first).tolist()
            assert found == leading(ids, least, descending, nulls_first)
    for descending, nulls_first in product((False, True), repeat=2):
        rows, bounds = index.sorted_runs(descending, nulls_first)
        assert rows.tolist() == leading(ids, len(contents), descending, nulls_first)
        runs = [rows[start:stop].tolist() for start, stop in pairwise(bounds.tolist()) if start < stop]
        assert sorted(runs) == sorted(ids[value] for value in {*contents})
    places, rows = index.probe(pa.array(probes, pa.int64()))
    pairs = [(at, row) for at, value in enumerate(probes) if value is not None for row in ids[value]]
    assert list(zip(places.tolist(), rows.tolist(), strict=True)) == pairs


@pytest.mark.parametrize("method", ["bw", "db"])
def test_nodes_are_given_back(method: str) -> None:
    """A row index needs a node per tuple, and DB one more per value."""
    window, index = window_of("LIST", 5), ROW_INDEXES[f"{method} over tree"]()
    window.keep(index, "value")
    random = np.random.default_rng(5)
    for _ in range(200):
        slide(window, random.integers(0, 50, 40).tolist())
        assert index.rings.nodes.used <= len(window) + (50 if method == "db" else 0)
    for _ in range(6):
        slide(window, [])
    assert index.rings.nodes.used == 0 and len(index.directory) == 0


def test_what_cannot_go_together_is_refused() -> None:
    for make in SET_INDEXES.values():
        with pytest.raises(ValueError, match="only a G-INDEX"):
            window_of("GROUP", 2).keep(make(1), "value")
    for storage in STORAGES:
        if storage != "LIST":
            with pytest.raises(ValueError, match="use LIST"):
                window_of(storage, 2).keep(ROW_INDEXES["db over tree"](), "value")
    with pytest.raises(ValueError, match="other groups"):
        window_of("GROUP", 2).keep(GroupIndex(Groups(pa.int64(), [1, 2], 3)), "value")
    assert window_of("GROUP", 2).keep(GroupIndex(GROUPS), "value")
    shared = SET_INDEXES["tree"](2)
    window_of("LIST", 2).keep(shared, "value", 0)
    for side in (0, 2):
        with pytest.raises(ValueError, match="no side"):
            window_of("LIST", 2).keep(shared, "value", side)
    with pytest.raises(ValueError, match="the same slides"):
        window_of("LIST", 2).keep(shared, "value", 1)
    with pytest.raises(ValueError, match="unknown directory 'btree'"):
        SetIndex(pa.int64(), "btree")
    with pytest.raises(KeyError):
        window_of("LIST", 2).keep(SET_INDEXES["tree"](1), "missing")
    with pytest.raises(TypeError, match="the window has columns"):
        window_of("LIST", 2).add(pa.table({"value": ["text"]}))
