"""Two ways to read a window under a lock: `Serial` holds the lock for a whole transaction, `taking` for a moment.

`Serial` runs one transaction at a time, first come, first served (thesis, section 7.5).

    threads ──► [reader][slide][reader] ──► the window
                 a queue of tickets          one holder

Python's locks promise no order: a stream of readers could keep a slide waiting for ever, or the reverse. So
each transaction draws a ticket, and a transaction that ends hands the window to the oldest ticket.

A thread that holds the window may enter again at no cost: an execution reads inside the slide that it follows.

`taking` reads in two steps: it takes its panes in a moment, then computes while the window slides.

    version    4 ───────── 5 ──────────────────────
    slides                 [slide]
    read 1     [take][ compute ]                        ws: as of its start
    read 2     [take][ compute ][take][ compute ]       lws, ttu: as of its end, so once more

The taken content must not change with slides: copies, or arrays that are replaced and never changed. All sub-windows
are taken at once, so under `lws` and `ttu` every slide is in conflict with every read.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

Result = TypeVar("Result")
Computed = TypeVar("Computed", covariant=True)


class TakenWindow(Protocol[Computed]):
    """The content that was taken of a window, under its lock."""

    def compute(self) -> Computed:
        """The answer, without a lock; an exception is an answer, too."""

    def is_latest(self) -> bool:
        """Whether the window has not changed since. Asked without a lock: comparing numbers that only grow is safe."""


# None: there is nothing to be taken at this moment.
Take = Callable[[], TakenWindow[Result] | None]


class Serial:
    """The isolation level `serial`.

    Needs: nothing of the window. Blocks: everything but the holder. Time: O(1) per transaction.

    >>> level = Serial()
    >>> with level.slide(), level.read():
    ...     print("a thread does not wait for itself")
    a thread does not wait for itself
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.holder: int | None = None
        self._depth = 0
        self._waiting: deque[tuple[int, threading.Event]] = deque()

    @contextmanager
    def slide(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    # Serial makes no difference between writing and reading.
    read = slide

    def reading(self, function: Callable[[], Result]) -> Result:
        with self.read():
            return function()

    def taking(self, take: Take[Result]) -> Result | None:
        """Hold the lock over both steps."""
        with self.read():
            taken = take()
            return None if taken is None else taken.compute()

    def give_way(self) -> None:
        """Let the waiting threads have their turn, then go on with the slide."""
        me = threading.get_ident()
        with self._guard:
            if self.holder != me or not self._waiting:
                return
            depth, turn = self._depth, threading.Event()
            self._waiting.append((me, turn))
            self._hand_over()
        turn.wait()
        self._depth = depth

    @contextmanager
    def away(self) -> Iterator[None]:
        """Let others have the window for a while, then wait for it like them."""
        me = threading.get_ident()
        with self._guard:
            depth = self._depth if self.holder == me else 0
            if depth:
                self._depth = 0
                self._hand_over()
        try:
            yield
        finally:
            if depth:
                self._enter()
                self._depth = depth

    @property
    def waiting(self) -> int:
        """How many transactions wait for the window, for statistics and tests."""
        with self._guard:
            return len(self._waiting)

    def _enter(self) -> None:
        me = threading.get_ident()
        with self._guard:
            if self.holder is None or self.holder == me:
                self.holder = me
                self._depth += 1
                return
            turn = threading.Event()
            self._waiting.append((me, turn))
        try:
            turn.wait()
        except BaseException:  # KeyboardInterrupt: a thread that gives up waiting must not get the window
            self._give_up(me, turn)
            raise

    def _leave(self) -> None:
        with self._guard:
            self._depth -= 1
            if self._depth == 0:
                self._hand_over()

    def _hand_over(self) -> None:
        """Set the next holder here, not when it wakes, so that nobody overtakes it."""
        if self._waiting:
            self.holder, turn = self._waiting.popleft()
            self._depth = 1
            turn.set()
        else:
            self.holder = None

    def _give_up(self, me: int, turn: threading.Event) -> None:
        with self._guard:
            if turn.is_set():
                self._depth = 0
                self._hand_over()
            else:
                self._waiting.remove((me, turn))
