"""UNION, EXCEPT and INTERSECT of continuous queries."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.errors import CqlError, NotSupportedError
from sash.plan.continuous import Distinct, Intersection, Map, Negation, Union
from tests.sql.examples import check_continuous_error, continuous_plan, explained

A, B, C = (f"SELECT src, dst FROM packets [RANGE {n} sec] {alias}" for n, alias in ((1, "a"), (2, "b"), (3, "c")))
ALL = (("src", "src"), ("dst", "dst"))


def test_what_each_operation_is() -> None:
    a, b, c = (continuous_plan(text) for text in (A, B, C))
    assert continuous_plan(f"{A} UNION ALL {B}") == Union((a, b))
    assert continuous_plan(f"{A} UNION {B}") == Distinct(Union((a, b)))
    assert continuous_plan(f"{A} UNION DISTINCT {B}") == Distinct(Union((a, b)))
    assert continuous_plan(f"{A} UNION ALL {B} UNION ALL {C}") == Union((a, b, c))
    assert continuous_plan(f"{A} EXCEPT ALL {B}") == Negation(a, b, ALL, null_safe=True)
    assert continuous_plan(f"{A} EXCEPT ALL ON (SRC) {B}") == Negation(a, b, ALL[:1], null_safe=True)
    assert continuous_plan(f"{A} EXCEPT ALL ON (dst, src, dst) {B}") == Negation(a, b, ALL[::-1], null_safe=True)
    for word in ("EXCEPT", "EXCEPT DISTINCT", "MINUS"):
        assert continuous_plan(f"{A} {word} {B}") == Negation(Distinct(a), b, ALL, whole=True, null_safe=True)
    assert continuous_plan(f"{A} INTERSECT ALL {B}") == Intersection(a, b, ALL, null_safe=True)
    assert continuous_plan(f"{A} INTERSECT {B}") == Intersection(Distinct(a), b, ALL, whole=True, null_safe=True)


def test_nesting() -> None:
    """INTERSECT binds tighter, and parentheses tighter still."""
    a, b, c = (continuous_plan(text) for text in (A, B, C))
    both = Intersection(b, c, ALL, null_safe=True)
    negated = f"{A} EXCEPT ALL ON (dst) {B}"
    assert continuous_plan(f"{A} EXCEPT ALL {B} INTERSECT ALL {C}") == Negation(a, both, ALL, null_safe=True)
    assert continuous_plan(f"{negated} INTERSECT ALL {C}") == Negation(a, both, ALL[1:], null_safe=True)
    first = Negation(a, b, ALL[1:], null_safe=True)
    for text in (
        f"(({A}) EXCEPT ALL ON (dst) ({B})) INTERSECT ALL ({C})",
        f"({A} EXCEPT ALL ON (dst) {B}) INTERSECT ALL {C}",
    ):
        assert continuous_plan(text) == Intersection(first, c, ALL, null_safe=True)
    assert continuous_plan(f"{A} EXCEPT ALL {B} EXCEPT ALL ON (src) {C}") == Negation(
        Negation(a, b, ALL, null_safe=True), c, ALL[:1], null_safe=True
    )
    assert continuous_plan(f"{A} UNION ALL ({B} UNION ALL {C})") == Union((a, Union((b, c))))


def test_columns_are_brought_to_one_type() -> None:
    """Names are the first query's."""
    plan = continuous_plan("SELECT src AS x FROM packets [NOW] UNION ALL SELECT price FROM packets [NOW]")
    assert plan.schema == pa.schema([("x", pa.decimal128(12, 2))])
    assert explained("SELECT src AS x, ts FROM packets [ROWS 2] UNION ALL SELECT ratio, day FROM packets [ROWS 3]") == [
        "Union  -> STR",
        "  Project cast(x) AS x, ts  -> STR",
        "    Project packets.src AS x, packets.ts AS ts  -> STR",
        "      Window packets [ROWS 2]  -> STR",
        "  Project ratio, cast(day) AS day  -> STR",
        "    Project packets'.ratio AS ratio, packets'.day AS day  -> STR",
        "      Window packets packets' [ROWS 3]  -> STR",
    ]


def test_a_set_operation_in_from() -> None:
    plan = continuous_plan(f"SELECT u.src, COUNT(*) FROM ({A} UNION ALL {B}) u GROUP BY u.src")
    assert isinstance(plan, Map) and plan.schema.names == ["src", "count(1)"]
    assert explained(f"SELECT x.dst FROM ({A} EXCEPT ALL ON (src) {B}) x JOIN ({C}) y USING (src)") == [
        "Project x.dst AS dst  -> STR",
        "  Join on x.src = y.src  -> STR",
        "    Project dst AS x.dst, src AS x.src  -> STR",
        "      Negation on src = src  -> STR",
        "        Project a.src AS src, a.dst AS dst  -> WKS",
        "          Window packets a [WINDOW 1 sec]  -> WKS",
        "        Project b.src AS src, b.dst AS dst  -> WKS",
        "          Window packets b [WINDOW 2 sec]  -> WKS",
        "    Project src AS y.src  -> WKS",
        "      Project c.src AS src, c.dst AS dst  -> WKS",
        "        Window packets c [WINDOW 3 sec]  -> WKS",
    ]


def test_unions_over_whole_streams() -> None:
    """Nothing is remembered for them."""
    text = "SELECT src FROM packets [UNBOUNDED] a UNION ALL SELECT src FROM packets [UNBOUNDED] b"
    assert explained(text)[0] == "Union  -> MON"
    assert explained(text.replace("[UNBOUNDED] b", "[NOW] b"))[0] == "Union  -> WK"


N = "SELECT src FROM packets [NOW]"
ERRORS = [
    (f"{N} UNION ALL «SELECT» src, dst FROM packets [NOW]", "the first SELECT has 1 column(s), this one 2"),
    (f"{N} EXCEPT («SELECT» src, dst FROM packets [NOW])", "the first SELECT has 1 column(s), this one 2"),
    (f"{N} UNION ALL «SELECT» ok FROM packets [NOW]", "'src' is INT and 'ok' is BOOLEAN: CAST one of them"),
    (f"{N} UNION ALL {N} «ORDER BY» src", "a change stream has no order: leave out ORDER BY"),
    (f"{N} UNION ALL {N} «LIMIT» 3", "a change stream has no order: leave out LIMIT"),
    (f"({N} «LIMIT» 3) UNION ALL {N}", "a change stream has no order"),
    (f"(({N}) «LIMIT» 3) UNION ALL {N}", "a change stream has no order"),
    (f"{N} UNION ALL ON («src») {N}", "ON (..) belongs to EXCEPT ALL, not to UNION"),
    (f"{N} EXCEPT ON («src») {N}", "ON (..) belongs to EXCEPT ALL, not to EXCEPT"),
    (f"{N} INTERSECT ALL ON («src») {N}", "ON (..) belongs to EXCEPT ALL, not to INTERSECT"),
    (f"{N} EXCEPT ALL ON («dst») {N}", "ON names columns that both queries have, not 'dst'; known: src"),
    (f"{N} EXCEPT ALL SELECT «nope» FROM packets [NOW]", "unknown column 'nope'"),
    (f"{N} EXCEPT ALL SELECT src FROM packets «[UNBOUNDED]»", "EXCEPT ALL over [UNBOUNDED]"),
    (f"SELECT src FROM packets «[UNBOUNDED]» INTERSECT {N}", "INTERSECT over [UNBOUNDED]"),
    (f"SELECT src FROM packets «[UNBOUNDED]» UNION {N}", "DISTINCT over [UNBOUNDED]"),
    (f"{N} UNION ALL SELECT src FROM «packets»", "'packets' needs a window"),
]
LATER = [
    (f"{N} «UNION» ALL BY NAME {N}", "UNION BY NAME"),
    ("SELECT tags FROM packets [NOW] «EXCEPT» ALL SELECT tags FROM packets [NOW]", "EXCEPT ALL of ARRAY<STRING>"),
    ("SELECT tags FROM packets [NOW] «UNION» SELECT tags FROM packets [NOW]", "DISTINCT of ARRAY<STRING>"),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_continuous_error(text, reason)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str) -> None:
    assert isinstance(check_continuous_error(text, what), NotSupportedError)


@pytest.mark.parametrize("keys", ["()", "(src,)", "src", "(src"])
def test_keys_that_cannot_be_read(keys: str) -> None:
    with pytest.raises(CqlError):
        continuous_plan(f"{A} EXCEPT ALL ON {keys} {B}")
