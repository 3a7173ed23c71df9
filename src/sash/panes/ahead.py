"""Windows that are read before their time is known: the pane that leaves next is read last (TTU, thesis 7.4.2).

    as of 6          | 1 | 2 | 3 | 4 | 5 | 6 |         read ahead, without a lock
                         └last┘<------------->
    nothing slid     | 1 | 2 | 3 | 4 | 5 | 6 |         then 2, which is there still: as of 6
    one pane slid        | 2 | 3 | 4 | 5 | 6 | 7 |     or 7, since 2 has left: as of 7, and nothing was in vain
    two               a pane that was read has left:   all over (`follows` says so)

Needs: partials whose panes may be folded in any order and give the same to the last bit; other partials, and windows
that lookups answer, are read at the end. Panes of one length. Time: as a scan. Space: a row of a block per window, kept
until the last panes are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sash.core.window import Window
from sash.panes.accumulator import Accumulator
from sash.panes.partials import Combine, Partial

if TYPE_CHECKING:
    from sash.panes.basic_interval import BasicIntervalSynopsis

# The most numbers per component that are kept while the last panes are missing.
MOST_AHEAD = 4_000_000


class ReadAhead:
    """Some windows of a frozen synopsis as of a time, all but their oldest panes."""

    def __init__(
        self, frozen: BasicIntervalSynopsis, needs: Mapping[Window, list[Partial]], now: int, pane: int
    ) -> None:
        self._frozen = frozen
        self._now = now
        self._pane = pane
        wanted = {window: partials for window, partials in needs.items() if _comes_in_parts(window, partials, pane)}
        few = len(wanted) * frozen.groups <= MOST_AHEAD
        self.needs = frozen.scanned(wanted) if few else {}
        self._read: dict[Window, Accumulator] = {}

    def read(self) -> None:
        """Read without a lock."""
        shorter = {replace(window, length=window.length - self._pane): window for window in self.needs}
        needs = {short: self.needs[window] for short, window in shorter.items()}
        for view in self._frozen.scan(needs, self._now):
            self._read[shorter[view.window]] = view.accumulator

    def follows(self, version: int, now: int) -> bool:
        """Whether the panes that were read are still in the windows as of a later time, with the same codes."""
        return now - self._now <= self._pane and version == self._frozen.version

    def complete(self, later: BasicIntervalSynopsis, now: int) -> None:
        """Read the last panes from a synopsis that was frozen as of now, and complete the windows."""
        for window, accumulator in self._read.items():
            oldest, newest = self._now - window.reach, self._now - window.lag
            for since, until in ((now - window.reach, oldest + self._pane), (newest, now - window.lag)):
                later.fold(accumulator, self.needs[window], since, until)
        later.know(self._read)


def _comes_in_parts(window: Window, partials: list[Partial], pane: int) -> bool:
    return not window.unbounded and window.length > pane and all(map(_in_any_order, partials))


def _in_any_order(partial: Partial) -> bool:
    """Sums of floats depend on the order; ranks are as of one dictionary; sketches and moments have their own way."""
    return partial.subtractable or (partial.combine in (Combine.MIN, Combine.MAX) and not partial.ranked)
