"""Buffers for the live tuples of an operator (thesis 3.5.2): a buffer is a list of immutable chunks.

    FIFO            | chunk | chunk | chunk | <- new        WEAKEST: the oldest chunks expire first, as wholes
    calendar queue  day 0 |..|  day 1 |....|  day 2 |..|    WEAK: a tuple lies in the partition of its expiry;
                    the partitions whose time has passed are dropped
    hashed          slot 0 |..| slot 1 |...| slot 2 |.|     STRICT: a tuple lies in the slot of its identity;
                    a negative tuple makes one slot anew

An expired tuple may stay until its whole chunk goes (lazy expiry); readers skip it. A chunk is an Arrow table: the
tuple's columns, then `_ts`, `_exp` and its ids. A chunk that was read from a file remembers its place there, so that an
epoch writes only new chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.changes import EXP, NEVER, TS, Changes, UpdatePattern, together

_ID = "_id"


@dataclass(frozen=True)
class ChunkPlace:
    """The place of a chunk: some bytes of a file, and their checksum."""

    file: str
    offset: int
    length: int
    checksum: int


@dataclass(frozen=True, eq=False)
class Chunk:
    """`partition` is its day in a calendar queue, 0 elsewhere."""

    tuples: Changes
    partition: int = 0
    place: ChunkPlace | None = None

    def __len__(self) -> int:
        return len(self.tuples)

    @cached_property
    def latest(self) -> int:
        """When the last of its tuples expires."""
        return int(self.tuples.exp.max(initial=0))

    def to_table(self) -> pa.Table:
        table = self.tuples.rows.append_column(TS, pa.array(self.tuples.ts)).append_column(
            EXP, pa.array(self.tuples.exp)
        )
        for place in range(self.tuples.ids.shape[1]):
            table = table.append_column(f"{_ID}{place}", pa.array(self.tuples.ids[:, place]))
        return table


def tuples_of(table: pa.Table) -> Changes:
    """The inverse of `to_table`."""
    width = sum(name.startswith(_ID) and name[len(_ID) :].isdigit() for name in table.schema.names)
    hidden = [TS, EXP, *(f"{_ID}{place}" for place in range(width))]
    ts, exp, *ids = (np.asarray(table[name], dtype=np.int64) for name in hidden)
    rows = table.drop_columns(hidden)
    stacked = np.stack(ids, axis=1) if ids else np.zeros((len(ts), 0), dtype=np.int64)
    return Changes(rows, ts, exp, np.ones(len(ts), dtype=np.int8), stacked)


# More chunks than this in one partition are merged into one.
MOST_CHUNKS = 8
PARTITIONS, MOST_PARTITIONS = 10, 50


def adapted(tuples: int) -> int:
    """How many partitions for a number of tuples: chunks are neither tiny nor large.

    >>> adapted(100), adapted(50_000), adapted(10_000_000)
    (10, 25, 50)
    """
    return min(MOST_PARTITIONS, max(PARTITIONS, tuples // 2_000))


class Buffer(ABC):
    """`chunks` is the stored state; a buffer is made from it and leaves another one behind."""

    kind: ClassVar[str]

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self.chunks = list(chunks)

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    @abstractmethod
    def partition_of(self, tuples: Changes) -> NDArray[np.int64]:
        """The partition that each tuple belongs to."""

    def add(self, tuples: Changes) -> None:
        if not len(tuples):
            return
        partitions = self.partition_of(tuples)
        for partition in np.unique(partitions):
            self.chunks.append(Chunk(tuples.where(partitions == partition), int(partition)))
        self._merge()

    def expire(self, now: int) -> None:
        """Drop the chunks without a tuple that lives after `now`; rewrite chunks that are mostly dead."""
        living = [chunk for chunk in self.chunks if chunk.latest > now]
        self.chunks = [_lightened(chunk, now) for chunk in living]

    def tuples(self) -> list[Changes]:
        """All stored tuples, chunk by chunk, including expired ones that are still there."""
        return [chunk.tuples for chunk in self.chunks]

    def replace(self, tuples: Changes) -> None:
        """Forget everything and keep these."""
        self.chunks = []
        self.add(tuples)

    def drop(self, gone: NDArray[np.bool_]) -> None:
        """Drop some of `tuples`, by their places: only the chunks that hold one of them are rewritten."""
        kept, first = [], 0
        for chunk in self.chunks:
            hit = gone[first : first + len(chunk)]
            first += len(chunk)
            if not hit.any():
                kept.append(chunk)
            elif not hit.all():
                kept.append(Chunk(chunk.tuples.where(~hit), chunk.partition))
        self.chunks = kept

    def _merge(self) -> None:
        """Partitions with many small chunks get one: few files, and few pieces to read."""
        counted: dict[int, list[Chunk]] = {}
        for chunk in self.chunks:
            counted.setdefault(chunk.partition, []).append(chunk)
        for partition, chunks in counted.items():
            if len(chunks) > MOST_CHUNKS:
                place = self.chunks.index(chunks[0])
                self.chunks = [chunk for chunk in self.chunks if chunk not in chunks]
                self.chunks.insert(place, Chunk(together(chunk.tuples for chunk in chunks), partition))


def _lightened(chunk: Chunk, now: int) -> Chunk:
    """Keep the stored tuples below twice the live ones; every tuple is moved a few times only."""
    lives = chunk.tuples.exp > now
    if 2 * int(lives.sum()) >= len(chunk):
        return chunk
    return Chunk(chunk.tuples.where(lives), chunk.partition)


class Fifo(Buffer):
    """Tuples expire in the order in which they came."""

    kind = "FIFO"

    def partition_of(self, tuples: Changes) -> NDArray[np.int64]:
        return np.zeros(len(tuples), dtype=np.int64)

    def _merge(self) -> None:
        """Merge the smaller neighbours only: a chunk of everything would never expire as a whole."""
        while len(self.chunks) > 4 * MOST_CHUNKS:
            sizes = [len(one) + len(other) for one, other in zip(self.chunks, self.chunks[1:], strict=False)]
            place = int(np.argmin(sizes))
            merged = together(chunk.tuples for chunk in self.chunks[place : place + 2])
            self.chunks[place : place + 2] = [Chunk(merged)]


class Linear(Buffer):
    """A plain list, as in the direct approach: every expiry rewrites all of it."""

    kind = "list"

    def partition_of(self, tuples: Changes) -> NDArray[np.int64]:
        return np.zeros(len(tuples), dtype=np.int64)

    def expire(self, now: int) -> None:
        if any(chunk.tuples.exp.min(initial=NEVER) <= now for chunk in self.chunks):
            every = together(chunk.tuples for chunk in self.chunks)
            self.replace(every.where(every.exp > now))

    def _merge(self) -> None:
        if len(self.chunks) > 1:
            self.chunks = [Chunk(together(chunk.tuples for chunk in self.chunks))]


class CalendarQueue(Buffer):
    """A circular array of partitions by expiry, each `span` long: partition p holds (k span, (k+1) span], k mod n = p.

    >>> CalendarQueue(span=10, partitions=5).partition_of_exp(60)
    0
    >>> CalendarQueue(span=10, partitions=5).partition_of_exp(61)
    1
    """

    kind = "calendar queue"

    def __init__(self, chunks: Iterable[Chunk] = (), *, span: int, partitions: int = PARTITIONS) -> None:
        super().__init__(chunks)
        self.span = span
        self.partitions = partitions

    def partition_of_exp(self, exp: int) -> int:
        return (exp - 1) // self.span % self.partitions

    def partition_of(self, tuples: Changes) -> NDArray[np.int64]:
        found = (tuples.exp - 1) // self.span % self.partitions
        # Tuples that never expire have their own place: no partition waits for them.
        found[tuples.exp == NEVER] = self.partitions
        return found


class HashedBuffer(Buffer):
    """Tuples by their identity: negative tuples change few chunks."""

    kind = "hashed"

    def __init__(self, chunks: Iterable[Chunk] = (), *, slots: int = PARTITIONS) -> None:
        super().__init__(chunks)
        self.slots = slots

    def partition_of(self, tuples: Changes) -> NDArray[np.int64]:
        return tuples.ids.sum(axis=1) % self.slots


def buffer_for(
    pattern: UpdatePattern, chunks: Iterable[Chunk] = (), *, span: int = 0, partitions: int = PARTITIONS
) -> Buffer:
    """The buffer for an edge's pattern; `span` is about the lifetime of its tuples."""
    if pattern is UpdatePattern.STRICT:
        return HashedBuffer(chunks, slots=partitions)
    if pattern is UpdatePattern.WEAK:
        return CalendarQueue(chunks, span=max(1, -(-span // partitions)), partitions=partitions)
    return Fifo(chunks)
