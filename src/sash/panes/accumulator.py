"""One accumulator per group while panes are folded, youngest first, into ever longer windows.

Each kernel is a plain loop that Numba compiles. Rows are (group code, component), accumulators are indexed by code and
hold the combine's identity at first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.expr.value_codes import Codes, dictionary_of, value_ranks
from sash.panes.partials import Combine, Component, Partial
from sash.panes.sketches import SKETCHES, Unions


@numba.njit(cache=True, nogil=True)
def kernel_has_all(codes: Any, first: int, groups: int) -> bool:
    """Whether the rows from `first` on are one for each group, in the order of their codes."""
    same = 0
    for i in range(groups):
        same += codes[first + i] == i
    return same == groups


@numba.njit(cache=True, nogil=True)
def kernel_add(codes: Any, values: Any, accumulator: Any) -> None:
    i, groups, looked = 0, accumulator.size, 0
    if groups == 1:
        for row in range(codes.size):
            accumulator[0] += values[row]
        return
    while i < codes.size:
        last = i + groups - 1
        # Sorted codes that begin and end so have all groups; others are looked at once for so many rows.
        if i >= looked and codes[i] == 0 and last < codes.size and codes[last] == groups - 1:
            looked = i + groups
            if kernel_has_all(codes, i, groups):
                # A pane in which no group is missing: the compiler adds several groups by one instruction.
                for g in range(groups):
                    accumulator[g] += values[i + g]
                i += groups
                continue
        accumulator[codes[i]] += values[i]
        i += 1


@numba.njit(cache=True, nogil=True)
def kernel_min(codes: Any, values: Any, accumulator: Any) -> None:
    # NaN is the greatest number and also the identity: anything replaces it.
    for i in range(codes.size):
        old = accumulator[codes[i]]
        if values[i] < old or old != old:
            accumulator[codes[i]] = values[i]


@numba.njit(cache=True, nogil=True)
def kernel_max(codes: Any, values: Any, accumulator: Any) -> None:
    # NaN is the greatest number: it replaces anything and nothing replaces it.
    for i in range(codes.size):
        if values[i] > accumulator[codes[i]] or values[i] != values[i]:
            accumulator[codes[i]] = values[i]


@numba.njit(cache=True, nogil=True)
def kernel_bit_and(codes: Any, values: Any, accumulator: Any) -> None:
    for i in range(codes.size):
        accumulator[codes[i]] &= values[i]


@numba.njit(cache=True, nogil=True)
def kernel_bit_or(codes: Any, values: Any, accumulator: Any) -> None:
    for i in range(codes.size):
        accumulator[codes[i]] |= values[i]


@numba.njit(cache=True, nogil=True)
def kernel_bit_xor(codes: Any, values: Any, accumulator: Any) -> None:
    for i in range(codes.size):
        accumulator[codes[i]] ^= values[i]


@numba.njit(cache=True, nogil=True)
def kernel_moments(codes: Any, counts: Any, means: Any, squares: Any, n: Any, mean: Any, square: Any) -> None:
    # n is the accumulator's own count, so that the shared count partial may be folded before or after.
    for i in range(codes.size):
        added = counts[i]
        if added == 0:
            continue
        g = codes[i]
        if n[g] == 0:
            # The accumulator is empty: the formula below would make NaN of a mean whose square overflows.
            n[g], mean[g], square[g] = added, means[i], squares[i]
            continue
        total = n[g] + added
        delta = means[i] - mean[g]
        step = delta / total
        mean[g] += step * added
        square[g] += squares[i] + delta * step * n[g] * added
        n[g] = total


@numba.njit(cache=True, nogil=True)
def kernel_co_moments(
    codes: Any, counts: Any, ones: Any, others: Any, squares: Any, squares2: Any, products: Any,
    n: Any, mean: Any, mean2: Any, square: Any, square2: Any, product: Any,
) -> None:  # fmt: skip
    # Of two arguments: their means, squared deviations, and the products of their deviations (Chan et al.).
    for i in range(codes.size):
        added = counts[i]
        if added == 0:
            continue
        g = codes[i]
        if n[g] == 0:
            n[g], mean[g], mean2[g] = added, ones[i], others[i]
            square[g], square2[g], product[g] = squares[i], squares2[i], products[i]
            continue
        total = n[g] + added
        delta, delta2 = ones[i] - mean[g], others[i] - mean2[g]
        step, step2 = delta / total, delta2 / total
        square[g] += squares[i] + delta * step * n[g] * added
        square2[g] += squares2[i] + delta2 * step2 * n[g] * added
        product[g] += products[i] + delta * step2 * n[g] * added
        mean[g] += step * added
        mean2[g] += step2 * added
        n[g] = total


@numba.njit(cache=True, nogil=True)
def kernel_high_moments(
    codes: Any, counts: Any, means: Any, squares: Any, cubes: Any, fourths: Any,
    n: Any, mean: Any, square: Any, cube: Any, fourth: Any,
) -> None:  # fmt: skip
    # Sums of the second, third and fourth powers of deviations (Pebay 2008, 2.1).
    for i in range(codes.size):
        b = float(counts[i])
        if b == 0.0:
            continue
        g = codes[i]
        if n[g] == 0:
            n[g], mean[g], square[g], cube[g], fourth[g] = counts[i], means[i], squares[i], cubes[i], fourths[i]
            continue
        a = float(n[g])
        total = a + b
        step = (means[i] - mean[g]) / total
        apart = (means[i] - mean[g]) * step * a * b
        fourth[g] += (
            fourths[i]
            + apart * step * step * (a * a - a * b + b * b)
            + 6.0 * step * step * (a * a * squares[i] + b * b * square[g])
            + 4.0 * step * (a * cubes[i] - b * cube[g])
        )
        cube[g] += cubes[i] + apart * step * (a - b) + 3.0 * step * (a * squares[i] - b * square[g])
        square[g] += squares[i] + apart
        mean[g] += step * b
        n[g] += counts[i]


# A scan fills one row of `out` per window, the shortest first: it copies the row before, and folds the rows of panes
# between cuts[i + 1] and cuts[i] into it. One call serves all windows, so its cost does not grow with their number.


@numba.njit(cache=True, nogil=True)
def kernel_scan_add(codes: Any, values: Any, cuts: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        if i > 0:
            out[i, :] = out[i - 1, :]
        kernel_add(codes[cuts[i + 1] : cuts[i]], values[cuts[i + 1] : cuts[i]], out[i])


@numba.njit(cache=True, nogil=True)
def kernel_scan_min(codes: Any, values: Any, cuts: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        if i > 0:
            out[i, :] = out[i - 1, :]
        kernel_min(codes[cuts[i + 1] : cuts[i]], values[cuts[i + 1] : cuts[i]], out[i])


@numba.njit(cache=True, nogil=True)
def kernel_scan_max(codes: Any, values: Any, cuts: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        if i > 0:
            out[i, :] = out[i - 1, :]
        kernel_max(codes[cuts[i + 1] : cuts[i]], values[cuts[i + 1] : cuts[i]], out[i])


def fold_function(partial: Partial, codes: Codes, rows: list[Component], accumulators: list[Component]) -> None:
    """Fold rows by a program's own combine: a call for all groups, and one for each doubling of the rows of a group."""
    assert partial.user is not None
    combine = functools.partial(partial.user.combined_or_failed, partial.signature)
    order = np.argsort(codes, kind="stable")
    codes, values = codes[order], np.stack(rows)[:, order]
    while True:
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        if len(starts) == len(codes):
            break
        places = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
        second = np.flatnonzero(places % 2)
        values[:, second - 1] = combine(values[:, second - 1], values[:, second])
        codes, values = codes[places % 2 == 0], values[:, places % 2 == 0]
    found = combine(np.stack([accumulator[codes] for accumulator in accumulators]), values)
    for accumulator, component in zip(accumulators, found, strict=True):
        accumulator[codes] = component


SCANS: dict[Combine, Any] = {
    Combine.ADD: kernel_scan_add,
    Combine.MIN: kernel_scan_min,
    Combine.MAX: kernel_scan_max,
}
FOLDS: dict[Combine, Any] = {
    Combine.ADD: kernel_add,
    Combine.MIN: kernel_min,
    Combine.MAX: kernel_max,
    Combine.AND: kernel_bit_and,
    Combine.OR: kernel_bit_or,
    Combine.XOR: kernel_bit_xor,
}
MOMENT_FOLDS: dict[str, Any] = {
    "moments": kernel_moments,
    "co_moments": kernel_co_moments,
    "high_moments": kernel_high_moments,
}


Slot = tuple[Partial, int]


class RankedValues:
    """The dictionary of one ranked extreme: values that are no machine numbers, compared by their rank."""

    def __init__(self, type: pa.DataType) -> None:
        self.dictionary = dictionary_of(type)
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._rank: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def compact(self, live: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Forget the values that are not live; the result is each old code's new one."""
        kept = np.flatnonzero(live)
        remap = np.full(len(live), -1, dtype=np.int64)
        old, self.dictionary = self.dictionary, dictionary_of(self.dictionary.values.type)
        remap[kept] = self.dictionary.encode(old.decode(kept))
        self._order = np.empty(0, dtype=np.int64)
        return remap

    def _refresh(self) -> None:
        if len(self._order) != len(self.dictionary):
            values = self.dictionary.values
            if pa.types.is_struct(values.type):
                self._rank = value_ranks(values)[0]
                self._order = np.argsort(self._rank, kind="stable")
                return
            self._order = np.asarray(pc.sort_indices(values), dtype=np.int64)
            self._rank = np.empty_like(self._order)
            self._rank[self._order] = np.arange(len(self._order))

    def frozen(self) -> RankedValues:
        """The current values, for another thread."""
        other = RankedValues(self.dictionary.values.type)
        other.dictionary, other._order, other._rank = self.dictionary.frozen(), self._order, self._rank
        return other

    def store(self, column: pa.Array, identity: int) -> NDArray[np.int64]:
        codes = self.dictionary.encode(column).astype(np.int64)
        return np.where(np.asarray(column.is_valid()), codes, np.int64(identity))

    def ranks(self, codes: Component, identity: int) -> NDArray[np.int64]:
        self._refresh()
        return _mapped(self._rank, codes, identity)

    def codes(self, ranks: Component, identity: int) -> NDArray[np.int64]:
        self._refresh()
        return _mapped(self._order, ranks, identity)

    def values(self, ranks: Component, identity: int) -> pa.Array:
        codes = self.codes(ranks, identity)
        return self.dictionary.values.take(pa.array(codes, mask=codes == identity))


def _mapped(table: NDArray[np.int64], places: Component, identity: int) -> NDArray[np.int64]:
    known = places != identity
    result = np.full(len(places), identity, dtype=np.int64)
    result[known] = table[places[known].astype(np.int64)]
    return result


class Accumulator:
    """Folds slices of rows; `size` groups, each at the identity at first.

    Needs: combine is associative and commutative. Time: one kernel call per component and slice.
    """

    # Of one window of a block: the block, and which window it is.
    block: Block | None = None
    window: int = 0

    def __init__(self, size: int, partials: Iterable[Partial], ranked: Mapping[Partial, RankedValues]) -> None:
        self._ranked = ranked
        self.slots: dict[Slot, Component] = {}
        self._counts: dict[Partial, NDArray[np.int64]] = {}
        self._unions: dict[Partial, Unions] = {}
        for partial in partials:
            if partial.combine is Combine.UNION:
                self._unions[partial] = Unions(SKETCHES[partial.kind], size)
                continue
            for i, dtype in enumerate(partial.dtypes):
                self.slots[partial, i] = np.full(size, partial.identity(i), dtype=dtype)
            if partial.combine is Combine.MOMENTS:
                self._counts[partial] = np.zeros(size, dtype=np.int64)

    def like(self, block: Block | None) -> Accumulator:
        """An empty accumulator for the same window."""
        other = Accumulator(0, (), self._ranked)
        other.block, other.window = block, self.window
        return other

    def fold(self, partials: Iterable[Partial], codes: Codes, column: Callable[[Slot], Component]) -> None:
        for partial in partials:
            if partial.combine is Combine.MOMENTS:
                self._fold_moments(partial, codes, column)
                continue
            if partial.combine is Combine.UNION:
                self._unions[partial].add(codes, column((partial, 0)))
                continue
            if partial.user is not None:
                slots = [(partial, i) for i in range(len(partial.dtypes))]
                fold_function(partial, codes, [*map(column, slots)], [self.slots[slot] for slot in slots])
                continue
            kernel = FOLDS[partial.combine]
            for i in range(len(partial.dtypes)):
                values = column((partial, i))
                if partial.ranked:
                    values = self._ranked[partial].ranks(values, int(partial.identity()))
                kernel(codes, values, self.slots[partial, i])

    def _fold_moments(self, partial: Partial, codes: Codes, column: Callable[[Slot], Component]) -> None:
        slots = [(partial, i) for i in range(len(partial.dtypes))]
        counts, moments = column((counted(partial), 0)), (self.slots[slot] for slot in slots)
        MOMENT_FOLDS[partial.kind](codes, counts, *map(column, slots), self._counts[partial], *moments)

    def regrouped(self, partials: Iterable[Partial], codes: Codes, size: int) -> Accumulator:
        """The same rows in fewer groups; `codes` has the new group of each group."""
        partials = list(partials)
        other, stored = Accumulator(size, partials, self._ranked), {each: self.stored(each) for each in partials}
        other.fold(partials, codes, lambda slot: stored[slot[0]][slot[1]])
        return other

    def merged(self, partial: Partial, groups: NDArray[np.int64] | None) -> list[Component] | pa.Array:
        """A partial's components for some groups (None: all); a ranked one as its values."""
        picked = self._components(partial)
        if groups is not None:
            picked = [component[groups] for component in picked]
        return self._ranked[partial].values(picked[0], int(partial.identity())) if partial.ranked else picked

    def stored(self, partial: Partial) -> list[Component]:
        """The components as a pane stores them."""
        parts = self._components(partial)
        return [self._ranked[partial].codes(parts[0], int(partial.identity()))] if partial.ranked else parts

    def _components(self, partial: Partial) -> list[Component]:
        if partial in self._unions:
            return [self._unions[partial].values()]
        return [self.slots[partial, i] for i in range(len(partial.dtypes))]


class BlockWindow(Accumulator):
    """One window of a block: its components are rows of the block's matrices."""

    block: Block

    def __init__(self, block: Block, window: int, ranked: Mapping[Partial, RankedValues]) -> None:
        self.block, self.window, self._ranked = block, window, ranked
        self._counts, self._unions = {}, {}

    @cached_property
    def slots(self) -> dict[Slot, Component]:  # type: ignore[override]
        return {slot: out[self.window] for slot, out in self.block.slots.items() if self.window < len(out)}


@dataclass(frozen=True)
class ScanRows:
    """The rows of panes that a scan goes over: codes, components by slot, and where its windows begin.

    Window i has the rows from cuts[i + 1] on, up to cuts[0]: the shortest window is the first.
    """

    groups: int
    cuts: NDArray[np.int64]
    codes: Codes
    column: Callable[[Slot], Component]
    ranked: Mapping[Partial, RankedValues]


class Block:
    """Windows that were scanned together: one matrix per slot, a row per window, a column per group.

    What depends on a whole matrix (which windows have all groups, an aggregate's lowered column) is computed once for
    all windows and kept in `memo`: an answer is then a slice.
    """

    def __init__(self, groups: int) -> None:
        self.groups = groups
        self.slots: dict[Slot, Component] = {}
        self.memo: dict[Hashable, Any] = {}

    def full(self, presence: Partial) -> list[bool]:
        """Of each window: whether every group has tuples in it."""
        return [bool(each) for each in np.atleast_1d((self.slots[presence, 0] > 0).all(axis=1))]

    def flat(self, partial: Partial, windows: int) -> list[Component]:
        """A partial's components over the first windows, one window after the other."""
        return [self.slots[partial, i][:windows].ravel() for i in range(len(partial.dtypes))]


def scan(needs: Sequence[Sequence[Partial]], rows: ScanRows) -> Iterator[Accumulator]:
    """One accumulator per window, from one pass over the rows; `needs` says which partials each window wants.

    Numbers of all windows come at once, in a block. Sketches are merged window by window: the sketches of all windows
    together would not fit into memory.
    """
    windows = {partial: i + 1 for i, partials in enumerate(needs) for partial in partials}
    block = Block(rows.groups)
    for partial, count in windows.items():
        if partial.combine is Combine.UNION:
            continue
        fill = _scan_components if partial.combine in SCANS else _scan_by_windows
        for place, out in enumerate(fill(partial, rows, rows.cuts[: count + 1])):
            block.slots[partial, place] = out
    unions = {p: Unions(SKETCHES[p.kind], rows.groups) for p in windows if p.combine is Combine.UNION}
    for i, partials in enumerate(needs):
        accumulator = BlockWindow(block, i, rows.ranked)
        if not unions:
            yield accumulator
            continue
        between = slice(int(rows.cuts[i + 1]), int(rows.cuts[i]))
        for partial, union in unions.items():
            union.add(rows.codes[between], rows.column((partial, 0))[between])
            if partial in partials:
                accumulator.slots[partial, 0] = union.values()
        yield accumulator


def _scan_components(partial: Partial, rows: ScanRows, cuts: NDArray[np.int64]) -> list[Component]:
    filled: list[Component] = []
    for i, dtype in enumerate(partial.dtypes):
        values = rows.column((partial, i))
        if partial.ranked:
            values = rows.ranked[partial].ranks(values, int(partial.identity()))
        out = np.empty((len(cuts) - 1, rows.groups), dtype=dtype)
        out[:1] = partial.identity()
        SCANS[partial.combine](rows.codes, values, cuts, out)
        filled.append(out)
    return filled


def _scan_by_windows(partial: Partial, rows: ScanRows, cuts: NDArray[np.int64]) -> list[Component]:
    """Scan window by window, each on a copy of the one before: moments, which are rarer than sums, and functions."""
    accumulator = Accumulator(rows.groups, (partial,), rows.ranked)
    copies = []
    for low, high in zip(cuts[1:].tolist(), cuts[:-1].tolist(), strict=True):
        between = slice(low, high)
        accumulator.fold((partial,), rows.codes[between], lambda slot, part=between: rows.column(slot)[part])  # type: ignore[misc]
        copies.append([accumulator.slots[partial, i].copy() for i in range(len(partial.dtypes))])
    return [np.stack(component) for component in zip(*copies, strict=True)]


def counted(partial: Partial) -> Partial:
    """The count partial that goes with an aggregate of the same argument."""
    return Partial("count", partial.argument, partial.predicate)
