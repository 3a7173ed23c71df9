"""Which patterns of Java are taken over, and why others are not."""

from __future__ import annotations

import pytest

from sash.expr.regular_expressions import as_re2, as_replacement, check_constants

REFUSED = [
    (r"\bword\b", r"the escape \\b"),
    (r"\p{L}", r"the escape \\p"),
    (r"(a)\1", r"the escape \\1"),
    ("(?i)a", "begins with"),
    ("a(?=b)", "begins with"),
    ("(a*)*", "may be empty"),
    ("^*", "may be empty"),
    ("a**", "behind another"),
    ("a++", "behind another"),
    ("*a", "without anything before"),
    ("a{2,1}", "0 to 1000 times"),
    ("a{1001}", "0 to 1000 times"),
    ("(?:a{40}){40}", "together more than 1000 times"),
    ("a{,2}", "without anything before"),
    ("[a&&b]", "& in a class"),
    ("[[a]]", r"\[ in a class"),
    ("[]a]", "] in a class"),
    (r"[a-\d]", "the range"),
    ("[b-a]", "the range b-a"),
    ("[a", "ends too early"),
    ("(a", "without its"),
    ("a)", "without its"),
    ("a\\", "ends too early"),
]


@pytest.mark.parametrize(("pattern", "reason"), REFUSED)
def test_what_java_may_read_differently_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        as_re2(pattern)


@pytest.mark.parametrize(
    ("function", "constants", "reason"),
    [
        ("regexp_extract", ("(a)", 2), "group 2 of 1"),
        ("regexp_extract", ("a",), "group 1 of 0"),
        ("regexp_replace", ("a*", "x"), "match nothing"),
        ("regexp_replace", ("a", "$1"), "group 1 of 0"),
        ("regexp_replace", ("a", "$x"), "without the number"),
        ("regexp_replace", ("()" * 10 + "a", "$1"), "9 groups"),
    ],
)
def test_the_constants_of_each_function(function: str, constants: tuple[str | int, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_constants(function, constants)


def test_replacements() -> None:
    assert as_replacement(r"\\$0\x$2", 2) == r"\\\0x\2"
