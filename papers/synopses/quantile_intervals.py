"""Quantiles of intervals, B-INT-QNT (Arasu and Widom, 3.3): the elements of every base-interval, sorted.

    arrived    7   3 | 9   1 | 5   8 | 2   6         one level is one circular array of all elements
    level 1    3   7 | 1   9 | 5   8 | 2   6         in which blocks of two are sorted,
    level 2    1   3   7   9 | 2   5   6   8         of four, ...

A block is merged from its halves when its last element arrives. QUANTILE(phi) of N elements is the one at position
max(1, floor(phi N)) in the order of values, with phi a fraction, so that phi N is exact; the paper's floor(phi N) is 0
for phi < 1/N. Floats are stored as the integers that have the same order: kernels compare integers only.

A lookup selects the k-th smallest element of p sorted runs greedily. It compares the element at place s, about k / 2p,
of each run. The smallest of these has at most p (s - 1) elements before it, so the first s elements of its run are
dropped. When k has halved so does s: O(log p) per step, O(p log p log q) in all for runs of up to q elements.

No query of Sash reads one. It stores every element, log N times, in the order of arrival: Sash would have to bring each
tuple to its process, where counts per value come aggregated by Spark, serve groups, conditions and late tuples too,
and are shared with MODE, COUNT DISTINCT and TOP.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike

from sash.panes.intervals.synopsis import Activity, Positions, as_rows
from sash.panes.pane_ring import Dtype
from sash.panes.partials import Component


@numba.njit(cache=True, nogil=True)
def kernel_sink(heap: Any, size: Any, keys: Any, place: Any) -> None:
    """Restore the order of a heap of runs, the smallest key on top, below one place."""
    run = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and keys[heap[child + 1]] < keys[heap[child]]:
            child += 1
        if keys[run] <= keys[heap[child]]:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = run


@numba.njit(cache=True, nogil=True)
def kernel_select(elements: Any, starts: Any, ends: Any, runs: Any, rank: Any, heap: Any, keys: Any) -> Any:
    """The element of a rank (from 1) in the runs starts[r] .. ends[r] - 1; uses up `starts`, `heap` and `keys`."""
    while True:
        live = 0
        for run in range(runs):
            if starts[run] < ends[run]:
                heap[live] = run
                live += 1
        step = max(1, rank // (2 * live))
        for place in range(live):
            run = heap[place]
            keys[run] = elements[min(starts[run] + step, ends[run]) - 1]
        for place in range(live // 2 - 1, -1, -1):
            kernel_sink(heap, live, keys, place)
        # The top's key has at most live * (step - 1) elements before it.
        while rank > live * (step - 1) + 1:
            run = heap[0]
            dropped = min(step, ends[run] - starts[run])
            starts[run] += dropped
            rank -= dropped
            if starts[run] < ends[run]:
                keys[run] = elements[min(starts[run] + step, ends[run]) - 1]
            else:
                live -= 1
                heap[0] = heap[live]
            kernel_sink(heap, live, keys, 0)
        if step == 1:
            return keys[heap[0]]


select = kernel_select


_LARGEST = np.iinfo(np.int64).max


@numba.njit(cache=True, nogil=True)
def kernel_extend(runs: Any, size: Any, length: Any, values: Any) -> None:
    levels = runs.size // size
    for i in range(values.size):
        runs[(length + i) & (size - 1)] = values[i]
        arrived, level, width = length + i + 1, 1, 2
        while level < levels and arrived & (width - 1) == 0:
            begin = (arrived - width) & (size - 1)
            kernel_merge(runs, (level - 1) * size + begin, level * size + begin, width)
            level, width = level + 1, width * 2


@numba.njit(cache=True, nogil=True)
def kernel_merge(runs: Any, source: Any, target: Any, width: Any) -> None:
    """Merge two sorted halves into a sorted run elsewhere in the same array."""
    a, b = source, source + width // 2
    middle, end = b, source + width
    while a < middle and b < end:
        x, y = runs[a], runs[b]
        # Which half is next cannot be predicted: arithmetic instead of a jump.
        first = x <= y
        runs[target] = x if first else y
        a, b, target = a + first, b + (not first), target + 1
    while a < middle:
        runs[target] = runs[a]
        a, target = a + 1, target + 1
    while b < end:
        runs[target] = runs[b]
        b, target = b + 1, target + 1


@numba.njit(cache=True, nogil=True)
def kernel_lookup(runs: Any, size: Any, lefts: Any, rights: Any, ranks: Any, out: Any) -> None:
    most = 2 * (runs.size // size) + 2
    starts, ends, heap = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    keys = np.empty(most, runs.dtype)
    for i in range(lefts.size):
        count, level, first, last = 0, 0, lefts[i] - 1, rights[i]
        while first < last:
            # A block without a sibling inside the interval is a run; pairs are left to the level above.
            if first & 1:
                starts[count] = level * size + ((first << level) & (size - 1))
                ends[count] = starts[count] + (1 << level)
                count, first = count + 1, first + 1
            if last & 1:
                last -= 1
                starts[count] = level * size + ((last << level) & (size - 1))
                ends[count] = starts[count] + (1 << level)
                count += 1
            first, last, level = first >> 1, last >> 1, level + 1
        out[i] = select(runs, starts, ends, count, ranks[i], heap, keys)


def quantile_rank(phi: Fraction, count: int) -> int:
    """The position, from 1, of QUANTILE(phi) among `count` sorted elements.

    >>> [quantile_rank(Fraction(phi), 10) for phi in ("0.05", "0.25", "0.95", "1")]
    [1, 2, 9, 10]
    """
    return max(1, phi.numerator * count // phi.denominator)


class QuantileIntervals(Activity):
    """Exact quantiles, one element per position, any phi in (0, 1].

    Needs: ordered elements, int64 or float64. Time: update O(log N_max) amortised, O(N_max) at worst; lookup
    O(log W) runs, O(log^2 W log log W). Space: at most 2 N_max (log2 N_max + 1).
    Reference: Arasu and Widom 2004, section 3.3. Not safe for several threads.

    >>> synopsis = QuantileIntervals(8, np.int64)
    >>> synopsis.extend([7, 3, 9, 1, 5, 8, 2, 6])
    >>> synopsis.lookup(2, 7, Fraction(1, 2)), synopsis.lookup(1, 8, Fraction(9, 10))
    (np.int64(3), np.int64(8))
    """

    def __init__(self, capacity: int, dtype: Dtype = np.float64) -> None:
        super().__init__(capacity)
        self.dtype = dtype
        self._size, self._runs = self.allocated(capacity)

    @staticmethod
    def allocated(capacity: int) -> tuple[int, Component]:
        """The size of a level, a power of two, and an array of as many levels as an active base-interval can have."""
        size = 1 << (capacity - 1).bit_length()
        return size, np.zeros(size * capacity.bit_length(), dtype=np.int64)

    def update(self, value: int | float) -> None:
        """Append one element."""
        self.extend([value])

    def extend(self, values: ArrayLike) -> None:
        """Append elements, the oldest first."""
        keys = to_keys(as_rows(values, (-1,), self.dtype))
        kernel_extend(self._runs, self._size, self.length, keys)
        self.length += len(keys)

    def lookup(self, left: int, right: int, phi: Fraction) -> Any:
        """QUANTILE(phi) of an active interval."""
        return self.lookup_many([left], [right], phi)[0]

    def lookup_many(self, lefts: ArrayLike, rights: ArrayLike, phi: Fraction | Sequence[Fraction]) -> Component:
        """Quantiles of q active intervals; one phi for all or one for each."""
        left, right = self._active(lefts, rights)
        if (left > right).any():
            raise ValueError("an empty interval has no quantile")
        ranks = _ranks(phi, right - left + 1)
        out = np.empty(len(left), dtype=np.int64)
        kernel_lookup(self._runs, self._size, left, right, ranks, out)
        return out if self.dtype is np.int64 else from_keys(out)

    def grow(self, capacity: int) -> None:
        """Keep more positions from now on."""
        # Level 0 has the elements that arrived: they arrive once more. Runs that lack their older half are never read.
        keys = self._runs[np.arange(self.oldest - 1, self.length) % self._size]
        self._enlarge(capacity)
        self._size, self._runs = self.allocated(capacity)
        kernel_extend(self._runs, self._size, self.length - len(keys), keys)


def _ranks(phi: Fraction | Sequence[Fraction], counts: Positions) -> Positions:
    phis = [phi] if isinstance(phi, Fraction) else phi
    if not all(0 < each <= 1 for each in phis):
        raise ValueError("phi of a quantile is above 0 and at most 1")
    if not isinstance(phi, Fraction):
        return np.array([quantile_rank(p, n) for p, n in zip(phi, counts.tolist(), strict=True)], dtype=np.int64)
    if counts.size and phi.numerator <= _LARGEST // int(counts.max()) and phi.denominator <= _LARGEST:
        return np.maximum(1, counts * phi.numerator // phi.denominator)
    return np.array([quantile_rank(phi, n) for n in counts.tolist()], dtype=np.int64)


def to_keys(values: Component) -> Component:
    """Integers in the order of the values: the bits of negative floats have the opposite order."""
    if values.dtype == np.int64:
        return values
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ _LARGEST, bits)


def from_keys(keys: Component) -> Component:
    return np.where(keys < 0, keys ^ _LARGEST, keys).view(np.float64)
