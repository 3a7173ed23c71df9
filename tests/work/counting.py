"""Work that is counted: calls of the package's functions, steps on the disk, bytes written.

A count is the same on a slow machine and on a fast one, so that a bound on it is a test. Counts of calls are of the
thread that counts. A generator that is resumed counts as called: it works again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import sash
from sash.core.faults import listening

_PACKAGE = str(Path(sash.__file__).parent)


class Calls:
    """How often each function of the package was called."""

    def __init__(self) -> None:
        self._every: Counter[CodeType] = Counter()

    def note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self._every[frame.f_code] += 1

    @property
    def by_function(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for code, number in self._every.copy().items():  # functions may still be counted
            if code.co_filename.startswith(_PACKAGE):
                place = code.co_filename.removeprefix(_PACKAGE)
                found[f"{place[1:]}:{code.co_firstlineno} {code.co_qualname}"] += number
        return found

    @property
    def total(self) -> int:
        return self.by_function.total()

    def dearest(self, than: Calls | None = None, number: int = 10) -> str:
        """The functions that were called most, or that were called most in addition to `than`: for a failure."""
        dear = self.by_function - (Counter() if than is None else than.by_function)
        lines = [f"{calls:>9,}  {function}" for function, calls in dear.most_common(number)]
        return "\n".join([f"{self.total:,} calls" + ("" if than is None else f", not {than.total:,}"), *lines])


@contextmanager
def calls() -> Iterator[Calls]:
    """Count what this thread calls meanwhile."""
    counted, before = Calls(), sys.getprofile()
    sys.setprofile(counted.note)
    try:
        yield counted
    finally:
        sys.setprofile(before)


class Disk:
    """Steps on the disk by their kind (write, sync, rename, remove, ..), and the bytes that were written.

    The steps are the moments of core/faults.py: no step goes past them (tests/storage/test_moments.py).
    """

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()
        self.bytes = 0
        self._size = 0

    def note(self, moment: str, path: Path) -> None:
        when, step = moment.split()
        if step == "write":
            size = path.stat().st_size if path.exists() else 0
            self.bytes += size - self._size if when == "after" else 0
            self._size = size
        if when == "after":
            self.steps[step] += 1


@contextmanager
def disk() -> Iterator[Disk]:
    """Count the changes of the disk meanwhile."""
    counted = Disk()
    with listening(counted.note):
        yield counted
