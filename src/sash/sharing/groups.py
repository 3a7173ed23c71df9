"""What the queries of one pane table share: its panes, its partials and its executions.

    pane table   the queries of a stream with the same grouping expressions read the same panes
    partials     a query finds its partials stored (SS1, SS2), or combines them from others (SS4), or adds them
    executions   queries that read the same data are put into one scheduling group, or apart (CS1 to CS3, CS6, CS7)

Predicates do not separate queries: a predicate becomes a filtered partial of the same rows.

A cover (SS4) saves the space of a partial, and Spark the work of filling it; but an execution reads several partials
instead of one. `auto` weighs the two per pane: an own partial is filled from every tuple, a cover's parts are read
window by window.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from sash.core.window import SessionWindow
from sash.panes.covered import CoveredPredicate, can_be_covered
from sash.panes.partials import Partial
from sash.panes.readings import KeySet, Reading, TableName
from sash.plan.expressions import RowExpression
from sash.plan.predicates import Conjunction
from sash.sharing.choose import Load
from sash.sharing.covers import Cover, find_cover
from sash.sharing.needs import Need, listed
from sash.sharing.rules import Decision, store_once

# The assumed number of tuples in a pane before anything is known, and of tuples behind a row.
_TUPLES_PER_PANE = 1_000.0
_TUPLES_PER_ROW = 10.0


# -- state: SS1, SS2, SS4 ------------------------------------------------------------------------------


class StoredPartials:
    """The stored partials of a pane table, with the number of readings of each; their predicates are found by terms.

    The predicates of a cover have terms in common, so a search for a cover does not go through all predicates.
    """

    def __init__(self, partials: Iterable[Partial] = ()) -> None:
        self._readings: Counter[Partial] = Counter()
        # The predicates of a term, and the stored data of each predicate: kinds with their arguments.
        self._by_term: dict[Conjunction, dict[RowExpression, None]] = {}
        self._data: dict[RowExpression, set[tuple[str, RowExpression | None]]] = {}
        self.add(partials)

    def copy(self) -> StoredPartials:
        other = StoredPartials()
        other._readings = self._readings.copy()
        other._by_term = {term: dict(found) for term, found in self._by_term.items()}
        other._data = {predicate: set(data) for predicate, data in self._data.items()}
        return other

    def __contains__(self, partial: object) -> bool:
        return partial in self._readings

    def __iter__(self) -> Iterator[Partial]:
        return iter(self._readings)

    def among(self, partials: Iterable[Partial]) -> frozenset[Partial]:
        """Which of some partials are stored."""
        return frozenset(filter(self._readings.__contains__, partials))

    def readings(self, partial: Partial) -> int:
        """How many readings need a partial."""
        return self._readings[partial]

    def add(self, partials: Iterable[Partial]) -> None:
        for partial in partials:
            self._readings[partial] += 1
            if partial.predicate is not None:
                self._store(partial.predicate, partial)

    def _store(self, predicate: RowExpression, partial: Partial) -> None:
        if predicate not in self._data:
            self._data[predicate] = set()
            for term in _terms(predicate):
                self._by_term.setdefault(term, {})[predicate] = None
        self._data[predicate].add((partial.kind, partial.argument))

    def remove(self, partials: Iterable[Partial]) -> None:
        for partial in partials:
            self._readings[partial] -= 1
            if not self._readings[partial]:
                del self._readings[partial]
                if partial.predicate is not None:
                    self._forget(partial.predicate, partial)

    def _forget(self, predicate: RowExpression, partial: Partial) -> None:
        self._data[predicate].discard((partial.kind, partial.argument))
        if self._data[predicate]:
            return
        del self._data[predicate]
        for term in _terms(predicate):
            del self._by_term[term][predicate]
            if not self._by_term[term]:
                del self._by_term[term]

    def has(self, predicate: RowExpression, data: set[tuple[str, RowExpression | None]]) -> bool:
        """Whether partials of some kinds and arguments are stored under a predicate."""
        return data <= self._data[predicate]

    def predicates_with(self, terms: Iterable[Conjunction]) -> set[RowExpression]:
        """The predicates that have some of these terms."""
        return {predicate for term in terms for predicate in self._by_term.get(term, ())}


def _terms(predicate: RowExpression) -> tuple[Conjunction, ...]:
    return () if predicate.terms is None else predicate.terms.terms


@dataclass(frozen=True, slots=True)
class StateSharing:
    """What a reading finds stored when it comes: the decision about each of its aggregates.

    `is_whole`: everything is stored. `cover` is the decision of SS4 about the reading, if a cover was found; `covered`
    is the cover, if it is used.
    """

    decisions: tuple[tuple[Need, Decision], ...] = ()
    is_whole: bool = False
    cover: Decision | None = None
    covered: CoveredPredicate | None = None


UNSHARED = StateSharing()


def share_state(reading: Reading, needs: Sequence[Need], stored: StoredPartials, load: Load, mode: str) -> StateSharing:
    """How a reading is answered from stored partials, if that is possible; `mode` is auto, always or never."""
    found = stored.among(reading.partials)
    is_whole = len(found) == len(reading.partials)
    other, covered = (None, None) if is_whole else combine_predicates(reading, stored, load, mode)
    if other is not None and other.allowed:
        assert covered is not None
        parts = [part for need in needs for part in need.parts]
        combined = [(part, Decision("SS4", True, functools.partial(part.why_combined, covered))) for part in parts]
        return StateSharing(tuple(combined), True, other, covered)
    own = store_once(needs, found)
    if other is not None:
        own = [(need, decision if decision.allowed else other) for need, decision in own]
    return StateSharing(tuple(own), is_whole, None if covered is None else other)


def combine_predicates(
    reading: Reading, stored: StoredPartials, load: Load, mode: str
) -> tuple[Decision | None, CoveredPredicate | None]:
    """SS4: stored partials of other predicates make up those of a reading, where that costs less than its own.

    No decision: no other predicates could.
    """
    predicate = reading.partials[0].predicate
    if predicate is None or predicate.terms is None or not (usable := _usable(reading, predicate, stored)):
        return None, None
    cover = find_cover(
        predicate.terms,
        [each.terms for each in usable if each.terms is not None],
        sensitive=reading.sensitive,
        subtractable=all(each.subtractable for each in reading.partials),
    )
    if cover is None:
        return Decision("SS4", False, functools.partial(_why_not_covered, reading, usable)), None
    covered = _covered(cover, usable)
    if mode == "never":
        return Decision("SS4", False, "share_predicates is 'never'"), covered
    extra, own = _costs(reading, covered, load)
    costs = f"values per pane and group: {extra:.3g} read in addition, {own:.3g} written for its own synopsis"
    return Decision("SS4", mode == "always" or extra <= own, costs), covered


def _why_not_covered(reading: Reading, usable: Sequence[RowExpression]) -> str:
    apart = " without counting a tuple twice" if reading.sensitive else ""
    return f"the predicates {listed(map(str, usable))} do not make up {reading.partials[0].predicate}{apart}"


def _usable(reading: Reading, predicate: RowExpression, stored: StoredPartials) -> list[RowExpression]:
    """The other predicates that may be a part of a cover, and that store everything that the reading needs.

    An added predicate has a wanted term. A predicate that is taken back has only terms that were added before.
    """
    if any(partial.predicate != predicate for partial in reading.partials):
        return []  # A FILTER: no cover fits several conditions.
    # Short lists of two conditions have different items, so they cannot be combined. Sessions are made row by row.
    is_of_rows = reading.table.lists is not None or isinstance(reading.window, SessionWindow)
    if is_of_rows or not all(map(can_be_covered, reading.partials)):
        return []
    added = stored.predicates_with(_terms(predicate))
    related = stored.predicates_with(term for each in added for term in _terms(each)) - {predicate}
    data = {(partial.kind, partial.argument) for partial in reading.partials}
    return sorted((each for each in related if stored.has(each, data)), key=attrgetter("sql"))


def _covered(cover: Cover, usable: list[RowExpression]) -> CoveredPredicate:
    added, subtracted = (tuple(usable[i] for i in places) for places in (cover.added, cover.subtracted))
    return CoveredPredicate(added, subtracted, overlaps=cover.combine == "extreme")


def _costs(reading: Reading, covered: CoveredPredicate, load: Load) -> tuple[float, float]:
    """Values per pane and group: the additional ones that executions read, and those that are written otherwise."""
    parts = len(covered.added) + len(covered.subtracted)
    panes = 1.0 if reading.window.unbounded else reading.window.length / load.pane
    executions = load.pane / (reading.window.slide or load.pane)
    tuples = max(_TUPLES_PER_ROW, _TUPLES_PER_PANE / load.rows_per_pane)
    return (parts - 1) * panes * executions, 1 + tuples


# -- the data of a scheduling group -----------------------------------------------------------------


def same_data(label: str, reading: Reading, related: Mapping[str, str]) -> str:
    """The data of a reading; `related` gives the first of a family of predicates."""
    arguments = sorted({partial.argument.sql for partial in reading.partials if partial.argument is not None})
    of = f" of {', '.join(arguments)}" if arguments else ""
    predicate = reading.partials[0].predicate
    where = "" if predicate is None else f" where {related.get(predicate.sql, predicate.sql)}"
    return f"{label}{of}{where}"


def families(readings: Iterable[Reading]) -> dict[str, str]:
    """Predicates whose synopses are read together, each with the first of its family."""
    family_of: dict[str, set[str]] = {}
    for reading in readings:
        together = {partial.predicate.sql for partial in reading.partials if partial.predicate is not None}
        known = {id(family): family for one in together if (family := family_of.get(one)) is not None}
        # The largest family takes the others in: so no predicate moves more than log2 of their number times.
        largest, *others = sorted([together, *known.values()], key=len, reverse=True)
        for family in others:
            largest |= family
            family_of |= dict.fromkeys(family, largest)
        family_of |= dict.fromkeys(together, largest)
    families = {id(family): family for family in family_of.values()}
    firsts = {which: min(family) for which, family in families.items()}
    return {predicate: firsts[id(family)] for predicate, family in family_of.items()}


@dataclass(frozen=True)
class PaneTable:
    """The partials that Spark computes for one grouping, for every pane and group, in canonical order."""

    name: TableName
    length: int
    partials: tuple[Partial, ...]

    @property
    def label(self) -> str:
        return self.name.label

    @property
    def keys(self) -> KeySet:
        """The keys of the pass: those of the groups, then those that only PARTITION BY names."""
        return (*self.name.keys, *(key for key in self.name.partition if key not in self.name.keys))


def pane_table(name: TableName, length: int, partials: Iterable[Partial]) -> PaneTable:
    """The table for some readings; sorted, so that the same queries give the same pass."""
    return PaneTable(name, length, tuple(sorted(set(partials), key=lambda partial: partial.signature)))
