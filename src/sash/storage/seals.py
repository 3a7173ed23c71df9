"""Files that others write, such as Spark's executors: whether they are still what they were.

Their sizes and checksums are written down by whoever names them, after they were written. A size is looked at whenever
that is asked for; a checksum costs a pass over the file, so it is looked at once in a process, when the file is about
to be read as a whole. What this process has written itself a moment ago is taken to be what it was.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path

# A pass over a file has so much of it in memory.
_PIECE = 1 << 20


def checksum_of(path: Path) -> int:
    """CRC-32 of a file.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "file"
    >>> _ = path.write_bytes(b"123456789")
    >>> hex(checksum_of(path))
    '0xcbf43926'
    """
    found = 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            found = zlib.crc32(piece, found)
    return found


class Seals:
    """From any thread: whoever looks at a file that another looks at does so, too."""

    def __init__(self) -> None:
        self._known: set[Path] = set()

    def trust(self, paths: Iterable[Path]) -> None:
        """These were written, and their checksums taken, by this process."""
        # Another set, since others may go through this one.
        self._known = self._known.union(paths)

    def broken(self, path: Path, size: int, checksum: int | None) -> str | None:
        """What is wrong with a file, or None; FileNotFoundError where it is gone. Without a checksum, by its size."""
        if path in self._known:
            return None
        if (wrong := wrong_size(path, size)) is not None:
            return wrong
        if checksum is not None and checksum_of(path) != checksum:
            return "its checksum is wrong"
        self.trust([path])
        return None

    def forget_all_but(self, paths: Collection[Path]) -> None:
        self._known = {path for path in self._known if path in paths}

    def forget_in(self, directories: Collection[Path]) -> None:
        """Files of directories that are gone."""
        self._known = {path for path in self._known if path.parent not in directories}


def wrong_size(path: Path, size: int) -> str | None:
    found = os.stat(path).st_size
    return None if found == size else f"it has {found:,} bytes instead of {size:,}"
