"""One attempt to read the youngest sub-windows while others slide and change them (thesis, section 7.4).

Sub-windows have numbers: that of the slide which wrote them. A reading of `count` sub-windows wants the numbers from
youngest - count + 1 to youngest, and each slide moves that range by one:

                  read          to do, next first
    start         -             4 3 2 1 0
    reads 4       4             3 2 1 0
    slide 5       4             5 3 2 1         0 has left before it was read: nothing happened
    reads 5 3     5 4 3         2 1
    slide 6       5 4 3         6 2             1 likewise
    slide 9       6 5           9 8 7           when slides 7 to 9 came: 4 had been read and has left, a conflict

This is the bit array of algorithms 7 and 8 with numbers instead of slots: "bit (j + n - n_k) mod n is set" is "number j
- n_k has been read". The unread numbers are a heap, by age (TTU) or by slot (LWS); numbers that have left it are
skipped. Nothing here is locked or scanned: the window calls it inside its critical sections.

Reads with a higher priority go first (thesis, section 7.4.1): others stop between two sub-windows meanwhile.

low      [scan][scan]                        [scan][scan]  answer
high                 [scan][scan][scan] answer
                   ▲ wants to run
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple


class Gate:
    """The reads that want to run, and those that have to stop for them.

    A thread never stops for itself: a read inside the scan of a more important one goes through.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wanted: Counter[tuple[int, int]] = Counter()
        # The greatest priority of all that run, or 0: reads that need not stop read it without the lock.
        self.highest = 0

    @contextmanager
    def running(self, priority: int) -> Iterator[None]:
        """While a read of this priority is under way, suspended or not."""
        me = (priority, threading.get_ident())
        self._change(me, 1)
        try:
            yield
        finally:
            self._change(me, -1)

    def stop(self, priority: int) -> None:
        """Return when nobody else runs with a higher priority."""
        if priority < self.highest:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_behind(priority, threading.get_ident()))

    def _is_behind(self, priority: int, thread: int) -> bool:
        return any(other > priority and owner != thread for other, owner in self._wanted)

    def _change(self, who: tuple[int, int], by: int) -> None:
        with self._changed:
            self._wanted[who] += by
            if not self._wanted[who]:
                del self._wanted[who]
            self.highest = max((priority for priority, _ in self._wanted), default=0)
            self._changed.notify_all()


class Version(NamedTuple):
    """A sub-window by the slide that wrote it, and how often it has been changed since."""

    number: int
    revision: int


@dataclass(frozen=True, slots=True)
class SlotSubWindow:
    """The content of a slot: never changed, only replaced."""

    version: Version
    content: Any


class ReadStep(NamedTuple):
    """The work of a reader before it comes back: outside of all locks."""

    undo: list[int]
    scan: list[tuple[int, Any]]
    is_last: bool


class SlotReading:
    """Card. Time: O(log n) per read, O(1) per slide and change. Space: O(n). Algorithms 7 and 8 of the thesis."""

    def __init__(self, name: str, window: Iterable[SlotSubWindow], rank: Callable[[int], int], undoes: bool) -> None:
        self.name = name
        self.is_aborted = False
        self._undoes = undoes
        self._rank = rank
        numbers = [each.version.number for each in window]
        self._oldest, self.count = numbers[0], len(numbers)
        # The youngest number at the beginning: higher numbers came later.
        self.begun = numbers[-1]
        self._to_do = [(rank(number), number) for number in numbers]
        heapq.heapify(self._to_do)
        self.read: dict[int, SlotSubWindow] = {}
        self._undo: list[int] = []
        self._handed: list[tuple[int, Any]] = []

    def slid(self, youngest: int) -> bool:
        """Note a slide; whether it is a conflict."""
        left, self._oldest = self._oldest, youngest - self.count + 1
        heapq.heappush(self._to_do, (self._rank(youngest), youngest))
        return left in self.read and self._conflict(left)

    def revised(self, number: int) -> bool:
        """Note a revision; whether it is a conflict: an unread sub-window will be read as revised."""
        if number not in self.read:
            return False
        heapq.heappush(self._to_do, (self._rank(number), number))
        return self._conflict(number)

    def inserted(self, new: SlotSubWindow, part: Any) -> bool:
        """Note an insertion; whether the reader gets the part, because it has read the sub-window (section 7.4.3)."""
        number = new.version.number
        if number not in self.read:
            return False
        self.read[number] = new
        self._handed.append((number, part))
        return True

    def next_number(self) -> int:
        """The next number to read; there is one as long as the reading has not ended."""
        while True:
            _, number = heapq.heappop(self._to_do)
            if number >= self._oldest:
                return number

    def take(self, chosen: SlotSubWindow) -> ReadStep:
        """Read the sub-window of `next_number`: from here on it is the reader's, whatever happens to the window."""
        number = chosen.version.number
        self.read[number] = chosen
        # The lists go to the reader's thread: later additions by writers belong to the next step.
        undo, self._undo = self._undo, []
        handed, self._handed = self._handed, []
        return ReadStep(undo, [*handed, (number, chosen.content)], len(self.read) == self.count)

    def _conflict(self, number: int) -> bool:
        del self.read[number]
        self._handed = [each for each in self._handed if each[0] != number]
        self._undo.append(number)
        self.is_aborted = not self._undoes
        return True
