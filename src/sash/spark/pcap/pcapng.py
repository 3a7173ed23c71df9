"""pcapng: blocks, some of which are packets.

A file is a chain of blocks:

    block:  type │ length │ body ... │ length again           multiples of 4 bytes
            4      4                    4

    section header    begins a section: its byte order, and the interfaces begin anew
    interface         a link type, and in what units packets of this interface are timed
    enhanced packet   an interface's number, a time, the captured bytes
    simple packet     of the first interface, without a time
    others            are passed over
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.spark.pcap.capture import BrokenCaptureError, Bytes, Int64s, Records, words

SECTION = b"\x0a\x0d\x0d\x0a"
_SECTION, _INTERFACE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 3, 6
_END_OF_OPTIONS, _TSRESOL, _TSOFFSET = 0, 9, 14
_MOST_IN_BLOCK = 16 * 2**20
# Later than any calendar goes; what is later still becomes this.
_LATEST = 2**61
_REASONS = {
    1: "a section header whose byte order is none",
    2: "a block whose length is none",
    3: "a block whose two lengths differ",
}


@dataclass(frozen=True)
class Interface:
    """`resolution` as if_tsresol has it: 10 to the minus that; with the highest bit 2 to the minus the others."""

    link: int
    snap: int
    resolution: int = 6
    offset: int = 0

    def micros(self, ticks: NDArray[np.uint64]) -> Int64s:
        exponent = self.resolution & 0x7F
        if self.resolution > 0x7F or exponent > 19:
            # Nobody writes these; exact all the same.
            units = 2**exponent if self.resolution > 0x7F else 10**exponent
            micros = np.array([min(int(tick) * 1_000_000 // units, _LATEST) for tick in ticks], np.int64)
        elif exponent <= 6:
            factor = 10 ** (6 - exponent)
            micros = np.minimum(ticks, np.uint64(_LATEST // factor)).astype(np.int64) * factor
        else:
            micros = np.minimum(ticks // np.uint64(10 ** (exponent - 6)), np.uint64(_LATEST)).astype(np.int64)
        return micros + max(-_LATEST, min(self.offset * 1_000_000, _LATEST))


class Blocks:
    def __init__(self) -> None:
        self._big = False
        # Of all sections so far, and where those of each section begin.
        self._interfaces: list[Interface] = []
        self._firsts: list[int] = [0]

    def take(self, data: Bytes) -> tuple[Records, int]:
        blocks, orders, taken, broken = _kernel_blocks(data, self._big, _MOST_IN_BLOCK)
        if broken:
            raise BrokenCaptureError(taken, _REASONS[broken])
        types = words(data, blocks, orders)
        sections = self._declare(data, blocks, orders, types)
        if len(orders):
            self._big = bool(orders[-1])
        chosen = (types == _ENHANCED) | (types == _SIMPLE)
        places = blocks[chosen]
        return self._packets(data, places, orders[chosen], types[chosen] == _SIMPLE, sections[chosen]), taken

    def _declare(self, data: Bytes, blocks: Int64s, orders: NDArray[np.bool_], types: NDArray[np.uint32]) -> Int64s:
        """Take note of sections and interfaces; the section of each block."""
        sections = np.full(len(blocks), len(self._firsts) - 1, np.int64)
        for place in np.flatnonzero((types == _SECTION) | (types == _INTERFACE)):
            at = int(blocks[place])
            if types[place] == _SECTION:
                self._firsts.append(len(self._interfaces))
                sections[place:] = len(self._firsts) - 1
            else:
                self._interfaces.append(_interface(data[at:].data, ">" if orders[place] else "<", at))
        return sections

    def _packets(
        self, data: Bytes, blocks: Int64s, orders: NDArray[np.bool_], simple: NDArray[np.bool_], sections: Int64s
    ) -> Records:
        """Of the two kinds of packet the simple one has its length where the other has an interface's number."""
        sizes = words(data, blocks + 4, orders).astype(np.int64)
        room = sizes - np.where(simple, 16, 32)
        _check(blocks, room < 0, "a packet that is shorter than its own fields")
        first = words(data, blocks + 8, orders).astype(np.int64)
        high, low, captured, wire = (
            words(data, np.where(simple, blocks, blocks + field), orders).astype(np.int64) for field in (12, 16, 20, 24)
        )
        numbers, wire = np.where(simple, 0, first), np.where(simple, first, wire)
        known = self._known(blocks, sections, numbers)
        snaps = np.array([each.snap or 2**32 for each in self._interfaces], np.int64)[known]
        captured = np.where(simple, np.minimum(np.minimum(wire, snaps), room), captured)
        _check(blocks, captured > room, "a packet that is longer than its block")
        ticks, micros = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64), np.zeros_like(blocks)
        for interface in np.unique(known):
            of = known == interface
            micros[of] = self._interfaces[interface].micros(ticks[of])
        links = np.array([each.link for each in self._interfaces], np.int64)[known]
        starts = blocks + np.where(simple, 12, 28)
        return Records(data, starts, starts + captured, blocks + sizes, wire, micros, ~simple, links, numbers)

    def _known(self, blocks: Int64s, sections: Int64s, numbers: Int64s) -> Int64s:
        """The packets' interfaces among those of all sections."""
        bounds = np.array([*self._firsts, len(self._interfaces)], np.int64)
        known = bounds[sections] + numbers
        _check(blocks, known >= bounds[sections + 1], "a packet of an interface that its section does not have")
        return known


def _check(blocks: Int64s, wrong: NDArray[np.bool_], reason: str) -> None:
    if wrong.any():
        raise BrokenCaptureError(int(blocks[wrong][0]), reason)


def _interface(body: memoryview, order: str, at: int) -> Interface:
    """From an interface block, options included."""
    (length,) = struct.unpack_from(f"{order}I", body, 4)
    if length < 20:
        raise BrokenCaptureError(at, "an interface block that is shorter than its own fields")
    link, snap = struct.unpack_from(f"{order}HxxI", body, 8)
    resolution, offset, place = 6, 0, 16
    while place + 4 <= length - 4:
        code, size = struct.unpack_from(f"{order}HH", body, place)
        if code == _END_OF_OPTIONS or place + 4 + size > length - 4:
            break
        if code == _TSRESOL and size == 1:
            resolution = body[place + 4]
        elif code == _TSOFFSET and size == 8:
            (offset,) = struct.unpack_from(f"{order}q", body, place + 4)
        place += 4 + (size + 3) // 4 * 4
    return Interface(link, snap, resolution, offset)


@njit(cache=True, nogil=True)
def _kernel_blocks(data: Bytes, big: bool, most: int) -> tuple[Int64s, NDArray[np.bool_], int, int]:
    """Where whole blocks begin, their byte orders, the byte behind the last, and why that begins none (0: no reason).

    `big`: the byte order of the section that `data` begins in.
    """
    room = len(data) // 12 + 1
    blocks, orders = np.empty(room, np.int64), np.empty(room, np.bool_)
    count, at, broken = 0, 0, 0
    while at + 12 <= len(data):
        if data[at] == 0x0A and data[at + 1] == 0x0D and data[at + 2] == 0x0D and data[at + 3] == 0x0A:
            magic = _number(data, at + 8, True)
            if magic != 0x1A2B3C4D and magic != 0x4D3C2B1A:
                broken = 1
                break
            big = magic == 0x1A2B3C4D
        length = _number(data, at + 4, big)
        if length < 12 or length % 4 != 0 or length > most:
            broken = 2
            break
        if at + length > len(data):
            break
        if _number(data, at + length - 4, big) != length:
            broken = 3
            break
        blocks[count], orders[count] = at, big
        count += 1
        at += length
    return blocks[:count], orders[:count], at, broken


@njit(cache=True, inline="always")
def _number(data: Bytes, at: int, big: bool) -> int:
    number = 0
    for place in range(4):
        number = number * 256 + int(data[at + (place if big else 3 - place)])
    return number
