"""CI-COUNT and CI-SUM (Arasu and Widom 4.1, 4.2): one index for all thresholds and all windows that end now.

COUNT(S_k[T]) > v says that the unit of k at distance v + 1 from the end came within the last T. A tuple is one unit of
COUNT, a value a is a units of SUM; the newest unit has distance 1. Distances are grouped into levels; each level keeps
the pane of one of its units (`stamps`), and its keys in the order of it (`recency`). There are p levels of size 1, then
p of size 2, p of size 4, ... A *class* c is the p levels of size 2^c:

    p = 2      class |   0   |     1     |         2         |               3                |
               level | 0 | 1 |  2  |  3  |    4    |    5    |       6        |       7        |
    distance from    | 1 | 2 |  3  |  5  |    7    |   11    |       15       |       23       |
               to    | 1 | 2 |  4  |  6  |   10    |   14    |       22       |       30       |

With level = c p + r, the distances are (p + r) 2^c - p + 1 .. (p + r + 1) 2^c - p. So many distances in a row hold one
multiple of 2^c: the unit at that position stands for the level. After m units it is position
2^c ((m + p) div 2^c - p - r). A level whose distances are not all there yet (m < `last`) stores nothing.

A look-up for > v asks a level with no distance beyond v, one for < v a level with no distance before v and the keys
seen in the window. Both answers are supersets; `epsilon` and `excess` say how far they reach.

A pane brings `amount` units at once, and a row of stamps goes from m to m + amount in one step. For each class c in
which m + p passes a multiple of 2^c, say n of them, place r takes the stamp of place r - n, or the new pane's:

    p = 4, c = 3, m = 70      r    0    1    2    3      positions of the units (the row keeps their panes)
    before                      | 40 | 32 | 24 | 16 |
    after 15 more,    n = 2     | 56 | 48 | 40 | 32 |    56 and 48 are older than this pane as well, and a level of a
                                                         lower class stood for them
    after 40 more,    n = 5     | 80 | 72 | 64 | 56 |    80 and 72 are past m: they come with this pane

That touches p (log2 amount + 2) levels on average. Classes go from the highest to the lowest, so that what is copied is
still old. Lengths are kept modulo 2^62: only their lower bits and differences matter.

Corrections to the paper: its test >= tau - T takes in a unit that has just left the window, so it is > tau - T here;
its level for v < 2 does not exist, level 0 serves; its bound for ranges (0, v) does not hold (see `Levels.excess`). The
paper leaves the lower side of a range open; here it has a level and a bound of its own.
"""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numba
import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.expr.value_codes import Codes
from sash.panes.substreams.pane_numbers import PaneTimes
from sash.panes.substreams.recency import empty_listing, newer, with_more_slots

LENGTH_BITS = 62
_MASK = (1 << LENGTH_BITS) - 1


@numba.njit(cache=True, nogil=True)
def kernel_note(slot: int, key: int, old: int, stamp: int, floors: Any, moves: Any, filled: Any) -> None:
    """Write a move into the log of a list, unless the list has been given up or does not go down so far."""
    if filled[slot] < 0 or stamp <= floors[slot]:
        return
    if filled[slot] == moves.shape[1]:
        # After so many moves it is cheaper to make the list anew, if somebody asks for it.
        filled[slot] = -1
        return
    moves[slot, filled[slot], 0] = key
    moves[slot, filled[slot], 1] = old
    moves[slot, filled[slot], 2] = stamp
    filled[slot] += 1


# Inlined, because for one tuple the passing of so many arrays would take as long as the work.
@numba.njit(cache=True, nogil=True, inline="always")
def kernel_advance(key: int, amount: int, pane: int, p: int, lengths: Any, stamps: Any, listing: Any) -> int:
    """Advance one key's row from m to m + amount; the result is how many levels it visited."""
    m, row, slots = lengths[key], stamps[key], listing.slots
    floors, moves, filled = listing.floors, listing.moves, listing.filled
    if slots[0] >= 0 and row[0] != pane:
        kernel_note(slots[0], key, row[0], pane, floors, moves, filled)
    row[0] = pane
    before, after = m + p, m + amount + p
    classes, top = (row.size - 1) // p, 0
    while top < classes and before >> top != after >> top:
        top += 1
    for c in range(top - 1, -1, -1):
        n = (after >> c) - (before >> c)
        source = c - 1
        for r in range(p - 1, -1, -1):
            column = 1 + c * p + r
            if r >= n:
                stamp = row[column - n]
            else:
                position = ((after >> c) - p - r) << c
                stamp = np.int32(pane)
                if position <= m:
                    # As in `Levels.of`; the positions only get newer, so `source` only goes down.
                    shifted = m - position + p
                    while shifted >> source < p:
                        source -= 1
                    stamp = row[1 + source * p + (shifted >> source) - p]
            if slots[column] >= 0 and row[column] != stamp:
                kernel_note(slots[column], key, row[column], stamp, floors, moves, filled)
            row[column] = stamp
    lengths[key] = (m + amount) & _MASK
    return top * p


@numba.njit(cache=True, nogil=True)
def kernel_update(keys: Any, amounts: Any, pane: int, p: int, lengths: Any, stamps: Any, listing: Any) -> int:
    """Advance all keys of a pane; the result is how many levels it visited, or -1 if a key outgrows the levels."""
    visited, classes = 0, (stamps.shape[1] - 1) // p
    for i in range(keys.size):
        if (lengths[keys[i]] + amounts[i] + p) >> classes > p:
            return -1
        visited += kernel_advance(keys[i], amounts[i], pane, p, lengths, stamps, listing)
    return visited


update_stamps, advance = kernel_update, kernel_advance


class Levels:
    """The arithmetic of levels, in integers of any size.

    Needs: p >= 1, levels per class. Time: O(1) each. Reference: Arasu and Widom 4.1.2.

    >>> levels = Levels(2)
    >>> [(levels.first(i), levels.last(i)) for i in range(6)]
    [(1, 1), (2, 2), (3, 4), (5, 6), (7, 10), (11, 14)]
    >>> levels.above(12), levels.below(12), levels.epsilon
    (4, 6, Fraction(1, 2))
    """

    def __init__(self, p: int) -> None:
        if p < 1:
            raise ValueError(f"a class has at least one level, not {p}")
        self.p = p

    def size(self, level: int) -> int:
        return 1 << level // self.p

    def first(self, level: int) -> int:
        """The smallest distance of a level."""
        c, r = divmod(level, self.p)
        return ((self.p + r) << c) - self.p + 1

    def last(self, level: int) -> int:
        """The largest distance of a level."""
        return self.first(level) + self.size(level) - 1

    def of(self, distance: int) -> int:
        """The level of a distance."""
        # first(c p + r) + p - 1 = (p + r) 2^c: its leading part lies between p and 2 p.
        shifted = distance + self.p - 1
        c = (shifted // self.p).bit_length() - 1
        return c * self.p + (shifted >> c) - self.p

    def full(self, distance: int) -> int:
        """How many levels lie wholly within a distance: a substream of that length stores as many."""
        return self.of(distance + 1)

    def stored(self, length: int, level: int) -> int | None:
        """The position that stands for a level after `length` units."""
        c, r = divmod(level, self.p)
        position = (((length + self.p) >> c) - self.p - r) << c
        return position if position > 0 else None

    def above(self, v: int) -> int:
        """The level that answers > v: the highest one without a distance beyond v, else level 0."""
        # Figure 7 says floor(log2 v) - 1 for p = 1, which for v = 2^j - 1 is one level lower than need be.
        return max(0, self.full(v - 1 if self.p == 1 else v) - 1) if v > 0 else 0

    def below(self, v: int) -> int:
        """The level that answers < v: the lowest one without a distance before v."""
        level = self.of(max(v, 1))
        return level if self.first(level) >= v else level + 1

    @property
    def epsilon(self) -> Fraction:
        """A look-up for > v returns only keys with more than v (1 - epsilon)."""
        return max(Fraction(2, self.p + 2), Fraction(3, 2 * self.p + 2))

    @property
    def excess(self) -> Fraction:
        """A look-up for < v returns only keys with less than v (1 + excess): 4 v for p = 1, (1 + 2/p) v beyond."""
        # The unit that stands for level `below(v)` is outside the window, so the window has fewer than last(below(v))
        # units. Against v > first(below(v) - 1) that is 2/p more inside a class and 3/(2p - 1) across two.
        return max(Fraction(2, self.p), Fraction(3, 2 * self.p - 1))


Integers = NDArray[np.integer[Any]]

_LEAST_KEYS = 64
_LEAST_SLOTS = 4
# Column 0 of the stamps: the pane in which a key was last seen, even with an amount of 0.
_SEEN = 0
_NONE: Codes = np.empty(0, dtype=np.int32)
# Pane numbers are four bytes wide; long before they run out they start again.
RENUMBER_FROM = 1 << 30


class Candidates(NamedTuple):
    """Keys that surely satisfy a filter, and keys that may."""

    certain: Codes
    uncertain: Codes


class CollectiveIndex:
    """Keys by COUNT, or by SUM of whole numbers >= 0, of all windows that end now.

    Needs: panes in the order of time; windows of whole panes; amounts of at least 0. Exact values come from elsewhere.
    Time: an update O(p log amount) per key, amortised; `lookup_above` O(K_o) and a share of what has moved since
    the last look-up (see `recency`); `lookup_below` O(keys in the window).
    Space: about 4 p log2(m / p) bytes per key, m the units of the largest substream, and at most 15 bytes per key
    for each level that is asked for.
    Reference: Arasu and Widom 4.1 (CI-COUNT), 4.2 (CI-SUM). Not safe for several threads.

    >>> index = CollectiveIndex()
    >>> index.update(10, np.array([0, 1, 2]), np.array([7, 1, 4]))
    >>> index.update(20, np.array([1]), np.array([9]))
    >>> index.lookup_above(20, 20, 5).tolist(), index.lookup_above(20, 10, 5).tolist()
    ([0, 1], [1])
    >>> index.lookup(20, 20, "<=", 4).tolist()
    [2]
    """

    def __init__(self, p: int = 8) -> None:
        self.levels = Levels(p)
        # How many levels the updates have visited: their cost.
        self.visited = 0
        self.panes = PaneTimes()
        self._size = 0
        self._lengths = np.zeros(_LEAST_KEYS, dtype=np.int64)
        self.stamps = np.zeros((_LEAST_KEYS, 1 + p), dtype=np.int32)
        self.listing = empty_listing(1 + p, _LEAST_SLOTS, _LEAST_KEYS)

    @classmethod
    def refuse(cls, function: str, type: pa.DataType | None) -> str | None:
        """Why the index cannot serve HAVING with this function of this argument; None if it can."""
        name = function.upper()
        if name == "COUNT":
            return None
        if name != "SUM" or type is None:
            return f"a collective index serves COUNT and SUM, not {name}"
        if pt.is_integer(type) or pt.is_decimal(type):
            return None
        return f"a collective index counts units, and a SUM of {type} is not a whole number of any unit"

    def __len__(self) -> int:
        """How many codes it knows: one more than the greatest."""
        return self._size

    @property
    def listed(self) -> int:
        """How many levels are kept in order, because look-ups use them."""
        return int((self.listing.filled >= 0).sum())

    # -- updating ------------------------------------------------------------------------------------

    def update(self, time: Micros, keys: Integers, amounts: Integers) -> None:
        """Add units to keys in the pane that ends at a time: tuples for COUNT, the values' sum for SUM.

        It is an error to go back in time, to bring a key twice, a negative amount, or a number with a fraction.
        An amount of 0 makes a key seen: it has a SUM, and that is less than 1.
        """
        keys, amounts = self._checked(keys, amounts)
        pane = self.panes.number(time)
        if not len(keys):
            return
        self._reserve(int(keys.max()) + 1)
        self._reserve_levels(int((self._lengths[keys] + amounts).max()))
        p, lengths, stamps = self.levels.p, self._lengths, self.stamps
        visited = update_stamps(keys, amounts, pane, p, lengths, stamps, self.listing)
        if visited < 0:
            raise ValueError("a key came more than once in one update")
        self.visited += visited

    def _checked(self, keys: Integers, amounts: Integers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        keys, amounts = np.asarray(keys), np.asarray(amounts)
        if len(keys) != len(amounts):
            raise ValueError(f"{len(keys)} keys with {len(amounts)} amounts")
        if len(keys):
            if not (np.issubdtype(keys.dtype, np.integer) and np.issubdtype(amounts.dtype, np.integer)):
                raise TypeError(f"keys and amounts are whole numbers, not {keys.dtype} and {amounts.dtype}")
            if keys.min() < 0:
                raise ValueError("a key below 0")
            if amounts.min() < 0:
                raise ValueError("an amount below 0: the index answers only while nothing is taken away")
            if int(amounts.max()) >= (1 << LENGTH_BITS) - self.levels.p:
                raise OverflowError(f"an amount of {amounts.max()} in one pane is too large for the index")
        return keys.astype(np.int64), amounts.astype(np.int64)

    def _reserve(self, keys: int) -> None:
        self._size = max(self._size, keys)
        if keys > len(self._lengths):
            capacity = max(keys, 2 * len(self._lengths))
            self._lengths = np.concatenate([self._lengths, np.zeros(capacity - len(self._lengths), dtype=np.int64)])
            more = np.zeros((capacity - len(self.stamps), self.stamps.shape[1]), dtype=np.int32)
            self.stamps = np.concatenate([self.stamps, more])
            self._unlist(len(self.listing.filled))

    def _reserve_levels(self, length: int) -> None:
        """Columns for all levels that a substream of some length may fill, by whole classes."""
        p = self.levels.p
        classes = -(-self.levels.full(length) // p)
        missing = classes * p + 1 - self.stamps.shape[1]
        if missing > 0:
            self.stamps = np.concatenate([self.stamps, np.zeros((len(self.stamps), missing), np.int32)], axis=1)
            slots = np.concatenate([self.listing.slots, np.full(missing, -1, dtype=np.int32)])
            self.listing = self.listing._replace(slots=slots)

    # -- looking up ----------------------------------------------------------------------------------

    def lookup(self, tau: Micros, length: Micros, comparison: str, v: float | Decimal | Fraction) -> Codes:
        """A superset of the keys seen in (tau - length, tau] whose aggregate is > v, >= v, < v or <= v, sorted."""
        if comparison == ">":
            return self.lookup_above(tau, length, math.floor(v))
        if comparison == ">=":
            return self.lookup_above(tau, length, math.ceil(v) - 1)
        if comparison == "<":
            return self.lookup_below(tau, length, math.ceil(v))
        if comparison == "<=":
            return self.lookup_below(tau, length, math.floor(v) + 1)
        raise ValueError(f"unknown comparison: {comparison}; known: >, >=, <, <=")

    def lookup_above(self, tau: Micros, length: Micros, v: int) -> Codes:
        """Every key with more than v in (tau - length, tau], none without more than v (1 - epsilon)."""
        return np.sort(np.concatenate(self.candidates_above(tau, length, v)))

    def lookup_below(self, tau: Micros, length: Micros, v: int) -> Codes:
        """Every key seen in (tau - length, tau] with less than v, none without less than v (1 + excess)."""
        if v <= 0:
            return _NONE
        seen = self.lookup_above(tau, length, -1)
        column = 1 + self.levels.below(operator.index(v))
        if column >= self.stamps.shape[1]:
            return seen
        return seen[self.stamps[seen, column] <= self.panes.last_outside(tau, length)]

    def candidates_above(self, tau: Micros, length: Micros, v: int) -> Candidates:
        """The keys of `lookup_above` in no order; those that surely have more than v are apart."""
        outside = self.panes.last_outside(tau, length)
        column = 1 + self.levels.above(operator.index(v)) if v >= 0 else _SEEN
        if column >= self.stamps.shape[1]:
            return Candidates(_NONE, _NONE)
        self._list(column)
        stamps, panes = self.stamps[: self._size], self.panes
        certain, uncertain = newer(self.listing, stamps, column, outside, panes.forgotten, panes.newest)
        found = self.listing.found
        return Candidates(found[:certain].copy(), found[uncertain:].copy())

    def _list(self, column: int) -> None:
        """Give a column's list a slot: its own, or one whose list was given up, or a new one."""
        if self.listing.slots[column] >= 0:
            return
        several = len(self.listing.filled)
        idle = np.flatnonzero(self.listing.filled < 0)
        if not len(idle):
            self.listing = with_more_slots(self.listing, several)
        slot = idle[0] if len(idle) else several
        slots = self.listing.slots
        slots[slots == slot] = -1
        slots[column] = slot

    def _unlist(self, slots: int) -> None:
        """Give up all lists; look-ups make them again."""
        self.listing = empty_listing(self.stamps.shape[1], slots, len(self._lengths))

    # -- forgetting --------------------------------------------------------------------------------------

    def forget(self, before: Micros) -> None:
        """Forget panes: no window will begin before a time."""
        self.panes.forget(before)
        if self.panes.forgotten >= RENUMBER_FROM:
            shift = self.panes.renumber()
            np.maximum(self.stamps - shift, 0, out=self.stamps)
            self._unlist(len(self.listing.filled))
