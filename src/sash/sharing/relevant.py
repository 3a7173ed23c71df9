"""The relevant set of a query: stored synopses that answer its WHERE by terms (thesis 8.3.3, rule SS4).

It saves the space of a synopsis, and Spark the work of filling it; but an execution reads several instead of one.
`auto` weighs the two per pane: an own synopsis is filled from every tuple, a cover's parts are read window by window.

Predicates are found by their terms, so that looking for a cover takes as long as there are predicates with terms in
common, however many queries there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sash.plan.expressions import RowExpression
from sash.plan.predicates import Conjunction, Disjunction
from sash.sharing.choose import Load
from sash.sharing.covers import Cover, find_cover
from sash.synopses.covered import Covered, can_be_covered
from sash.synopses.partials import Partial
from sash.synopses.readings import Reading

# Before anything is known, panes are thought to have so many tuples, and rows to be made of so many.
_TUPLES_PER_PANE = 1_000.0
_TUPLES_PER_ROW = 10.0


class StoredPartials:
    """The partials that a pane table stores, each for a number of readings."""

    def __init__(self) -> None:
        self._readings: Counter[Partial] = Counter()
        self._by_term: dict[Conjunction, Counter[RowExpression]] = {}

    def __contains__(self, partial: Partial) -> bool:
        return partial in self._readings

    def __iter__(self) -> Iterator[Partial]:
        return iter(self._readings)

    def readings(self, partial: Partial) -> int:
        """For how many readings a partial is stored."""
        return self._readings[partial]

    def add(self, partials: Iterable[Partial]) -> None:
        """A reading needs these."""
        for partial in partials:
            self._readings[partial] += 1
            if self._readings[partial] == 1 and partial.predicate is not None:
                for term in _terms(partial.predicate):
                    self._by_term.setdefault(term, Counter())[partial.predicate] += 1

    def remove(self, partials: Iterable[Partial]) -> None:
        """A reading does not need these any more; what none needs is gone."""
        for partial in partials:
            self._readings[partial] -= 1
            if not self._readings[partial]:
                del self._readings[partial]
                if partial.predicate is not None:
                    self._forget(partial.predicate)

    def _forget(self, predicate: RowExpression) -> None:
        for term in _terms(predicate):
            self._by_term[term] -= Counter([predicate])
            if not self._by_term[term]:
                del self._by_term[term]

    def near(self, wanted: Disjunction) -> set[RowExpression]:
        """The predicates that may be parts of a cover: each has a term of the wanted one, or is to be taken away."""
        sharing = {each for term in wanted.terms for each in self._by_term.get(term, ())}
        terms = {term for each in sharing for term in _terms(each)}
        return {each for term in terms for each in self._by_term[term]}


def _terms(predicate: RowExpression) -> tuple[Conjunction, ...]:
    return () if predicate.terms is None else predicate.terms.terms


@dataclass(frozen=True)
class Relevant:
    """What was found for a reading, and why it is used or not; `possible`: it could be."""

    covered: Covered | None
    reason: str
    possible: bool = True


def relevant_set(reading: Reading, stored: StoredPartials, load: Load, mode: str) -> Relevant:
    """How a reading may be answered from what is stored; `mode` is auto, always or never."""
    found = _find(reading, stored)
    if found is None:
        return Relevant(None, "no stored synopses have just its terms", possible=False)
    if mode == "never":
        return Relevant(None, "share_predicates is 'never'")
    extra, own = _costs(reading, found, load)
    costs = f"values per pane and group: {extra:.3g} read in addition, {own:.3g} written for a synopsis of its own"
    if mode == "auto" and extra > own:
        return Relevant(None, costs)
    return Relevant(found, costs)


def _find(reading: Reading, stored: StoredPartials) -> Covered | None:
    predicate = reading.partials[0].predicate
    if predicate is None or predicate.terms is None or all(partial in stored for partial in reading.partials):
        return None
    if not all(map(can_be_covered, reading.partials)):
        return None
    usable = _usable(reading, stored, stored.near(predicate.terms) - {predicate})
    cover = find_cover(
        predicate.terms,
        [each.terms for each in usable if each.terms is not None],
        sensitive=reading.sensitive,
        subtractable=all(partial.subtractable for partial in reading.partials),
    )
    return None if cover is None else _covered(cover, usable)


def _usable(reading: Reading, stored: StoredPartials, near: Iterable[RowExpression]) -> list[RowExpression]:
    """The predicates among these under which everything that the reading needs is stored."""
    whole = [each for each in near if all(replace(partial, predicate=each) in stored for partial in reading.partials)]
    return sorted(whole, key=lambda each: each.sql)


def _covered(cover: Cover, usable: list[RowExpression]) -> Covered:
    added, subtracted = (tuple(usable[i] for i in places) for places in (cover.added, cover.subtracted))
    return Covered(added, subtracted, overlaps=cover.combine == "extreme")


def _costs(reading: Reading, covered: Covered, load: Load) -> tuple[float, float]:
    """Values per pane and group: the additional ones that executions read, and those that are written instead."""
    parts = len(covered.added) + len(covered.subtracted)
    panes = 1.0 if reading.window.unbounded else reading.window.length / load.pane
    executions = load.pane / (reading.window.slide or load.pane)
    tuples = max(_TUPLES_PER_ROW, _TUPLES_PER_PANE / load.rows_per_pane)
    return (parts - 1) * panes * executions, 1 + tuples
