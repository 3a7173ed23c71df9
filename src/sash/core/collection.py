"""Python's collector of cyclic garbage, which runs less often while a session is open.

A session makes thousands of answers that stay for a while and have no cycles. At Python's own pace the collector looks
at them, and at everything else in the process, again and again: that took half as long as answering a thousand queries.
"""

from __future__ import annotations

import gc
import threading

# New objects beyond which the collector looks at the youngest ones; Python's own number is 700.
YOUNGEST = 50_000

_lock = threading.Lock()
_sessions = 0
_before: tuple[int, int, int] | None = None


def relax() -> None:
    """A session opens. A program that has disabled the collector, or made it slower, keeps it so."""
    global _sessions, _before
    with _lock:
        thresholds = gc.get_threshold()
        if _sessions == 0 and 0 < thresholds[0] < YOUNGEST:
            _before = thresholds
            gc.set_threshold(YOUNGEST, *thresholds[1:])
        _sessions += 1


def restore() -> None:
    """A session closes. After the last one the collector is as it was, unless the program has changed it meanwhile."""
    global _sessions, _before
    with _lock:
        _sessions -= 1
        if _sessions == 0 and _before is not None:
            if gc.get_threshold() == (YOUNGEST, *_before[1:]):
                gc.set_threshold(*_before)
            _before = None
