"""Python's collector of cyclic garbage, held off while a stream's queries are answered.

An execution makes thousands of answers that all stay for a while and have no cycles. The collector would visit them,
and everything else in the process, again and again: half of the time of an execution of a thousand queries.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_holders = 0
_was_enabled = False


@contextmanager
def held_off() -> Iterator[None]:
    """No collection begins until the last thread has left. A program that has disabled the collector keeps it so."""
    global _holders, _was_enabled
    with _lock:
        if _holders == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0 and _was_enabled:
                gc.enable()
