"""Covers of predicates: which stored ones answer another, and that the answer is right."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given, settings
from hypothesis import strategies as st

from sash.plan.predicates import (
    EVERYTHING,
    NOTHING,
    Atom,
    Conjunction,
    Disjunction,
    any_of,
    disjunction,
    is_disjoint,
    only,
)
from sash.sharing.covers import Cover, find_cover
from tests.plan.examples import DOMAINS, ROWS, Row, satisfies
from tests.support.examples import examples

TCP, UDP, ICMP, IGMP = (only(Atom("protocol", "=", name)) for name in ("TCP", "UDP", "ICMP", "IGMP"))
WEB = only(Atom("port", "=", 80))


def either(*parts: Disjunction) -> Disjunction:
    found = any_of(parts)
    assert found is not None
    return found


def is_cover(wanted: Disjunction, stored: Sequence[Disjunction]) -> bool:
    return bool(stored) and _terms(stored) == frozenset(wanted.terms)


def is_subcover(wanted: Disjunction, stored: Sequence[Disjunction]) -> bool:
    return bool(stored) and _terms(stored) < frozenset(wanted.terms)


def is_supercover(wanted: Disjunction, stored: Sequence[Disjunction]) -> bool:
    return bool(stored) and _terms(stored) > frozenset(wanted.terms)


def is_disjoint_cover(wanted: Disjunction, stored: Sequence[Disjunction]) -> bool:
    """No row satisfies two of the terms, and no term stands in two of the stored predicates."""
    once = sum(len(predicate.terms) for predicate in stored) == len(wanted.terms)
    return is_cover(wanted, stored) and once and is_disjoint(wanted)


def _terms(stored: Sequence[Disjunction]) -> frozenset[Conjunction]:
    return frozenset(term for predicate in stored for term in predicate.terms)


def sums(wanted: Disjunction, stored: Sequence[Disjunction]) -> Cover | None:
    return find_cover(wanted, stored, sensitive=True, subtractable=True)


def extremes(wanted: Disjunction, stored: Sequence[Disjunction]) -> Cover | None:
    return find_cover(wanted, stored, sensitive=False, subtractable=False)


def test_kinds_of_cover() -> None:
    wanted = either(TCP, UDP)
    assert is_cover(wanted, [TCP, UDP]) and is_disjoint_cover(wanted, [TCP, UDP])
    assert is_cover(wanted, [wanted, UDP]) and not is_disjoint_cover(wanted, [wanted, UDP])
    assert is_cover(either(TCP, WEB), [TCP, WEB]) and not is_disjoint_cover(either(TCP, WEB), [TCP, WEB])
    assert is_subcover(wanted, [TCP]) and not is_subcover(wanted, [TCP, UDP]) and not is_subcover(wanted, [])
    assert is_supercover(TCP, [wanted]) and not is_supercover(wanted, [wanted]) and not is_supercover(TCP, [UDP])


def test_sums_are_added_over_a_disjoint_cover() -> None:
    assert sums(either(TCP, UDP), [ICMP, UDP, TCP]) == Cover((1, 2), (), "add")
    assert sums(either(TCP, UDP), [TCP, ICMP]) is None
    assert sums(either(TCP, WEB), [TCP, WEB]) is None


def test_extremes_are_taken_over_any_cover() -> None:
    assert extremes(either(TCP, WEB), [TCP, WEB]) == Cover((0, 1), (), "extreme")
    assert extremes(either(TCP, UDP, WEB), [either(TCP, UDP), either(UDP, WEB)]) == Cover((0, 1), (), "extreme")
    assert extremes(TCP, [either(TCP, UDP), UDP]) is None


def test_surplus_is_taken_back_where_that_is_possible() -> None:
    stored = [either(TCP, UDP), UDP]
    assert sums(TCP, stored) == Cover((0,), (1,), "subtract")
    assert find_cover(TCP, stored, sensitive=True, subtractable=False) is None
    assert sums(TCP, [either(TCP, WEB), WEB]) is None


def test_a_supercover_may_be_a_set() -> None:
    stored = [either(TCP, IGMP), either(UDP, ICMP), either(ICMP, IGMP)]
    assert sums(either(TCP, UDP), stored) == Cover((0, 1), (2,), "subtract")


def test_the_smallest_set_wins() -> None:
    apart = [TCP, UDP, ICMP]
    assert sums(either(*apart), [*apart, either(TCP, UDP)]) == Cover((2, 3), (), "add")
    whole = either(*apart, IGMP)
    assert sums(either(*apart), [*apart, whole, IGMP]) == Cover((3,), (4,), "subtract")
    assert sums(either(TCP, UDP), [TCP, UDP, either(*apart), ICMP]) == Cover((0, 1), (), "add")


def test_nothing_and_everything_are_terms_like_others() -> None:
    assert sums(NOTHING, [TCP]) is None and extremes(NOTHING, [TCP]) is None
    assert sums(TCP, [EVERYTHING, UDP]) is None and sums(EVERYTHING, [TCP, UDP]) is None


def test_a_search_without_an_end_is_given_up() -> None:
    values = [only(Atom("x", "=", value)) for value in range(24)]
    pairs = [either(left, right) for left in values[:-1] for right in values[:-1] if left != right]
    assert sums(either(*values), pairs) is None


OPERATORS = st.sampled_from(["=", "=", "<>", "<", ">="])


def atoms(name: str) -> st.SearchStrategy[Atom]:
    compared = st.builds(Atom, st.just(name), OPERATORS, st.sampled_from(DOMAINS[name][1:]))
    return st.one_of(st.just(Atom(name, "IS NULL")), compared)


ATOMS = st.sampled_from(["src", "protocol", "ok"]).flatmap(atoms)
DISJOINT = [frozenset({Atom("src", op, value)}) for op, value in (("IS NULL", None), ("<", 1), ("=", 1), (">=", 2))]
POOLS = st.one_of(st.just(DISJOINT), st.lists(st.frozensets(ATOMS, min_size=1, max_size=2), min_size=2, max_size=5))


@st.composite
def predicates(draw: st.DrawFn) -> list[Disjunction]:
    """The wanted predicate and some other ones that are stored, of a few common terms."""
    pool = draw(POOLS)
    wanted, *stored = draw(
        st.lists(st.sets(st.sampled_from(pool), min_size=1).map(disjunction), min_size=7, max_size=10)
    )
    return [wanted, *(predicate for predicate in stored if predicate != wanted)]


LENGTHS = st.lists(st.tuples(st.sampled_from(ROWS), st.integers(-5, 5)), max_size=20)
Lengths = list[tuple[Row, int]]


def lengths(rows: Lengths, predicate: Disjunction) -> list[int]:
    return [length for row, length in rows if satisfies(row, predicate)]


@settings(max_examples=examples(400), deadline=None)
@given(predicates(), LENGTHS)
def test_sums_and_counts_over_a_cover_are_right(found: list[Disjunction], rows: Lengths) -> None:
    wanted, *stored = found
    cover = sums(wanted, stored)
    if cover is None:
        return
    event(f"{cover.combine} {cover.size}")
    for aggregate in (sum, len):
        parts = [aggregate(lengths(rows, predicate)) for predicate in stored]
        answer = sum(parts[i] for i in cover.added) - sum(parts[i] for i in cover.subtracted)
        assert answer == aggregate(lengths(rows, wanted))
    assert cover.combine == ("subtract" if cover.subtracted else "add")
    if not cover.subtracted:
        assert is_disjoint_cover(wanted, [stored[i] for i in cover.added])


@settings(max_examples=examples(400), deadline=None)
@given(predicates(), LENGTHS)
def test_maxima_over_a_cover_are_right(found: list[Disjunction], rows: Lengths) -> None:
    wanted, *stored = found
    cover = extremes(wanted, stored)
    if cover is None:
        return
    event(f"{cover.combine} {cover.size}")
    assert is_cover(wanted, [stored[i] for i in cover.added])
    parts = [max(lengths(rows, stored[i]), default=-9) for i in cover.added]
    assert max(parts) == max(lengths(rows, wanted), default=-9)


def test_the_first_of_several_sets_is_chosen() -> None:
    stored = [either(TCP, UDP), UDP, TCP, either(TCP, ICMP), ICMP, UDP]
    assert sums(TCP, stored) == Cover((2,), (), "add")
    assert sums(either(UDP, ICMP), stored) == Cover((1, 4), (), "add")
