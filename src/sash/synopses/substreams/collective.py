"""CI-COUNT and CI-SUM (Arasu and Widom 4.1, 4.2): one index for all thresholds and all windows that end now.

COUNT(S_k[T]) > v says that the unit of k at distance v + 1 from the end came within the last T. An index by the
time of that unit would answer at once, but each v needs one of its own. So distances are grouped into levels
(`levels`), each level keeps the pane of one of its units (`stamps`) and its keys in the order of it (`recency`):

    > 11, T = 20, tau = 106         distance   19 .. 8   7   6   5   4   3   2   1
    p = 1: level 2                                     |    level 2    | lev. 1 | 0 |
                                                         ^ one of these, newer than 86?
    k1   COUNT 13     99 > 86       found
    k2   COUNT 10     99 > 86       found, though it should not be: 10 > 11/4 is all that is promised
    k3   COUNT  3     85 <= 86      not found

A look-up for > v asks a level with no distance beyond v; whoever has more than v units in the window is found.
A look-up for < v asks a level with no distance before v, and takes the keys seen in the window that are not newer
there. So both answers are supersets, and how far they reach is known: `epsilon` and `excess`.

Corrections to the paper: its test >= tau - T takes in a unit that has just left the window, so it is > tau - T here;
its level for v < 2 does not exist, level 0 serves; its bound for ranges (0, v) does not hold (see `Levels.excess`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.storage.keys import Codes
from sash.synopses.substreams.levels import Levels
from sash.synopses.substreams.panes import PaneTimes
from sash.synopses.substreams.recency import empty_listing, newer, with_more_slots
from sash.synopses.substreams.stamps import LENGTH_BITS, update_stamps

Integers = NDArray[np.integer[Any]]

_LEAST_KEYS = 64
_LEAST_SLOTS = 4
# Column 0 of the stamps: the pane in which a key was last seen, be its amount 0.
_SEEN = 0
_NONE: Codes = np.empty(0, dtype=np.int32)
# Pane numbers are four bytes wide; long before they run out they start again.
_RENUMBER = 1 << 30


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
        # Levels that updates have looked at so far: what the updates cost.
        self.visited = 0
        self._panes = PaneTimes()
        self._size = 0
        self._lengths = np.zeros(_LEAST_KEYS, dtype=np.int64)
        self._stamps = np.zeros((_LEAST_KEYS, 1 + p), dtype=np.int32)
        self._listing = empty_listing(1 + p, _LEAST_SLOTS, _LEAST_KEYS)

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

    @staticmethod
    def epsilon(p: int) -> Fraction:
        """`lookup_above` returns only keys with more than v (1 - epsilon)."""
        return Levels(p).epsilon

    @staticmethod
    def excess(p: int) -> Fraction:
        """`lookup_below` returns only keys with less than v (1 + excess)."""
        return Levels(p).excess

    def __len__(self) -> int:
        """How many codes it knows: one more than the greatest."""
        return self._size

    @property
    def listed(self) -> int:
        """How many levels are kept in order, because somebody asks for them."""
        return int((self._listing.filled >= 0).sum())

    # -- updating ------------------------------------------------------------------------------------

    def update(self, time: Micros, keys: Integers, amounts: Integers) -> None:
        """Each key got so many units in the pane that ends at a time: tuples for COUNT, the values' sum for SUM.

        It is an error to go back in time, to bring a key twice, a negative amount, or a number with a fraction.
        An amount of 0 makes a key seen: it has a SUM, and that is less than 1.
        """
        keys, amounts = self._checked(keys, amounts)
        pane = self._panes.number(time)
        if not len(keys):
            return
        self._reserve(int(keys.max()) + 1)
        self._reserve_levels(int((self._lengths[keys] + amounts).max()))
        p, lengths, stamps = self.levels.p, self._lengths, self._stamps
        visited = update_stamps(keys, amounts, pane, p, lengths, stamps, self._listing)
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
            more = np.zeros((capacity - len(self._stamps), self._stamps.shape[1]), dtype=np.int32)
            self._stamps = np.concatenate([self._stamps, more])
            self._unlist(len(self._listing.filled))

    def _reserve_levels(self, length: int) -> None:
        """Columns for all levels that a substream of some length may fill, by whole classes."""
        p = self.levels.p
        classes = -(-self.levels.full(length) // p)
        missing = classes * p + 1 - self._stamps.shape[1]
        if missing > 0:
            self._stamps = np.concatenate([self._stamps, np.zeros((len(self._stamps), missing), np.int32)], axis=1)
            slots = np.concatenate([self._listing.slots, np.full(missing, -1, dtype=np.int32)])
            self._listing = self._listing._replace(slots=slots)

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
        if column >= self._stamps.shape[1]:
            return seen
        return seen[self._stamps[seen, column] <= self._panes.last_outside(tau, length)]

    def candidates_above(self, tau: Micros, length: Micros, v: int) -> Candidates:
        """The keys of `lookup_above` in no order, and apart from each other: those that surely have more than v."""
        outside = self._panes.last_outside(tau, length)
        column = 1 + self.levels.above(operator.index(v)) if v >= 0 else _SEEN
        if column >= self._stamps.shape[1]:
            return Candidates(_NONE, _NONE)
        self._list(column)
        stamps, panes = self._stamps[: self._size], self._panes
        certain, uncertain = newer(self._listing, stamps, column, outside, panes.forgotten, panes.newest)
        found = self._listing.found
        return Candidates(found[:certain].copy(), found[uncertain:].copy())

    def _list(self, column: int) -> None:
        """Have a slot for a column's list: its own, or one whose list was given up, or a new one."""
        if self._listing.slots[column] >= 0:
            return
        several = len(self._listing.filled)
        idle = np.flatnonzero(self._listing.filled < 0)
        if not len(idle):
            self._listing = with_more_slots(self._listing, several)
        slot = idle[0] if len(idle) else several
        slots = self._listing.slots
        slots[slots == slot] = -1
        slots[column] = slot

    def _unlist(self, slots: int) -> None:
        """Give up all lists; they come back as they are asked for."""
        self._listing = empty_listing(self._stamps.shape[1], slots, len(self._lengths))

    # -- forgetting and recovery ---------------------------------------------------------------------

    def forget(self, before: Micros) -> None:
        """No window will begin before a time."""
        self._panes.forget(before)
        if self._panes.forgotten >= _RENUMBER:
            shift = self._panes.renumber()
            np.maximum(self._stamps - shift, 0, out=self._stamps)
            self._unlist(len(self._listing.filled))

    def compact(self, remap: Integers) -> None:
        """Every key gets a new code; -1 forgets it. Codes beyond the end of `remap` are forgotten too."""
        remap = np.asarray(remap)[: self._size]
        old = np.flatnonzero(remap >= 0)
        fresh = remap[old]
        self._size = int(fresh.max(initial=-1)) + 1
        capacity = max(_LEAST_KEYS, self._size)
        lengths, stamps = np.zeros(capacity, np.int64), np.zeros((capacity, self._stamps.shape[1]), np.int32)
        lengths[fresh], stamps[fresh] = self._lengths[old], self._stamps[old]
        self._lengths, self._stamps = lengths, stamps
        self._unlist(_LEAST_SLOTS)

    def save(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a checkpoint. Lists are left out: they are made again when asked for."""
        horizon = [] if self._panes.horizon is None else [self._panes.horizon]
        return {
            "p": np.array([self.levels.p]),
            "times": np.array(self._panes.times, dtype=np.int64),
            "forgotten": np.array([self._panes.forgotten]),
            "horizon": np.array(horizon, dtype=np.int64),
            "lengths": self._lengths[: self._size].copy(),
            "stamps": self._stamps[: self._size].copy(),
        }

    @classmethod
    def load(cls, saved: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `save`."""
        index = cls(int(saved["p"][0]))
        horizon = saved["horizon"].tolist()
        index._panes = PaneTimes(saved["times"].tolist(), int(saved["forgotten"][0]), horizon[0] if horizon else None)
        index._size = len(saved["lengths"])
        spare = max(0, _LEAST_KEYS - index._size)
        index._lengths = np.pad(saved["lengths"], (0, spare))
        index._stamps = np.pad(saved["stamps"], ((0, spare), (0, 0)))
        index._unlist(_LEAST_SLOTS)
        return index
