"""The workload of section 7.5.1: groups of top lists and percentiles over a window of packets, and one-time queries.

A sub-window has the packets of t seconds, with addresses out of a thousand and sizes from 1 to 100; its rate is up to
ten times more or less than the usual one. A group is five queries over different lengths of the window that read it
together: the scan counts by address, and the answers are made from the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ADDRESSES, SIZES = 1_000, 100
# Sixty times the thesis' rate: our scans are that much faster than its hash tables.
PACKETS_PER_SECOND = 60_000
GROUP = 5
TOP = 10
PERCENTILES = (25, 50, 75, 90, 95, 99)
# The average of 10 ** u for u evenly between -1 and 1, so that the average rate is the usual one.
MEAN_DEVIATION = (10 - 0.1) / (2 * np.log(10))
# Different sub-windows that are made; then they come again.
DIFFERENT = 8

Counts = NDArray[np.float64]


class Packets(NamedTuple):
    source: NDArray[np.int16]
    destination: NDArray[np.int16]
    size: NDArray[np.uint8]


@dataclass(frozen=True)
class QueryGroup:
    """Five queries of one kind; `lengths` are their windows, in sub-windows."""

    by_source: bool
    is_top: bool
    lengths: tuple[int, ...]

    @property
    def count(self) -> int:
        return max(self.lengths)

    def scan(self, packets: Packets) -> Counts:
        address = packets.source if self.by_source else packets.destination
        return np.bincount(address, None if self.is_top else packets.size, ADDRESSES).astype(np.float64)

    def answers(self, parts: list[Counts]) -> list[NDArray[np.float64]]:
        """From the youngest sub-window back, so that a shorter window's counts are part of a longer one's."""
        sums = np.cumsum(np.stack(parts[::-1]), axis=0)
        return [self._answer(sums[length - 1]) for length in self.lengths]

    def _answer(self, counts: Counts) -> NDArray[np.float64]:
        if self.is_top:
            return np.argpartition(counts, -TOP)[-TOP:].astype(np.float64)
        return np.percentile(counts, PERCENTILES)


@dataclass(frozen=True)
class Question:
    """A one-time query: the packets of some addresses over some length of the window."""

    count: int
    first: int
    last: int

    def scan(self, packets: Packets) -> int:
        return int(np.count_nonzero((packets.source >= self.first) & (packets.source <= self.last)))


@dataclass(frozen=True)
class Workload:
    sub_windows: list[Packets]
    groups: list[QueryGroup]
    question: Callable[[], Question]
    # Of the stream, until each one-time query is asked.
    pauses: Callable[[], float]


@lru_cache(maxsize=2)
def sub_windows(t: int, seed: int) -> list[Packets]:
    random = np.random.default_rng([seed, t])

    def packets() -> Packets:
        number = int(t * PACKETS_PER_SECOND * 10.0 ** random.uniform(-1, 1) / MEAN_DEVIATION)
        source, destination = random.integers(0, ADDRESSES, (2, number), dtype=np.int16)
        return Packets(source, destination, random.integers(1, SIZES + 1, number, dtype=np.uint8))

    return [packets() for _ in range(DIFFERENT)]


def workload(t: int, slots: int, queries: int, seed: int) -> Workload:
    random = np.random.default_rng([seed, t, slots])

    def group() -> QueryGroup:
        lengths = tuple(int(each) for each in random.integers(1, slots + 1, GROUP))
        return QueryGroup(bool(random.integers(2)), bool(random.integers(2)), lengths)

    asking = np.random.default_rng([seed, t, slots, 1])
    return Workload(
        sub_windows(t, seed),
        [group() for _ in range(queries // GROUP)],
        lambda: Question(int(asking.integers(1, slots + 1)), *sorted(map(int, asking.integers(0, ADDRESSES, 2)))),
        lambda: float(asking.exponential(1.0)),
    )
