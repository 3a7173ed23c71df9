"""Stored predicates are found by their terms: the search finds as many covers as a pass over everything."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sash.core.window import TimeWindow
from sash.panes.covered import CoveredPredicate
from sash.panes.partials import Partial
from sash.panes.readings import Reading, TableName
from sash.plan.expressions import RowExpression
from sash.plan.predicates import Atom, Conjunction, disjunction
from sash.sharing.choose import Load
from sash.sharing.covers import find_cover
from sash.sharing.groups import StoredPartials, share_state

V = RowExpression("v", pa.int32(), ("v",))


def where(*values: int) -> RowExpression:
    """v is one of some values."""
    made = disjunction(frozenset({Atom("v", "=", value)}) for value in values)
    return RowExpression(str(made), pa.bool_(), ("v",), made)


def terms(predicate: RowExpression) -> set[Conjunction]:
    assert predicate.terms is not None
    return set(predicate.terms.terms)


def partials(predicate: RowExpression) -> list[Partial]:
    return [Partial("rows", None, predicate), Partial("sum", V, predicate)]


def reading(predicate: RowExpression) -> Reading:
    return Reading(TableName(()), TimeWindow(10, 2), tuple(partials(predicate)))


def covered(wanted: RowExpression, stored: StoredPartials) -> CoveredPredicate | None:
    return share_state(reading(wanted), [], stored, Load(1), "always").covered


predicates = st.sets(st.integers(0, 5), min_size=1, max_size=4).map(lambda values: where(*sorted(values)))


@given(predicates, st.lists(predicates, max_size=12))
def test_the_terms_find_what_a_search_through_everything_finds(
    wanted: RowExpression, known: list[RowExpression]
) -> None:
    stored = StoredPartials(partial for predicate in known for partial in partials(predicate))
    others = sorted({each for each in known if each != wanted}, key=lambda each: each.sql)
    all_terms = [each.terms for each in others if each.terms is not None]
    assert wanted.terms is not None
    found = None if wanted in known else find_cover(wanted.terms, all_terms, sensitive=True, subtractable=True)
    cover = covered(wanted, stored)
    assert (cover is None) == (found is None)
    if found is not None:
        assert cover == CoveredPredicate(
            tuple(others[place] for place in found.added), tuple(others[place] for place in found.subtracted)
        )


@given(st.lists(predicates, max_size=8), st.data())
def test_what_goes_is_forgotten(known: list[RowExpression], data: st.DataObject) -> None:
    """As many readings as came: a predicate stays as long as one of them is left."""
    stored = StoredPartials(partial for predicate in known for partial in partials(predicate))
    left = list(known)
    for predicate in data.draw(st.permutations(known)):
        stored.remove(partials(predicate))
        left.remove(predicate)
        assert set(stored) == {partial for each in left for partial in partials(each)}
        assert all(stored.readings(partial) == left.count(predicate) for partial in partials(predicate))
        related = stored.predicates_with(terms(predicate))
        assert related == {each for each in left if not terms(each).isdisjoint(terms(predicate))}


def test_everything_that_a_reading_needs_is_stored() -> None:
    stored = StoredPartials([*partials(where(1)), Partial("rows", None, where(2))])
    assert covered(where(1, 2), stored) is None
    stored.add(partials(where(2)))
    assert covered(where(1, 2), stored) == CoveredPredicate((where(1), where(2)), ())
