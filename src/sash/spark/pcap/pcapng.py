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

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.spark.pcap.capture import BrokenCaptureError, Bytes, Int64s, Records, words
from sash.spark.pcap.interfaces import SHORTEST, Interfaces, number_at

SECTION = b"\x0a\x0d\x0d\x0a"
_SECTION, _INTERFACE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 3, 6
_MOST_IN_BLOCK = 16 * 2**20
# Of one section. They are kept while it lasts, so a file must not have any number of them.
MOST_INTERFACES = 65_536
_REASONS = {
    1: "a section header whose byte order is none",
    2: "a block whose length is none",
    3: "a block whose two lengths differ",
}


class Blocks:
    def __init__(self) -> None:
        self._big = False
        # Of the section that the next block belongs to.
        self._interfaces = Interfaces.none()

    def take(self, data: Bytes) -> tuple[Records, int]:
        blocks, orders, taken, broken = _kernel_blocks(data, self._big, _MOST_IN_BLOCK)
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
            self._interfaces = interfaces.since(int(firsts[-1]))
        return records, taken

    def _declare(
        self, data: Bytes, blocks: Int64s, orders: NDArray[np.bool_], types: NDArray[np.uint32]
    ) -> tuple[Interfaces, Int64s, Int64s]:
        is_interface = types == _INTERFACE
        ends = len(self._interfaces) + np.cumsum(is_interface)
        # What was declared before a section header is not its section's; it only grows, so the last header's counts.
        firsts = np.maximum.accumulate(np.where(types == _SECTION, ends, 0))
        lengths = words(data, blocks + 4, orders)
        _check(blocks, is_interface & (lengths < SHORTEST), "an interface block that is shorter than its own fields")
        _check(blocks, ends - firsts > MOST_INTERFACES, f"a section of more than {MOST_INTERFACES:,} interfaces")
        declared = Interfaces.of_blocks(data, blocks[is_interface], orders[is_interface])
        return self._interfaces.and_then(declared), firsts, ends


def _packets(
    data: Bytes,
    blocks: Int64s,
    orders: NDArray[np.bool_],
    simple: NDArray[np.bool_],
    interfaces: Interfaces,
    firsts: Int64s,
    ends: Int64s,
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
def _kernel_blocks(data: Bytes, big: bool, most: int) -> tuple[Int64s, NDArray[np.bool_], int, int]:
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
