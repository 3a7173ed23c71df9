"""Windows as differences: for each closed pane the sum of all panes up to it, group by group.

    panes     | 3 | 1 | 4 | 1 | 5 |
    sums      0   3   4   8   9   14        the last three panes have 14 - 4

A scan adds up every window of every execution. A difference is taken only when somebody looks at the answer: an answer
that nobody looks at costs two references.

Needs: components that can be subtracted, in panes none of which lies inside another. Time: an addition per group for
each pane, whatever the number of windows. Space: groups x panes per component. Sums are not changed once they are
there, so answers may be looked at by any thread, at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import pyarrow as pa

from sash.panes.accumulator import kernel_add
from sash.panes.pane_ring import PaneRing
from sash.panes.partials import Component, Partial
from sash.panes.readers import Columns, PlainReader, PredicateGroups

# Beyond so many panes, or panes x groups, no sums are kept: they take as much memory as dense panes, and are made anew
# when a pane is revised.
MOST_PANES = 1_000
MOST_NUMBERS = 1_000_000
# The sums of all panes before some pane, one number per group.
Sums = dict[Partial, Component]


class PrefixSums:
    """The sums of a ring's panes, as far as somebody has asked for them."""

    def __init__(self) -> None:
        # Before each pane of the ring, and after the youngest one.
        self._sums: list[Sums] = [{}]
        self._revision, self._expired = 0, 0

    def serves(self, ring: PaneRing, groups: int) -> bool:
        """Whether sums are worth their space: panes that have most groups, one after the other, and not too many."""
        few = len(ring) <= MOST_PANES and len(ring) * groups <= min(MOST_NUMBERS, 2 * ring.rows)
        return few and ring.rows > 0 and not ring.nested

    def clear(self) -> None:
        self._sums = [{}]

    def catch_up(self, ring: PaneRing, partials: Iterable[Partial], groups: int) -> list[Sums]:
        """Go on to the ring's youngest pane; from the oldest one if panes were revised. The sums before each pane."""
        if self._revision != ring.revision:
            self._sums = [{}]
        else:
            del self._sums[: ring.expired - self._expired]
        self._revision, self._expired = ring.revision, ring.expired
        self._sums += [{} for _ in range(len(ring) + 1 - len(self._sums))]
        for partial in partials:
            known = len(ring)
            while known >= 0 and partial not in self._sums[known]:
                known -= 1
            if known < 0:
                known, self._sums[0][partial] = 0, np.zeros(groups, dtype=np.int64)
            for pane in range(known, len(ring)):
                before, whole = self._sums[pane][partial], np.zeros(groups, dtype=np.int64)
                whole[: len(before)] = before
                kernel_add(ring.codes(pane, pane + 1), ring.column((partial, 0), pane, pane + 1), whole)
                self._sums[pane + 1][partial] = whole
        return self._sums


def difference(older: Component, newer: Component) -> Component:
    if len(older) == len(newer):
        return newer - older
    # Some groups came later than the older sum.
    whole = newer.copy()
    whole[: len(older)] -= older
    return whole


class YoungestPane:
    """The pane that some windows end with. `everybody` are the groups of the pane table."""

    def __init__(self, before: Component, after: Component, everybody: PredicateGroups) -> None:
        """The sums of the numbers of tuples before the pane and after it."""
        self.everybody = everybody
        # Whether every group has tuples in the pane: then every group is in each of the windows.
        self.is_full = not everybody.keys or np.count_nonzero(difference(before, after)) == everybody.count


class DifferenceColumns(Columns):
    """The columns of one window, which are computed when somebody looks at them.

    `older` and `newer` are the sums before the window's oldest pane and after its youngest one: those of the reader's
    partials.
    """

    is_pending = True

    def __init__(
        self, reader: PlainReader, older: tuple[Component, ...], newer: tuple[Component, ...], youngest: YoungestPane
    ) -> None:
        self._reader = reader
        self._older = older
        self._newer = newer
        self._everybody = everybody = youngest.everybody
        self.most = everybody.count
        # A window without panes has the same sums twice. Without keys, its only group is there all the same.
        if youngest.is_full and (older[0] is not newer[0] or not everybody.keys):
            self.count, self._groups = everybody.count, everybody

    def _difference(self, number: int) -> Component:
        return difference(self._older[number], self._newer[number])

    @cached_property
    def _groups(self) -> PredicateGroups:
        everybody = self._everybody
        # The number of rows is the first partial of a reading.
        rows = self._difference(0)
        if np.count_nonzero(rows) == everybody.count:
            return everybody
        places = np.flatnonzero(rows)
        return PredicateGroups(len(places), places, [column.take(pa.array(places)) for column in everybody.keys])

    @cached_property
    def count(self) -> int:  # type: ignore[override]
        return self._groups.count

    @property
    def keys(self) -> dict[str, pa.Array]:
        return self._reader.key_columns(self._groups)

    @property
    def fields(self) -> dict[str, pa.Array]:
        places = self._groups.places
        merged: dict[Partial, list[Component] | pa.Array] = {}
        for number, partial in enumerate(self._reader.reading.partials):
            whole = self._difference(number)
            merged[partial] = [whole if places is None else whole[places]]
        bound = self._reader.bound
        return {call.name: lowering.aggregate.lower(lowering.parts, merged) for call, lowering in bound}
