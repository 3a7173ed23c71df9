"""The meaning of atoms beside each other: certain contradictions, and no others."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from sash.plan.predicates import (
    EVERYTHING,
    MOST_TERMS,
    NOTHING,
    Atom,
    Constant,
    Disjunction,
    all_of,
    any_of,
    disjoint,
    disjunction,
    is_disjoint,
    only,
    opaque,
)

MOMENT = datetime(2024, 1, 2, 3)
PAIRS: list[tuple[tuple[str, Constant], tuple[str, Constant], bool]] = [
    (("=", 1), ("=", 2), True),
    (("=", 1), ("=", Decimal("1.0")), False),
    (("=", 1), ("<>", 1), True),
    (("=", 1), ("<>", 2), False),
    (("<>", 1), ("<>", 2), False),
    (("<", 1), (">", 1), True),
    (("<", 1), (">=", 1), True),
    (("<=", 1), (">=", 1), False),
    (("<", 2), (">", 1), False),
    (("=", 1), (">", 1), True),
    (("=", 1), ("<", 1), True),
    (("<=", Decimal("0.1")), (">", 0.1), True),
    (("=", Decimal("0.1")), ("=", 0.1), True),
    (("=", math.nan), ("=", float("nan")), False),
    (("=", math.nan), (">", 5.0), False),
    (("=", math.nan), ("<", 5.0), True),
    (("=", math.nan), (">", math.inf), False),
    (("=", math.nan), ("<>", math.nan), True),
    (("=", 0.0), ("=", -0.0), False),
    (("=", "a"), ("=", "A"), True),
    (("<", "Z"), (">", "a"), True),
    (("<=", "z"), (">=", "é"), True),
    (("<", "\U0001f600"), (">=", "\uffff"), False),
    (("=", b"a"), ("=", b"b"), True),
    (("=", True), ("=", False), True),
    (("<", date(2024, 1, 2)), (">=", date(2024, 1, 2)), True),
    (("<", MOMENT), (">", MOMENT), True),
    (("<", MOMENT), (">", MOMENT.replace(tzinfo=UTC)), False),
    (("=", 1), ("=", "1"), False),
    (("=", date(2024, 1, 2)), ("=", MOMENT), False),
    (("IS NULL", None), ("=", 1), True),
    (("IS NULL", None), ("<>", 1), True),
    (("IS NULL", None), ("IS NOT NULL", None), True),
    (("IS NULL", None), ("IS NULL", None), False),
    (("IS NOT NULL", None), ("=", 1), False),
]


@pytest.mark.parametrize(("left", "right", "expected"), PAIRS)
def test_atoms_about_one_subject(left: tuple[str, Constant], right: tuple[str, Constant], expected: bool) -> None:
    one, other = frozenset({Atom("x", *left)}), frozenset({Atom("x", *right)})
    assert disjoint(one, other) is expected
    assert disjoint(other, one) is expected
    assert not disjoint(one, frozenset({Atom("y", *right)}))


def test_atoms_contradict_each_other_across_a_whole_conjunction() -> None:
    between = frozenset({Atom("x", ">=", 1), Atom("x", "<=", 5), Atom("y", "=", 1)})
    assert disjoint(between, frozenset({Atom("x", "=", 6)}))
    assert not disjoint(between, frozenset({Atom("x", "=", 5)}))
    assert disjoint(frozenset({Atom("x", ">=", 5)}), frozenset({Atom("x", "<=", 5), Atom("x", "<>", 5)}))


def test_a_predicate_is_disjoint_if_all_pairs_of_its_terms_are() -> None:
    one, two, small = (only(Atom("x", op, value)) for op, value in (("=", 1), ("=", 2), ("<", 2)))
    assert is_disjoint(disjunction([*one.terms, *two.terms]))
    assert not is_disjoint(disjunction([*one.terms, *two.terms, *small.terms]))
    assert is_disjoint(EVERYTHING) and is_disjoint(NOTHING)


def test_terms_stand_once_and_in_one_order() -> None:
    atoms = [Atom("x", "=", 10), Atom("x", "=", 9), Atom("a", "=", "z")]
    terms = [frozenset({atom}) for atom in atoms]
    assert disjunction(terms) == disjunction([*reversed(terms), terms[0]])
    assert str(disjunction(terms)) == "a = 'z' OR x = 9 OR x = 10"
    assert str(EVERYTHING) == "TRUE" and str(NOTHING) == "FALSE"


def test_everything_absorbs_and_nothing_vanishes() -> None:
    one = only(Atom("x", "=", 1))
    assert any_of([one, EVERYTHING]) == EVERYTHING and any_of([one, NOTHING]) == one
    assert all_of([one, EVERYTHING]) == one and all_of([one, NOTHING]) == NOTHING
    assert all_of([opaque("f(x)"), opaque("f(x)", negated=True)]) == NOTHING


def test_too_many_terms_have_no_normal_form() -> None:
    many = [only(Atom("x", "=", value)) for value in range(MOST_TERMS + 1)]
    assert isinstance(any_of(many[:-1]), Disjunction) and any_of(many) is None
    assert any_of([many[0], None]) is None and all_of([many[0], None]) is None
    eight = [any_of([only(Atom(name, "=", value)) for value in range(8)]) for name in "xy"]
    assert all_of(eight) is None
    four = any_of([only(Atom("z", "=", value)) for value in range(4)])
    product = all_of([eight[0], four])
    assert product is not None and len(product.terms) == MOST_TERMS == 32
