"""IJ, RJ and the table of running sums: vectors over groups, looked up pair by pair (CS4).

    whole     a synopsis over the intervals of expiry: single ones, base-intervals or running sums
    apart     per lead and interval, the results whose first (or second) tuple is older by that much or more

    windows (8, 6)     the 6 youngest intervals of `whole`; interval 7 of "first older by 1 or more",
                       interval 8 of "first older by 2 or more"

Leads are cumulative here, so that each interval beyond the shorter window is one value. Old intervals take values after
their time: an update brings one value per active position, b in all (2b for IJ). RJ keeps one running value more than
the thesis, whose update drops the value that windows of b intervals need.

Nothing is stored beside the vectors: the join itself holds the tuples of its windows, from which another synopsis can
be built.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.panes.accelerator import refusal
from sash.panes.accumulator import FOLDS, Accumulator
from sash.panes.intervals.interval import IntervalSynopsis
from sash.panes.intervals.running import RunningSynopsis
from sash.panes.intervals.synopsis import OPERATIONS, UFUNCS, SharedSynopsis, identity
from sash.panes.joins.join_synopsis import JoinHistory, Needs
from sash.panes.joins.pairs import Band, Cells, WindowPair
from sash.panes.joins.sum_table import RunningTable
from sash.panes.pane_ring import Dtype
from sash.panes.partials import Combine, Component, Partial


class RevisedSynopsis(SharedSynopsis):
    """A shared synopsis whose positions take values after their time."""

    @abstractmethod
    def revise(self, values: Component) -> None:
        """Combine each of the last positions with a value: (n, groups), the oldest first."""

    def reorder(self, places: Component, groups: int) -> None:
        """Give every group another place among `groups`; groups without a place (-1) are forgotten."""
        old, kept = self._rows, np.flatnonzero(places >= 0)
        self.groups = groups
        self._rows = self._empty(len(old))
        self._rows[:, places[kept]] = old[:, kept]


class IntervalJoin(IntervalSynopsis, RevisedSynopsis):
    """IJ over vectors of groups."""

    def revise(self, values: Component) -> None:
        tree, combine = self._rows, UFUNCS[self._operation]
        leaves = len(tree) // 2
        slots = leaves + (self.length - len(values) + np.arange(len(values))) % leaves
        tree[slots] = combine(tree[slots], values)
        # A node whose halves lie a turn of the ring apart gets a value that nobody reads: see `interval`.
        while leaves > 1:
            tree[leaves // 2 : leaves] = combine(tree[leaves : 2 * leaves : 2], tree[leaves + 1 : 2 * leaves : 2])
            leaves //= 2


class RunningJoin(RunningSynopsis, RevisedSynopsis):
    """RJ over vectors of groups."""

    def revise(self, values: Component) -> None:
        rights = self.length - len(values) + 1 + np.arange(len(values))
        self._rows[rights % len(self._rows)] += np.cumsum(values, axis=0)


REVISED: dict[str, type[RevisedSynopsis]] = {"interval": IntervalJoin, "running": RunningJoin}


Numbers = NDArray[np.int64]


class JoinVectors:
    """`kind` holds the whole intervals: one of `REVISED`. It can answer from its first update on.

    Needs: for running, sums of whole numbers. Time: update b x (1 + leads) values, 2b more for interval; a pair's
    lookup what its kind reads of `whole`, and |n1 - n2| values. Space: b, 2b to 4b or b + 1, and b per lead.

    >>> synopsis = JoinVectors(RunningJoin, Band(-1, 1), 8, 1, Combine.ADD, np.int64)
    >>> synopsis.update(np.array([0, 3]), np.array([2, 0]), np.array([0, 0]), np.array([5, 1]))
    >>> [int(synopsis.lookup(WindowPair(*pair))[0]) for pair in ((3, 3), (3, 2), (3, 4), (4, 3))]
    [5, 0, 5, 6]
    """

    def __init__(
        self, kind: type[RevisedSynopsis], band: Band, capacity: int, groups: int, combine: Combine, dtype: Dtype
    ) -> None:
        self.band, self.capacity = band, capacity
        self._combine, self._dtype = combine, dtype
        self._identity = identity(combine, dtype)
        self.whole = kind(capacity, groups, combine, dtype)
        # Intervals before the beginning exist from the beginning: results may have tuples from there.
        self.whole.extend(np.full((capacity, groups), self._identity, dtype=dtype))
        self._apart = self._empty(groups)

    @property
    def groups(self) -> int:
        return self.whole.groups

    @property
    def numbers(self) -> int:
        """Numbers kept per group."""
        return len(self.whole.stored()) + self.capacity * (self.band.values - 1)

    def _empty(self, groups: int) -> Component:
        return np.full((self.band.values - 1, self.capacity, groups), self._identity, dtype=self._dtype)

    # -- updates -------------------------------------------------------------------------------------

    def update(self, first_ages: Numbers, second_ages: Numbers, codes: NDArray[np.integer], values: Component) -> None:
        """Take the results of a pane that has closed, with the ages of their tuples as of its end."""
        self.slide(1)
        self.insert(first_ages, second_ages, codes, values)

    def slide(self, panes: int) -> None:
        """Make every interval this many panes older."""
        panes = min(panes, self.capacity)
        self.whole.extend(np.full((panes, self.groups), self._identity, dtype=self._dtype))
        slots = (self.whole.length - 1 - np.arange(panes)) % self.capacity
        self._apart[:, slots] = self._identity

    def insert(self, first_ages: Numbers, second_ages: Numbers, codes: NDArray[np.integer], values: Component) -> None:
        """Insert more results, into intervals of any age."""
        ages, leads = self.band.place(first_ages, second_ages)
        inside = ages < self.capacity
        ages, leads, codes, values = ages[inside], leads[inside], codes[inside], values[inside]
        new = np.full((self.capacity, self.groups), self._identity, dtype=self._dtype)
        self._fold(new, self.capacity - 1 - ages, codes, values)
        self.whole.revise(new)
        slots = (self.whole.length - 1 - ages) % self.capacity
        for place, (side, least) in enumerate(self._leads()):
            reached = leads * side >= least
            if reached.any():
                self._fold(self._apart[place], slots[reached], codes[reached], values[reached])

    def _fold(self, rows: Component, slots: Numbers, codes: NDArray[np.integer], values: Component) -> None:
        FOLDS[self._combine](slots * self.groups + codes, values, rows.reshape(-1))

    def _leads(self) -> list[tuple[int, int]]:
        """The contents of each row of `apart`: leads of the first tuple from 1, 2, .. on, then of the second."""
        sides = ((1, self.band.above), (-1, self.band.below))
        return [(side, least) for side, most in sides for least in range(1, most + 1)]

    def grow_groups(self, groups: int) -> None:
        """Hold more groups, which have no results yet."""
        old = self._apart
        self._apart = self._empty(groups)
        self._apart[:, :, : self.groups] = old
        self.whole.grow_groups(groups)

    def reorder(self, places: Numbers, groups: int) -> None:
        """Give every group another place among `groups`; groups without a place (-1) are forgotten."""
        old, kept = self._apart, np.flatnonzero(places >= 0)
        self._apart = self._empty(groups)
        self._apart[:, :, places[kept]] = old[:, :, kept]
        self.whole.reorder(places, groups)

    # -- recovery ------------------------------------------------------------------------------------

    def begin(self, pane: int) -> None:
        """Begin before any update: base-intervals then follow the panes' own numbers, whenever the synopsis was
        made, and sums of floats are the same to the last bit."""
        leaves = 1 << (self.capacity - 1).bit_length()
        self.whole.extend(np.full(((pane - self.whole.length) % leaves, self.groups), self._identity, self._dtype))

    @property
    def places(self) -> int:
        """How many rows `dump` has."""
        return self.capacity * self.band.values

    def dump(self) -> Component:
        """The values of the intervals, the youngest first, and then those of each lead."""
        now, ages = self.whole.length, np.arange(self.capacity)
        whole = self.whole.lookup_many(now - ages, now - ages)
        apart = self._apart[:, (now - 1 - ages) % self.capacity]
        return np.concatenate([whole, apart.reshape(-1, self.groups)])

    def restore(self, rows: Component) -> None:
        """The inverse of `dump`, into an empty synopsis."""
        ages = np.arange(self.capacity)
        self.whole.revise(rows[: self.capacity][::-1])
        apart = rows[self.capacity :].reshape(self._apart.shape)
        self._apart[:, (self.whole.length - 1 - ages) % self.capacity] = apart

    # -- lookups -------------------------------------------------------------------------------------

    def everything(self) -> Component:
        """The combined values of all intervals."""
        now = self.whole.length
        return self.whole.lookup(now - self.capacity + 1, now)

    def lookup(self, pair: WindowPair) -> Component:
        """The (groups,) combined values of the results in a pair of windows."""
        if (why := self.band.why_not(pair, self.capacity)) is not None:
            raise ValueError(why)
        reading, now = self.band.reading(pair), self.whole.length
        found = self.whole.lookup(now - reading.whole + 1, now)
        if reading.next:
            into = np.arange(reading.next)
            leads = (0 if reading.side > 0 else self.band.above) + reading.least - 1 + into
            intervals = (now - 1 - reading.whole - into) % self.capacity
            combine = UFUNCS[OPERATIONS[self._combine]]
            with np.errstate(invalid="ignore"):
                found = combine(found, combine.reduce(self._apart[leads, intervals], axis=0))
        return found

    def values(self, age: int) -> tuple[Component, ...]:
        """The values of an interval: with a band of (-1, 1) the three values of a generalized synopsis, in order.

        Those without the first tuple's results are the ones whose second tuple is older, and the other way round.
        """
        now = self.whole.length
        every = self.whole.lookup(now - age, now - age)
        kept = self._apart[:, (now - 1 - age) % self.capacity]
        below, above = kept[self.band.above :][::-1], kept[: self.band.above]
        return (*below, every, *above)


# Room for new groups, so that a synopsis is not copied for each of them.
_ROOM = 1.5


def join_refusal(kind: str, partial: Partial) -> str | None:
    """Why a kind of join synopsis (basic, interval, running, table) cannot hold a partial, or None if it can."""
    return refusal("running" if kind == "table" else kind, partial)


def pair_refusal(kind: str, band: Band, capacity: int, pair: WindowPair) -> str | None:
    """Why a kind of join synopsis cannot answer a pair of windows, or None if it can."""
    longest = longest_pair(band)
    if kind == "table" and (pair.first > longest.first or pair.second > longest.second):
        kept = f"the synopsis keeps {longest.first} and {longest.second}"
        return f"a join of windows of {pair.first} and {pair.second} panes: {kept}"
    return band.why_not(pair, capacity)


class JoinLookups(JoinHistory):
    """`kind` is interval (IJ), running (RJ) or table; a table answers every pair that fits into its band."""

    def __init__(
        self,
        kind: str,
        key_types: list[pa.DataType],
        partials: Iterable[Partial],
        length: int,
        band: Band,
        capacity: int,
    ) -> None:
        super().__init__(key_types, partials, length, band, capacity)
        for partial in self.partials:
            if (why := join_refusal(kind, partial)) is not None:
                raise ValueError(why)
        self.kind = kind
        self._synopses = {(p, i): self._made(p, i) for p in self.partials for i in range(len(p.dtypes))}
        self._room = 1

    def _made(self, partial: Partial, component: int) -> JoinVectors | RunningTable:
        if self.kind == "table":
            return RunningTable(longest_pair(self.band), 1)
        kind, dtype = REVISED[self.kind], partial.dtypes[component]
        return JoinVectors(kind, self.band, self.capacity, 1, partial.combine, dtype)

    @property
    def numbers(self) -> int:
        first = next(iter(self._synopses.values()))
        return first.numbers * len(self._keys)

    def why_not(self, pair: WindowPair) -> str | None:
        return pair_refusal(self.kind, self.band, self.capacity, pair)

    # -- filling -------------------------------------------------------------------------------------

    def _begin(self, pane: int) -> None:
        for synopsis in self._synopses.values():
            synopsis.begin(pane)

    def _slide(self, panes: int) -> None:
        for synopsis in self._synopses.values():
            synopsis.slide(panes)

    def _insert(self, ages: NDArray[np.int64], leads: NDArray[np.int64], cells: Cells) -> None:
        assert self._now is not None
        self._make_room()
        first, second, codes = self._now - cells.x, self._now - cells.y, cells.codes.astype(np.int64)
        for slot, synopsis in self._synopses.items():
            synopsis.insert(first, second, codes, cells.columns[slot])

    def _make_room(self) -> None:
        if len(self._keys) > self._room:
            self._room = int(len(self._keys) * _ROOM)
            for synopsis in self._synopses.values():
                synopsis.grow_groups(self._room)

    def _live(self) -> NDArray[np.bool_]:
        """Which groups have rows, under some predicate, in the pair with the longest windows."""
        live = np.zeros(len(self._keys), dtype=np.bool_)
        for (partial, _), synopsis in self._synopses.items():
            if partial.kind == "rows":
                found = synopsis.everything()[: len(live)] > 0
                live[: len(found)] |= found
        return live

    def _recode(self, remap: NDArray[np.int32], groups: int) -> None:
        places = np.full(self._room, -1, dtype=np.int64)
        places[: min(len(remap), self._room)] = remap[: self._room]
        self._room = max(1, int(groups * _ROOM))
        for synopsis in self._synopses.values():
            synopsis.reorder(places, self._room)

    def _saved(self) -> Iterator[tuple[int, Cells]]:
        """The values of the vectors, for groups that have some."""
        self._make_room()
        kept = {slot: synopsis.dump()[:, : len(self._keys)] for slot, synopsis in self._synopses.items()}
        shape = next(iter(kept.values())).shape
        there = np.zeros(shape, dtype=np.bool_)
        for (partial, _), rows in kept.items():
            nothing = partial.identity()
            there |= ~np.isnan(rows) if nothing != nothing else rows != nothing
        places, codes = np.nonzero(there)
        columns = {slot: rows[places, codes] for slot, rows in kept.items()}
        yield 1, Cells(places, np.zeros(len(places), dtype=np.int64), codes.astype(np.int32), columns)

    def _load(self, part: int, cells: Cells) -> None:
        self._make_room()
        for (partial, i), synopsis in self._synopses.items():
            rows = np.full((synopsis.places, self._room), partial.identity(), dtype=partial.dtypes[i])
            rows[cells.x, cells.codes] = cells.columns[partial, i]
            synopsis.restore(rows)

    # -- answering -----------------------------------------------------------------------------------

    def _answers(self, needs: Needs) -> Iterator[tuple[WindowPair, Accumulator]]:
        self._make_room()
        for pair, partials in needs.items():
            accumulator = Accumulator(len(self._keys), (), self._ranked)
            for partial in partials:
                for i in range(len(partial.dtypes)):
                    accumulator.slots[partial, i] = self._synopses[partial, i].lookup(pair)[: len(self._keys)]
            yield pair, accumulator


def longest_pair(band: Band) -> WindowPair:
    """The windows of a table that answers every pair within a band's ends."""
    return WindowPair(band.high + 1, 1 - band.low)
