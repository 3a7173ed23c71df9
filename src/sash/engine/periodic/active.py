"""A query while it runs: its readings, each bound to the group that serves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sash.core.time import Micros
from sash.engine.compiler import CompiledQuery
from sash.synopses.covered import Covered
from sash.synopses.readings import Reading

if TYPE_CHECKING:
    from sash.engine.periodic.group import PaneGroup


@dataclass
class BoundReading:
    """A reading in its group.

    `synopsis` is the kind that the query's user insists on. `valid_from` is since when all the tuples it needs are in
    panes that it can use. `covered`: its partials are put together from those of other predicates (SS4).
    """

    reading: Reading
    group: PaneGroup
    synopsis: str | None = None
    valid_from: int | None = None
    covered: Covered | None = None

    @property
    def stored(self) -> Reading:
        """The reading of what is stored: its own partials, or those that cover them."""
        return self.reading if self.covered is None else self.covered.reading(self.reading)

    def is_complete(self, now: int) -> bool:
        return self.group.is_complete(self, now)

    def is_cut(self, now: int) -> bool:
        """Some edge of its windows lies inside a stored pane: they cannot be put together."""
        return any(self.group.cuts(span, now) for span in self.reading.spans)

    def is_empty(self, now: int) -> bool:
        window = self.reading.window
        return self.group.panes.is_empty(window, now)


@dataclass
class ActiveQuery:
    """`home` is the group in which it is scheduled: that of its first reading."""

    compiled: CompiledQuery
    readings: list[BoundReading]
    ends_at: Micros | None = None
    resting: bool = False
    # As of when it was answered last, and by how many updates in all it was late.
    answered: int | None = None
    lateness: int = 0
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.compiled.name

    def note_answer(self, as_of: int, now: int, pane: int) -> None:
        """It is answered as of a time: late by the updates beyond its SLIDE since the last answer (thesis 8.5.1).

        A query that rests is not late when it wakes.
        """
        assert self.compiled.slide is not None
        if self.compiled.exactly:
            late = now - as_of
        else:
            late = 0 if self.answered is None or self.resting else as_of - self.answered - self.compiled.slide
        self.lateness += max(0, late) // pane
        self.answered = as_of

    @property
    def home(self) -> PaneGroup:
        return self.readings[0].group

    @property
    def groups(self) -> list[PaneGroup]:
        """The groups that it reads, each once."""
        return list({id(bound.group): bound.group for bound in self.readings}.values())


@dataclass
class AdvanceOutcome:
    """What advancing a stream produced besides answers."""

    failed: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
