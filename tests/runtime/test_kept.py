"""Stored windows against the obvious: a list of all rows, looked through for every question."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.catalog import Stream
from sash.core.time import SECOND
from sash.isolation import Recorder, classify
from sash.runtime.stored.stored_window import PRIORITY, StoredWindow
from tests.support.kept import SCHEMA, InFiles, InMemory, table

PLACES = ["memory", "files"]


def stream(keep: int = 6, **options: Any) -> Stream:
    return Stream("s", SCHEMA, "ts", keep=keep * SECOND, **options)


@dataclass
class Everything:
    """All rows that came in time; the stored rows are looked up among them."""

    stream: Stream
    rows: list[tuple[int, int]] = field(default_factory=list)
    now: int | None = None
    latest: int | None = None

    def end(self, time: int) -> int:
        step, offset = self.stream.granule, self.stream.offset
        behind = (time - offset) // step * step + offset
        return behind + step if self.stream.closed_left or behind < time else behind

    def take(self, times: list[int], first: int) -> None:
        for number, time in enumerate(times, first):
            in_time = self.now is None or self.end(time) > self.now
            if in_time or (self.stream.late_revise and self.end(time) > (self.now or 0) - (self.stream.keep or 0)):
                self.rows.append((time, number))
        for time in times:
            self.latest = time if self.latest is None else max(time, self.latest)
        if self.latest is not None:
            passed = self.end(self.latest - self.stream.delay) - self.stream.granule
            self.now = passed if self.now is None else max(passed, self.now)

    def window(self, reach: int) -> list[tuple[int, int]]:
        assert self.now is not None
        stored = [(time, number) for time, number in self.rows if self.end(time) <= self.now]
        low = self.now - reach
        inside = [row for row in stored if (low <= row[0] if self.stream.closed_left else low < row[0])]
        return sorted(inside, key=lambda row: row[0])


def watermark(times: list[int], declared: Stream) -> int | None:
    return max(times) - declared.delay if times else None


@pytest.mark.parametrize("place", PLACES)
@given(
    st.lists(st.lists(st.integers(0, 30_000_000), max_size=12), max_size=8),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, SECOND // 4]),
    st.sampled_from([0, 2 * SECOND]),
    st.integers(0, 8),
    st.sampled_from([SECOND, 2 * SECOND, 6 * SECOND]),
)
def test_equals_the_definition(
    place: str, batches: list[list[int]], left: bool, revise: bool, offset: int, delay: int, restart: int, reach: int
) -> None:
    """Whatever comes, in whatever order, however it is cut into micro-batches, with a restart somewhere."""
    declared = stream(closed_left=left, late_revise=revise, offset=offset, delay=delay)
    everything = Everything(declared)
    seen: list[int] = []
    with TemporaryDirectory() as directory:
        window = InMemory(declared) if place == "memory" else InFiles(declared, Path(directory))
        for number, times in enumerate(batches):
            seen += times
            window.come(times, 100 * number, watermark(seen, declared))
            everything.take(times, 100 * number)
            if number == restart:
                window.restart(everything=True)
            if isinstance(window, InFiles):
                assert window.on_disk() == window.named()
            looked = window.look(reach)
            if looked is None:
                assert everything.now is None or not everything.rows
                continue
            stored, found = looked
            assert stored.as_of == everything.now
            assert sorted(found) == sorted(everything.window(reach))
            assert [time for time, _ in found] == sorted(time for time, _ in found)


def test_nobody_sees_the_buffer() -> None:
    kept = StoredWindow(stream())
    kept.take(table([500_000, 1_500_000]), 1_500_000)
    first = kept.read(None)
    assert first is not None and first.rows["v"].to_pylist() == [0]
    kept.take(table([1_700_000], 10), 1_700_000)
    again = kept.read(None)
    assert again is not None and again.rows["v"].to_pylist() == [0]
    kept.take(table([2_100_000], 20), 2_100_000)
    third = kept.read(None)
    assert third is not None and third.rows["v"].to_pylist() == [0, 1, 10]
    assert first.rows["v"].to_pylist() == [0], "what was read stays as it was"


def test_the_end_of_the_stream_attaches_the_rest() -> None:
    kept = StoredWindow(stream())
    kept.take(table([500_000]), 500_000)
    assert kept.read(None) is not None and kept.read(None).rows.num_rows == 0  # type: ignore[union-attr]
    kept.finish(500_000)
    stored = kept.read(None)
    assert stored is not None and (stored.as_of, len(stored.rows)) == (SECOND, 1)


@pytest.mark.parametrize(("keep", "length"), [(6, 1), (600, 1), (601, 2), (3_600, 6), (86_400, 144)])
def test_long_windows_have_longer_sub_windows(keep: int, length: int) -> None:
    assert StoredWindow(stream(keep)).length == length * SECOND


def test_a_long_gap_costs_nothing() -> None:
    kept = StoredWindow(stream())
    kept.take(table([500_000]), 500_000)
    year = 365 * 86_400 * SECOND
    kept.take(table([year], 1), year)
    stored = kept.read(None)
    assert stored is not None and (stored.as_of, len(stored.rows)) == (year - SECOND, 0)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("level", ["serial", "ws", "lws", "ttu"])
def test_questions_from_other_threads_see_one_window(tmp_path: Path, level: str, place: str) -> None:
    """A tuple per second: an answer as of second n has those of the last five seconds, n - 1 the youngest.

    Files that leave the window meanwhile are there until they have been read.
    """
    recorder = Recorder()
    in_memory = place == "memory"
    window = InMemory(stream(), level, recorder) if in_memory else InFiles(stream(), tmp_path, level, recorder)
    window.come([second * SECOND + SECOND // 2 for second in range(8)], 0, 8 * SECOND)
    problems: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            try:
                looked = window.look(5 * SECOND)
            except OSError as error:
                problems.append(str(error))
                continue
            assert looked is not None
            last = looked[0].as_of // SECOND
            if [number for _, number in looked[1]] != list(range(last - 5, last)):
                problems.append(f"as of {last}: {looked[1]}")

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for second in range(8, 300):
        window.come([second * SECOND + SECOND // 2], second, (second + 1) * SECOND)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    verdict = classify(recorder.history)
    assert verdict.ws and (verdict.lws or level in ("serial", "ws"))
    if isinstance(window, InFiles):
        assert window.on_disk() == window.named() and len(window.on_disk()) == 7, "six, and one in the buffer"


def test_a_heartbeat_may_come_before_the_first_tuple() -> None:
    kept = StoredWindow(stream())
    kept.take(kept.empty(), 3 * SECOND)
    assert kept.read(None) is None
    kept.take(kept.accepted(table([4 * SECOND + 1, 5 * SECOND + 1])), 9 * SECOND)
    stored = kept.read(None)
    assert stored is not None and stored.rows["v"].to_pylist() == [0, 1] and stored.since == 4 * SECOND


def test_data_begin_with_the_earliest_tuple_that_is_not_late() -> None:
    kept = StoredWindow(stream(60, delay=5 * SECOND))
    kept.take(table([10 * SECOND + 1]), 5 * SECOND + 1)
    kept.take(kept.accepted(table([6 * SECOND + 1], 1)), 5 * SECOND + 1)
    kept.take(kept.accepted(table([26 * SECOND], 2)), 21 * SECOND)
    stored = kept.read(13 * SECOND)
    assert stored is not None and stored.since == 6 * SECOND


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("left", [False, True])
def test_a_file_lasts_while_its_rows_are_stored(tmp_path: Path, left: bool, place: str) -> None:
    """On the edge of the window, too, where CLOSED LEFT has a row that the other kind has not."""
    declared = stream(closed_left=left)
    window = InMemory(declared) if place == "memory" else InFiles(declared, tmp_path)
    for number, time in enumerate([100 * SECOND, 106 * SECOND + SECOND // 2]):
        window.come([time], number, time)
    before = window.look(None)
    window.restart(everything=False)
    after = window.look(None)
    assert before is not None and after is not None
    assert before[1] == after[1] and len(before[1]) == left


def test_a_late_tuple_does_not_wait_for_questions() -> None:
    """Three threads ask all the time; a question has a higher priority than anything but the writer."""
    kept = StoredWindow(stream(late_revise=True))
    kept.take(table([second * SECOND // 2 for second in range(1, 16)]), 8 * SECOND)
    stop, done = threading.Event(), threading.Event()

    def slow(rows: pa.Table) -> pa.Table:
        stop.wait(0.02)
        return rows

    def ask() -> None:
        while not stop.is_set():
            kept.read(5 * SECOND, slow)

    def write() -> None:
        kept.take(kept.accepted(table([6 * SECOND + SECOND // 5], 99)), 8 * SECOND)
        done.set()

    threads = [threading.Thread(target=target) for target in (ask, ask, ask, write)]
    for thread in threads:
        thread.start()
    assert done.wait(60)
    stop.set()
    for thread in threads:
        thread.join()


def test_sub_windows_hold_on_to_what_is_stored_only() -> None:
    kept = StoredWindow(stream())
    kept.take(table([place * 1_000 for place in range(200_000)]), 200 * SECOND)
    stored = kept.read(None)
    assert stored is not None and len(stored.rows) == 6_000
    assert sum(column.get_total_buffer_size() for column in stored.rows.columns) < 1_000_000


def test_a_question_with_more_priority_goes_first() -> None:
    """One with less stops between two sub-windows, and goes on afterwards."""
    kept = InMemory(stream())
    kept.come([t * SECOND for t in range(1, 9)], 0, 8 * SECOND)
    order: list[str] = []
    begun, important = threading.Event(), threading.Event()

    def ask(name: str, priority: int) -> None:
        def wanted(rows: pa.Table) -> pa.Table:
            order.append(name)
            if name == "less" and not begun.is_set():
                begun.set()
                assert important.wait(10)
            return rows

        PRIORITY.set(priority)
        assert kept.kept.read(None, wanted) is not None

    def ask_first() -> None:
        assert begun.wait(10)
        # It runs, and waits in its first sub-window until the other has gone on from its own.
        ask("more", 5)

    def release(name: str) -> None:
        while "more" not in order:
            important.wait(0.001)
        important.set()

    threads = [
        threading.Thread(target=ask, args=("less", 0)),
        threading.Thread(target=ask_first),
        threading.Thread(target=release, args=("less",)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    first, last = order.index("more"), len(order) - 1 - order[::-1].index("more")
    # The other's read has ended, and nothing more of it comes between.
    assert order[first : last + 1].count("less") == 0 and order[0] == "less" and order[-1] == "less"
