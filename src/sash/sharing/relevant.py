"""The relevant set of a query: stored synopses that answer its WHERE by terms (thesis 8.3.3, rule SS4).

It saves the space of a synopsis, and Spark the work of filling it; but an execution reads several instead of one.
`auto` weighs the two per pane: an own synopsis is filled from every tuple, a cover's parts are read window by window.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sash.plan.expressions import RowExpression
from sash.sharing.choose import Load
from sash.sharing.covers import Cover, find_cover
from sash.synopses.covered import Covered, can_be_covered
from sash.synopses.partials import Partial
from sash.synopses.readings import Reading

# Before anything is known, panes are thought to have so many tuples, and rows to be made of so many.
_TUPLES_PER_PANE = 1_000.0
_TUPLES_PER_ROW = 10.0


@dataclass(frozen=True)
class Relevant:
    """What was found for a reading, and why it is used or not; `possible`: it could be."""

    covered: Covered | None
    reason: str
    possible: bool = True


def relevant_set(reading: Reading, stored: Collection[Partial], load: Load, mode: str) -> Relevant:
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


def _find(reading: Reading, stored: Collection[Partial]) -> Covered | None:
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


def _usable(reading: Reading, stored: Collection[Partial], predicate: RowExpression) -> list[RowExpression]:
    """The other predicates under which everything that the reading needs is stored."""
    predicates = {partial.predicate for partial in stored if partial.predicate is not None}
    known = [each for each in predicates if each.terms is not None and each != predicate]
    whole = [each for each in known if all(replace(partial, predicate=each) in stored for partial in reading.partials)]
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
