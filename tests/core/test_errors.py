"""Where an error points, and the hints for unknown names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import CqlError, NotSupportedError, SashError, Span, nearest


def pointed(text: str, start: int, end: int) -> list[str]:
    return str(CqlError("wrong", text, Span(start, end))).split("\n")


def test_the_carets_stand_below_the_word() -> None:
    text = "SELECT src,\n  SUM(lenght) FROM s"
    start = text.index("lenght")
    assert pointed(text, start, start + 6) == [
        "wrong (line 2, column 7)",
        "    SUM(lenght) FROM s",
        "        ^^^^^^",
    ]


def test_the_end_of_the_text() -> None:
    assert pointed("SELECT", 6, 6) == ["wrong (line 1, column 7)", "  SELECT", "        ^"]
    assert pointed("SELECT", 99, 120) == ["wrong (line 1, column 7)", "  SELECT", "        ^"]
    assert pointed("", 0, 0) == ["wrong (line 1, column 1)", "  ", "  ^"]


def test_a_span_over_several_lines_is_marked_on_its_first() -> None:
    assert pointed("ab\ncd", 1, 5) == ["wrong (line 1, column 2)", "  ab", "   ^"]


@given(st.text(alphabet="ab\n ", max_size=30), st.data())
def test_line_and_column(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    error = CqlError("wrong", text, Span(start, data.draw(st.integers(start, len(text)))))
    assert error.line is not None and error.column is not None
    lines = text.split("\n")
    assert sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1 == start
    _, source, carets = str(error).split("\n")
    assert source == "  " + lines[error.line - 1]
    assert carets.index("^") == error.column + 1
    assert len(carets.rstrip()) <= max(len(source), error.column + 2)


def test_without_a_place() -> None:
    error = CqlError("nothing to run")
    assert str(error) == error.reason == "nothing to run"
    assert error.line is None and error.column is None


def test_not_supported() -> None:
    error = NotSupportedError("MEDIAN", "SELECT MEDIAN(x)", Span(7, 13))
    assert str(error).startswith("not supported yet: MEDIAN (line 1, column 8)")
    assert isinstance(error, CqlError) and isinstance(error, SashError)


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("lenght", ["length", "src"], "; did you mean 'length'?"),
        ("SRC", ["length", "src"], "; did you mean 'src'?"),
        ("srcs", ["Src"], "; did you mean 'Src'?"),
        ("zzz", ["b", "a"], "; known: a, b"),
        ("zzz", [], ""),
    ],
)
def test_hints(word: str, known: list[str], hint: str) -> None:
    assert nearest(word, known) == hint


def test_a_long_list_is_cut() -> None:
    assert nearest("zzz", [f"n{i:02}" for i in range(20)]).endswith("n11, ...")
