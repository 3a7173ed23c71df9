"""The interfaces of a pcapng file, in columns: a file may have as many of them as packets.

interface block:  type │ length │ link type │ - │ snap length │ options ..      │ length again
                  4      4        2           2   4             code│size│value   4
                                                                2    2    padded to multiples of 4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.spark.pcap.capture import Bytes, Int64s

SHORTEST = 20
# Later than any calendar goes; what is later still becomes this.
_LATEST = 2**61
_MICROS = 1_000_000
_END_OF_OPTIONS, _TSRESOL, _TSOFFSET = 0, 9, 14
_MICROSECONDS = 6


@dataclass(frozen=True)
class Interfaces:
    """`resolutions` as if_tsresol has them: 10 to the minus that; with the highest bit 2 to the minus the others.

    `offsets` are seconds to be added to every time. A snap length of 0 is none.
    """

    links: Int64s
    snaps: Int64s
    resolutions: Int64s
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.links)

    @classmethod
    def none(cls) -> Interfaces:
        return cls(*np.empty((4, 0), np.int64))

    @classmethod
    def of_blocks(cls, data: Bytes, blocks: Int64s, orders: NDArray[np.bool_]) -> Interfaces:
        """From where interface blocks begin, each of which is at least as long as its own fields."""
        return cls(*_kernel_interfaces(data, blocks, orders))

    def and_then(self, others: Interfaces) -> Interfaces:
        return Interfaces(*(np.concatenate(pair) for pair in zip(self._columns, others._columns, strict=True)))

    def at(self, places: Int64s) -> Interfaces:
        return Interfaces(*(column[places] for column in self._columns))

    def since(self, first: int) -> Interfaces:
        """Copied, so that the others are not kept for its sake."""
        return Interfaces(*(column[first:].copy() for column in self._columns))

    def micros(self, ticks: NDArray[np.uint64]) -> Int64s:
        """The time of a packet of each interface."""
        micros = np.zeros(len(ticks), np.int64)
        # By resolution, of which there are 256 at most, and not by interface.
        for resolution in np.unique(self.resolutions):
            of = self.resolutions == resolution
            micros[of] = _micros(ticks[of], int(resolution))
        return micros + np.clip(self.offsets, -_LATEST // _MICROS, _LATEST // _MICROS) * _MICROS

    @property
    def _columns(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        return self.links, self.snaps, self.resolutions, self.offsets


def _micros(ticks: NDArray[np.uint64], resolution: int) -> Int64s:
    exponent = resolution & 0x7F
    if resolution > 0x7F or exponent > 19:
        # Nobody writes these; exact all the same.
        units = 2**exponent if resolution > 0x7F else 10**exponent
        return np.array([min(int(tick) * _MICROS // units, _LATEST) for tick in ticks], np.int64)
    if exponent <= 6:
        factor = 10 ** (6 - exponent)
        return np.minimum(ticks, np.uint64(_LATEST // factor)).astype(np.int64) * factor
    return np.minimum(ticks // np.uint64(10 ** (exponent - 6)), np.uint64(_LATEST)).astype(np.int64)


@njit(cache=True, nogil=True)
def _kernel_interfaces(data: Bytes, blocks: Int64s, orders: NDArray[np.bool_]) -> Int64s:
    """Link types, snap lengths, resolutions and offsets, one row of the result for each."""
    found = np.zeros((4, len(blocks)), np.int64)
    for number in range(len(blocks)):
        at, big = blocks[number], orders[number]
        end = at + number_at(data, at + 4, 4, big) - 4
        found[0, number] = number_at(data, at + 8, 2, big)
        found[1, number] = number_at(data, at + 12, 4, big)
        found[2, number] = _MICROSECONDS
        place = at + 16
        while place + 4 <= end:
            code, size = number_at(data, place, 2, big), number_at(data, place + 2, 2, big)
            if code == _END_OF_OPTIONS or place + 4 + size > end:
                break
            if code == _TSRESOL and size == 1:
                found[2, number] = data[place + 4]
            elif code == _TSOFFSET and size == 8:
                found[3, number] = number_at(data, place + 4, 8, big)
            place += 4 + (size + 3) // 4 * 4
    return found


@njit(cache=True, inline="always")
def number_at(data: Bytes, at: int, size: int, big: bool) -> int:
    """Of `size` bytes; of 8 with its sign."""
    number = np.int64(0)
    for place in range(size):
        number = (number << 8) | np.int64(data[at + (place if big else size - 1 - place)])
    return int(number)
