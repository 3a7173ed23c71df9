"""A window that slides while it is read, from different threads (thesis, sections 7.2.3 and 7.4).

    writers                                       readers
    slide(new) ─┐                                 ┌─ choose the next sub-window   (short critical section)
    revise(..) ─┼─► [ s5 s6 s2 s3 s4 ]  a ring ◄──┤  scan it                      (no lock)
    insert(..) ─┘     n references                └─ ... with the last one, commit

Reading a sub-window is taking its reference. All that matters is which reference is taken when, and whether what was
taken is still in the window:

    serial  one transaction at a time: a slide waits for the reads before it
    ws      all references are taken at the start; never aborted
    lws     one after the other in the order of slots; aborted and begun again when something that was read has left the
            window or has been changed (algorithm 7)
    ttu     as lws, the youngest first: what leaves next is read last (algorithm 8)

The answer of an lws or ttu read is as of its last reference: taking that and the commit are one step, as in the
algorithms. With at most one slide during a read, ttu aborts nothing. A read that can `undo` parts is never aborted: it
takes back what has left and reads what is new.

A read that was aborted `RESTARTS` times gets precedence: the writers that come then wait until it has its answer, at
most for one scan of the window. So every read ends, and its answer is as of its end still. Under ws, lws and ttu that
is the only time that a slide waits for a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sash.core.errors import SashError, nearest
from sash.isolation.history import Recorder
from sash.isolation.reading import Gate, Version
from sash.isolation.serial import Serial
from sash.isolation.sub_window_ring import Ring

LEVELS = ("serial", "ws", "lws", "ttu")
# Aborts of one read after which writers wait for it.
RESTARTS = 8

Content = TypeVar("Content")
Part = TypeVar("Part")


@dataclass(frozen=True)
class WindowRead(Generic[Part]):
    """What a read has found: a part for each sub-window, the oldest first, and parts inserted later behind theirs.

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
    `insert(content, part)` returns what a sub-window becomes by an insertion, for sub-results that have insertions.

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
        self.level = level
        self._ring = Ring(sub_windows, level == "lws", insert, recorder)
        self._serial = Serial()
        self._gate = Gate()

    def __len__(self) -> int:
        return self._ring.size

    @property
    def youngest(self) -> int:
        """The number of the youngest sub-window; the others have the numbers before it."""
        return self._ring.youngest

    def slide(self, new: Content, inserts: Mapping[int, Any] | None = None) -> Content:
        """A new youngest sub-window takes the place of the oldest, which is returned.

        `inserts` are parts that go into sub-windows of these numbers in the same step (section 7.4.3).
        """
        with self._writer():
            return self._ring.slide(new, inserts or {})

    def revise(self, number: int, new: Content) -> None:
        """Late tuples: another content for the sub-window of this number. Who has read it is in conflict."""
        with self._writer():
            self._ring.revise(number, new)

    def insert(self, parts: Mapping[int, Any]) -> None:
        """Parts that come into sub-windows of these numbers; running reads are given them, and none is aborted."""
        with self._writer():
            self._ring.insert(parts)

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
        It is an error if `scan` waits for a writer in another thread: that one may be waiting for this read.
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

    def _writer(self) -> AbstractContextManager[None]:
        return self._serial.slide() if self.level == "serial" else nullcontext()

    def _read_snapshot(self, count: int, scan: Callable[[Content], Part], stop: Callable[[], None]) -> WindowRead[Part]:
        reading, taken = self._ring.snapshot(count)
        parts = []
        for each in taken:
            stop()
            parts.append(scan(each.content))
        self._ring.commit(reading)
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
                    self._ring.prefer(read)
                answer = self._attempt(count, scan, undo, lambda: self._stop(read, priority))
        finally:
            self._ring.prefer_no_more(read)
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
        reading = self._ring.begin(count, undoes=undo is not None)
        try:
            while True:
                stop()
                step = self._ring.step(reading)
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
            self._ring.end(reading)

    def _stop(self, read: object, priority: int) -> None:
        """For reads of a higher priority; who has precedence does not, since writers wait for it."""
        if not self._ring.is_preferred(read):
            self._gate.stop(priority)


def _go_on() -> None:
    """Under serial nobody stops for anybody; and a scan without a state has nothing to throw away."""
