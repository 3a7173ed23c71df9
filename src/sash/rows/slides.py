"""Readers beside a window that slides: a version that is odd while a slide is being applied.

    version   4         5 ............... 6
    writer              evict, attach
    reader    reads   reads again          reads: 6 before, 6 after, so it saw one window

One writer changes a window and its indexes, in `attach` alone. Readers take no lock and never make it wait: they
remember the version, read, and read again when it was odd or has changed. A reader that is overtaken many times in a
row takes the writer's lock, so that it comes to an end. What it read on the way may be nonsense and may raise: that
counts only if the version is still the same. Windows that share an index share the version as well.

A kernel is never interrupted, because it holds Python's lock, and leaves lists, trees and rings whole: a reader may
find what is out of date there, but comes to an end. So this needs a Python that has the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

# So many times in a row a reader is overtaken before it makes the writer wait.
_MOST_RETRIES = 16


class Slides:
    """The version of a window, or of several that share indexes.

    >>> slides = Slides()
    >>> with slides.applying():
    ...     slides.version
    1
    >>> slides.read(lambda: "what a reader computes"), slides.version
    ('what a reader computes', 2)
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.version = 0

    @contextmanager
    def applying(self) -> Iterator[None]:
        """Around all that changes."""
        with self._lock:
            self.version += 1
            try:
                yield
            finally:
                self.version += 1

    def read(self, reading: Callable[[], T]) -> T:
        """What a function computes from one state of the window; it may be called several times."""
        for _ in range(_MOST_RETRIES):
            before = self.version
            if before % 2:
                with self._lock:
                    continue
            try:
                found = reading()
            except Exception:
                if self.version == before:
                    raise
                continue
            if self.version == before:
                return found
        with self._lock:
            return reading()
