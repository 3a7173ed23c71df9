"""The interface of physical operators, how an operator stores its inputs, and shares of a join's results.

Several tasks may work on one bucket of a join, each with the whole bucket before it and a share of the results to find
(docs/architecture/spark.md, divided buckets). The work is divided, never the state. Results that must wait (SLIDE)
become state: each share adds its own.

Of each join value one input is divided: a share takes some of its tuples, and all tuples of the other inputs, so one
share finds each result. Divided is the input with the most tuples that may have a result in this epoch. Values are
looked at by slots, which may hold several: what counts is that a value has one slot. A join along a graph of attributes
has no value that all tuples of a result have: one of its inputs is divided as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.changes.bucket_state import WorkingState
from sash.changes.buffers import Buffer, Chunk, Linear, adapted, buffer_for
from sash.core.changes import NEVER, Changes, UpdatePattern
from sash.plan.punctuations import Closers

Int64s = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class StoredInput:
    """`span` is about how long tuples live: the time that a calendar queue's partitions share.

    `partitions` of a calendar queue or slots of a hashed buffer; by default as many as its size asks for. A chunk knows
    when its last tuple expires, so their number may change while it is stored.
    `plain` is the direct approach: a list, whatever the pattern.

    `taken_back` is the part of STRICT tuples that is expected to be taken back. The state counts them: from `ENOUGH`
    tuples on, their own part decides which buffer holds them. Chunks of both kinds may lie in one buffer.
    `closers` are the promises that let tuples leave early (plan/punctuations.py).
    """

    name: str
    pattern: UpdatePattern
    span: int
    partitions: int | None = None
    plain: bool = False
    taken_back: float = 1.0
    closers: Closers = ()

    def closed(self, rows: pa.Table, state: WorkingState, epoch: Epoch) -> Booleans | None:
        """The rows that nobody waits for any more, by the promises that hold before the epoch; None: there are none."""
        found = np.full(rows.num_rows, bool(self.closers))
        for pairs in self.closers:
            parts = [promised(rows[own], state.chunks(column.buffer), epoch.low) for own, column in pairs]
            found &= np.logical_or.reduce(parts)
        return found if found.any() else None

    def open(self, state: WorkingState) -> Buffer:
        if self.plain:
            return Linear(state.chunks(self.name))
        chunks = state.chunks(self.name)
        partitions = self.partitions or adapted(sum(map(len, chunks)))
        came, taken_back = map(state.count, counters_of(self.name))
        part = taken_back / came if came >= ENOUGH else self.taken_back
        return buffer_for(self.pattern, chunks, span=self.span, partitions=partitions, taken_back=part)

    def close(self, state: WorkingState, buffer: Buffer) -> None:
        state.store(self.name, buffer.chunks)
        if self.pattern is not UpdatePattern.STRICT or self.plain:
            return
        for counter, more in zip(counters_of(self.name), (buffer.came, buffer.taken_back), strict=True):
            state.add(counter, more)
        if state.count(counters_of(self.name)[0]) > 2 * RECENT:
            # Half of what was counted is forgotten: recent tuples count most.
            for counter in counters_of(self.name):
                state.add(counter, -state.count(counter) // 2)


def promised(column: pa.ChunkedArray, promises: Iterable[Chunk], before: int = NEVER) -> Booleans:
    """Which values are promised not to come again, by the promises that hold before an instant."""
    values = [chunk.tuples.where(chunk.tuples.ts < before).rows["value"] for chunk in promises]
    if not values:
        return np.zeros(len(column), dtype=np.bool_)
    every = pa.chunked_array([chunk for value in values for chunk in value.chunks], values[0].type)
    return np.asarray(pc.is_in(column, value_set=every), dtype=np.bool_)


ENOUGH, RECENT = 1_000, 100_000


def counters_of(name: str) -> tuple[str, str]:
    """The counters of a stored input: of tuples that came, and of tuples that were taken back."""
    return f"{name}.came", f"{name}.back"


_SLOTS = 1 << 16


@dataclass(frozen=True)
class Share:
    """The results that task `number` of `of` tasks finds."""

    number: int = 0
    of: int = 1

    def taken(self, codes: Sequence[Int64s], touched: Sequence[Booleans], named: Sequence[Booleans]) -> list[Booleans]:
        """Which of the tuples with a join value (`named`) the share takes, input by input.

        `codes` are the join values as numbers, `touched` the tuples that came or were taken back in the epoch. They
        must be the same, and in the same order, for all shares.
        """
        if self.of == 1:
            return list(named)
        slots = [_mixed(each) % _SLOTS for each in codes]
        divided = _divided(slots, touched, named)
        return [
            has & ((divided[slot] != place) | self.part(len(slot)))
            for place, (slot, has) in enumerate(zip(slots, named, strict=True))
        ]

    def part(self, number: int) -> Booleans:
        """Which of some tuples the share takes; all shares have the same tuples in the same order."""
        return _mixed(np.arange(number)) % self.of == self.number


WHOLE = Share()


def _divided(slots: Sequence[Int64s], touched: Sequence[Booleans], named: Sequence[Booleans]) -> Int64s:
    """For each slot the input with the most tuples that may have a result: one of its tuples must be touched."""
    every = np.stack([_counts(slot[has]) for slot, has in zip(slots, named, strict=True)])
    hit = np.stack([_counts(slot[has & new]) for slot, has, new in zip(slots, named, touched, strict=True)])
    others = hit.sum(axis=0) - hit
    return np.where(others > 0, every, hit).argmax(axis=0)


def _counts(slots: Int64s) -> Int64s:
    return np.bincount(slots, minlength=_SLOTS)


def _mixed(numbers: Int64s) -> Int64s:
    """Mix numbers, so that a pattern in the values does not fill one slot."""
    spread = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (spread >> np.uint64(33)).astype(np.int64)


@dataclass(frozen=True)
class Epoch:
    """The instants to process: low <= t < high; and a share of a join's results, if several tasks find them.

    `begins`: the first tuple of all streams comes after this. None before there is one, or where no operator needs it.
    `pause`: until this time after `high` no operator needs the tuples that expire. -1: another plan of the query may
    begin at `high`, and needs what expires there (live_tuples.py).
    """

    low: int
    high: int
    share: Share = WHOLE
    begins: int | None = None
    pause: int = -1


class Operator(Protocol):
    """`width` is how many ids its output rows have. It reads and replaces its own buffers of the working state."""

    schema: pa.Schema
    width: int

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        """The changes of the epoch, from the inputs' changes of the epoch."""
        ...
