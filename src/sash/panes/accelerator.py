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
    """One synopsis for each component of a partial, with the interface of `RunningFunctions`."""

    def __init__(self, kind: str, capacity: int, groups: int, partial: Partial, widths: Sequence[int]) -> None:
        make = SYNOPSES[kind]
        self._synopses = [make(capacity, groups, partial.combine, dtype, widths) for dtype in partial.dtypes]

    def extend(self, values: list[Component]) -> None:
        for synopsis, rows in zip(self._synopses, values, strict=True):
            synopsis.extend(rows)

    def lookup_many(self, lefts: ArrayLike, rights: ArrayLike) -> list[Component]:
        return [synopsis.lookup_many(lefts, rights) for synopsis in self._synopses]

    def lookup_groups(self, left: int, right: int, groups: Codes) -> list[Component]:
        return [synopsis.lookup_groups(left, right, groups) for synopsis in self._synopses]

    def grow_groups(self, groups: int) -> None:
        for synopsis in self._synopses:
            synopsis.grow_groups(groups)


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
            self.groups = int(groups * _ROOM)
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
        self.groups = max(1, int(groups * _ROOM))
        self._synopses = {partial: self._made(partial) for partial in self.partials}
        for partial, synopsis in self._synopses.items():
            nothing = _nothing(partial, (_FED_TOGETHER, self.groups))
            for left in range(self._missing, 0, -_FED_TOGETHER):
                synopsis.extend([rows[: min(left, _FED_TOGETHER)] for rows in nothing])
        self._last = first

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
                block.slots[partial, i] = np.ascontiguousarray(found[:, :groups])
        return [BlockWindow(block, i, ranked) for i in range(len(windows))]


def _nothing(partial: Partial, shape: tuple[int, int]) -> list[Component]:
    return [np.full(shape, partial.identity(i), dtype=dtype) for i, dtype in enumerate(partial.dtypes)]
