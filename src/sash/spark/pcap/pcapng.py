"""pcapng: a file is a chain of blocks, some of which are packets.

    block:  type │ length │ body ... │ length again           multiples of 4 bytes
            4      4                    4
    section header    begins a section: its byte order, and the interfaces begin anew
    interface         link type │ - │ snap length │ options: code │ size │ value, padded to multiples of 4
                      2           2   4                      2      2
    enhanced packet   an interface's number, a time, the captured bytes
    simple packet     of the first interface, without a time
    others            are passed over

Interfaces are kept in columns: a file may have as many of them as packets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.spark.pcap.capture import BrokenCaptureError, Bytes, Int64s, Records, words

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
        return cls(*kernel_interfaces(data, blocks, orders))

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
def kernel_interfaces(data: Bytes, blocks: Int64s, orders: NDArray[np.bool_]) -> Int64s:
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
    """The number in `size` bytes; 8 bytes have a sign."""
    number = np.int64(0)
    for place in range(size):
        number = (number << 8) | np.int64(data[at + (place if big else size - 1 - place)])
    return int(number)


SECTION = b"\x0a\x0d\x0d\x0a"
_SECTION, _INTERFACE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 3, 6
_MOST_IN_BLOCK = 16 * 2**20
# The most interfaces of one section: they are kept in memory until its end.
MOST_INTERFACES = 65_536
_REASONS = {
    1: "a section header whose byte order is none",
    2: "a block whose length is none",
    3: "a block whose two lengths differ",
}


class Blocks:
    def __init__(self) -> None:
        self._big = False
        # The interfaces of the next block's section.
        self.interfaces = Interfaces.none()

    def take(self, data: Bytes) -> tuple[Records, int]:
        blocks, orders, taken, broken = kernel_blocks(data, self._big, _MOST_IN_BLOCK)
        if broken:
            raise BrokenCaptureError(taken, _REASONS[broken])
        types = words(data, blocks, orders)
        # Where the interfaces of each block's section begin and, at that block, end, among all that are known here.
        interfaces, firsts, ends = self._declare(data, blocks, orders, types)
        chosen = (types == _ENHANCED) | (types == _SIMPLE)
        places, simple = blocks[chosen], types[chosen] == _SIMPLE
        records = _packets(data, places, orders[chosen], simple, interfaces, firsts[chosen], ends[chosen])
        if len(blocks):
            self._big = bool(orders[-1])
            self.interfaces = interfaces.since(int(firsts[-1]))
        return records, taken

    def _declare(
        self, data: Bytes, blocks: Int64s, orders: NDArray[np.bool_], types: NDArray[np.uint32]
    ) -> tuple[Interfaces, Int64s, Int64s]:
        is_interface = types == _INTERFACE
        ends = len(self.interfaces) + np.cumsum(is_interface)
        # Interfaces before a section header are not its section's; numbers only grow, so the last header counts.
        firsts = np.maximum.accumulate(np.where(types == _SECTION, ends, 0))
        lengths = words(data, blocks + 4, orders)
        _check(blocks, is_interface & (lengths < SHORTEST), "an interface block that is shorter than its own fields")
        _check(blocks, ends - firsts > MOST_INTERFACES, f"a section of more than {MOST_INTERFACES:,} interfaces")
        declared = Interfaces.of_blocks(data, blocks[is_interface], orders[is_interface])
        return self.interfaces.and_then(declared), firsts, ends


def _packets(
    data: Bytes,
    blocks: Int64s,
    orders: NDArray[np.bool_],
    simple: NDArray[np.bool_],
    interfaces: Interfaces,
    firsts: Int64s,
    ends: Int64s,
) -> Records:
    """The packets; a simple packet has its length where an enhanced one has an interface's number."""
    sizes = words(data, blocks + 4, orders).astype(np.int64)
    room = sizes - np.where(simple, 16, 32)
    _check(blocks, room < 0, "a packet that is shorter than its own fields")
    first = words(data, blocks + 8, orders).astype(np.int64)
    high, low, captured, wire = (
        words(data, np.where(simple, blocks, blocks + field), orders).astype(np.int64) for field in (12, 16, 20, 24)
    )
    numbers, wire = np.where(simple, 0, first), np.where(simple, first, wire)
    _check(blocks, firsts + numbers >= ends, "a packet of an interface that its section does not have before it")
    of = interfaces.at(firsts + numbers)
    snaps = np.where(of.snaps == 0, 2**32, of.snaps)
    captured = np.where(simple, np.minimum(np.minimum(wire, snaps), room), captured)
    _check(blocks, captured > room, "a packet that is longer than its block")
    micros = of.micros((high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64))
    starts = blocks + np.where(simple, 12, 28)
    return Records(data, starts, starts + captured, blocks + sizes, wire, micros, ~simple, of.links, numbers)


def _check(blocks: Int64s, wrong: NDArray[np.bool_], reason: str) -> None:
    if wrong.any():
        raise BrokenCaptureError(int(blocks[wrong][0]), reason)


@njit(cache=True, nogil=True)
def kernel_blocks(data: Bytes, big: bool, most: int) -> tuple[Int64s, NDArray[np.bool_], int, int]:
    """Where whole blocks begin, their byte orders, the byte behind the last, and why that begins none (0: no reason).

    `big`: the byte order of the section that `data` begins in.
    """
    room = len(data) // 12 + 1
    blocks, orders = np.empty(room, np.int64), np.empty(room, np.bool_)
    count, at, broken = 0, 0, 0
    while at + 12 <= len(data):
        if data[at] == 0x0A and data[at + 1] == 0x0D and data[at + 2] == 0x0D and data[at + 3] == 0x0A:
            magic = number_at(data, at + 8, 4, True)
            if magic != 0x1A2B3C4D and magic != 0x4D3C2B1A:
                broken = 1
                break
            big = magic == 0x1A2B3C4D
        length = number_at(data, at + 4, 4, big)
        if length < 12 or length % 4 != 0 or length > most:
            broken = 2
            break
        if at + length > len(data):
            break
        if number_at(data, at + length - 4, 4, big) != length:
            broken = 3
            break
        blocks[count], orders[count] = at, big
        count += 1
        at += length
    return blocks[:count], orders[:count], at, broken
