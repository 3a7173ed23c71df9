"""APPROX INTERSECT: its bound form, the places of its words, and the words at which errors point."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.errors import NotSupportedError
from sash.plan.outputs import Sampled
from sash.plan.set_windows import GroupedIntersection, windowed_set
from sash.sql.binding.sets import DEFAULT_GROUPS
from tests.sql.examples import WINDOW as W
from tests.sql.examples import check_continuous_error, continuous_plan, explained

A, B = f"SELECT src FROM packets {W}", f"SELECT dst FROM packets {W} b"


def groups_of(text: str) -> int:
    plan = continuous_plan(text)
    assert isinstance(plan, Sampled) and isinstance(plan.input, GroupedIntersection)
    assert plan.schema == pa.schema([("low", pa.int32()), ("high", pa.int32())])
    asked = windowed_set(plan)
    assert asked is not None and asked.groups is not None and asked.type == pa.int32() and not asked.negated
    return asked.groups


@pytest.mark.parametrize(
    "text",
    [
        f"{A} APPROX INTERSECT {B}",
        f"{A} approx intersect distinct {B}",
        f"{A} x APPROX INTERSECT {B}",
        f"{A} WHERE length > 3 APPROX INTERSECT {B} WHERE src = 1",
        f"({A}) APPROX INTERSECT ({B})",
        f"SELECT DISTINCT src FROM packets {W} APPROX INTERSECT SELECT src + dst FROM packets {W} b",
    ],
)
def test_where_the_word_may_stand(text: str) -> None:
    assert groups_of(text) == DEFAULT_GROUPS


def test_how_many_groups() -> None:
    assert groups_of(f"{A} APPROX INTERSECT GROUPS 50 {B}") == 50
    assert groups_of(f"({A}) APPROX INTERSECT GROUPS 2 ({B})") == 2
    assert explained(f"{A} APPROX INTERSECT GROUPS 7 {B}")[1].endswith("as ranges in at most 7 groups  -> STR")


def test_an_alias_may_be_called_approx() -> None:
    for alias in ("AS approx", "`approx`"):
        plan = continuous_plan(f"SELECT approx.src FROM packets {W} {alias} INTERSECT {B}")
        found = windowed_set(plan)
        assert found is not None and found.groups is None


OTHER_WINDOW = "[WINDOW 1 min]"
ERRORS = [
    (f"{A} «APPROX» EXCEPT {B}", "APPROX goes with INTERSECT alone"),
    (f"{A} «APPROX» UNION {B}", "APPROX goes with INTERSECT alone"),
    (f"{A} «APPROX» INTERSECT ALL {B}", "APPROX goes with INTERSECT alone"),
    (f"{A} INTERSECT GROUPS «5» {B}", "GROUPS belongs to APPROX INTERSECT"),
    (f"{A} APPROX INTERSECT GROUPS «1» {B}", "from 2 to 100,000"),
    (f"{A} APPROX INTERSECT GROUPS «2.5» {B}", "from 2 to 100,000"),
    (f"{A} APPROX INTERSECT GROUPS «SELECT» dst FROM packets {W}", "expected a number after GROUPS"),
    (f"SELECT src, dst FROM packets {W} «APPROX» INTERSECT SELECT src, dst FROM packets {W} b", "of one column, not"),
    (f"SELECT protocol FROM packets {W} «APPROX» INTERSECT SELECT protocol FROM packets {W} b", "of STRING (column"),
    (f"SELECT ratio FROM packets {W} «APPROX» INTERSECT SELECT src FROM packets {W} b", "of DOUBLE (column 'ratio')"),
    (
        f"SELECT src FROM packets {OTHER_WINDOW} «APPROX» INTERSECT SELECT src FROM packets {OTHER_WINDOW} b",
        "answered at the multiples of SLIDE",
    ),
]  # fmt: skip
LATER = [
    f"Istream({A} «APPROX» INTERSECT {B})",
    f"SELECT x.low FROM ({A} «APPROX» INTERSECT {B}) x",
    f"{A} «APPROX» INTERSECT SELECT SUM(dst) FROM packets {W} b GROUP BY src",
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_continuous_error(text, reason)


@pytest.mark.parametrize("text", LATER)
def test_what_no_index_answers_is_refused(text: str) -> None:
    assert isinstance(check_continuous_error(text, "APPROX INTERSECT inside of another"), NotSupportedError)
