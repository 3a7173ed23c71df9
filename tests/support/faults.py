"""Faults of our own writing, one after the other: a process that dies, a disk that is full, a file that rots."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sash.core.errors import CheckpointError
from sash.core.faults import listening


class Killed(BaseException):
    """The process is gone: nothing after this runs."""


class FullDisk:
    """Every write fails from a moment on."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.moments = 0
        self.has_struck = False

    def __call__(self, moment: str, path: Path) -> None:
        self.moments += 1
        if self.moments >= self.at and moment in ("before write", "after write"):
            self.has_struck = True
            raise OSError(errno.ENOSPC, "No space left on device")


class Death:
    """The process dies at a moment. A file that was being written may be there by half, until it is synced."""

    def __init__(self, at: int, half: bool = False) -> None:
        self.at = at
        self.half = half
        self.moments = 0
        self.seen: list[str] = []
        self._sizes: dict[Path, int] = {}

    def __call__(self, moment: str, path: Path) -> None:
        self.moments += 1
        self.seen.append(f"{moment} {path.name}")
        if moment == "before write":
            self._sizes[path] = path.stat().st_size if path.exists() else 0
        if self.moments == self.at:
            if self.half and moment in ("after write", "before sync") and path.is_file():
                before, now = self._sizes.get(path, 0), path.stat().st_size
                data = path.read_bytes()
                path.write_bytes(data[: (before + now) // 2] if now > before else data[: now // 2])
            raise Killed


@contextmanager
def dying(at: int, half: bool = False) -> Iterator[Death]:
    death = Death(at, half)
    with listening(death):
        yield death


@contextmanager
def survived(fault: Death | FullDisk) -> Iterator[None]:
    """What a fault ends is over; a full disk says so in words."""
    try:
        with listening(fault):
            yield
    except Killed:
        pass
    except CheckpointError as error:
        if "cannot be written: No space left on device" not in str(error):
            raise


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(bytes(data))


DAMAGES = {"truncated": truncate, "empty": empty, "flipped": flip, "missing": Path.unlink}
