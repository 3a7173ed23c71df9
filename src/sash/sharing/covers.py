"""Covers: stored predicates that together answer another one (thesis 8.3.3).

    wanted          protocol = 'TCP' OR protocol = 'UDP'
    cover           { protocol = 'TCP' }, { protocol = 'UDP' }     exactly the wanted terms
    subcover        { protocol = 'TCP' }                           some of them
    supercover      { protocol = 'TCP' OR .. OR .. = 'ICMP' }      all of them and more

A row that satisfies two terms would count twice, so SUM and COUNT need a disjoint cover; MIN and MAX do not. An
aggregate that can be taken back may also use a disjoint supercover, less a disjoint cover of its surplus. Terms are
compared in the normal forms; the caller has checked that all else is the same (data, stream, window, alignment).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sash.plan.predicates import Conjunction, Disjunction, is_disjoint, term_order

Terms = frozenset[Conjunction]
Combination = Literal["add", "extreme", "subtract"]
# The search gives up after this many unions of stored predicates.
_MOST_UNIONS = 1_000


@dataclass(frozen=True)
class Cover:
    """Places in the list of stored predicates: those that are combined, and those that are then taken back."""

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

    `sensitive`: a row must not count twice. `subtractable`: a surplus can be taken back.
    """
    terms = frozenset(wanted.terms)
    candidates = [(place, frozenset(predicate.terms)) for place, predicate in enumerate(stored)]
    within = [(place, some) for place, some in candidates if some <= terms]
    if not sensitive:
        found = next(_unions(wanted.terms, within, overlapping=True), None)
        return None if found is None else Cover(found[0], (), "extreme")
    if not is_disjoint(wanted):
        return None
    found = next(_unions(wanted.terms, within), None)
    added = None if found is None else Cover(found[0], (), "add")
    less = _by_subtraction(wanted.terms, candidates) if subtractable else None
    return min((cover for cover in (added, less) if cover is not None), key=lambda cover: cover.size, default=None)


def _by_subtraction(wanted: Sequence[Conjunction], candidates: list[tuple[int, Terms]]) -> Cover | None:
    best: Cover | None = None
    for added, union in _unions(wanted, candidates):
        if best is not None and len(added) + 1 >= best.size:
            break
        surplus = union.difference(wanted)
        if not surplus or not is_disjoint(Disjunction(tuple(union))):
            continue
        order = sorted(surplus, key=term_order)
        rest = next(_unions(order, [(place, some) for place, some in candidates if some <= surplus]), None)
        if rest is not None and (best is None or len(added) + len(rest[0]) < best.size):
            best = Cover(added, rest[0], "subtract")
    return best


def _unions(
    order: Sequence[Conjunction], candidates: list[tuple[int, Terms]], *, overlapping: bool = False
) -> Iterator[tuple[tuple[int, ...], Terms]]:
    """Sets of candidates that have all terms of `order`, and the candidates' terms.

    The search is breadth first: the smallest sets come first.
    """
    waiting: deque[tuple[tuple[int, ...], Terms]] = deque([((), frozenset())] if order else [])
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
