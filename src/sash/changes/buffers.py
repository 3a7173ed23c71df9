"""Buffers for the live tuples of an operator (thesis 3.5.2): a buffer is a list of immutable chunks.

    FIFO            | chunk | chunk | chunk | <- new        WEAKEST: the oldest chunks expire first, as wholes
    calendar queue  day 0 |..|  day 1 |....|  day 2 |..|    WEAK: a tuple lies in the partition of its expiry;
                    the partitions whose time has passed are dropped
    hashed          slot 0 |..| slot 1 |...| slot 2 |.|     STRICT, if most tuples are taken back: a tuple lies in
                    the slot of its identity; a negative tuple makes chunks of one slot anew

STRICT tuples of which less than half are taken back lie in a calendar queue, too: most leave by their expiries.

An expired tuple may stay until its whole chunk goes (lazy expiry); readers skip it. A chunk is an Arrow table: the
tuple's columns, then `_ts`, `_exp` and its ids. A stored chunk remembers its place, so an epoch writes only new chunks;
of a stored chunk that loses tuples, only which ones. A chunk is written again when half of it is gone, or when it is
merged with a neighbour of about its size. So a tuple is written a few times, however large the state is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.changes import EXP, NEVER, SIGN, TS, Changes, UpdatePattern, together

_ID = "_id"


@dataclass(frozen=True)
class ChunkPlace:
    """The place of a chunk: some bytes of a file, and their checksum."""

    file: str
    offset: int
    length: int
    checksum: int


@dataclass(frozen=True, eq=False)
class DroppedRows:
    """The rows that a stored chunk has lost, by their numbers in it; `parts` are the places of the first of them."""

    rows: NDArray[np.int32]
    parts: tuple[ChunkPlace, ...] = ()


NO_ROWS = DroppedRows(np.zeros(0, dtype=np.int32))


@dataclass(frozen=True, eq=False)
class Chunk:
    """`partition` is its day in a calendar queue, 0 elsewhere; at `place` are its tuples and those it has `dropped`."""

    tuples: Changes
    partition: int = 0
    place: ChunkPlace | None = None
    dropped: DroppedRows = NO_ROWS

    def __len__(self) -> int:
        return len(self.tuples)

    @cached_property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        tuples = self.tuples
        return int(tuples.rows.nbytes + sum(part.nbytes for part in (tuples.ts, tuples.exp, tuples.sign, tuples.ids)))

    def numbers(self) -> NDArray[np.int32]:
        """The numbers of its tuples among those at its place."""
        stored = np.arange(len(self) + len(self.dropped.rows), dtype=np.int32)
        return np.delete(stored, self.dropped.rows)

    def without(self, gone: NDArray[np.bool_]) -> Chunk:
        """The chunk without some of its tuples. At least half of what is stored stays."""
        if not gone.any():
            return self
        tuples = self.tuples.where(~gone)
        if self.place is None or 2 * len(tuples) < len(self) + len(self.dropped.rows):
            return Chunk(tuples, self.partition)
        rows = np.append(self.dropped.rows, self.numbers()[gone])
        return Chunk(tuples, self.partition, self.place, replace(self.dropped, rows=rows))

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


def table_of(changes: Changes) -> pa.Table:
    """Changes as they are stored and sent: `to_table` with the signs."""
    return Chunk(changes).to_table().append_column(SIGN, pa.array(changes.sign))


def changes_of(table: pa.Table) -> Changes:
    """The inverse of `table_of`."""
    found = tuples_of(table.drop_columns([SIGN]))
    return replace(found, sign=np.asarray(table[SIGN], dtype=np.int8))


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
    # More chunks than this in one partition are merged.
    most_chunks: ClassVar[int] = MOST_CHUNKS

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self.chunks = list(chunks)
        # How many tuples have come, whether they stayed for an epoch or not, and were taken back.
        self.came = self.taken_back = 0

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
        """Drop some of `tuples`, by their places: chunks that hold none of them stay as they are."""
        kept, first = [], 0
        for chunk in self.chunks:
            hit = gone[first : first + len(chunk)]
            first += len(chunk)
            if not hit.all():
                kept.append(chunk.without(hit))
        self.chunks = kept

    def _merge(self) -> None:
        """Keep few chunks in a partition: few files, and few pieces to read."""
        counted: dict[int, list[Chunk]] = {}
        for chunk in self.chunks:
            counted.setdefault(chunk.partition, []).append(chunk)
        if any(len(chunks) > self.most_chunks for chunks in counted.values()):
            self.chunks = [chunk for chunks in counted.values() for chunk in merged(chunks, self.most_chunks)]


def merged(chunks: Sequence[Chunk], most: int) -> list[Chunk]:
    """At most so many chunks. The smallest neighbours are merged, so a tuple is not moved with each new chunk."""
    chunks = list(chunks)
    while len(chunks) > most:
        place = int(np.argmin([len(one) + len(other) for one, other in pairwise(chunks)]))
        both = together(chunk.tuples for chunk in chunks[place : place + 2])
        chunks[place : place + 2] = [Chunk(both, chunks[place].partition)]
    return chunks


def _lightened(chunk: Chunk, now: int) -> Chunk:
    """Keep the stored tuples below twice the live ones; every tuple is moved a few times only."""
    lives = chunk.tuples.exp > now
    if 2 * int(lives.sum()) >= len(chunk):
        return chunk
    return Chunk(chunk.tuples.where(lives), chunk.partition)


class Fifo(Buffer):
    """Tuples expire in the order in which they came: a chunk of everything would never expire as a whole."""

    kind = "FIFO"
    most_chunks = 4 * MOST_CHUNKS

    def partition_of(self, tuples: Changes) -> NDArray[np.int64]:
        return np.zeros(len(tuples), dtype=np.int64)


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

    >>> CalendarQueue(span=10, partitions=5).partition_of_exp(np.array([60, 61])).tolist()
    [0, 1]
    """

    kind = "calendar queue"

    def __init__(self, chunks: Iterable[Chunk] = (), *, span: int, partitions: int = PARTITIONS) -> None:
        super().__init__(chunks)
        self.span = span
        self.partitions = partitions

    def partition_of_exp(self, exp: NDArray[np.int64]) -> NDArray[np.int64]:
        return (exp - 1) // self.span % self.partitions

    def partition_of(self, tuples: Changes) -> NDArray[np.int64]:
        found = self.partition_of_exp(tuples.exp)
        # Tuples that never expire have places of their own, by identity: no day waits for them.
        never = tuples.exp == NEVER
        found[never] = self.partitions + tuples.ids[never].sum(axis=1) % self.partitions
        return found


class HashedBuffer(Buffer):
    """Tuples by their identity: negative tuples change few chunks."""

    kind = "hashed"

    def __init__(self, chunks: Iterable[Chunk] = (), *, slots: int = PARTITIONS) -> None:
        super().__init__(chunks)
        self.slots = slots

    def partition_of(self, tuples: Changes) -> NDArray[np.int64]:
        return tuples.ids.sum(axis=1) % self.slots


# Tuples are stored by identity from this part on that is taken back (thesis 3.5.2: "the majority of expirations").
HASHED_FROM = 0.5


def buffer_for(
    pattern: UpdatePattern,
    chunks: Iterable[Chunk] = (),
    *,
    span: int = 0,
    partitions: int = PARTITIONS,
    taken_back: float = 1.0,
) -> Buffer:
    """The buffer for an edge's pattern; `span` is about the lifetime of its tuples, of which a part is taken back."""
    if pattern is UpdatePattern.STRICT and taken_back >= HASHED_FROM:
        return HashedBuffer(chunks, slots=partitions)
    if pattern >= UpdatePattern.WEAK:
        return CalendarQueue(chunks, span=max(1, -(-span // partitions)), partitions=partitions)
    return Fifo(chunks)
