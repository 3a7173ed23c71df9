"""Queries that are executed together time after time: what all their executions have in common is found out once.

    task SLIDE 5 sec     q1 [20 sec]   q2 [35 sec]   q3 [20 sec]   q4 [35 sec]
    kinds of answers     0             1             0             1              per execution: one content each

A task falls due as a whole. So an execution works for its parts and its kinds of answers, of which there are far fewer
than queries; a query has only its name in its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sash.core.window import LandmarkWindow, SessionWindow, Window
from sash.panes.pane_store import AnswerPart, PartIdentity
from sash.runtime.answers.answer import Addressees
from sash.runtime.periodic.active import ActiveQuery, BoundReading, LastAnswer
from sash.schedule import joint_cost, separate_cost

if TYPE_CHECKING:
    from sash.runtime.periodic.pane_group import PaneGroup

# What is wanted of one group: each part once, with a query that wants it.
WantedParts = dict[PartIdentity, tuple[AnswerPart, ActiveQuery]]


class AnswerKind(NamedTuple):
    """Answers that differ only in the names of their queries, of which `first` is one.

    The answer of a simple query is a part of the execution. Any other answer is composed, once for all queries that
    read the output of one leader.
    """

    first: ActiveQuery
    leader: str
    part: PartIdentity | None
    slide: int | None


class JointQueries:
    """`leader` gives the query whose output a query reads. `members` are the queries of the task, by name."""

    def __init__(
        self,
        queries: Sequence[ActiveQuery],
        leader: Callable[[ActiveQuery], ActiveQuery] = lambda active: active,
        members: tuple[str, ...] = (),
    ) -> None:
        self.queries = queries
        self.members = members
        self.names = [active.name for active in queries]
        self.addressees = Addressees(self.names)
        self.wanted: dict[PaneGroup, WantedParts] = {}
        self.kinds: list[AnswerKind] = []
        # The number of the kind of each query's answers.
        self.places: list[int] = []
        # Of each kind the part that is its answer, if each kind has one; the SLIDEs of all queries.
        self.whole: list[PartIdentity] | None = None
        self.slides: set[int | None] = set()
        self._leader = leader
        self._exactly = queries[0].compiled.exactly
        self._shortest = min(active.compiled.slide or 0 for active in queries)
        # What the queries share since they have had an answer together.
        self._last: LastAnswer | None = None
        self._costs: tuple[int, int, int] | None = None
        # If these windows have tuples, all windows have.
        self._narrowest: list[BoundReading] = []
        # How far back windows look into each group, and since when the last of the readings is valid.
        self._reaches: dict[PaneGroup, tuple[int, int | None]] = {}
        # Of each kind of answers, the same, if a comparison tells whether they are complete.
        self._edges: list[tuple[int, int | None]] | None = None
        self._some_rest = any(active.empty.rests for active in queries)
        self._compile()

    def _compile(self) -> None:
        numbers: dict[tuple[object, ...], int] = {}
        narrowest: dict[tuple[PaneGroup, Window | int], BoundReading] = {}
        for active in self.queries:
            part, name = None, self._leader(active).name
            for group, _, part in active.parts():
                self.wanted.setdefault(group, {}).setdefault(part.identity, (part, active))
            only = part.identity if part is not None and active.compiled.is_simple else None
            # Queries whose windows are equal, and known since the same time, are complete together.
            key = (only or name, active.compiled.slide, *[bound.valid_from for bound in active.readings])
            self.places.append(numbers.setdefault(key, len(numbers)))
            if len(self.kinds) < len(numbers):
                self.kinds.append(AnswerKind(active, name, only, active.compiled.slide))
                for bound in active.readings:
                    window, group = bound.reading.window, bound.group
                    # The length does not say where these windows begin, so only equal ones have a place in common.
                    place = (group, window if isinstance(window, LandmarkWindow | SessionWindow) else window.lag)
                    if window.length < narrowest.setdefault(place, bound).reading.window.length:
                        narrowest[place] = bound
                    reach, since = self._reaches.get(group, (0, None))
                    later = (time for time in (since, bound.valid_from) if time is not None)
                    self._reaches[group] = max(reach, window.reach), max(later, default=None)
        self._narrowest = list(narrowest.values())
        whole = [kind.part for kind in self.kinds if kind.part is not None]
        self.whole = whole if len(whole) == len(self.kinds) else None
        self.slides = {kind.slide for kind in self.kinds}
        firsts = [kind.first.readings for kind in self.kinds]
        if all(len(bound) == 1 and bound[0].has_plain_start for bound in firsts):
            self._edges = [(bound.reading.window.reach, bound.valid_from) for (bound,) in firsts]

    @property
    def home(self) -> PaneGroup:
        return self.queries[0].home

    def names_of(self, kind: int) -> list[str]:
        """The queries with answers of a kind."""
        return [name for name, place in zip(self.names, self.places, strict=True) if place == kind]

    def costs(self, pane: int) -> tuple[int, int]:
        """The analytic costs of executing all queries together, and each of them alone."""
        if self._costs is None or self._costs[0] != pane:
            windows = [window for active in self.queries for window in active.compiled.windows]
            # An UNBOUNDED window reads one merged pane.
            lengths = [pane if window.unbounded else window.length for window in windows]
            self._costs = pane, joint_cost(lengths, pane), separate_cost(lengths, pane)
        return self._costs[1:]

    def complete(self, as_of: int) -> list[bool]:
        """Of each kind of answers, whether they are complete."""
        for group, (reach, since) in self._reaches.items():
            if not group.is_whole(as_of - reach, since):
                return self._complete_each(as_of)
        return [True] * len(self.kinds)

    def _complete_each(self, as_of: int) -> list[bool]:
        edges = None if self._edges is None else self.home.whole_from
        if edges is None or self._edges is None:
            return [kind.first.is_complete(as_of) for kind in self.kinds]
        return [as_of - reach >= (edges if since is None else max(since, edges)) for reach, since in self._edges]

    def awake(self, as_of: int, now: int, pane: int) -> JointQueries | None:
        """Count an answer of each query that has none as of this time; the queries that have something to tell.

        An answer is late by the updates beyond SLIDE since the last answer (thesis 8.5.1). A resting query is not late
        when it wakes.
        """
        asked = self.queries if self._note_together(as_of, now, pane) else self._note_each(as_of, now, pane)
        some_silent = self._some_rest
        for bound in self._narrowest:
            some_silent = some_silent or bound.is_empty(as_of)
        if some_silent:
            asked = _telling(asked, as_of)
            self._some_rest = any(active.empty.rests for active in self.queries)
        return self.only(asked)

    def _note_together(self, as_of: int, now: int, pane: int) -> bool:
        """Count an answer of all queries at once: they have had the last one together, and none rests."""
        last = self._last
        if last is None or not last.is_shared or last.as_of is None or last.as_of == as_of or self._some_rest:
            return False
        behind = now - as_of if self._exactly else as_of - last.as_of - self._shortest
        if behind > 0 and not self._exactly:
            # The slides of queries that read the output of another are longer than the other's.
            return False
        last.lateness += max(0, behind) // pane
        last.as_of = as_of
        return True

    def _note_each(self, as_of: int, now: int, pane: int) -> Sequence[ActiveQuery]:
        """Count an answer of each query that has none as of this time."""
        asked, latenesses, behind = [], list[int](), now - as_of
        for active in self.queries:
            since = active.answered
            if since == as_of:
                continue
            if not self._exactly:
                assert active.compiled.slide is not None
                behind = 0 if since is None else as_of - since - active.compiled.slide
            late = behind // pane if behind > 0 and (self._exactly or not active.empty.rests) else 0
            asked.append(active)
            latenesses.append(active.lateness + late)
        self._last = LastAnswer(as_of) if len(asked) == len(self.queries) else None
        for active, lateness in zip(asked, latenesses, strict=True):
            if self._last is None:
                active.note_answer(as_of, lateness)
            else:
                active.share_last_answer(self._last, lateness)
        return asked

    def only(self, queries: Sequence[ActiveQuery]) -> JointQueries | None:
        """Some of the queries; None if there are none."""
        if len(queries) == len(self.queries):
            return self
        return JointQueries(queries, self._leader) if queries else None


def divided(
    joint: Sequence[JointQueries], is_apart: Callable[[ActiveQuery], bool]
) -> tuple[list[JointQueries], list[JointQueries]]:
    """The queries that stay together, and those that are executed apart."""
    sides: tuple[list[JointQueries], list[JointQueries]] = [], []
    for each in joint:
        for side, apart in zip(sides, (False, True), strict=True):
            if (some := each.only([active for active in each.queries if is_apart(active) is apart])) is not None:
                side.append(some)
    return sides


def _telling(queries: Sequence[ActiveQuery], as_of: int) -> list[ActiveQuery]:
    """The queries with an answer: a window that stays empty is reported once, and once more at its fixed end."""
    known: dict[tuple[Window, ...], bool] = {}
    found = []
    for active in queries:
        silent = None if active.spans is None else known.get(active.spans)
        if silent is None:
            silent = active.is_silent(as_of)
            if active.spans is not None:
                known[active.spans] = silent
        if active.empty.tells(not silent) or active.tells_all(as_of):
            found.append(active)
    return found
