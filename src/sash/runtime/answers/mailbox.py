"""A subscriber with a thread of its own: answers wait in a bounded queue, and the stream never waits for it.

    micro-batch ──► queue of at most `queue` ──► callback, one answer after the other, in order
                     full: the oldest goes, or the new one is not taken; both are counted

A subscriber that must not miss an answer has no mailbox (`when_full="wait"`). The thread of the micro-batch calls it
before the commit, so the subscriber holds the stream up, and may get an answer again after a crash.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from sash.core.errors import SashError
from sash.core.events import report
from sash.runtime.answers.answer import Answer

logger = logging.getLogger("sash.runtime")

WAIT, DROP_OLDEST, DROP_NEWEST = "wait", "drop_oldest", "drop_newest"
POLICIES = (WAIT, DROP_OLDEST, DROP_NEWEST)


def check_policy(queue: int, when_full: str) -> None:
    if when_full not in POLICIES:
        raise SashError(f"when_full is one of {', '.join(POLICIES)}, not {when_full!r}")
    if queue < 1:
        raise SashError(f"a queue holds one answer at least, not {queue}")


class Mailbox:
    """Its thread lives while there is something to deliver. `raised` gets every exception of the callback."""

    def __init__(
        self, query: str, callback: Callable[[Answer], None], queue: int, when_full: str, raised: Callable[[], None]
    ) -> None:
        self._query = query
        self._callback = callback
        self._queue = queue
        self._when_full = when_full
        self._raised = raised
        self._line: deque[Answer] = deque()
        self._delivered = 0
        self._dropped = 0
        self._worker: threading.Thread | None = None
        self._changed = threading.Condition()

    def take(self, answer: Answer) -> None:
        """Never waits for the subscriber."""
        with self._changed:
            if len(self._line) < self._queue or self._make_room():
                self._line.append(answer)
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name=f"sash-subscriber-{self._query}", daemon=True)
                self._worker.start()

    def _make_room(self) -> bool:
        """Leave out one answer: the oldest in the queue, or the new one."""
        if not self._dropped:
            report(
                logger, logging.WARNING, "subscriber.behind",
                "a subscriber of query %(query)s is behind: answers are left out, and counted",
                query=self._query, queue=self._queue, when_full=self._when_full,
            )  # fmt: skip
        self._dropped += 1
        if self._when_full == DROP_OLDEST:
            self._line.popleft()
            return True
        return False

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._line:
                    self._worker = None
                    self._changed.notify_all()
                    return
                answer = self._line.popleft()
            try:
                self._callback(answer)
            except Exception:
                self._raised()
                told = "a subscriber of query %(query)s raised; the next answer comes all the same"
                report(logger, logging.ERROR, "subscriber.failed", told, exception=True, query=self._query)
            with self._changed:
                self._delivered += 1

    def empty(self) -> None:
        """The subscriber has left: drop the queued answers."""
        with self._changed:
            self._line.clear()

    def settle(self, patience: float | None) -> None:
        """Wait until everything is delivered, at most `patience` seconds; the subscriber's own thread does not wait."""
        with self._changed:
            if self._worker is threading.current_thread():
                return
            if not self._changed.wait_for(lambda: self._worker is None, patience) and patience:
                report(
                    logger, logging.WARNING, "subscriber.stuck",
                    "a subscriber of query %(query)s has %(waiting)d answers to go, and is waited for no longer",
                    query=self._query, waiting=len(self._line),
                )  # fmt: skip

    def statistics(self) -> dict[str, Any]:
        with self._changed:
            return {
                "when_full": self._when_full,
                "delivered": self._delivered,
                "waiting": len(self._line),
                "dropped": self._dropped,
            }
