"""A capture file, read piece by piece: the records that are whole.

The first four bytes of a file tell its kind: classic pcap in either byte order, with micro- or nanoseconds, or pcapng;
each may be compressed with gzip. Memory does not depend on the length of a file: it is read in pieces, and an
incomplete record at the end of a piece comes first in the next.

A file that is still written ends in the middle of a record, as does one whose writer was killed. That is no error: the
record is left out, or read later, once it is whole. A record that cannot be one (longer than any packet) is an error
that names the file and the byte.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.core.errors import SourceError

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

# The bytes of a file that are in memory at a time.
PIECE = 16 * 2**20
_GZIP = b"\x1f\x8b"


class BrokenCaptureError(Exception):
    """`at`: the byte, counted from the beginning of the given data, at which no record can begin."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


@dataclass(frozen=True)
class Records:
    """Captured packets, one place of each array for each.

    `starts` and `ends` are the captured bytes in `data`; `record_ends` is where the whole record ends there. `lengths`
    are those on the wire. `micros` is the time, where `timed` says that there is one. `links` are link types.
    """

    data: Bytes
    starts: Int64s
    ends: Int64s
    record_ends: Int64s
    lengths: Int64s
    micros: Int64s
    timed: NDArray[np.bool_]
    links: Int64s
    interfaces: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    def where(self, chosen: NDArray[np.bool_]) -> Records:
        names = ("starts", "ends", "record_ends", "lengths", "micros", "timed", "links", "interfaces")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})


class Format(Protocol):
    """A format of captures; it remembers facts of earlier parts of the file that later records need."""

    def take(self, data: Bytes) -> tuple[Records, int]:
        """The whole records that `data` begins with, and how many bytes these are."""
        ...


def read_capture(path: str | Path, after: int = 0, until: int | None = None) -> Iterator[Records]:
    """The records that end behind the byte `after` and not behind the byte `until` (None: the end of the file).

    A record belongs to one such range only, so a growing file is read by consecutive ranges. The bytes of a compressed
    file are counted after decompression.
    """
    with _opened(Path(path)) as file:
        rest, at = b"", 0
        form: Format | None = None
        while True:
            size = PIECE if until is None else min(PIECE, until - at - len(rest))
            piece = file.read(size) if size > 0 else b""
            data = rest + piece
            try:
                if form is None and len(data) >= 4:
                    form = _format_of(data[:4])
                if form is None:
                    return
                records, taken = form.take(np.frombuffer(data, np.uint8))
            except BrokenCaptureError as error:
                raise SourceError(f"{path} is broken at byte {at + error.at}: {error}") from None
            if len(records):
                yield records if after <= at else records.where(records.record_ends + at > after)
            if not piece:
                return
            rest, at = data[taken:], at + taken


def _format_of(magic: bytes) -> Format:
    from sash.spark.pcap.pcapng import SECTION, Blocks

    if magic in MAGICS:
        return Classic(*MAGICS[magic])
    if magic == SECTION:
        return Blocks()
    raise BrokenCaptureError(0, f"it begins with {magic.hex()}, which is neither pcap nor pcapng")


def is_compressed(path: str | Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


class _GrowingGzipFile(gzip.GzipFile):
    """Reads a compressed file that ends too early as one that is still being written."""

    def read(self, size: int | None = -1) -> bytes:
        parts, missing = [], size or 0
        try:
            while missing > 0 and (part := self.read1(missing)):
                parts.append(part)
                missing -= len(part)
        except EOFError:
            pass
        except (OSError, zlib.error) as error:
            raise SourceError(f"{self.name} cannot be decompressed: {error}") from None
        return b"".join(parts)


def _opened(path: Path) -> gzip.GzipFile | BufferedReader:
    return _GrowingGzipFile(path) if is_compressed(path) else open(path, "rb")


def words(data: Bytes, places: Int64s, big: bool | NDArray[np.bool_]) -> NDArray[np.uint32]:
    """The four bytes at each place as a number, in its byte order."""
    little = data[places[:, None] + np.arange(4)].view("<u4").ravel()
    return np.where(big, little.byteswap(), little).astype(np.uint32)


# -- classic pcap --------------------------------------------------------------------------------------


# By the first four bytes: whether numbers are big-endian, and how many parts of a second make a microsecond.
MAGICS = {
    bytes.fromhex("d4c3b2a1"): (False, 1),
    bytes.fromhex("a1b2c3d4"): (True, 1),
    bytes.fromhex("4d3cb2a1"): (False, 1_000),
    bytes.fromhex("a1b23c4d"): (True, 1_000),
}
_FILE_HEADER = 24
_RECORD_HEADER = 16
# More than any packet has; other programs refuse more, too.
MOST_CAPTURED = 262_144


class Classic:
    """Classic pcap: a header of 24 bytes, then records.

        record:  seconds │ micro- or nanoseconds │ bytes captured │ bytes on the wire │ the captured bytes ...
                 4 bytes   4                       4                4

    All numbers are in the byte order of the machine that wrote the file, which the first four bytes of the file show.
    """

    def __init__(self, big: bool, parts: int) -> None:
        self._big = big
        self._parts = parts
        self._link: int | None = None

    def take(self, data: Bytes) -> tuple[Records, int]:
        start = 0
        if self._link is None and len(data) >= _FILE_HEADER:
            # The upper bits say how long a frame check sequence is.
            self._link = int(words(data, np.array([20]), self._big)[0]) & 0xFFFF
            start = _FILE_HEADER
        headers, taken = np.empty(0, np.int64), 0
        if self._link is not None:
            headers, taken, is_broken = _kernel_headers(data, start, self._big, MOST_CAPTURED)
            if is_broken:
                captured = words(data, np.array([taken + 8]), self._big)[0]
                raise BrokenCaptureError(taken, f"a packet of {captured} captured bytes; at most {MOST_CAPTURED}")
        return self._records(data, headers), taken

    def _records(self, data: Bytes, headers: Int64s) -> Records:
        seconds, fraction, captured, lengths = (
            words(data, headers + field, self._big).astype(np.int64) for field in (0, 4, 8, 12)
        )
        starts = headers + _RECORD_HEADER
        ends = starts + captured
        return Records(
            data, starts, ends, ends, lengths,
            micros=seconds * 1_000_000 + fraction // self._parts,
            timed=np.ones(len(headers), np.bool_),
            links=np.full(len(headers), self._link or 0, np.int64),
            interfaces=np.zeros(len(headers), np.int64),
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _kernel_headers(data: Bytes, start: int, big: bool, most: int) -> tuple[Int64s, int, bool]:
    """Where whole records begin, the byte behind the last of them, and whether one there cannot be a record."""
    headers = np.empty((len(data) - start) // _RECORD_HEADER + 1, np.int64)
    count, at = 0, start
    while at + _RECORD_HEADER <= len(data):
        captured = 0
        for place in range(4):
            captured = captured * 256 + int(data[at + 8 + (place if big else 3 - place)])
        if captured > most:
            return headers[:count], at, True
        if at + _RECORD_HEADER + captured > len(data):
            break
        headers[count] = at
        count += 1
        at += _RECORD_HEADER + captured
    return headers[:count], at, False
