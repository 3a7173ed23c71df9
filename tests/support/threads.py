"""Threads in tests: started at once, and never waited for without end."""

from __future__ import annotations

import threading
from collections.abc import Callable

PATIENCE = 60.0  # a test that hangs fails after this; no assertion depends on it


def start(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def join(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
