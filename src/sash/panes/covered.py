"""Partials of one predicate, combined from the partials of other predicates (thesis 8.3.3).

    SUM where protocol = 'TCP' or protocol = 'UDP'   =   SUM where protocol = 'TCP'  +  SUM where protocol = 'UDP'
    MAX where protocol = 'TCP' or user = 'U'         =   the greater of the two, though terms overlap
    SUM where protocol = 'TCP'                       =   SUM where 'TCP' or 'UDP'    -  SUM where protocol = 'UDP'

The parts are scanned like all partials, and combined group by group when an answer is made.
Partials of one pane table have the same groups, so this is one vector operation per part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from sash.panes.accumulator import FOLDS, Accumulator, Block, Slot
from sash.panes.pane_ring import Pane
from sash.panes.partials import Combine, Component, Partial
from sash.panes.readings import Reading, WindowView
from sash.panes.sketches import SKETCHES, Unions
from sash.plan.expressions import RowExpression


def can_be_covered(partial: Partial) -> bool:
    """Whether it can: moments need counts, and ranked values compare only within one predicate's dictionary."""
    combines = (Combine.ADD, Combine.MIN, Combine.MAX, Combine.UNION)
    return not partial.ranked and partial.combine in combines


@dataclass(frozen=True)
class CoveredPredicate:
    """The predicates whose partials are added, and those whose partials are taken away.

    `overlaps`: tuples may be in several of them. Extremes do not mind that. Of rows and counts, queries then only ask
    whether there are any, so the greatest part tells.
    """

    added: tuple[RowExpression, ...]
    subtracted: tuple[RowExpression, ...] = ()
    overlaps: bool = False

    def parts(self, partial: Partial) -> list[Partial]:
        return [replace(partial, predicate=predicate) for predicate in (*self.added, *self.subtracted)]

    def stored(self, partials: Iterable[Partial]) -> tuple[Partial, ...]:
        """The partials that must be stored to combine these partials."""
        return tuple(dict.fromkeys(part for partial in partials for part in self.parts(partial)))

    def reading(self, reading: Reading) -> Reading:
        """The reading of the stored partials instead."""
        return replace(reading, partials=self.stored(reading.partials))

    def view(self, view: WindowView, partials: tuple[Partial, ...]) -> WindowView:
        """A window as if these partials were stored themselves."""
        since = dict(view.since)
        for partial in partials:
            starts = [view.since[part] for part in self.parts(partial)]
            since[partial] = max((start for start in starts if start is not None), default=None)
        return replace(
            view,
            accumulator=self._accumulator(view.accumulator, partials),
            since=since,
            later=lambda start: self._accumulator(view.later(start), partials),
        )

    def _accumulator(self, parts: Accumulator, partials: tuple[Partial, ...]) -> Accumulator:
        block = None if parts.block is None else self._block(parts.block, partials)
        whole = parts.like(block)
        for partial in partials:
            if block is not None and (partial, 0) in block.slots:
                whole.slots |= {slot: out[parts.window] for slot, out in block.slots.items() if slot[0] == partial}
                continue
            columns = [parts.merged(part, None) for part in self.parts(partial)]
            for i in range(len(partial.dtypes)):
                whole.slots[partial, i] = self.combined(partial, [column[i] for column in columns])
        return whole

    def _block(self, parts: Block, partials: tuple[Partial, ...]) -> Block:
        """The combined block of a scan; queries with the same cover share it."""
        key = (self, partials)
        if key not in parts.memo:
            whole = parts.memo[key] = Block(parts.groups)
            for partial in (partial for partial in partials if partial.combine is not Combine.UNION):
                for i in range(len(partial.dtypes)):
                    columns = [parts.slots[part, i] for part in self.parts(partial)]
                    windows = min(len(column) for column in columns)
                    whole.slots[partial, i] = self.combined(partial, [column[:windows] for column in columns])
        block: Block = parts.memo[key]
        return block

    def completed(self, pane: Pane, slot: Slot, parts: list[Slot]) -> Pane:
        """An open pane with a component that is combined from others; without it if the pane lacks all of them."""
        if any(part not in pane.columns for part in parts):
            return pane
        whole = self.combined(slot[0], [pane.columns[part] for part in parts])
        return replace(pane, columns={**pane.columns, slot: whole})

    def combined(self, partial: Partial, columns: list[Component]) -> Component:
        """A component of a partial from those of its parts."""
        if partial.combine is Combine.UNION:
            return _united(partial, columns)
        fold: Callable[[Component, Component, Component], None] = FOLDS[partial.combine]
        if self.overlaps and partial.combine is Combine.ADD:
            fold = FOLDS[Combine.MAX]
        whole = np.array(columns[0])
        flat, places = whole.reshape(-1), np.arange(whole.size, dtype=np.int32)
        for column in columns[1 : len(self.added)]:
            fold(places, np.ascontiguousarray(column).reshape(-1), flat)
        for column in columns[len(self.added) :]:
            whole -= column
        return whole


def _united(partial: Partial, columns: list[Component]) -> Component:
    unions = Unions(SKETCHES[partial.kind], len(columns[0]))
    for column in columns:
        unions.add(np.arange(len(column), dtype=np.int32), column)
    return unions.values()
