"""Reads with a higher priority go first (thesis, section 7.4.1): others stop between two sub-windows meanwhile.

low      [scan][scan]                        [scan][scan]  answer
high                 [scan][scan][scan] answer
                   ▲ wants to run
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Who wants to run, and who has to stop for them.

    A thread never stops for itself: a read inside the scan of a more important one goes through.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wanted: Counter[tuple[int, int]] = Counter()
        # The greatest priority of all that run, or 0: read without the lock by those who need not stop.
        self._highest = 0

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
        if priority < self._highest:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_behind(priority, threading.get_ident()))

    def _is_behind(self, priority: int, thread: int) -> bool:
        return any(other > priority and owner != thread for other, owner in self._wanted)

    def _change(self, who: tuple[int, int], by: int) -> None:
        with self._changed:
            self._wanted[who] += by
            if not self._wanted[who]:
                del self._wanted[who]
            self._highest = max((priority for priority, _ in self._wanted), default=0)
            self._changed.notify_all()
