"""The ring of sub-windows and everything that is done to it under its lock.

    slot         0   1   2   3   4
    number       5   6   2   3   4     youngest 6, oldest 2, the next slide writes 7 into slot 2

Sub-windows are values that nobody changes: a write puts a new one in the old one's place. So nothing here takes long: a
step of a read takes a reference, a write exchanges some and tells the readings that are under way.

A writer waits in one case only: some read has been given precedence because it was aborted too often (`prefer`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count as count_up
from typing import Any

from sash.core.errors import SashError
from sash.isolation.history import Kind, Recorder
from sash.isolation.reading import ReadStep, SlotReading, SlotSubWindow, Version


class Ring:
    """`in_slot_order` readings take slot 0, 1, 2, ...; others the youngest sub-window first."""

    def __init__(
        self,
        contents: Iterable[Any],
        in_slot_order: bool,
        insert: Callable[[Any, Any], Any] | None,
        recorder: Recorder | None,
    ) -> None:
        self._slots = [SlotSubWindow(Version(number, 0), each) for number, each in enumerate(contents)]
        if not self._slots:
            raise SashError("a window has at least one sub-window")
        self.size = len(self._slots)
        self.youngest = self.size - 1
        self._in_slot_order = in_slot_order
        self._insert = insert
        self._recorder = recorder
        self._names = count_up(1)
        self._revisions = count_up(1)
        # Guards everything here; held for a few steps, never over a scan.
        self._guard = threading.Lock()
        self._preference_ends = threading.Condition(self._guard)
        self._readings: set[SlotReading] = set()
        # Reads that writers wait for, each with its thread.
        self._preferred: dict[object, int] = {}
        # One writer prepares a change at a time; readers never wait for it.
        self._writing = threading.RLock()
        if recorder is not None:
            recorder.begin(self.size, self.youngest)

    # --- writes -----------------------------------------------------------------------------------------------------

    def slide(self, content: Any, inserts: Mapping[int, Any]) -> Any:
        with self._turn():
            number = self.youngest + 1
            if number - self.size in inserts:
                raise SashError(f"sub-window {number - self.size} leaves with this slide: nothing goes into it")
            changes = self._changed_by(inserts)
            with self._guard:
                old, self.youngest = self._slots[number % self.size], number
                self._put(str(number), [SlotSubWindow(Version(number, 0), content), *changes])
                for reading in list(self._readings):
                    if reading.slid(number):
                        self._has_conflict(reading, number - reading.count)
                self._hand_over(changes, inserts)
        return old.content

    def revise(self, number: int, content: Any) -> None:
        with self._turn():
            revision = self._at(number).version.revision + 1
            with self._guard:
                self._put(f"R{next(self._revisions)}", [SlotSubWindow(Version(number, revision), content)])
                for reading in list(self._readings):
                    if reading.revised(number):
                        self._has_conflict(reading, number)

    def insert(self, parts: Mapping[int, Any]) -> None:
        with self._turn():
            changes = self._changed_by(parts)
            with self._guard:
                self._put(f"R{next(self._revisions)}", changes)
                self._hand_over(changes, parts)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The right to write. Waits for the reads with precedence now, not for those that get it later."""
        with self._guard:
            awaited = {read for read, thread in self._preferred.items() if thread != threading.get_ident()}
            if awaited:
                self._preference_ends.wait_for(lambda: awaited.isdisjoint(self._preferred))
        with self._writing:
            yield

    def _at(self, number: int) -> SlotSubWindow:
        oldest = self.youngest - self.size + 1
        if not oldest <= number <= self.youngest:
            raise SashError(f"no sub-window {number}: the window has {oldest} to {self.youngest}")
        return self._slots[number % self.size]

    def _changed_by(self, parts: Mapping[int, Any]) -> list[SlotSubWindow]:
        if parts and self._insert is None:
            raise SashError("this window takes no insertions: it was made without insert=")
        return [self._with_part(self._at(number), part) for number, part in parts.items()]

    def _with_part(self, old: SlotSubWindow, part: Any) -> SlotSubWindow:
        assert self._insert is not None
        return SlotSubWindow(Version(old.version.number, old.version.revision + 1), self._insert(old.content, part))

    def _put(self, transaction: str, new: list[SlotSubWindow]) -> None:
        slots = [each.version.number % self.size for each in new]
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

    def snapshot(self, count: int) -> tuple[SlotReading, list[SlotSubWindow]]:
        """All references at once, the oldest first; writes do not matter to this reading any more."""
        with self._guard:
            taken = self._window(count)
            reading = self._new_reading(taken, undoes=False)
            for each in taken:
                self._record("r", reading, each.version.number)
            return reading, taken

    def commit(self, snapshot: SlotReading) -> None:
        with self._guard:
            self._record("c", snapshot)

    def begin(self, count: int, undoes: bool) -> SlotReading:
        with self._guard:
            reading = self._new_reading(self._window(count), undoes)
            self._readings.add(reading)
            return reading

    def step(self, reading: SlotReading) -> ReadStep | None:
        """Take the next sub-window, and commit with the last one; None if the reading has been aborted."""
        with self._guard:
            if reading.is_aborted:
                return None
            number = reading.next_number()
            slot = number % self.size
            if self._recorder is not None:
                self._recorder.did("r", reading.name, slot)
            step = reading.take(self._slots[slot])
            if step.is_last:
                self._record("c", reading)
                self._readings.discard(reading)
            return step

    def end(self, reading: SlotReading) -> None:
        """Whatever happened to it: one that has neither committed nor been aborted is given up."""
        with self._guard:
            if reading in self._readings:
                self._readings.discard(reading)
                self._record("a", reading)

    def prefer(self, read: object) -> None:
        """Whoever comes to write from now on waits for this read."""
        with self._guard:
            self._preferred[read] = threading.get_ident()

    def prefer_no_more(self, read: object) -> None:
        with self._guard:
            if self._preferred.pop(read, None) is not None:
                self._preference_ends.notify_all()

    def is_preferred(self, read: object) -> bool:
        return read in self._preferred

    def _window(self, count: int) -> list[SlotSubWindow]:
        return [self._slots[number % self.size] for number in range(self.youngest - count + 1, self.youngest + 1)]

    def _new_reading(self, window: list[SlotSubWindow], undoes: bool) -> SlotReading:
        rank = self._slot_of if self._in_slot_order else _youngest_first
        return SlotReading(f"Q{next(self._names)}", window, rank, undoes)

    def _slot_of(self, number: int) -> int:
        return number % self.size

    def _record(self, kind: Kind, reading: SlotReading, number: int | None = None) -> None:
        if self._recorder is not None:
            self._recorder.did(kind, reading.name, None if number is None else number % self.size)


def _youngest_first(number: int) -> int:
    """The time-to-update of a sub-window is higher the younger it is."""
    return -number
