"""Which sub-index a record belongs to: the doubly partitioned index (thesis, 4.3) and the wave index (2.3.4).

Time is cut into *slots* of one update interval (delta): slot q is (q * delta, (q + 1) * delta], counted from 1970,
so that an archive finds its slots again after a restart. A record has an insertion slot, in one of G partitions, and an
expiry slot, in one of E; together they name one of G * E sub-indices. An update inserts into a row and deletes from a
column of them: G + E - 1 sub-indices, however many there are.

Chronological: a partition has consecutive slots. Round robin: neighbours take turns, so that the sub-indices have about
the same size (theorem 4.1). Random: round robin whose rounds each begin at a random partition (4.3.3), so that a rate
that rises in every second update does not fill the same partitions each time. A wave index is a chronological layout
with one partition of the other kind. If G does not divide the slots of a lifetime, a chronological partition has a slot
more or less than the next.

PARTITION AUTO follows the guidelines of the thesis (4.4.6):

                      few queries         many queries
    small data        NoRebuild 4 x 4     Rebuild 2 x 2
    large data        NoRebuild 3 x 3     NoRebuild 2 x 2

The thesis measured 500 MB as small and 5 GB as large, with a query of each kind per update, and gives no limits; the
limits here lie between (the geometric mean, and some ten times its queries).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sash.core.time import Micros

LARGE_FROM_BYTES = 1_600_000_000
MANY_FROM_QUERIES = 20.0
# A choice stays until the measurements exceed a limit by this factor: a change rewrites everything.
HYSTERESIS = 2.0


@dataclass(frozen=True)
class PartitionChoice:
    g: int
    e: int
    strategy: str


def choose(size: float, queries: float, slots: int) -> PartitionChoice:
    """The choice for a number of bytes, of queries per update, and of updates in a lifetime.

    >>> choose(500e6, 2, 8)
    PartitionChoice(g=4, e=4, strategy='no_rebuild')
    """
    large, many = size >= LARGE_FROM_BYTES, queries >= MANY_FROM_QUERIES
    if many:
        side, strategy = 2, "no_rebuild" if large else "rebuild"
    else:
        side, strategy = (3 if large else 4), "no_rebuild"
    side = max(2, min(side, slots))
    return PartitionChoice(side, side, strategy)


def rechoose(current: PartitionChoice, size: float, queries: float, slots: int) -> PartitionChoice:
    """The choice for the current measurements; the old choice while the figures are near a limit."""
    around = {
        choose(size * by, queries * often, slots)
        for by in (1 / HYSTERESIS, HYSTERESIS)
        for often in (1 / HYSTERESIS, HYSTERESIS)
    }
    return around.pop() if len(around) == 1 else current


WAVE = "wave"


@dataclass(frozen=True)
class ArchiveLayout(ABC):
    """Sub-indices are numbered from 0: that of insertion partition i and expiry partition j is i * E + j.

    >>> layout = RoundRobin(lifetime=16, every=2, g=2, e=2)
    >>> layout.inserts_into(18), layout.deletes_from(18), layout.touched(16, 18)
    ([0, 1], [0, 2], [0, 1, 2])
    """

    lifetime: Micros
    every: Micros
    g: int
    e: int

    @property
    def slots(self) -> int:
        """p: how many updates there are in the longest lifetime."""
        return self.lifetime // self.every

    @property
    def n(self) -> int:
        return self.g * self.e

    @abstractmethod
    def partition(self, slot: NDArray[np.int64], partitions: int) -> NDArray[np.int64]:
        """The partition of each slot, out of `partitions`."""

    def slot(self, t: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot of each time; a multiple of delta ends its slot."""
        return (t - 1) // self.every

    def place(self, inserted: NDArray[np.int64], expires: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sub-index of each record."""
        row = self.partition(self.slot(inserted), self.g)
        column = self.partition(self.slot(expires), self.e)
        return row * self.e + column

    def inserts_into(self, now: Micros) -> list[int]:
        """The sub-indices that the update at `now` inserts into: a row."""
        row = self._partition_at(now, self.g)
        return [row * self.e + column for column in range(self.e)]

    def deletes_from(self, now: Micros) -> list[int]:
        """The sub-indices that the update at `now` deletes from: a column."""
        column = self._partition_at(now, self.e)
        return [row * self.e + column for row in range(self.g)]

    def touched(self, since: Micros, now: Micros) -> list[int]:
        """The sub-indices that all updates after `since` up to `now` touch; G + E - 1 for one update."""
        times = range(since + self.every, now + 1, self.every)
        return sorted({each for time in times for each in (*self.inserts_into(time), *self.deletes_from(time))})

    def _partition_at(self, now: Micros, partitions: int) -> int:
        return int(self.partition(self.slot(np.array([now])), partitions)[0])


class Chronological(ArchiveLayout):
    """Consecutive slots in one partition (figure 4.1)."""

    def partition(self, slot: NDArray[np.int64], partitions: int) -> NDArray[np.int64]:
        return slot % self.slots * partitions // self.slots


class RoundRobin(ArchiveLayout):
    """Neighbouring slots in different partitions (figure 4.2, algorithm 1)."""

    def partition(self, slot: NDArray[np.int64], partitions: int) -> NDArray[np.int64]:
        return slot % partitions


# The steps of `scattered`: a shift, and a factor below 2**31, so that Spark's 64 bits hold every product.
SCATTER_SHIFT, SCATTER_FACTOR, SCATTER_MASK = 16, 0x45D9F3B, 0xFFFFFFFF


def scattered(number: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number of 32 bits that looks random, the same in every process; spark/archive_frames.py has it in SQL."""
    found = number & SCATTER_MASK
    for _ in range(2):
        found = ((found >> SCATTER_SHIFT) ^ found) * SCATTER_FACTOR & SCATTER_MASK
    return (found >> SCATTER_SHIFT) ^ found


class RandomRounds(ArchiveLayout):
    """Every partition has one slot of a round, as in round robin, but no round says where the next begins."""

    def partition(self, slot: NDArray[np.int64], partitions: int) -> NDArray[np.int64]:
        return (slot + scattered(slot // partitions)) % partitions


LAYOUTS: dict[str, type[ArchiveLayout]] = {
    "round_robin": RoundRobin,
    "random": RandomRounds,
    "chronological": Chronological,
    WAVE: Chronological,
}
