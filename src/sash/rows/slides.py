"""Readers beside a window that slides: a version that is odd while a slide is being applied.

    version   4         5 ............... 6
    writer              evict, attach
    reader    reads   reads again          reads: 6 before, 6 after, so it saw one window

One writer changes a window and its indexes, in `attach` alone. Readers take no lock and read again when a slide came
between (`isolation.Optimistic`). Windows that share an index share the version as well.

A kernel is never interrupted, because it holds Python's lock, and leaves lists, trees and rings whole: a reader may
find outdated entries there, but comes to an end. So this needs a Python with the lock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from sash.isolation import Optimistic

T = TypeVar("T")

# A reader that is overtaken this many times in a row makes the writer wait.
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
        self._level = Optimistic(retries=_MOST_RETRIES)

    @property
    def version(self) -> int:
        return self._level.version

    def applying(self) -> AbstractContextManager[None]:
        """Wrap all changes in this."""
        return self._level.slide()

    def read(self, reading: Callable[[], T]) -> T:
        """The result of a function on one state of the window; the function may be called several times."""
        return self._level.reading(reading)
