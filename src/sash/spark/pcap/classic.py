"""Classic pcap: a header of 24 bytes, then records.

    record:  seconds │ micro- or nanoseconds │ bytes captured │ bytes on the wire │ the captured bytes ...
             4 bytes   4                       4                4

All numbers are in the byte order of the machine that wrote the file, which the first four bytes of the file show.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sash.spark.pcap.capture import BrokenCaptureError, Bytes, Int64s, Records, words

# By the first four bytes: whether numbers are big-endian, and how many parts of a second make a microsecond.
MAGICS = {
    bytes.fromhex("d4c3b2a1"): (False, 1),
    bytes.fromhex("a1b2c3d4"): (True, 1),
    bytes.fromhex("4d3cb2a1"): (False, 1_000),
    bytes.fromhex("a1b23c4d"): (True, 1_000),
}
_FILE_HEADER = 24
_RECORD_HEADER = 16
# More than any packet has; what other programs refuse, too.
MOST_CAPTURED = 262_144


class Classic:
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
