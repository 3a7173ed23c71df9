"""Charts of answers: which kind, of what, and what is left out."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from sash.core.errors import SashError
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.plot import MOST_LINES
from sash.runtime.answers.registered_query import Query, remember
from tests.runtime.notebook.queries import handle

TOTAL = "SELECT SUM(v) AS total, COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec]"
BY_KEY = "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY k"
TOP = "SELECT TOP(3, k, SUM(v)) FROM s [WINDOW 5 sec SLIDE 5 sec]"


@pytest.fixture(autouse=True)
def pyplot() -> Iterator[Any]:
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def answered(text: str, *tables: dict[str, list[Any]]) -> Query:
    query = handle(text)
    for number, columns in enumerate(tables):
        as_of = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=5 * number)
        remember([(query.outward, Answer("totals", as_of, True, True, pa.table(columns)))])
    return query


def lines(ax: Any) -> dict[str, list[float]]:
    return {line.get_label(): [float(value) for value in line.get_ydata()] for line in ax.get_lines()}


def test_a_number_is_a_line_over_time() -> None:
    query = answered(TOTAL, {"total": [5], "n": [1]}, {"total": [7], "n": [2]})
    ax = query.plot()
    assert list(lines(ax).values()) == [[5.0, 7.0]]
    assert ax.get_ylabel() == "total" and ax.get_legend() is None and ax.get_title() == "totals"
    assert list(lines(query.plot(column="N")).values()) == [[1.0, 2.0]]


def test_groups_have_a_line_each_with_gaps_where_they_were_not() -> None:
    first = {"k": [1, 2], "total": [5, 6], "n": [1, 1]}
    second = {"k": [2, 3], "total": [7, None], "n": [1, 0]}
    found = lines(answered(BY_KEY, first, second).plot("total"))
    assert list(found) == ["2", "1"], "the greatest at the end first; one without a number has no line"
    assert found["2"] == [6.0, 7.0] and found["1"][0] == 5.0 and math.isnan(found["1"][1])


def test_of_many_groups_the_greatest_are_drawn_and_the_title_says_so() -> None:
    rows = {"k": [f"k{i}" for i in range(50)], "total": list(range(50)), "n": [1] * 50}
    ax = answered(BY_KEY, rows, rows).plot()
    assert list(lines(ax)) == [f"k{49 - i}" for i in range(MOST_LINES)] and ax.get_title() == "totals (8 of 50)"


def test_lists_and_single_answers_are_bars() -> None:
    first, second = {"k": ["a", "b"], "weight": [9, 5]}, {"k": ["c", "a"], "weight": [8, 7]}
    single = {"k": ["x"], "total": [3], "n": [1]}
    for query, names, heights in (
        (answered(TOP, first, second), ["c", "a"], [8, 7]),
        (answered(BY_KEY, single), ["x"], [3]),
    ):
        ax = query.plot()
        assert [label.get_text() for label in ax.get_xticklabels()] == names
        assert [bar.get_height() for bar in ax.patches] == heights and "as of 2026-01-01 00:00:0" in ax.get_title()


def test_on_axes_that_are_given(pyplot: Any) -> None:
    _, (left, right) = pyplot.subplots(1, 2)
    assert answered(TOTAL, {"total": [5], "n": [1]}).plot(ax=right) is right
    assert right.get_lines() and not left.get_lines()


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(SashError, match="query 'totals' has no answer yet to plot"):
        answered(TOTAL).plot()
    with pytest.raises(SashError, match="no column of numbers 'totl'; did you mean 'total'"):
        answered(TOTAL, {"total": [5], "n": [1]}).plot(column="totl")
    with pytest.raises(SashError, match="no column of numbers to plot"):
        answered("SELECT DISTINCT k FROM s [WINDOW 5 sec SLIDE 5 sec]", {"k": ["a"]}).plot()
    with pytest.raises(SashError, match="the answers of query 'totals' are changes: give it a SLIDE"):
        answered("SELECT v FROM s [RANGE 5 sec]", {"v": [1], "_sign": [1]}).plot()


def test_a_join_that_slides_is_drawn(pyplot: Any) -> None:
    """It has a plan, and whole answers all the same."""
    text = "SELECT COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec] a, s [WINDOW 5 sec SLIDE 5 sec] b WHERE a.k = b.k"
    assert answered(text, {"n": [5]}, {"n": [7]}).plot().get_lines()


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return honest(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SashError, match=r"plot\(\) needs matplotlib: pip install '\.\[notebook\]' in the folder of"):
        answered(TOTAL, {"total": [5], "n": [1]}).plot()
