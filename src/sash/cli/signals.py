"""Ctrl-C and SIGTERM. PySpark's own handler would cancel the jobs of the micro-batch in flight; these do not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, and does nothing else."""
    with _handling(signal.default_int_handler, signal.SIGINT):
        yield


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets; the second one raises KeyboardInterrupt."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    with _handling(stop, signal.SIGINT, signal.SIGTERM):
        yield stopped


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], Any], *signals: signal.Signals) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def interrupt_main_thread() -> None:
    """Wake the main thread out of whatever it waits for, as Ctrl-C does."""
    identifier = threading.main_thread().ident
    assert identifier is not None
    signal.pthread_kill(identifier, signal.SIGINT)
