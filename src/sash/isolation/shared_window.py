"""A window that slides while it is read, from different threads (thesis, sections 7.2.3 and 7.4).

    writers                                       readers
    slide(new) ─┐                                 ┌─ choose the next sub-window   (short critical section)
    revise(..) ─┼─► [ s5 s6 s2 s3 s4 ]  a ring ◄──┤  scan it                      (no lock)
    insert(..) ─┘     n references                └─ ... with the last one, commit

Reading a sub-window is taking its reference. The levels differ in when references are taken, and in what happens if a
taken one has left the window:

    serial  one transaction at a time: a slide waits for the reads before it
    ws      all references are taken at the start; never aborted
    lws     one after the other in the order of slots; aborted and begun again when something that was read has left the
            window or has been changed (algorithm 7)
    ttu     as lws, the youngest first: what leaves next is read last (algorithm 8)

The answer of an lws or ttu read is as of its last reference: taking that and the commit are one step, as in the
algorithms. With at most one slide during a read, ttu aborts nothing. A read that can `undo` parts is never aborted: it
takes back parts that have left and reads the new sub-windows.

Nothing takes long under the ring's lock: a step of a read takes a reference, a write exchanges some and tells the
readings that are under way (`reading`).

    slot         0   1   2   3   4
    number       5   6   2   3   4     youngest 6, oldest 2, the next slide writes 7 into slot 2

A read that was aborted `RESTARTS` times gets precedence: later writers wait until it has its answer, at most for one
scan of the window. So every read ends, and its answer is still as of its end. Under ws, lws and ttu that is the only
time that a slide waits for a scan.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import count as count_up
from typing import Any, Generic, TypeVar

from sash.core.errors import SashError, nearest
from sash.isolation.history import Kind, Recorder
from sash.isolation.levels import Serial
from sash.isolation.reading import Gate, ReadStep, SlotReading, SlotSubWindow, Version

LEVELS = ("serial", "ws", "lws", "ttu")
# Aborts of one read after which writers wait for it.
RESTARTS = 8

Content = TypeVar("Content")
Part = TypeVar("Part")


@dataclass(frozen=True)
class WindowRead(Generic[Part]):
    """The result of a read: a part for each sub-window, the oldest first, and parts inserted later behind theirs.

    `state` has the versions that were read, the oldest first. `attempts` is 1 if nothing was aborted, `undone` is the
    number of parts that were taken back, `inserted` of those that came while it was read: sub-windows of slides, and
    insertions.
    """

    parts: list[Part]
    state: list[Version]
    attempts: int = 1
    undone: int = 0
    inserted: int = 0


class SharedWindow(Generic[Content]):
    """The sub-windows, the oldest first; how many there are never changes.

    Needs: sub-windows that nobody changes. Time: O(log n) locked per sub-window read, O(readers) per slide.
    `insert(content, part)` returns a sub-window with an insertion, for sub-results that have insertions.

    >>> window = SharedWindow([1, 2, 3], level="ttu")
    >>> window.slide(4)
    1
    >>> sum(window.read(2, lambda sub_window: sub_window * 10).parts)
    70
    """

    def __init__(
        self,
        sub_windows: Iterable[Content],
        level: str = "ttu",
        insert: Callable[[Content, Any], Content] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        if level not in LEVELS:
            raise SashError(f"unknown isolation '{level}'{nearest(level, LEVELS)}")
        self._slots = [SlotSubWindow(Version(number, 0), each) for number, each in enumerate(sub_windows)]
        if not self._slots:
            raise SashError("a window has at least one sub-window")
        self.level = level
        # The number of the youngest sub-window; the others have the numbers before it.
        self.youngest = len(self._slots) - 1
        self._insert = insert
        self._recorder = recorder
        self._serial = Serial()
        self._gate = Gate()
        self._names = count_up(1)
        self._revisions = count_up(1)
        # Guards slots, readings and preferences; held for a few steps, never over a scan.
        self._guard = threading.Lock()
        self._preference_ends = threading.Condition(self._guard)
        self._readings: set[SlotReading] = set()
        # Reads that writers wait for, each with its thread.
        self._preferred: dict[object, int] = {}
        # One writer prepares a change at a time; readers never wait for it.
        self._writing = threading.Lock()
        self._writer: int | None = None
        if recorder is not None:
            recorder.begin(len(self), self.youngest)

    def __len__(self) -> int:
        return len(self._slots)

    def sub_windows(self) -> list[Content]:
        """All sub-windows at this moment, the oldest first: for the writer, and for readers who check for slides."""
        with self._guard:
            return [each.content for each in self._window(len(self))]

    @property
    def waiting(self) -> int:
        """How many transactions wait for the window under serial, for tests."""
        return self._serial.waiting

    @property
    def has_reads(self) -> bool:
        """Whether writers or other reads have to heed a read that is under way, for tests."""
        with self._guard:
            return bool(self._readings or self._preferred or self._gate.highest)

    # --- writes -----------------------------------------------------------------------------------------------------

    def slide(self, new: Content, inserts: Mapping[int, Any] | None = None) -> Content:
        """A new youngest sub-window takes the place of the oldest, which is returned.

        `inserts` are parts that go into sub-windows of these numbers in the same step (section 7.4.3).
        """
        parts = inserts or {}
        with self.turn():
            number = self.youngest + 1
            if number - len(self) in parts:
                raise SashError(f"sub-window {number - len(self)} leaves with this slide: nothing goes into it")
            changes = self._changed_by(parts)
            with self._guard:
                old, self.youngest = self._slots[number % len(self)], number
                self._put(str(number), [SlotSubWindow(Version(number, 0), new), *changes])
                for reading in list(self._readings):
                    if reading.slid(number):
                        self._has_conflict(reading, number - reading.count)
                self._hand_over(changes, parts)
        content: Content = old.content
        return content

    def revise(self, number: int, new: Content) -> None:
        """Replace the content of a sub-window, for late tuples. A reading that has read it is in conflict."""
        with self.turn():
            revision = self._at(number).version.revision + 1
            with self._guard:
                self._put(f"R{next(self._revisions)}", [SlotSubWindow(Version(number, revision), new)])
                for reading in list(self._readings):
                    if reading.revised(number):
                        self._has_conflict(reading, number)

    def insert(self, parts: Mapping[int, Any]) -> None:
        """Insert parts into sub-windows of these numbers; running reads get them, and none is aborted."""
        with self.turn():
            changes = self._changed_by(parts)
            with self._guard:
                self._put(f"R{next(self._revisions)}", changes)
                self._hand_over(changes, parts)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The right to write. Waits for the reads with precedence now, not for those that get it later.

        A thread that has the right may enter again at no cost.
        """
        if self._writer == threading.get_ident():
            yield
            return
        with self._serial.slide() if self.level == "serial" else nullcontext():
            with self._guard:
                awaited = {read for read, thread in self._preferred.items() if thread != threading.get_ident()}
                if awaited:
                    self._preference_ends.wait_for(lambda: awaited.isdisjoint(self._preferred))
            with self._writing:
                self._writer = threading.get_ident()
                try:
                    yield
                finally:
                    self._writer = None

    def _at(self, number: int) -> SlotSubWindow:
        oldest = self.youngest - len(self) + 1
        if not oldest <= number <= self.youngest:
            raise SashError(f"no sub-window {number}: the window has {oldest} to {self.youngest}")
        return self._slots[number % len(self)]

    def _changed_by(self, parts: Mapping[int, Any]) -> list[SlotSubWindow]:
        if parts and self._insert is None:
            raise SashError("this window takes no insertions: it was made without insert=")
        return [self._with_part(self._at(number), part) for number, part in parts.items()]

    def _with_part(self, old: SlotSubWindow, part: Any) -> SlotSubWindow:
        assert self._insert is not None
        return SlotSubWindow(Version(old.version.number, old.version.revision + 1), self._insert(old.content, part))

    def _put(self, transaction: str, new: list[SlotSubWindow]) -> None:
        slots = [each.version.number % len(self) for each in new]
        for slot, each in zip(slots, new, strict=True):
            self._slots[slot] = each
        if self._recorder is not None:
            self._recorder.wrote(transaction, slots)

    def _hand_over(self, changes: list[SlotSubWindow], parts: Mapping[int, Any]) -> None:
        for reading in self._readings:
            for each in changes:
                if reading.inserted(each, parts[each.version.number]):
                    self._record("r", reading, each.version.number)

    def _has_conflict(self, reading: SlotReading, number: int) -> None:
        if reading.is_aborted:
            self._readings.discard(reading)
            self._record("a", reading)
        else:
            self._record("u", reading, number)

    # --- reads ------------------------------------------------------------------------------------------------------

    def read(
        self,
        count: int,
        scan: Callable[[Content], Part],
        *,
        undo: Callable[[Part], None] | None = None,
        restart: Callable[[], None] | None = None,
        priority: int = 0,
    ) -> WindowRead[Part]:
        """Scan the youngest `count` sub-windows; `scan` is called without a lock, and all over after an abort.

        With `undo` nothing is aborted: it is called for the parts that have left the window. `restart` is called after
        each abort, for a scan that has a state to throw away. An insertion is scanned like a sub-window. Reads of a
        lower priority stop between two sub-windows; under serial they do not.
        It is an error if `scan` waits for a writer in another thread: that writer may be waiting for this read.
        """
        if not 1 <= count <= len(self):
            raise SashError(f"a window of {len(self)} sub-windows has no {count} youngest")
        if self.level == "serial":
            with self._serial.read():
                return self._read_snapshot(count, scan, _go_on)
        with self._gate.running(priority):
            if self.level == "ws":
                return self._read_snapshot(count, scan, lambda: self._gate.stop(priority))
            return self._read_latest(count, scan, undo, restart or _go_on, priority)

    def _read_snapshot(self, count: int, scan: Callable[[Content], Part], stop: Callable[[], None]) -> WindowRead[Part]:
        """Take all references at once, the oldest first; later writes do not matter to this reading."""
        with self._guard:
            taken = self._window(count)
            reading = self._new_reading(taken, undoes=False)
            for each in taken:
                self._record("r", reading, each.version.number)
        parts = []
        for each in taken:
            stop()
            parts.append(scan(each.content))
        with self._guard:
            self._record("c", reading)
        return WindowRead(parts, [each.version for each in taken])

    def _read_latest(
        self,
        count: int,
        scan: Callable[[Content], Part],
        undo: Callable[[Part], None] | None,
        restart: Callable[[], None],
        priority: int,
    ) -> WindowRead[Part]:
        read, attempts = object(), 0
        answer: WindowRead[Part] | None = None
        try:
            while answer is None:
                attempts += 1
                if attempts > 1:
                    restart()
                if attempts > RESTARTS:
                    with self._guard:
                        # A writer that comes from now on waits for this read.
                        self._preferred[read] = threading.get_ident()
                answer = self._attempt(count, scan, undo, lambda: self._stop(read, priority))
        finally:
            with self._guard:
                if self._preferred.pop(read, None) is not None:
                    self._preference_ends.notify_all()
        return replace(answer, attempts=attempts)

    def _attempt(
        self,
        count: int,
        scan: Callable[[Content], Part],
        undo: Callable[[Part], None] | None,
        stop: Callable[[], None],
    ) -> WindowRead[Part] | None:
        """The answer, or None if the attempt has been aborted."""
        found: dict[int, list[Part]] = {}
        undone = inserted = 0
        with self._guard:
            reading = self._new_reading(self._window(count), undoes=undo is not None)
            self._readings.add(reading)
        try:
            while True:
                stop()
                step = self._step(reading)
                if step is None:
                    return None
                for number in step.undo:
                    assert undo is not None
                    for part in found.pop(number):
                        undo(part)
                        undone += 1
                for number, content in step.scan:
                    inserted += number > reading.begun or number in found
                    found.setdefault(number, []).append(scan(content))
                if step.is_last:
                    parts = [part for number in sorted(found) for part in found[number]]
                    state = [reading.read[number].version for number in sorted(found)]
                    return WindowRead(parts, state, undone=undone, inserted=inserted)
        finally:
            self._end(reading)

    def _step(self, reading: SlotReading) -> ReadStep | None:
        """Take the next sub-window, and commit with the last one; None if the reading has been aborted."""
        with self._guard:
            if reading.is_aborted:
                return None
            number = reading.next_number()
            self._record("r", reading, number)
            step = reading.take(self._slots[number % len(self)])
            if step.is_last:
                self._record("c", reading)
                self._readings.discard(reading)
            return step

    def _end(self, reading: SlotReading) -> None:
        """Give up a reading that has neither committed nor been aborted."""
        with self._guard:
            if reading in self._readings:
                self._readings.discard(reading)
                self._record("a", reading)

    def _stop(self, read: object, priority: int) -> None:
        """Stop for reads of a higher priority. A read with precedence does not, since writers wait for it."""
        if read not in self._preferred:
            self._gate.stop(priority)

    def _window(self, count: int) -> list[SlotSubWindow]:
        size = len(self)
        return [self._slots[number % size] for number in range(self.youngest - count + 1, self.youngest + 1)]

    def _new_reading(self, window: list[SlotSubWindow], undoes: bool) -> SlotReading:
        rank = self._slot_of if self.level == "lws" else _youngest_first
        return SlotReading(f"Q{next(self._names)}", window, rank, undoes)

    def _slot_of(self, number: int) -> int:
        return number % len(self)

    def _record(self, kind: Kind, reading: SlotReading, number: int | None = None) -> None:
        if self._recorder is not None:
            self._recorder.did(kind, reading.name, None if number is None else number % len(self))


def _youngest_first(number: int) -> int:
    """The time-to-update of a sub-window is higher the younger it is."""
    return -number


def _go_on() -> None:
    """Under serial no read stops for another; and a scan without a state has nothing to throw away."""
