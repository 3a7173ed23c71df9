"""A WHERE and its disjunctive normal form say the same, whatever is NULL; equal conditions stand once."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings

from sash.core.errors import CqlError
from sash.plan.expressions import RowExpression
from sash.plan.nodes import WindowFilter
from sash.plan.predicates import MOST_TERMS, Disjunction, disjoint, is_disjoint
from tests.plan.examples import CONDITIONS, ROWS, Condition, fulfils, satisfies
from tests.sql.examples import find
from tests.support.examples import examples


def where(condition: str) -> RowExpression:
    return find(f"SELECT COUNT(*) FROM packets W WHERE {condition}", WindowFilter).predicate


def terms(condition: str) -> Disjunction:
    found = where(condition).terms
    assert found is not None
    return found


@settings(max_examples=examples(300), deadline=None)
@given(CONDITIONS)
def test_the_normal_form_keeps_the_rows_that_the_condition_keeps(condition: Condition) -> None:
    found = terms(condition.sql)
    assert [satisfies(row, found) for row in ROWS] == [condition.truth(row) is True for row in ROWS]


@settings(max_examples=examples(300), deadline=None)
@given(CONDITIONS, CONDITIONS)
def test_no_row_satisfies_two_disjoint_terms(left: Condition, right: Condition) -> None:
    for one, other in itertools.product(terms(left.sql).terms, terms(right.sql).terms):
        if disjoint(one, other):
            assert not any(fulfils(row, one) and fulfils(row, other) for row in ROWS)


FORMS = [
    ("protocol = 'TCP' OR protocol = 'UDP'", "protocol = 'TCP' OR protocol = 'UDP'"),
    ("protocol = 'UDP' OR 'TCP' = protocol", "protocol = 'TCP' OR protocol = 'UDP'"),
    ("protocol IN ('UDP', 'TCP', 'UDP')", "protocol = 'TCP' OR protocol = 'UDP'"),
    ("NOT (protocol <> 'TCP' AND protocol <> 'UDP')", "protocol = 'TCP' OR protocol = 'UDP'"),
    ("src = 1 AND (port = 80 OR port = 443)", "port = 80 AND src = 1 OR port = 443 AND src = 1"),
    ("src = 1 OR src = 1 AND port = 80", "src = 1"),
    ("src = 1 AND src = 2 OR port = 80", "port = 80"),
    ("src NOT BETWEEN 1 AND 5", "src < 1 OR src > 5"),
    ("src NOT IN (1, NULL)", "FALSE"),
    ("src = NULL OR ok", "ok"),
    ("NOT ok", "NOT (ok)"),
    ("ok <> TRUE", "NOT (ok)"),
    ("ok IS NOT TRUE", "NOT (ok) OR ok IS NULL"),
    ("NOT src IS NULL", "src IS NOT NULL"),
    ("src = 1.0 OR src = 1 OR src = 1E0", "src = 1.0"),
    ("protocol NOT LIKE 'T%'", "NOT (protocol LIKE 'T%')"),
    ("NOT src < dst", "src >= dst"),
    ("src % 2 = 0", "src % 2 = 0"),
    ("day = '2024-01-02'", "day = '2024-01-02'"),
]


@pytest.mark.parametrize(("condition", "expected"), FORMS)
def test_forms(condition: str, expected: str) -> None:
    assert str(terms(condition)) == expected


# BIGINT and DECIMAL lose digits as DOUBLEs, strings lose their spelling as numbers: the comparison stays opaque.
LOSSY = ["xxhash64(src) = 1E0", "price < 1E0", "protocol = 5", "xxhash64(src) IN (1, 2E0)", "price BETWEEN 1E0 AND 2E0"]


@pytest.mark.parametrize("condition", LOSSY)
def test_what_is_compared_in_a_type_that_loses_digits_is_opaque(condition: str) -> None:
    expression = where(condition)
    assert expression.terms is not None
    (term,) = expression.terms.terms
    (atom,) = term
    assert (atom.subject, atom.op, atom.constant) == (expression.sql, "=", True)


DISJOINT = [
    ("price < 1.5 OR price >= 1.50", True),
    ("price < 1.51 OR price >= 1.50", False),
    ("day = '2024-01-02' OR day > DATE '2024-01-02'", True),
    ("ts < TIMESTAMP '2024-01-02 00:00:00' OR ts >= '2024-01-02 00:00:00+00:00'", True),
    ("protocol < 'b' OR protocol >= 'é'", True),
    ("protocol LIKE 'T%' OR NOT protocol LIKE 'T%'", True),
    ("protocol LIKE 'T%' OR protocol LIKE 'U%'", False),
    ("src IS NULL OR src > 0", True),
    ("src < 5 AND port = 80 OR src > 5 AND port = 80", True),
    ("ratio > 1 OR ratio <= 1E0", True),
]


@pytest.mark.parametrize(("condition", "expected"), DISJOINT)
def test_disjoint_conditions(condition: str, expected: bool) -> None:
    assert is_disjoint(terms(condition)) is expected


def test_a_condition_of_too_many_terms_has_no_normal_form() -> None:
    values = ", ".join(map(str, range(MOST_TERMS + 1)))
    assert where(f"src IN ({values})").terms is None
    assert where(f"ok AND (src IN ({values}) OR port = 1)").terms is None
    assert where("src IN (1, 2, 3, 4, 5, 6) AND dst IN (1, 2, 3, 4, 5, 6)").terms is None
    assert len(terms(f"src NOT IN ({values})").terms) == 1


def test_halves_of_characters_are_put_together() -> None:
    (term,) = terms(r"protocol = '\uD83D\uDE00'").terms
    assert [atom.constant for atom in term] == ["😀"]
    with pytest.raises(CqlError, match="half a character"):
        terms(r"protocol = '\uD83D'")


@pytest.mark.parametrize(
    ("condition", "canonical"),
    [
        ("src = 1 OR src=1", "src = 1"),
        ("src = 1 AND ok AND packets.src = 1", "src = 1 AND ok"),
        ("(src = 1 OR ok) OR (ok OR src = 1)", "src = 1 OR ok"),
        ("src = 1 OR src = 1.0", "src = 1 OR src = 1.0"),
        ("NULL OR NULL", "NULL OR NULL"),
    ],
)
def test_equal_conditions_stand_once(condition: str, canonical: str) -> None:
    assert where(condition).sql == canonical


def test_the_normal_form_is_no_part_of_the_identity() -> None:
    expression = where("src = 1")
    plain = RowExpression(expression.sql, expression.type, expression.columns)
    assert plain.terms is None and expression.terms is not None
    assert expression == plain and hash(expression) == hash(plain)
