"""Delta-star, and what it knows of its two buffers.

    shown   | chunk | chunk | chunk |    what stands for a value: leaves by its expiry alone, with its whole chunk
    spare   | chunk | chunk | chunk |    duplicates that expire later; of a value's, the one that expires last counts

An epoch adds a chunk to each. A spare duplicate that has taken a value's place, or for which a better one has come, is
dead where it lies: which ones are follows from the expiries. A chunk of which most is dead is made anew.

`Known` has the values' numbers, when what stands for them expires, and where their spare duplicates lie. It goes from
epoch to epoch with the state, is never stored, and is made again from the buffers where it is missing. What an epoch
writes must not depend on that: nothing is ordered by the values' numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.changes import Changes
from sash.operators.base import Epoch
from sash.operators.distinct_kernels import GONE, _kernel_delta_star
from sash.operators.lifetimes import in_sequence
from sash.operators.numbering import Numbering
from sash.operators.numbering_kernels import Int64s
from sash.state import Chunk, Fifo
from sash.state.state import Working

MOST_PARTS = 32


class DeltaStarOp:
    """
    needs   an input without negative tuples
    time    per epoch, what arrives and expires; two passes over numbers of all values
    space   at most twice the answer, and as much again that is dead
    """

    def __init__(self, schema: pa.Schema, name: str, width: int) -> None:
        self.schema = schema
        self.width = width
        self._name = name
        self._shown, self._spare = f"{name}.shown", f"{name}.spare"

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        new = oldest_first(inputs[0])
        known = self._known(state, epoch.low)
        values, first = known.numbers(new.rows), known.places(len(new))
        places, times = _kernel_delta_star(
            values, new.ts, new.exp, known.expiring(epoch.high), known.shown, known.spare, known.spare_exp, first,
            epoch.high,
        )  # fmt: skip
        appeared = known.appeared([*known.parts, SpareChunk(first, new, values)], places, times)
        known.add(new, values, first)
        self._store(state, known, appeared, epoch)
        return appeared

    def _known(self, state: Working, low: int) -> Known:
        shown, spare = ([chunk.tuples for chunk in state.chunks(name)] for name in (self._shown, self._spare))
        known = state.recalled(self._name)
        if isinstance(known, Known) and _are_same(known.of, [*shown, *spare]):
            return known
        return Known(self.schema, shown, spare, low)

    def _store(self, state: Working, known: Known, appeared: Changes, epoch: Epoch) -> None:
        shown = Fifo(state.chunks(self._shown))
        stands = appeared.exp >= epoch.high
        if stands.any():
            shown.add(appeared.where(stands))
        shown.expire(epoch.high - 1)
        known.tidy()
        stored = {id(chunk.tuples): chunk for chunk in state.chunks(self._spare)}
        spare = [stored.get(id(part.tuples)) or Chunk(part.tuples) for part in known.parts]
        state.store(self._shown, shown.chunks)
        state.store(self._spare, spare)
        known.of = [chunk.tuples for chunk in (*shown.chunks, *spare)]
        if not known.is_outdated():
            state.remember(self._name, known)


@dataclass(frozen=True)
class SpareChunk:
    """A chunk of spare duplicates with their values' numbers. They have the places from `first` on."""

    first: int
    tuples: Changes
    values: Int64s

    @property
    def places(self) -> Int64s:
        return self.first + np.arange(len(self.values))


class Known:
    """`shown`, `spare` and `spare_exp` are the kernel's, by value; `of` are the tuples that an epoch leaves it with."""

    of: list[Changes]

    def __init__(self, schema: pa.Schema, shown: Sequence[Changes], spare: Sequence[Changes], low: int) -> None:
        self.parts: list[SpareChunk] = []
        self._schema = schema
        self._numbering = Numbering(schema)
        self._given_out = 0
        self.shown, self.spare, self.spare_exp = (np.full(0, empty, dtype=np.int64) for empty in (GONE, -1, GONE))
        for tuples in shown:
            values, lives = self.numbers(tuples.rows), tuples.exp >= low
            self.shown[values[lives]] = tuples.exp[lives]
        for tuples in spare:
            self.parts.append(SpareChunk(self.places(len(tuples)), tuples, self.numbers(tuples.rows)))
        self._find_spare()

    def _find_spare(self) -> None:
        """Of a value's duplicates the one that expires last, the youngest of several, if it outlives what stands."""
        if not self.parts:
            return
        exp = np.concatenate([part.tuples.exp for part in self.parts])
        order = np.argsort(exp, kind="stable")
        values = np.concatenate([part.values for part in self.parts])[order]
        self.spare[values] = np.concatenate([part.places for part in self.parts])[order]
        self.spare_exp[values] = exp[order]
        dead = (self.shown == GONE) | (self.spare_exp <= self.shown)
        self.spare[dead], self.spare_exp[dead] = -1, GONE

    def numbers(self, rows: pa.Table) -> Int64s:
        found = self._numbering.numbers(rows)
        number = len(self._numbering)
        self.shown, self.spare = _grown(self.shown, number, GONE), _grown(self.spare, number, -1)
        self.spare_exp = _grown(self.spare_exp, number, GONE)
        return found

    def places(self, number: int) -> int:
        """Give out so many places; the first of them."""
        self._given_out += number
        return self._given_out - number

    def expiring(self, high: int) -> Int64s:
        return np.flatnonzero((self.shown < high) & (self.shown > GONE))

    def appeared(self, parts: Sequence[SpareChunk], places: Int64s, times: Int64s) -> Changes:
        """The tuples at places of parts, as changes in order of (time, part, place in it)."""
        hit, position, begin = [Changes.none(self._schema, parts[-1].tuples.ids.shape[1])], places.copy(), 0
        for part in parts:
            mine = (places >= part.first) & (places < part.first + len(part.values))
            if mine.any():
                position[mine] += begin - part.first
                begin += len(part.values)
                hit.append(part.tuples)
        order = np.lexsort((position, times))
        found = in_sequence(hit).take(position[order])
        return Changes(found.rows, times[order], found.exp, found.sign, found.ids)

    def add(self, new: Changes, values: Int64s, first: int) -> None:
        """Those of the new tuples that have become spare duplicates are a part of their own."""
        spare = np.flatnonzero(self.spare[values] == first + np.arange(len(new)))
        if len(spare):
            self.parts.append(self._part(new.take(spare), values[spare]))

    def tidy(self) -> None:
        """Of what is stored at most half is dead, and there are not too many parts."""
        kept = []
        for part in self.parts:
            lives = self._lives(part)
            if lives.any():
                kept.append(part if 2 * int(lives.sum()) >= len(lives) else self._renewed([part]))
        while len(kept) > MOST_PARTS:
            sizes = [len(one.values) + len(other.values) for one, other in pairwise(kept)]
            place = int(np.argmin(sizes))
            kept[place : place + 2] = [self._renewed(kept[place : place + 2])]
        self.parts = kept

    def is_outdated(self) -> bool:
        """Most values that are numbered are in nobody's window any more: it is time to begin anew."""
        return len(self._numbering) > 1_000 + 2 * int((self.shown > GONE).sum())

    def _lives(self, part: SpareChunk) -> NDArray[np.bool_]:
        return self.spare[part.values] == part.places

    def _renewed(self, parts: Sequence[SpareChunk]) -> SpareChunk:
        lives = [self._lives(part) for part in parts]
        tuples = in_sequence([part.tuples.where(mask) for part, mask in zip(parts, lives, strict=True)])
        values = np.concatenate([part.values[mask] for part, mask in zip(parts, lives, strict=True)])
        return self._part(tuples, values)

    def _part(self, tuples: Changes, values: Int64s) -> SpareChunk:
        part = SpareChunk(self.places(len(tuples)), tuples, values)
        self.spare[values] = part.places
        return part


def oldest_first(changes: Changes) -> Changes:
    """In order of arrival; of those that came at one instant, the one that lives longest first."""
    ts, exp = changes.ts, changes.exp
    if ((ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (exp[1:] <= exp[:-1]))).all():
        return changes
    return changes.take(np.lexsort((-exp, ts)))


def _are_same(ones: Sequence[Changes], others: Sequence[Changes]) -> bool:
    return len(ones) == len(others) and all(one is other for one, other in zip(ones, others, strict=True))


def _grown(array: Int64s, size: int, empty: int) -> Int64s:
    if size <= len(array):
        return array
    larger = np.full(max(size, 2 * len(array)), empty, dtype=np.int64)
    larger[: len(array)] = array
    return larger
