"""A running, interval or landmark synopsis beside the panes of a basic one.

The panes stay: they are the history from which any other synopsis is built, so the choice may change with the
workload and nothing is lost. An accelerator holds, per component of a partial, one shared synopsis (see `intervals`)
over the same panes, each pane a vector over groups; a program's own aggregate has one for all its components:

    panes        | 1 | 2 | 3 |   | 5 |          4 had no tuples: a vector of identities
    positions    | 1 | 2 | 3 | 4 | 5 |

A lookup feeds it. It is built anew when panes were revised or groups got new codes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sash.core.window import Window
from sash.expr.value_codes import Codes
from sash.panes.accumulator import Accumulator, Block, BlockWindow, RankedValues
from sash.panes.intervals import SYNOPSES
from sash.panes.intervals.running import RunningFunctions
from sash.panes.pane_ring import PaneRing
from sash.panes.partials import Combine, Component, Partial

# Room for new groups, so that a synopsis is not copied for each of them.
_ROOM = 1.5
# The most panes that are fed at a time: a block of vectors must not take more memory than the synopsis.
_FED_TOGETHER = 256


# The most panes that a lookup may feed while slides wait for it.
_FED_BY_OTHERS = 16

# Users' names of partials that combine neither by sums nor by extremes.
_NAMES = {
    "moments": "VARIANCE or STDDEV",
    "hll": "APPROX_COUNT_DISTINCT",
    "kll": "APPROX_QUANTILE",
    "items": "APPROX_TOP",
}


def refusal(kind: str, partial: Partial) -> str | None:
    """Why a kind of synopsis cannot hold a partial, or None if it can."""
    if kind == "basic":
        return None
    if partial.ranked:
        return f"{partial.kind.upper()} of {partial.type} compares values through a dictionary"
    if partial.user is not None and kind == "running":
        return None if partial.invertible else f"the aggregate '{partial.kind}' has no invert"
    if partial.combine not in (Combine.ADD, Combine.MIN, Combine.MAX):
        return f"{_NAMES.get(partial.kind, partial.kind.upper())} combines more than one number at a time"
    return next((why for dtype in partial.dtypes if (why := SYNOPSES[kind].refuse(partial.combine, dtype))), None)


class ComponentSynopses:
    """One synopsis for each component of a partial, with the interface of `RunningFunctions`.

    It stores the groups alone that have ever had a value: under a selective predicate these may be few.
    """

    def __init__(self, kind: str, capacity: int, groups: int, partial: Partial, widths: Sequence[int]) -> None:
        make = SYNOPSES[kind]
        self._identities = [partial.identity(i) for i in range(len(partial.dtypes))]
        # The stored groups in the order in which they came, and each group's place among them or -1.
        self._stored: Codes = np.empty(0, dtype=np.int32)
        self._places: Codes = np.full(groups, -1, dtype=np.int32)
        # The stored groups among all: a slice, which costs nothing, where they are the first ones in order.
        self._index: Codes | slice = slice(0, 0)
        self._room = 1
        self._synopses = [make(capacity, self._room, partial.combine, dtype, widths) for dtype in partial.dtypes]

    def extend(self, values: list[Component]) -> None:
        self._store(values)
        for synopsis, rows, nothing in zip(self._synopses, values, self._identities, strict=True):
            if isinstance(self._index, slice) and len(self._stored) == self._room == rows.shape[1]:
                synopsis.extend(rows)
                continue
            kept = np.full((len(rows), self._room), nothing, dtype=rows.dtype)
            kept[:, : len(self._stored)] = rows[:, self._index]
            synopsis.extend(kept)

    def _store(self, values: list[Component]) -> None:
        """Make room for the groups that have a value for the first time."""
        # Of groups that are the first ones in order, only the others may be new.
        first = len(self._stored) if isinstance(self._index, slice) else 0
        if first == values[0].shape[1]:
            return
        columns = zip((rows[:, first:] for rows in values), self._identities, strict=True)
        there = np.logical_or.reduce([(rows != nothing).any(axis=0) for rows, nothing in columns])
        fresh = (first + np.flatnonzero(there & (self._places[first : first + len(there)] < 0))).astype(np.int32)
        if len(fresh):
            self._places[fresh] = np.arange(len(self._stored), len(self._stored) + len(fresh), dtype=np.int32)
            self._stored = np.concatenate([self._stored, fresh])
            in_order = bool((self._stored == np.arange(len(self._stored))).all())
            self._index = slice(0, len(self._stored)) if in_order else self._stored
        if len(self._stored) > self._room:
            # The first groups often are all groups.
            self._room = int(len(self._stored) * _ROOM) if self._room > 1 else len(self._stored)
            for synopsis in self._synopses:
                synopsis.grow_groups(self._room)

    def lookup_many(self, lefts: ArrayLike, rights: ArrayLike) -> list[Component]:
        """Values of all groups, or of the first ones, which are all that have values."""
        whole = []
        for synopsis, nothing in zip(self._synopses, self._identities, strict=True):
            found = synopsis.lookup_many(lefts, rights)
            if isinstance(self._index, slice):
                whole.append(found[:, self._index])
                continue
            dense = np.full((len(found), len(self._places)), nothing, dtype=found.dtype)
            dense[:, self._index] = found[:, : len(self._stored)]
            whole.append(dense)
        return whole

    def lookup_groups(self, left: int, right: int, groups: Codes) -> list[Component]:
        places = self._places[groups]
        known, whole = places >= 0, []
        for synopsis, nothing in zip(self._synopses, self._identities, strict=True):
            found = synopsis.lookup_groups(left, right, np.maximum(places, 0))
            whole.append(np.where(known, found, nothing).astype(found.dtype))
        return whole

    def grow_groups(self, groups: int) -> None:
        fresh = np.full(groups - len(self._places), -1, dtype=np.int32)
        self._places = np.concatenate([self._places, fresh])


class Accelerator:
    """One kind of synopsis for some windows over panes of one length. `lookup` gives None where it cannot answer."""

    def __init__(self, kind: str, length: int, windows: Iterable[Window], partials: Iterable[Partial]) -> None:
        self.kind = kind
        self.length = length
        self.windows = frozenset(windows)
        self.partials = frozenset(partials)
        self._capacity = max(window.reach for window in self.windows) // length + 1
        self._widths = sorted({window.length // length for window in self.windows})
        self._synopses: dict[Partial, ComponentSynopses | RunningFunctions] = {}
        self.groups = 0
        # The end of the pane before position 1, the end of the last pane fed, and how many positions have no pane.
        self._base = self._last = self._missing = 0
        # Nothing is stored before the base: a window that begins earlier begins there.
        self._from_beginning = False
        self._version: int | None = None

    @property
    def key(self) -> tuple[str, int, frozenset[Window], frozenset[Partial]]:
        """Its contents: accelerators with equal keys are equal."""
        return self.kind, self.length, self.windows, self.partials

    def serves(self, window: Window, partials: Iterable[Partial]) -> bool:
        return window in self.windows and self.partials.issuperset(partials)

    def is_ahead_of(self, now: int, version: int) -> bool:
        """Whether it was fed beyond a time: it may have dropped the first panes of a window as of that time."""
        return bool(self._synopses) and version == self._version and self._last > now

    def is_near(self, ring: PaneRing, now: int, version: int) -> bool:
        """Whether a lookup as of a time feeds only a few panes."""
        if version != self._version or not self._synopses:
            return False
        few = 0 <= now - self._last <= _FED_BY_OTHERS * self.length
        return few and self._is_regular(ring, ring.position(self._last), ring.position(now))

    # -- feeding -------------------------------------------------------------------------------------

    def catch_up(self, ring: PaneRing, groups: int, now: int, version: int) -> None:
        """Take in the panes that have closed up to a time."""
        gap = (now - self._last) // self.length
        stale = version != self._version or gap > self._capacity or not self._synopses
        if stale or not self._is_regular(ring, ring.position(self._last), ring.position(now)):
            self._begin(ring, groups, now)
            self._version = version
        if groups > self.groups:
            self.groups = self._with_room(groups)
            for synopsis in self._synopses.values():
                synopsis.grow_groups(self.groups)
        while self._last < now:
            self._feed(ring, min(now, self._last + _FED_TOGETHER * self.length))

    def _is_regular(self, ring: PaneRing, first: int, last: int) -> bool:
        """Whether all these panes have this length; a pane that was open when finer panes came has another."""
        return all(end - start == self.length for start, end in map(ring.span, range(first, last)))

    def _begin(self, ring: PaneRing, groups: int, now: int) -> None:
        """Begin behind the youngest pane that has another length, or as far back as windows reach.

        Position 1 is a multiple of a power of two panes from the epoch, whenever the synopsis is built. So the base
        intervals are always the same, and sums of floats are equal to the last bit, also after a restart.
        """
        first = self._first_regular(ring, now)
        around, phase = self.length << (self._capacity - 1).bit_length(), now % self.length
        self._base = (first - phase) // around * around + phase
        self._missing = (first - self._base) // self.length
        self._from_beginning = ring.position(first) == 0
        self.groups = max(1, self._with_room(groups))
        self._synopses = {partial: self._made(partial) for partial in self.partials}
        for partial, synopsis in self._synopses.items():
            nothing = _nothing(partial, (_FED_TOGETHER, self.groups))
            for left in range(self._missing, 0, -_FED_TOGETHER):
                synopsis.extend([rows[: min(left, _FED_TOGETHER)] for rows in nothing])
        self._last = first

    def _with_room(self, groups: int) -> int:
        """Programs' own aggregates are copied for every new group; the others have room for themselves."""
        return int(groups * _ROOM) if any(partial.user is not None for partial in self.partials) else groups

    def _made(self, partial: Partial) -> ComponentSynopses | RunningFunctions:
        if partial.user is not None:
            return RunningFunctions(self._capacity, self.groups, partial)
        return ComponentSynopses(self.kind, self._capacity, self.groups, partial, self._widths)

    def _first_regular(self, ring: PaneRing, now: int) -> int:
        """Since when all panes have this length, as far back as windows reach."""
        first = now - self._capacity * self.length
        for i in range(ring.position(now) - 1, ring.position(first) - 1, -1):
            start, end = ring.span(i)
            if end - start != self.length or (now - end) % self.length:
                return end + (now - end) % self.length
        return first

    def _feed(self, ring: PaneRing, until: int) -> None:
        first, last = ring.position(self._last), ring.position(until)
        count = (until - self._last) // self.length
        spans = [ring.span(i) for i in range(first, last)]
        starts = ring.cuts([*range(first, last + 1), first]) if last > first else np.zeros(1, dtype=np.int64)
        sizes = np.diff(starts[: len(spans) + 1])
        pane = np.repeat(np.array([(end - self._last) // self.length - 1 for _, end in spans], dtype=np.int64), sizes)
        places = pane * self.groups + ring.codes(first, last)
        for partial, synopsis in self._synopses.items():
            fed = Accumulator(count * self.groups, (partial,), {})
            fed.fold((partial,), places, functools.partial(ring.column, first=first, last=last))
            synopsis.extend([fed.slots[partial, i].reshape(count, -1) for i in range(len(partial.dtypes))])
        self._last = until

    # -- answering -----------------------------------------------------------------------------------

    def lookup_among(
        self,
        window: Window,
        newest: int,
        codes: Codes,
        partials: Iterable[Partial],
        ranked: Mapping[Partial, RankedValues],
    ) -> Accumulator | None:
        """One window for some groups alone, in their order; None if the window reaches back too far."""
        right = (newest - self._base) // self.length
        left = right - window.length // self.length + 1
        if left <= self._missing and not self._from_beginning:
            return None
        accumulator = Accumulator(len(codes), (), ranked)
        for partial in partials:
            for i, found in enumerate(self._synopses[partial].lookup_groups(max(left, 1), max(right, 0), codes)):
                accumulator.slots[partial, i] = found
        return accumulator

    def lookup(
        self, windows: Sequence[Window], newest: int, groups: int, ranked: Mapping[Partial, RankedValues]
    ) -> Sequence[BlockWindow] | None:
        """One accumulator per window as of a time, or None where some window reaches back too far."""
        right = (newest - self._base) // self.length
        lefts = [right - window.length // self.length + 1 for window in windows]
        if min(lefts) <= self._missing and not self._from_beginning:
            return None
        block = Block(groups)
        for partial, synopsis in self._synopses.items():
            parts = synopsis.lookup_many(np.maximum(lefts, 1), np.full(len(lefts), max(right, 0)))
            for i, found in enumerate(parts):
                block.slots[partial, i] = _widened(found, groups, partial.identity(i))
        return [BlockWindow(block, i, ranked) for i in range(len(windows))]


def _nothing(partial: Partial, shape: tuple[int, int]) -> list[Component]:
    return [np.full(shape, partial.identity(i), dtype=dtype) for i, dtype in enumerate(partial.dtypes)]


def _widened(found: Component, groups: int, identity: int | float) -> Component:
    if found.shape[1] >= groups:
        return np.ascontiguousarray(found[:, :groups])
    whole = np.full((len(found), groups), identity, dtype=found.dtype)
    whole[:, : found.shape[1]] = found
    return whole
