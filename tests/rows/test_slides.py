"""Readers on other threads see one state of a window; a slide that fails changes nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash.rows import RowIndex, SetIndex, SlidingWindow, SubWindow, new_slides
from tests.rows.tables import of_values

SCHEMA = pa.schema({"value": pa.int64()})


@pytest.fixture
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_the_version_is_odd_while_a_slide_is_applied() -> None:
    window, seen = SlidingWindow(2, SCHEMA), []

    class Watching(SetIndex):
        def attach(self, sub_window: SubWindow, column: str, side: int = 0) -> None:
            seen.append(window.version)
            super().attach(sub_window, column, side)

    window.keep(Watching(pa.int64()), "value")
    before = window.version
    window.add(of_values([1]))
    assert window.version == before
    window.attach()
    assert seen == [before + 1] and window.version == before + 2


def test_a_sub_window_has_the_timestamp_that_it_was_given() -> None:
    window = SlidingWindow(2, SCHEMA)
    for number in range(3):
        window.attach(timestamp=10 * number)
    assert [one.timestamp for one in window.sub_windows()] == [10, 20]


def test_what_is_in_the_buffer_is_seen_by_nobody() -> None:
    window = SlidingWindow(2, SCHEMA)
    sets, rows = window.keep(SetIndex(pa.int64()), "value"), window.keep(RowIndex(pa.int64()), "value")
    window.add(of_values([1, 2]))
    window.attach()
    window.add(of_values([3]))
    assert window.waiting == 1
    assert sets.distinct() == 2 and sets.count(3) == 0 and rows.rows(3).tolist() == []
    assert window.rows()["value"].to_pylist() == [1, 2] and len(window) == 2
    with pytest.raises(IndexError, match="not in it yet"):
        window.take(np.array([2]))


@pytest.mark.parametrize("method", ["ring", "aux", "bw", "db"])
@pytest.mark.usefixtures("_threads_take_turns_often")
def test_readers_never_see_half_a_slide(method: str) -> None:
    """Each sub-window has values of its own; a reader checks that all it sees fits together."""
    slots, size = 4, 32
    window = SlidingWindow(slots, SCHEMA)
    sets, rows = window.keep(SetIndex(pa.int64()), "value"), window.keep(RowIndex(pa.int64(), method), "value")
    done, wrong = threading.Event(), []

    def look() -> tuple[Any, ...]:
        values, counts = sets.items()
        ids = rows.sorted_rows()
        return values.to_pylist(), counts.tolist(), window.take(ids)["value"].to_pylist(), sets.distinct(), len(window)

    def read() -> None:
        while not done.is_set():
            values, counts, ordered, distinct, number = window.read(look)
            whole = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
            parts = {value // 1000 for value in values}
            if whole != ordered or distinct != len(values) or number != len(ordered):
                wrong.append("values, rows and counts differ")
            if parts and (max(parts) - min(parts) >= slots or number != len(parts) * size):
                wrong.append("sub-windows of different states")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    random = np.random.default_rng(3)
    for number in range(400):
        # Values of a sub-window, in no order, some of them repeated.
        window.add(of_values((1000 * number + random.integers(0, 20, size)).tolist()))
        window.attach()
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong


class Failing(SetIndex):
    def attach(self, sub_window: SubWindow, column: str, side: int = 0) -> None:
        if 13 in sub_window.rows[column].to_pylist():
            raise RuntimeError("an unlucky sub-window")
        super().attach(sub_window, column, side)


def test_a_slide_that_fails_changes_nothing() -> None:
    window = SlidingWindow(2, SCHEMA)
    before, failing = window.keep(SetIndex(pa.int64()), "value"), window.keep(Failing(pa.int64()), "value")
    rows = window.keep(RowIndex(pa.int64()), "value")
    for values in ([1, 2], [2, 3]):
        window.add(of_values(values))
        window.attach()
    window.add(of_values([13]))
    with pytest.raises(RuntimeError, match="unlucky"):
        window.attach()
    assert window.version % 2 == 0 and window.waiting == 1
    for index in (before, failing):
        assert index.histogram().to_pydict() == {"value": [1, 2, 3], "count": [1, 2, 1]}
    assert rows.sorted_rows().tolist() == [0, 1, 2, 3]
    assert window.rows()["value"].to_pylist() == [1, 2, 2, 3]
    window.drop(failing)
    window.attach()
    assert before.histogram()["value"].to_pylist() == [2, 3, 13]
    assert rows.rows(13).tolist() == [4]


def test_a_reader_reads_again_when_it_was_overtaken() -> None:
    slides, calls = new_slides(), []

    def overtaken_once() -> str:
        calls.append(slides.version)
        if len(calls) == 1:
            with slides.slide():
                pass
            raise KeyError("nonsense in the middle of a slide")
        return "read"

    assert slides.reading(overtaken_once) == "read" and calls == [0, 2]


def test_a_reader_that_is_always_overtaken_takes_the_lock() -> None:
    slides, calls = new_slides(), []

    def overtaken() -> int:
        calls.append(slides.version)
        with slides.slide():
            pass
        return len(calls)

    assert slides.reading(overtaken) == len(calls) == 17


def test_errors_of_a_reader_are_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        new_slides().reading(lambda: 1 // 0)


def test_a_window_of_no_sub_windows_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 sub-window, not 0"):
        SlidingWindow(0, SCHEMA)
