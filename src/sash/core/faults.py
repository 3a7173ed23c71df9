"""Moments at which our own writing may break off: before and after every write, sync, rename, removal and truncation,
and when a directory is made.

    before write ─ after write ─ before sync ─ after sync ─ before rename ─ after rename ─ before remove ─ after remove

The helpers of storage/files.py pass through these moments, and tests/storage/test_moments.py looks for steps that do
not. Only tests listen: at a moment they raise an error, as a full disk does, or kill the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Listener = Callable[[str, Path], None]
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call back with each moment's name and its file."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def around(step: str, path: Path) -> Iterator[None]:
    """A step that changes the disk.

    >>> with listening(lambda moment, path: print(moment, path)), around("rename", Path("manifest.json")):
    ...     print("renamed")
    before rename manifest.json
    renamed
    after rename manifest.json
    """
    _reached(f"before {step}", path)
    yield
    _reached(f"after {step}", path)


def _reached(moment: str, path: Path) -> None:
    for listener in tuple(_listeners):
        listener(moment, path)
