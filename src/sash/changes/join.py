"""Window join of two inputs (thesis 2.2.2, 2.3.2): a pair lives while both of its tuples do.

    needs   equal keys; any update patterns: a negative tuple on one side takes back its pairs
    time    one pass over both buffers per epoch, and the pairs that are found
    space   the live tuples of both inputs; no result is stored

Pairs are found by a chained hash table on the smaller side. Expiry is lazy: dead tuples are skipped until their chunk
is dropped. Rows that replace each other (groups on both sides) are joined in the order of time instead: of thousands of
rows that a group has in an epoch one lives at a time.

In a join with a table (thesis 3.3.1) the table is the right input. A relation brings the insertions and deletions of
the epoch. A non-retroactive relation is looked up: each tuple finds the version of the row that was valid when the
tuple arrived.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from sash.changes.bucket_state import WorkingState
from sash.changes.key_numbers import join_values
from sash.changes.lifetimes import Lifetimes, lifetimes
from sash.changes.operator import Epoch, Share, StoredInput
from sash.core.changes import Changes, UpdatePattern, together
from sash.core.versions import RowVersions
from sash.plan.continuous import NrrJoin, TableJoin

Int64s = NDArray[np.int64]


@njit(cache=True)
def kernel_chains(codes: Int64s) -> tuple[Int64s, Int64s]:
    """Hash chains: the first place of each slot, and the next place in the same slot (-1: none)."""
    size = 16
    while size < 2 * len(codes):
        size *= 2
    heads, following = np.full(size, -1, np.int64), np.empty(len(codes), np.int64)
    for place in range(len(codes) - 1, -1, -1):
        slot = _slot(codes[place], size)
        following[place] = heads[slot]
        heads[slot] = place
    return heads, following


@njit(cache=True, inline="always")
def _slot(code: Any, size: int) -> Any:
    mixed = np.uint64(code) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(size - 1))


@njit(cache=True)
def kernel_pairs(
    built: Int64s, built_ts: Int64s, built_out: Int64s, probing: Int64s, probing_ts: Int64s, probing_out: Int64s
) -> tuple[Int64s, Int64s]:
    """Places of pairs with equal codes that are alive together; a negative code is NULL and matches nothing."""
    heads, following = kernel_chains(built)
    size, found = len(heads), 0
    for count_only in (True, False):
        if not count_only:
            ones, others = np.empty(found, np.int64), np.empty(found, np.int64)
            found = 0
        for place in range(len(probing)):
            code = probing[place]
            at = heads[_slot(code, size)]
            while at >= 0:
                if built[at] == code and max(built_ts[at], probing_ts[place]) < min(built_out[at], probing_out[place]):
                    if not count_only:
                        ones[found], others[found] = at, place
                    found += 1
                at = following[at]
    return ones, others


@njit(cache=True)
def kernel_pairs_in_time(
    one: Int64s, one_ts: Int64s, one_out: Int64s, other: Int64s, other_ts: Int64s, other_out: Int64s
) -> tuple[Int64s, Int64s]:
    """The same pairs, in the order of time: each tuple that comes finds the live tuples of the other side, and drops
    the dead ones from their chain."""
    codes, first = np.concatenate((one, other)), len(one)
    ts, out = np.concatenate((one_ts, other_ts)), np.concatenate((one_out, other_out))
    order = np.argsort(ts, kind="mergesort")
    size, found = 16, 0
    while size < 2 * len(codes):
        size *= 2
    ones, others = np.empty(0, np.int64), np.empty(0, np.int64)
    for count_only in (True, False):
        if not count_only:
            ones, others = np.empty(found, np.int64), np.empty(found, np.int64)
            found = 0
        heads, following = np.full((2, size), -1, np.int64), np.empty(len(codes), np.int64)
        for place in order:
            side, slot = int(place >= first), _slot(codes[place], size)
            before, at = -1, heads[1 - side, slot]
            while at >= 0:
                if out[at] > ts[place]:
                    if codes[at] == codes[place] and ts[place] < out[place]:
                        if not count_only:
                            ones[found], others[found] = min(at, place), max(at, place) - first
                        found += 1
                    before = at
                elif before >= 0:
                    following[before] = following[at]
                else:
                    heads[1 - side, slot] = following[at]
                at = following[at]
            following[place], heads[side, slot] = heads[side, slot], place
    return ones, others


class Combinations(NamedTuple):
    """Places of the members by input; when each combination appears, expires, and is taken back."""

    places: Int64s
    start: Int64s
    exp: Int64s
    end: Int64s


class PipelinedJoin(ABC):
    """The common part of window joins: all but how they find combinations.

    A result appears at the latest timestamp of its tuples and expires at their earliest expiry, all known from the
    tuples, so an epoch's results are found at once, and are those of a tuple-at-a-time join. `sides` say how each input
    is stored; `width` is 0 if no operator needs the results' ids.
    """

    def __init__(self, schema: pa.Schema, sides: tuple[StoredInput, ...], width: int) -> None:
        self.schema = schema
        self.width = width
        self._sides = sides
        self._strict = any(side.pattern is UpdatePattern.STRICT for side in sides)

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        buffers = [side.open(state) for side in self._sides]
        alive = [lifetimes(buffer, arrived) for buffer, arrived in zip(buffers, inputs, strict=True)]
        found = self._changes(alive, epoch)
        for side, tuples, buffer in zip(self._sides, alive, buffers, strict=True):
            tuples.settle(buffer, self._needed_after(epoch), side.closed(tuples.tuples.rows, state, epoch))
            side.close(state, buffer)
        return found

    def _needed_after(self, epoch: Epoch) -> int:
        """The tuples that expire until then are not needed any more."""
        return epoch.high + epoch.pause

    @abstractmethod
    def _combinations(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Combinations | None:
        """The combinations with a touched member, each once, that appear in the epoch or are taken back in it."""

    def _changes(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Changes:
        found = self._combinations(alive, epoch)
        return Changes.none(self.schema, self.width) if found is None else self._announced(alive, found, epoch)

    def _announced(self, alive: Sequence[Lifetimes], found: Combinations, epoch: Epoch) -> Changes:
        places, start, exp, end = found
        appears = self._result(alive, places, start, exp, 1, start >= epoch.low)
        if not self._strict:
            return appears.in_order()
        return together((appears, self._result(alive, places, end, exp, -1, end < exp))).in_order()

    def _result(
        self, alive: Sequence[Lifetimes], places: Int64s, ts: Int64s, exp: Int64s, sign: int, wanted: NDArray[np.bool_]
    ) -> Changes:
        if not wanted.all():
            places, ts, exp = places[:, wanted], ts[wanted], exp[wanted]
        parts = [side.tuples.rows.take(pa.array(own)) for side, own in zip(alive, places, strict=True)]
        columns = [column for part in parts for column in part.columns]
        rows = pa.table(columns, schema=self.schema) if columns else self.schema.empty_table()
        ids = np.zeros((len(ts), 0), dtype=np.int64)
        if self.width:
            ids = np.concatenate([side.tuples.ids[own] for side, own in zip(alive, places, strict=True)], axis=1)
        return Changes(rows, ts, exp, np.full(len(ts), sign, dtype=np.int8), ids)


class WindowJoinOp(PipelinedJoin):
    """A join of two inputs on equal `keys`; without keys, of everything with everything."""

    def __init__(
        self, schema: pa.Schema, keys: tuple[tuple[str, str], ...], sides: tuple[StoredInput, StoredInput], width: int
    ) -> None:
        super().__init__(schema, sides, width)
        self._keys = keys

    def _combinations(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Combinations:
        left, right = alive
        return self._living(left, right, matched_pairs(left, right, self._keys, epoch.share, in_time=self._in_time))

    @property
    def _in_time(self) -> bool:
        """Whether rows replace each other on both sides."""
        return all(side.pattern is UpdatePattern.STRICT for side in self._sides)

    def _living(self, left: Lifetimes, right: Lifetimes, pairs: tuple[Int64s, Int64s]) -> Combinations:
        """Pairs with their lifetimes."""
        ones, others = pairs
        start = np.maximum(left.tuples.ts[ones], right.tuples.ts[others])
        exp = np.minimum(left.tuples.exp[ones], right.tuples.exp[others])
        end = np.minimum(left.end[ones], right.end[others]) if self._strict else exp
        return Combinations(np.stack([ones, others]), start, exp, end)


def matched_pairs(
    left: Lifetimes, right: Lifetimes, keys: tuple[tuple[str, str], ...], share: Share, *, in_time: bool
) -> tuple[Int64s, Int64s]:
    """A share's pairs that were ever alive, with at least one tuple that came or was taken back in this epoch."""
    (one, other), named = _codes(left, right, keys)
    touched = [side.touched for side in (left, right)]
    named = share.taken((one, other), touched, named)
    every = (one, left), (other, right)
    first = _matches(*every[0], touched[0] & named[0], *every[1], named[1], in_time=in_time)
    second = _matches(*every[1], touched[1] & named[1], *every[0], ~touched[0] & named[0], in_time=in_time)
    return np.concatenate([first[0], second[1]]), np.concatenate([first[1], second[0]])


def every_pair(
    left: Lifetimes, right: Lifetimes, keys: tuple[tuple[str, str], ...], *, in_time: bool
) -> tuple[Int64s, Int64s]:
    """All pairs of stored and new tuples that were ever alive."""
    (one, other), named = _codes(left, right, keys)
    return _matches(one, left, named[0], other, right, named[1], in_time=in_time)


def _codes(
    left: Lifetimes, right: Lifetimes, keys: tuple[tuple[str, str], ...]
) -> tuple[Sequence[Int64s], Sequence[NDArray[np.bool_]]]:
    """The join values of both sides as numbers, and which tuples have one."""
    if keys:
        return join_values((left.tuples.rows, right.tuples.rows), list(zip(*keys, strict=True)))
    sides = (left, right)
    return [np.zeros(len(side), dtype=np.int64) for side in sides], [np.ones(len(side), np.bool_) for side in sides]


def _matches(
    built: Int64s, side: Lifetimes, wanted: NDArray[np.bool_],
    probing: Int64s, other: Lifetimes, allowed: NDArray[np.bool_], *, in_time: bool,
) -> tuple[Int64s, Int64s]:  # fmt: skip
    ones, others = np.flatnonzero(wanted), np.flatnonzero(allowed)
    if not len(ones) or not len(others):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    kernel = kernel_pairs_in_time if in_time else kernel_pairs
    found = kernel(
        built[ones], side.tuples.ts[ones], side.out[ones], probing[others], other.tuples.ts[others], other.out[others]
    )
    return ones[found[0]], others[found[1]]


# -- tables ----------------------------------------------------------------------------------------------


class NrrJoinOp:
    """Lookup of (key, timestamp) in the versions of a table's rows.

    needs   an input without negative tuples: the row that a tuple found may be gone when it is taken back
    time    one sort of the epoch's tuples and the versions that they may find
    space   nothing: updates of the table never look at tuples that came before
    """

    def __init__(self, node: NrrJoin, width: int) -> None:
        self.schema = node.schema
        self.width = width
        self._keys = node.keys
        self._keeps = node.keeps

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        tuples, versions = inputs
        (one, other), (named, _) = join_values((tuples.rows, versions.rows), list(zip(*self._keys, strict=True)))
        found = _last_before(one, tuples.ts, other, versions.ts)
        hit = (found >= 0) & named
        hit[hit] &= tuples.ts[hit] <= versions.exp[found[hit]]
        places = pa.array(found, mask=~hit)
        if not self._keeps:
            tuples, places = tuples.where(hit), places.drop_null()
        columns = [*tuples.rows.columns, *versions.rows.take(places).columns]
        return tuples.with_rows(pa.table(columns, schema=self.schema))


def table_input(node: TableJoin, versions: RowVersions | None, epoch: Epoch) -> Changes:
    """The right input of a join with a table: its changes of the epoch, or the versions that tuples may find."""
    columns = [column for _, column in node.columns]
    found = (versions if versions is not None else RowVersions.none(node.table.schema)).select(columns)
    changes = found.as_tuples() if isinstance(node, NrrJoin) else found.as_changes(epoch.low, epoch.high)
    return changes.with_rows(changes.rows.rename_columns([name for name, _ in node.columns]))


def _last_before(codes: Int64s, ts: Int64s, others: Int64s, begins: Int64s) -> Int64s:
    """For each (code, ts) the place of the last version with that code that begins before ts, or -1."""
    every = np.concatenate([codes, others])
    times = np.concatenate([ts, begins])
    is_version = np.arange(len(every)) >= len(codes)
    # A tuple stands before a version that begins at its own instant.
    order = np.lexsort((is_version, times, every))
    last = np.maximum.accumulate(np.where(is_version[order], np.arange(len(order)), -1))
    before = order[last]
    same = (last >= 0) & (every[before] == every[order])
    found = np.full(len(every), -1, dtype=np.int64)
    found[order] = np.where(same, before - len(codes), -1)
    return found[: len(codes)]
