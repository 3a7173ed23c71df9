"""Isolation of state that slides change in place: `Serial` locks, `Optimistic` tries and tries again.

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

`Optimistic` reads without a lock: it tries, and tries again if a slide came between.

    version    4 ──────────────── 5 ───── 6 ─────────────────
    slides                        [ slide ]
    read 1        [ function ]                                  4 before and after: good
    read 2                   [ function ]   [ function ]        4, then 5: once more
                                                                as of its end: latest-window-serializable

The version is odd while a slide is under way. A read that finds it odd waits for the slide's end, or for the place in
it where the slide gives way; then the read runs without a lock. If the version is the same afterwards, nothing has
changed in between. After `retries` failures the read takes the lock as under `serial`, so it ends.

Such a function may see a window that is half slid; then its result (or its exception) is thrown away. So it must not
change anything, must copy its result, and must end on any state: no loop until some value turns up, and no compiled
code that follows indices without checking them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

RETRIES = 8

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


class Optimistic:
    """The isolation levels `ws`, `lws` and `ttu` for state that is changed in place.

    For `reading` all three are the same, since there are no sub-windows to choose from: an answer is as of its end. For
    `taking` an answer is as of its end with `latest`; without it, which is `ws`, as of its start.
    Needs: functions that bear a half-slid window. Blocks: slides wait for neither, up to `retries`.

    >>> level, window = Optimistic(), [1, 2, 3]
    >>> with level.slide():
    ...     window[:] = [2, 3, 4]
    >>> level.reading(lambda: sum(window))
    9
    """

    def __init__(self, latest: bool = True, retries: int = RETRIES) -> None:
        self._latest = latest
        self._retries = retries
        self.serial = Serial()
        # Odd while a slide is under way; changed by the holder of the lock only.
        self.version = 0
        self._depth = 0
        self._holder: int | None = None

    @contextmanager
    def slide(self) -> Iterator[None]:
        with self.serial.slide():
            self._enter()
            try:
                yield
            finally:
                self._leave()

    def read(self) -> AbstractContextManager[None]:
        """Read with the lock: for reads that cannot be repeated."""
        return self.serial.read()

    def give_way(self) -> None:
        """The window is whole here: waiting threads have their turn, and reads without a lock may begin."""
        if self._holder == threading.get_ident():
            with self._whole():
                self.serial.give_way()

    @contextmanager
    def away(self) -> Iterator[None]:
        """The same for a while, in which others may slide the window, too."""
        if self._holder != threading.get_ident():
            yield
            return
        with self._whole(), self.serial.away():
            yield

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Between two parts of a slide; the holder of the lock enters and leaves it."""
        depth = self._depth
        self._depth, self._holder = 0, None
        self.version += 1
        try:
            yield
        finally:
            self.version += 1
            self._depth, self._holder = depth, threading.get_ident()

    def reading(self, function: Callable[[], Result]) -> Result:
        """The function's result (or exception) when no slide comes between its start and its end."""
        if self._holder == threading.get_ident():
            return function()
        for _ in range(self._retries):
            version = self._whole_version()
            try:
                result = function()
            except Exception:
                if self.version == version:
                    raise
            else:
                if self.version == version:
                    return result
        with self.serial.read():
            return function()

    def taking(self, take: Take[Result]) -> Result | None:
        """Take the lock for the first step alone; with `latest`, start again if the window has changed meanwhile."""
        for _ in range(self._retries):
            with self.serial.read():
                taken = take()
            if taken is None:
                return None
            try:
                result = taken.compute()
            except Exception:
                if not self._latest or taken.is_latest():
                    raise
            else:
                if not self._latest or taken.is_latest():
                    return result
        return self.serial.taking(take)

    @property
    def waiting(self) -> int:
        """How many transactions wait for the lock, for statistics and tests."""
        return self.serial.waiting

    def _whole_version(self) -> int:
        version = self.version
        if version % 2:
            with self.serial.read():
                version = self.version
        return version

    def _enter(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._holder = threading.get_ident()
            self.version += 1

    def _leave(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._holder = None
            self.version += 1
