"""Which files readers of this process still need; the others may be deleted.

A reader holds the files of the state that it reads. Files that an update has replaced are given to `discard`: they
go at once, or when the last reader that holds them lets go.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from sash.storage.files import remove


class Holds:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: Counter[Path] = Counter()
        self._discarded: set[Path] = set()

    def hold(self, paths: Iterable[Path]) -> None:
        with self._lock:
            self._holders.update(paths)

    def release(self, paths: Iterable[Path]) -> None:
        with self._lock:
            self._holders.subtract(paths)
            self._holders += Counter()
            self._delete_free()

    def discard(self, paths: Iterable[Path]) -> None:
        with self._lock:
            self._discarded.update(paths)
            self._delete_free()

    def _delete_free(self) -> None:
        free = {path for path in self._discarded if path not in self._holders}
        self._discarded -= free
        for path in free:
            # What cannot be deleted now is an orphan, which the next owner of the archive removes.
            with contextlib.suppress(OSError):
                remove(path)
