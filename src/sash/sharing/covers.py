"""Covers: stored predicates that together answer another one (thesis 8.3.3).

    wanted          protocol = 'TCP' OR protocol = 'UDP'
    cover           { protocol = 'TCP' }, { protocol = 'UDP' }     exactly the wanted terms
    subcover        { protocol = 'TCP' }                           some of them
    supercover      { protocol = 'TCP' OR .. OR .. = 'ICMP' }      all of them and more

A row that satisfies two terms would be counted twice, so SUM and COUNT need a disjoint cover; MIN and MAX do not care.
What can be taken back may also come from a disjoint supercover, less a disjoint cover of its surplus.
Terms are compared as they stand in the normal forms; the caller has made sure that all else is the same (data, stream,
window, alignment).

The relevant set of a query: stored synopses that answer its WHERE by terms (thesis 8.3.3, rule SS4).

It saves the space of a synopsis, and Spark the work of filling it; but an execution reads several instead of one.
`auto` weighs the two per pane: an own synopsis is filled from every tuple, a cover's parts are read window by window.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sash.panes.covered import Covered, can_be_covered
from sash.panes.partials import Partial
from sash.panes.readings import Reading
from sash.plan.expressions import RowExpression
from sash.plan.predicates import Conjunction, Disjunction, is_disjoint, term_order
from sash.sharing.choose import Load

Terms = frozenset[Conjunction]
Combination = Literal["add", "extreme", "subtract"]
# The search gives up after so many unions of stored predicates.
_MOST_UNIONS = 1_000


@dataclass(frozen=True)
class Cover:
    """Places in the list of stored predicates: what is combined, and what is then taken back."""

    added: tuple[int, ...]
    subtracted: tuple[int, ...]
    combine: Combination

    @property
    def size(self) -> int:
        return len(self.added) + len(self.subtracted)


def find_cover(
    wanted: Disjunction, stored: Sequence[Disjunction], *, sensitive: bool, subtractable: bool
) -> Cover | None:
    """The fewest stored predicates that answer the wanted one, the first of several such sets.

    `sensitive`: a row must not count twice. `subtractable`: what is too much can be taken back.
    """
    terms = frozenset(wanted.terms)
    candidates = [(place, frozenset(predicate.terms)) for place, predicate in enumerate(stored)]
    within = [(place, some) for place, some in candidates if some <= terms]
    if not sensitive:
        found = next(_unions(terms, within, overlapping=True), None)
        return None if found is None else Cover(found[0], (), "extreme")
    if not is_disjoint(wanted):
        return None
    found = next(_unions(terms, within), None)
    added = None if found is None else Cover(found[0], (), "add")
    less = _by_subtraction(terms, candidates) if subtractable else None
    return min((cover for cover in (added, less) if cover is not None), key=lambda cover: cover.size, default=None)


def _by_subtraction(wanted: Terms, candidates: list[tuple[int, Terms]]) -> Cover | None:
    best: Cover | None = None
    for added, union in _unions(wanted, candidates):
        if best is not None and len(added) + 1 >= best.size:
            break
        surplus = union - wanted
        if not surplus or not is_disjoint(Disjunction(tuple(union))):
            continue
        rest = next(_unions(surplus, [(place, some) for place, some in candidates if some <= surplus]), None)
        if rest is not None and (best is None or len(added) + len(rest[0]) < best.size):
            best = Cover(added, rest[0], "subtract")
    return best


def _unions(
    wanted: Terms, candidates: list[tuple[int, Terms]], *, overlapping: bool = False
) -> Iterator[tuple[tuple[int, ...], Terms]]:
    """Sets of candidates that have all the wanted terms, and these terms; breadth first, so the smallest come first."""
    order = sorted(wanted, key=term_order)
    waiting: deque[tuple[tuple[int, ...], Terms]] = deque([((), frozenset())] if wanted else [])
    seen: set[Terms] = set()
    while waiting:
        chosen, union = waiting.popleft()
        missing = next((term for term in order if term not in union), None)
        if missing is None:
            yield tuple(sorted(chosen)), union
            continue
        for place, terms in candidates:
            larger = union | terms
            fits = missing in terms and (overlapping or union.isdisjoint(terms))
            if fits and larger not in seen and len(seen) < _MOST_UNIONS:
                seen.add(larger)
                waiting.append(((*chosen, place), larger))


# Before anything is known, panes are thought to have so many tuples, and rows to be made of so many.
_TUPLES_PER_PANE = 1_000.0
_TUPLES_PER_ROW = 10.0


class StoredPartials:
    """The partials that a pane table stores, each for so many readings; their predicates are found by terms.

    A cover is made of predicates that have terms in common, so whoever looks for one need not go through all.
    """

    def __init__(self, partials: Iterable[Partial] = ()) -> None:
        self._readings: Counter[Partial] = Counter()
        # The predicates that a term is part of, each with its number of partials.
        self._by_term: dict[Conjunction, Counter[RowExpression]] = {}
        self.add(partials)

    def __contains__(self, partial: object) -> bool:
        return partial in self._readings

    def __iter__(self) -> Iterator[Partial]:
        return iter(self._readings)

    def readings(self, partial: Partial) -> int:
        """How many readings a partial is stored for."""
        return self._readings[partial]

    def add(self, partials: Iterable[Partial]) -> None:
        for partial in partials:
            self._readings[partial] += 1
            if self._readings[partial] == 1 and partial.predicate is not None:
                for term in _terms(partial.predicate):
                    self._by_term.setdefault(term, Counter())[partial.predicate] += 1

    def remove(self, partials: Iterable[Partial]) -> None:
        for partial in partials:
            self._readings[partial] -= 1
            if not self._readings[partial]:
                del self._readings[partial]
                if partial.predicate is not None:
                    self._forget(partial.predicate)

    def _forget(self, predicate: RowExpression) -> None:
        for term in _terms(predicate):
            found = self._by_term[term]
            found[predicate] -= 1
            if not found[predicate]:
                del found[predicate]
            if not found:
                del self._by_term[term]

    def predicates_with(self, terms: Iterable[Conjunction]) -> set[RowExpression]:
        """The predicates that have some of these terms."""
        return {predicate for term in terms for predicate in self._by_term.get(term, ())}


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
    usable = _usable(reading, stored, predicate)
    cover = find_cover(
        predicate.terms,
        [each.terms for each in usable if each.terms is not None],
        sensitive=reading.sensitive,
        subtractable=all(partial.subtractable for partial in reading.partials),
    )
    return None if cover is None else _covered(cover, usable)


def _usable(reading: Reading, stored: StoredPartials, predicate: RowExpression) -> list[RowExpression]:
    """The other predicates that may be a part of a cover and under which everything that the reading needs is stored.

    What is added has a wanted term. What is taken back consists of terms that were added with it.
    """
    added = stored.predicates_with(_terms(predicate))
    related = stored.predicates_with(term for each in added for term in _terms(each)) - {predicate}
    whole = [e for e in related if all(replace(partial, predicate=e) in stored for partial in reading.partials)]
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
