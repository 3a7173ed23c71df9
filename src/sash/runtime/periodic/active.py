"""A query while it runs: its readings, each bound to the group that serves it.

It also has the readers of a pane table, and the partials that must be stored for them.

Several readings may need one partial, and a reading may be combined from partials of other predicates (SS4). So
partials are stored as long as some reading needs them.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sash.core.changes import EmptyOnce
from sash.core.time import Micros
from sash.core.window import LandmarkWindow, SessionWindow, Window
from sash.panes.covered import CoveredPredicate
from sash.panes.pane_store import AnswerPart, PaneStore
from sash.panes.partials import Partial
from sash.panes.readings import Reading, TableName
from sash.runtime.compiler import CompiledQuery
from sash.sharing.groups import UNSHARED, PaneTable, StateSharing, StoredPartials, pane_table
from sash.sharing.needs import Need
from sash.sharing.rules import Decision

if TYPE_CHECKING:
    from sash.runtime.periodic.pane_group import PaneGroup


@dataclass
class BoundReading:
    """A reading in its group.

    It is the query's reading of this number. From `valid_from` on all tuples that the reading needs are in panes that
    it can use. `covered`: its partials are combined from those of other predicates (SS4).

    `sharing` is what the rules decided about the reading's aggregates when the reading came, and `kept` how far back
    the group kept panes before.
    """

    query: CompiledQuery
    number: int
    group: PaneGroup
    reading: Reading = field(init=False)
    valid_from: int | None = None
    sharing: StateSharing = UNSHARED
    kept: int = 0
    covered: CoveredPredicate | None = field(init=False, default=None)
    # The reading of stored partials: its own, or those that cover them.
    stored: Reading = field(init=False)

    def __post_init__(self) -> None:
        reading = self.query.readings[self.number]
        # A group of short lists is another table than the reading's own.
        self.reading = reading if reading.table is self.group.name else replace(reading, table=self.group.name)
        self.stored = self.reading

    @property
    def synopsis(self) -> str | None:
        """The kind that the user has set."""
        return self.query.synopsis

    @property
    def needs(self) -> tuple[Need, ...]:
        """The reading's aggregates."""
        return self.query.needs[self.number]

    def share(self, sharing: StateSharing) -> None:
        """Use the partials that the rules have chosen."""
        self.sharing, self.covered = sharing, sharing.covered
        self.stored = self.reading if self.covered is None else self.covered.reading(self.reading)

    def become_covered(self, covered: CoveredPredicate | None, why: str) -> None:
        """Use a cover, or none, whatever was decided before."""
        if covered != self.covered:
            decision = Decision("SS4", covered is not None, why)
            cover = None if covered is None else decision
            self.share(StateSharing(tuple((need, decision) for need in self.needs), True, cover, covered))

    def is_cut(self, now: int) -> bool:
        """Whether an edge of its windows lies inside a stored pane: such windows cannot be answered."""
        return any(self.group.cuts(span, now) for span in self.reading.spans)

    @property
    def has_plain_start(self) -> bool:
        """Whether the window begins a fixed time before its answer."""
        return not (isinstance(self.reading.window, LandmarkWindow | SessionWindow) or self.reading.window.unbounded)

    def is_empty(self, now: int) -> bool:
        window = self.reading.window
        return self.group.panes.is_empty(window, now)


class LastAnswer:
    """The time of the last answer of some queries, and the sum of all latenesses, in updates.

    Queries that are executed together, time after time, share one. `is_shared` ends when one of them leaves.
    """

    __slots__ = ("as_of", "is_shared", "lateness")

    def __init__(self, as_of: int | None = None, lateness: int = 0) -> None:
        self.as_of = as_of
        self.lateness = lateness
        self.is_shared = True


@dataclass
class ActiveQuery:
    """A periodic query that runs. `home`, the group of its first reading, schedules the query."""

    compiled: CompiledQuery
    readings: list[BoundReading]
    ends_at: Micros | None = None
    empty: EmptyOnce = field(default_factory=EmptyOnce)
    name: str = field(init=False)
    # With the queries of its task, and its lateness beyond what is shared.
    _last: LastAnswer = field(init=False, default_factory=LastAnswer)
    _lateness: int = field(init=False, default=0)
    # The windows of a query with one reading.
    spans: tuple[Window, ...] | None = field(init=False, default=None)
    _parts: list[tuple[PaneGroup, int, AnswerPart]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.name = self.compiled.name
        if len(self.readings) == 1:
            self.spans = self.readings[0].reading.spans

    @property
    def answered(self) -> int | None:
        """The time of the last answer."""
        return self._last.as_of

    @property
    def lateness(self) -> int:
        """The sum of all latenesses, in updates."""
        return self._lateness + self._last.lateness

    def note_answer(self, as_of: int | None, lateness: int) -> None:
        """Note the time of the last answer, and the sum of all latenesses, apart from other queries."""
        self._last.is_shared = False
        self._last, self._lateness = LastAnswer(as_of, lateness), 0

    def share_last_answer(self, last: LastAnswer, lateness: int) -> None:
        """Note answers together with other queries from now on; `lateness` is its own until now."""
        self._last.is_shared = False
        self._last, self._lateness = last, lateness - last.lateness

    def parts(self) -> list[tuple[PaneGroup, int, AnswerPart]]:
        """What its leaves want of which groups. The parts are made anew only when the rules decide on other covers."""
        for (_, _, part), bound in zip(self._parts, self.readings, strict=False):
            if part.covered is not bound.covered:
                self._parts = []
        if not self._parts:
            readings = iter(self.readings)
            for leaf, finisher in enumerate(self.compiled.finishers):
                for reader, bound in zip(range(len(finisher.readings)), readings, strict=False):
                    self._parts.append((bound.group, leaf, AnswerPart(finisher, reader, bound.covered)))
        return self._parts

    def go_on_from(self, before: ActiveQuery) -> None:
        """Take the place of another query: the same LIFETIME goes on, another one begins."""
        if self.compiled.lifetime == before.compiled.lifetime:
            self.ends_at = before.ends_at

    @property
    def has_told_all(self) -> bool:
        """Whether its windows end at fixed times, and its last answer covers them."""
        return self.answered is not None and self.tells_all(self.answered)

    def is_told(self, as_of: int) -> bool:
        """Whether the sessions of an answer have been told already, when the input ended."""
        return any(
            isinstance(bound.reading.window, SessionWindow) and bound.reading.window.last_of(end) >= as_of
            for bound in self.readings
            for end in bound.group.panes.ends[-1:]
        )

    def tells_all(self, as_of: int) -> bool:
        """Whether its windows end at fixed times, and an answer as of a time covers them."""
        return self.compiled.until is not None and as_of >= self.compiled.until

    @property
    def home(self) -> PaneGroup:
        return self.readings[0].group

    def is_complete(self, now: int) -> bool:
        first, *others = self.readings
        if not first.group.is_complete(first, now):
            return False
        return not others or all(bound.group.is_complete(bound, now) for bound in others)

    def is_silent(self, as_of: int) -> bool:
        """Whether all its windows are empty."""
        return all(bound.is_empty(as_of) for bound in self.readings)

    @property
    def reads_cluster(self) -> bool:
        return any(bound.group.panes.is_read_by_job for bound in self.readings)

    @property
    def groups(self) -> list[PaneGroup]:
        """The groups that the query reads, each once."""
        return list({id(bound.group): bound.group for bound in self.readings}.values())


@dataclass
class AdvanceOutcome:
    """The results of advancing a stream besides answers."""

    failed: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)


class Membership:
    """The readings of one pane table, by query and number."""

    def __init__(self, name: TableName) -> None:
        self._name = name
        self.readers: dict[tuple[str, int], BoundReading] = {}
        # The stored partials, and how many readings need each.
        self.partials = StoredPartials()
        # The current pane table; None when its partials have changed.
        self._table: PaneTable | None = None
        # How far back windows look. The panes of an UNBOUNDED window beyond its LAG are merged into history, and those
        # of a landmark window up to its edges; history without an UNBOUNDED window begins with the oldest landmark.
        self.reach = 0
        self.keeps_history = False
        self.keeps_everything = False
        self.landmarks: set[LandmarkWindow] = set()
        # The readings of queries that are gone, until what is stored for them is let go.
        self._left: list[BoundReading] = []

    def trial(self) -> Membership:
        """A copy with the same readings."""
        other = copy.copy(self)
        other.readers, other.partials, other.landmarks = dict(self.readers), self.partials.copy(), set(self.landmarks)
        return other

    def add(self, query: str, number: int, bound: BoundReading) -> None:
        self.readers[query, number] = bound
        self._keep(bound.stored.partials)
        self._look_back(bound)

    def remove(self, queries: Collection[str]) -> None:
        """Remove readers. What is stored for them stays until it is let go."""
        gone = [key for key in self.readers if key[0] in queries]
        self._left = [*self._left, *(self.readers.pop(key) for key in gone)]

    def let_go(self) -> None:
        """Look back only as far as the present readers, and need no more than what they read."""
        for bound in self._left:
            self._forget(bound)
        self._left = []
        self.reach, self.keeps_history, self.keeps_everything = 0, False, False
        self.landmarks.clear()
        for bound in self.readers.values():
            self._look_back(bound)

    def _look_back(self, bound: BoundReading) -> None:
        window = bound.reading.window
        self.reach = max(self.reach, window.lag if window.unbounded else window.reach)
        self.keeps_history = self.keeps_history or window.unbounded
        if isinstance(window, LandmarkWindow):
            self.landmarks.add(window.span)
        else:
            self.keeps_everything = self.keeps_everything or window.unbounded

    def uncover(self, panes: PaneStore) -> bool:
        """If nobody else reads the parts of a cover, combine them for good: that loses nothing and saves space.

        Whether a reading has other partials now.
        """
        changed = False
        for bound in self.readers.values():
            if bound.covered is None or bound.covered.overlaps:
                continue
            alone = [partial for partial in bound.stored.partials if self.partials.readings(partial) == 1]
            if len(alone) > len(bound.reading.partials) and panes.adopt(bound.reading.partials, bound.covered):
                self._forget(bound)
                bound.become_covered(None, "no other query reads the parts of its cover")
                self._keep(bound.reading.partials)
                changed = True
        return changed

    def restore(self) -> None:
        """After a restart, give the readings the covers that they had before."""
        self.partials = StoredPartials()
        self._keep(partial for bound in self.readers.values() for partial in bound.stored.partials)

    def _keep(self, partials: Iterable[Partial]) -> None:
        self.partials.add(partials)
        self._table = None

    def _forget(self, bound: BoundReading) -> None:
        self.partials.remove(bound.stored.partials)
        self._table = None

    def table(self, length: int) -> PaneTable:
        """All partials in panes of a length; the same object until it changes, because a pass is planned for it."""
        if self._table is None or self._table.length != length:
            self._table = pane_table(self._name, length, self.partials)
        return self._table
