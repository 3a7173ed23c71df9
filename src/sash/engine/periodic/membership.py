"""Who reads a pane table, and what must be stored for them.

Several readings may need one partial, and a reading may be put together from partials of other predicates (SS4). So
partials are stored as long as some reading needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sash.engine.periodic.active import BoundReading
from sash.sharing.pane_tables import PaneTable, pane_table
from sash.sharing.relevant import StoredPartials
from sash.synopses.pane_store import PaneStore
from sash.synopses.partials import Partial
from sash.synopses.readings import TableName


class Membership:
    """The readings of one pane table, by query and number."""

    def __init__(self, name: TableName) -> None:
        self._name = name
        self.readers: dict[tuple[str, int], BoundReading] = {}
        # The partials that readings need to be stored, and for how many of them.
        self.partials = StoredPartials()
        # The pane table as it is now; None when what is stored has changed.
        self._table: PaneTable | None = None
        # How far back windows look; what an UNBOUNDED window sees beyond its LAG is merged into history.
        self.reach = 0
        self.keeps_history = False

    def add(self, query: str, number: int, bound: BoundReading) -> None:
        self.readers[query, number] = bound
        self._keep(bound.stored.partials)
        self._look_back(bound)

    def remove(self, queries: Collection[str]) -> None:
        for key in [key for key in self.readers if key[0] in queries]:
            self._forget(self.readers.pop(key))
        self.reach, self.keeps_history = 0, False
        for bound in self.readers.values():
            self._look_back(bound)

    def _look_back(self, bound: BoundReading) -> None:
        window = bound.reading.window
        self.reach = max(self.reach, window.lag if window.unbounded else window.reach)
        self.keeps_history = self.keeps_history or window.unbounded

    def uncover(self, panes: PaneStore) -> None:
        """A cover whose parts nobody else reads any more is put together for good: nothing is lost, and space saved."""
        for bound in self.readers.values():
            if bound.covered is None or bound.covered.overlaps:
                continue
            alone = [partial for partial in bound.stored.partials if self.partials.readings(partial) == 1]
            if len(alone) > len(bound.reading.partials) and panes.adopt(bound.reading.partials, bound.covered):
                self._forget(bound)
                bound.covered = None
                self._keep(bound.reading.partials)

    def restore(self) -> None:
        """After a restart: the readings have the covers that they had before."""
        self.partials = StoredPartials()
        self._keep(partial for bound in self.readers.values() for partial in bound.stored.partials)

    def _keep(self, partials: Iterable[Partial]) -> None:
        self.partials.add(partials)
        self._table = None

    def _forget(self, bound: BoundReading) -> None:
        self.partials.remove(bound.stored.partials)
        self._table = None

    def table(self, length: int) -> PaneTable:
        """All that is stored in panes of a length; the same one until it changes, for a pass is planned for it."""
        if self._table is None or self._table.length != length:
            self._table = pane_table(self._name, length, self.partials)
        return self._table
