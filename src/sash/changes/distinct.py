"""Duplicate elimination over a sliding window, in the thesis' three ways (2.2.2, 3.2.2, 3.5.2).

    DeltaStarOp          needs an input without negative tuples; stores for each value its shown tuple (`shown`) and the
                         duplicate that expires last (`spare`): at most twice the output. Output WEAK.
    PlainDistinctOp      stores its whole input and its output, and looks through the input when a result expires: the
                         direct approach. The same output as delta-star.
    CountingDistinctOp   for STRICT inputs; counts each value. A value stays as long as one of its tuples does, so its
                         expiry is unknown. Output STRICT.

In the thesis delta-star keeps the youngest duplicate; over WEAK inputs the youngest may expire before an older one, and
the value would be missing. The duplicate that expires last is right for both.

An epoch of delta-star adds a chunk to `shown` and to `spare`. A spare duplicate is dead when it has taken a value's
place, or when a better one has come; a chunk that is mostly dead is rewritten. `KnownValues` has the values' numbers,
the expiries of their shown tuples, and the places of their spare duplicates. It goes from epoch to epoch with the
state, is never stored, and is made again from the buffers where it is missing; where it is outdated, the chunks that
other processes have added are numbered. The output of an epoch must not depend
on `KnownValues`: nothing is ordered by the values' numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from sash.changes.bucket_state import WorkingState
from sash.changes.buffers import Chunk, Fifo
from sash.changes.key_numbers import Codes, KeyNumbers, dense_codes
from sash.changes.lifetimes import Identities, in_sequence, lifetimes
from sash.changes.operator import Epoch, StoredInput
from sash.core.changes import NEVER, Changes

Int64s = NDArray[np.int64]
# The expiry of a tuple that does not exist.
GONE = int(np.iinfo(np.int64).min)


@njit(cache=True)
def kernel_delta_star(
    values: Int64s, ts: Int64s, exp: Int64s, expiring: Int64s, shown: Int64s, spare: Int64s, spare_exp: Int64s,
    first: int, high: int,
) -> tuple[Int64s, Int64s]:  # fmt: skip
    """Delta-star over new tuples in order of (ts, longest lived first) up to `high`.

    For value v, shown[v] is the expiry of its shown tuple (GONE: none is shown); spare[v] and spare_exp[v] are the
    place and the expiry of the duplicate that expires last, after the shown tuple (-1 and GONE: there is none). The
    kernel changes all three in place. New tuples have the places from `first` on. `expiring` are values whose tuple
    expires before `high`; those of new tuples need not be among them. Returns the places that appear, and when.
    """
    places, times = np.empty(2 * len(ts) + len(expiring), np.int64), np.empty(2 * len(ts) + len(expiring), np.int64)
    found = 0
    for at in range(len(ts)):
        value = values[at]
        found = _expire(value, ts[at] - 1, shown, spare, spare_exp, places, times, found)
        if shown[value] == ts[at] and spare_exp[value] <= exp[at]:
            # Of all live tuples the one that expires last is shown: here the new tuple, not the spare.
            shown[value], spare[value], spare_exp[value] = GONE, -1, GONE
        found = _expire(value, ts[at], shown, spare, spare_exp, places, times, found)
        if shown[value] == GONE:
            shown[value] = exp[at]
            places[found], times[found] = first + at, ts[at]
            found += 1
        elif exp[at] > shown[value] and exp[at] >= spare_exp[value]:
            spare[value], spare_exp[value] = first + at, exp[at]
    for value in expiring:
        found = _expire(value, high - 1, shown, spare, spare_exp, places, times, found)
    for value in values:
        found = _expire(value, high - 1, shown, spare, spare_exp, places, times, found)
    return places[:found], times[:found]


@njit(cache=True)
def _expire(
    value: int, now: int, shown: Int64s, spare: Int64s, spare_exp: Int64s, places: Int64s, times: Int64s, found: int
) -> int:
    """Expire a value's shown tuple up to and with `now`; its spare duplicate takes its place."""
    while GONE < shown[value] <= now:
        if spare[value] >= 0:
            places[found], times[found] = spare[value], shown[value]
            found += 1
        shown[value] = spare_exp[value]
        spare[value], spare_exp[value] = -1, GONE
    return found


@njit(cache=True)
def kernel_changes_of_presence(codes: Int64s, times: Int64s, steps: Int64s, present: Int64s) -> tuple[Int64s, Int64s]:
    """Counting: events in order of (code, time); `present` are the counts before them, changed in place.

    Returns places of events after whose instant a value has appeared or disappeared, and +1 or -1.
    """
    places, signs = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
    found, at = 0, 0
    while at < len(codes):
        value, now, before = codes[at], times[at], present[codes[at]]
        while at < len(codes) and codes[at] == value and times[at] == now:
            present[value] += steps[at]
            at += 1
        if (before > 0) != (present[value] > 0):
            places[found], signs[found] = at - 1, 1 if present[value] > 0 else -1
            found += 1
    return places[:found], signs[:found]


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

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        new = oldest_first(inputs[0])
        known = self._known(state, epoch.low)
        values, first = known.numbers(new.rows), known.places(len(new))
        places, times = kernel_delta_star(
            values, new.ts, new.exp, known.expiring(epoch.high), known.shown, known.spare, known.spare_exp, first,
            epoch.high,
        )  # fmt: skip
        appeared = known.appeared([*known.parts, SpareChunk(first, new, values)], places, times)
        known.add(new, values, first)
        self._store(state, known, appeared, epoch)
        return appeared

    def _known(self, state: WorkingState, low: int) -> KnownValues:
        shown, spare = ([chunk.tuples for chunk in state.chunks(name)] for name in (self._shown, self._spare))
        known = state.recalled(self._name)
        if not isinstance(known, KnownValues):
            return KnownValues(self.schema, shown, spare, low)
        return known if _are_same(known.of, [*shown, *spare]) else known.caught_up(shown, spare, low)

    def _store(self, state: WorkingState, known: KnownValues, appeared: Changes, epoch: Epoch) -> None:
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
        known.leave([chunk.tuples for chunk in (*shown.chunks, *spare)])
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


class KnownValues:
    """`shown`, `spare` and `spare_exp` are the kernel's, by value; `of` are the tuples that an epoch leaves it with."""

    of: list[Changes]

    def __init__(
        self, schema: pa.Schema, shown: Sequence[Changes], spare: Sequence[Changes], low: int,
        before: KnownValues | None = None,
    ) -> None:  # fmt: skip
        self.parts: list[SpareChunk] = []
        self._schema = schema
        self.numbering: KeyNumbers = KeyNumbers(schema) if before is None else before.numbering
        known = {} if before is None else before._numbered()
        self._given_out = 0
        empty = (GONE, -1, GONE)
        self.shown, self.spare, self.spare_exp = (np.full(len(self.numbering), each, dtype=np.int64) for each in empty)
        self._shown_numbers = [self._numbered_chunk(tuples, known) for tuples in shown]
        for tuples, values in self._shown_numbers:
            lives = tuples.exp >= low
            self.shown[values[lives]] = tuples.exp[lives]
        for tuples in spare:
            _, values = self._numbered_chunk(tuples, known)
            self.parts.append(SpareChunk(self.places(len(tuples)), tuples, values))
        self._find_spare()

    def caught_up(self, shown: Sequence[Changes], spare: Sequence[Changes], low: int) -> KnownValues:
        """The same for buffers of another epoch: values that are numbered already keep their numbers."""
        return KnownValues(self._schema, shown, spare, low, None if self.is_outdated() else self)

    def leave(self, tuples: list[Changes]) -> None:
        """Note what an epoch leaves; chunks that are gone are forgotten."""
        self.of, stay = tuples, set(map(id, tuples))
        self._shown_numbers = [pair for pair in self._shown_numbers if id(pair[0]) in stay]

    @property
    def nbytes(self) -> int:
        arrays = [self.shown, self.spare, self.spare_exp, *(values for _, values in self._shown_numbers)]
        return self.numbering.nbytes + sum(part.nbytes for part in (*arrays, *(each.values for each in self.parts)))

    def _numbered(self) -> dict[int, tuple[Changes, Int64s]]:
        """The chunks whose values' numbers are known, by identity."""
        chunks = [*self._shown_numbers, *((part.tuples, part.values) for part in self.parts)]
        return {id(tuples): (tuples, values) for tuples, values in chunks}

    def _numbered_chunk(self, tuples: Changes, known: Mapping[int, tuple[Changes, Int64s]]) -> tuple[Changes, Int64s]:
        return known.get(id(tuples)) or (tuples, self.numbers(tuples.rows))

    def _find_spare(self) -> None:
        """Find each value's duplicate that expires last, the youngest of several, if it outlives the shown tuple."""
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
        found = self.numbering.numbers(rows)
        number = len(self.numbering)
        self.shown, self.spare = _grown(self.shown, number, GONE), _grown(self.spare, number, -1)
        self.spare_exp = _grown(self.spare_exp, number, GONE)
        return found

    def places(self, number: int) -> int:
        """Give out some places; returns the first."""
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
        """Keep the new tuples that have become spare duplicates, as one more part."""
        spare = np.flatnonzero(self.spare[values] == first + np.arange(len(new)))
        if len(spare):
            self.parts.append(self._part(new.take(spare), values[spare]))

    def tidy(self) -> None:
        """Keep at most half of the stored tuples dead, and not too many parts."""
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
        """Whether most numbered values have left the window: then it is time to begin anew."""
        return len(self.numbering) > 1_000 + 2 * int((self.shown > GONE).sum())

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
    """In order of arrival; of tuples that came at one instant, the longest lived first."""
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


class PlainDistinctOp:
    """The weak version that stores input and output."""

    def __init__(self, schema: pa.Schema, storing: StoredInput, width: int) -> None:
        self.schema = schema
        self.width = width
        self._storing = storing
        self._shown = f"{storing.name}.shown"

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        buffer, new = self._storing.open(state), oldest_first(inputs[0])
        standing = [*Fifo(state.chunks(self._shown)).tuples(), Changes.none(self.schema, self.width)][0]
        stored = in_sequence([Changes.none(self.schema, self.width), *buffer.tuples()])
        parts = (standing, stored, new)
        codes = dense_codes([part.rows for part in parts], [self.schema.names] * 3, null_safe=True)
        shown = np.full(int(max(part.max(initial=-1) for part in codes)) + 1, GONE, dtype=np.int64)
        shown[codes[0]] = standing.exp
        spare, spare_exp = _latest(codes[1], stored.exp, shown)
        first, expiring = len(stored), np.flatnonzero((shown < epoch.high) & (shown > GONE))
        places, times = kernel_delta_star(
            codes[2], new.ts, new.exp, expiring, shown, spare, spare_exp, first, epoch.high
        )
        found = in_sequence((stored, new)).take(places)
        appeared = Changes(found.rows, times, found.exp, found.sign, found.ids).in_order()
        self._keep(state, in_sequence((standing, appeared)), epoch)
        buffer.add(new)
        buffer.expire(epoch.high - 1)
        self._storing.close(state, buffer)
        return appeared

    def _keep(self, state: WorkingState, appeared: Changes, epoch: Epoch) -> None:
        """Keep the tuples that have appeared until they expire."""
        shown = Fifo()
        shown.add(appeared.where(appeared.exp >= epoch.high))
        state.store(self._shown, shown.chunks)


def _latest(codes: Codes, exp: Codes, shown: Codes) -> tuple[Codes, Codes]:
    """For every value the stored duplicate that expires last, if it outlives the shown tuple."""
    spare, spare_exp = np.full(len(shown), -1, dtype=np.int64), np.full(len(shown), GONE, dtype=np.int64)
    order = np.argsort(exp, kind="stable")
    spare[codes[order]], spare_exp[codes[order]] = order, exp[order]
    dead = (shown == GONE) | (spare_exp <= shown)
    spare[dead], spare_exp[dead] = -1, GONE
    return spare, spare_exp


class CountingDistinctOp:
    """Multiplicities: a value appears when its count leaves 0 and is taken back when it returns to 0."""

    def __init__(self, schema: pa.Schema, storing: StoredInput, width: int) -> None:
        self.schema = schema
        self.width = width
        self._storing = storing
        self._identities = Identities(f"{storing.name}.shown", schema)

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        buffer = self._storing.open(state)
        alive = lifetimes(buffer, inputs[0])
        (codes,) = dense_codes([alive.tuples.rows], [self.schema.names], null_safe=True)
        came, went = alive.arrivals(), alive.departures(epoch)
        present = np.bincount(codes[alive.before(epoch)], minlength=int(codes.max(initial=-1)) + 1).astype(np.int64)
        places = np.concatenate([came, went])
        times = np.concatenate([alive.tuples.ts[came], alive.out[went]])
        steps = np.repeat(np.array([1, -1]), [len(came), len(went)])
        order = np.lexsort((times, codes[places]))
        places, times = places[order], times[order]
        at, signs = kernel_changes_of_presence(codes[places], times, steps[order], present)
        alive.settle(buffer, epoch.high - 1)
        self._storing.close(state, buffer)
        rows, exp = alive.tuples.rows.take(pa.array(places[at])), np.full(len(at), NEVER, dtype=np.int64)
        found = Changes(rows, times[at], exp, signs.astype(np.int8), np.zeros((len(at), 0), dtype=np.int64))
        return (self._identities.named(found, state) if self.width else found).in_order()
