"""Python's collector of cyclic garbage, which runs less often while a session is open.

A session makes thousands of answers that stay for a while and have no cycles. At Python's own pace the collector looks
at them, and at everything else in the process, again and again: that took half as long as answering a thousand queries.

Panes are freed in pieces, by the thread of their stream, and the C library keeps freed pieces for that thread. So three
sessions, one after the other, took three times the memory of one; the next one that opens gives it back first.
"""

from __future__ import annotations

import ctypes
import gc
import sys
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
        if _sessions == 0:
            give_back()
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


def give_back() -> None:
    """Give the system the memory that is free, of all threads: glibc does, other libraries have no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
