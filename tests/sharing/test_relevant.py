"""The relevant set of a reading: found by terms, it is the one that a search of all stored predicates finds."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

from sash.core.time import SECOND
from sash.core.window import TimeWindow
from sash.plan.expressions import RowExpression
from sash.plan.predicates import Atom, disjunction
from sash.sharing.choose import Load
from sash.sharing.covers import find_cover
from sash.sharing.relevant import StoredPartials, relevant_set
from sash.synopses.partials import Partial
from sash.synopses.readings import Reading, TableName

LENGTH = RowExpression("length", pa.int32(), ("length",))
# Protocols exclude each other; a port and a protocol may be those of one packet.
ATOMS = [*(Atom("protocol", "=", number) for number in range(5)), Atom("port", "=", 80), Atom("port", "=", 443)]
TERMS = st.sets(st.sets(st.sampled_from(ATOMS), min_size=1, max_size=2).map(frozenset), min_size=1, max_size=3)
KINDS = st.sampled_from([("rows", "sum"), ("rows", "max"), ("rows", "count", "max")])


def predicate(terms: set[frozenset[Atom]]) -> RowExpression:
    found = disjunction(terms)
    return RowExpression(str(found), pa.bool_(), ("protocol", "port"), terms=found)


def partials(kinds: tuple[str, ...], where: RowExpression) -> tuple[Partial, ...]:
    return tuple(Partial(kind, None if kind == "rows" else LENGTH, where) for kind in kinds)


@given(
    kinds=KINDS,
    wanted=TERMS.map(predicate),
    others=st.lists(st.tuples(KINDS, TERMS.map(predicate)), max_size=14),
    gone=st.lists(st.integers(0, 13), unique=True, max_size=6),
)
def test_nothing_is_missed_by_looking_at_common_terms(
    kinds: tuple[str, ...],
    wanted: RowExpression,
    others: list[tuple[tuple[str, ...], RowExpression]],
    gone: list[int],
) -> None:
    stored = StoredPartials()
    for each in others:
        stored.add(partials(*each))
    for place in gone:
        if place < len(others):
            stored.remove(partials(*others[place]))
    left = [each for place, each in enumerate(others) if place not in gone]
    every = {partial for each in left for partial in partials(*each)}
    assert set(stored) == every

    reading = Reading(
        TableName(()), TimeWindow(10 * SECOND, 5 * SECOND), partials(kinds, wanted), sensitive="sum" in kinds
    )
    found = relevant_set(reading, stored, Load(SECOND), "always")
    if all(partial in every for partial in reading.partials):
        assert found.covered is None
        return
    usable = sorted(
        {where for _, where in left if where != wanted and set(partials(kinds, where)) <= every},
        key=lambda each: each.sql,
    )
    assert wanted.terms is not None
    cover = find_cover(
        wanted.terms,
        [each.terms for each in usable if each.terms is not None],
        sensitive=reading.sensitive,
        subtractable=all(partial.subtractable for partial in reading.partials),
    )
    event("covered" if cover is not None else "not covered")
    if cover is None:
        assert found.covered is None
    else:
        assert found.covered is not None
        assert found.covered.added == tuple(usable[place] for place in cover.added)
        assert found.covered.subtracted == tuple(usable[place] for place in cover.subtracted)
