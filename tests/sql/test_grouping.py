"""GROUPING SETS, ROLLUP and CUBE: each set is a query over the panes of the finest."""

from __future__ import annotations

import pytest

from sash.core.errors import NotSupportedError
from sash.plan.nodes import AnswerUnion, Project
from sash.sql import BoundSelect, SelectStatement, bind, parse
from tests.sql.examples import CATALOG, check_continuous_error, check_error, described, expand, find

PLANS = [
    (
        "SELECT src, dst, SUM(length) AS b, GROUPING(dst) AS g FROM packets W GROUP BY src, ROLLUP(dst)",
        [
            "Project packets.src AS src, packets.dst AS dst, packets.SUM(length) AS b, packets.GROUPING(dst) AS g",
            "AnswerUnion",
            "Subquery packets",
            "Project src, dst, SUM(length), 0 AS GROUPING(dst)",
            "Aggregate SUM(length) BY src, dst",
            "Subquery packets",
            "Project src, NULL AS dst, SUM(length), 1 AS GROUPING(dst)",
            "Aggregate SUM(length) BY src of (src, dst)",
        ],
    ),
    (
        "SELECT src, COUNT(*) AS n FROM packets W GROUP BY GROUPING SETS (src, ()) HAVING COUNT(*) > 5",
        [
            "Project packets.src AS src, packets.COUNT(*) AS n",
            "AnswerFilter gt(packets.COUNT(*), 5)",
            "AnswerUnion",
            "Subquery packets",
            "Project src, COUNT(*)",
            "Aggregate COUNT(*) BY src",
            "Subquery packets",
            "Project NULL AS src, COUNT(*)",
            "Having gt(COUNT(*)', 0)",
            "Aggregate COUNT(*), COUNT(*) BY () of (src)",
        ],
    ),
]
# GROUP BY, and the keys of its sets.
SETS = [
    ("ROLLUP(src, dst)", ["src dst", "src", ""]),
    ("CUBE(src, dst)", ["src dst", "src", "dst", ""]),
    ("src, CUBE(dst)", ["src dst", "src"]),
    ("ROLLUP((src, dst), port)", ["src dst port", "src dst", ""]),
    ("GROUPING SETS ((src, dst), dst, ())", ["src dst", "dst", ""]),
    ("GROUPING SETS (ROLLUP(src), CUBE(dst), src)", ["src", "", "dst", "", "src"]),
    ("ROLLUP(src), ROLLUP(dst)", ["src dst", "src", "dst", ""]),
    ("src, ROLLUP(src, dst)", ["src dst", "src", "src"]),
    ("GROUPING SETS (())", [""]),
]
ERRORS = [
    ("SELECT «GROUPING»(src) FROM packets W GROUP BY src", "tells of a key of GROUPING SETS, ROLLUP or CUBE"),
    ("SELECT GROUPING(«dst») FROM packets W GROUP BY ROLLUP(src)", "give it a key of theirs"),
    ("SELECT «GROUPING»(src, dst) FROM packets W GROUP BY ROLLUP(src, dst)", "GROUPING takes one key of GROUP BY"),
    ("SELECT «GROUPING_ID»() FROM packets W GROUP BY ROLLUP(src, dst)", "GROUPING_ID takes keys of GROUP BY"),
    ("SELECT COUNT(*) FROM packets W WHERE «GROUPING»(src) = 1 GROUP BY ROLLUP(src)", "cannot stand in WHERE"),
    ("SELECT «length», COUNT(*) FROM packets W GROUP BY ROLLUP(src)", "'length' is neither in GROUP BY nor inside"),
    (
        "SELECT COUNT(*) FROM packets W GROUP BY CUBE(«src, dst, port, length, price, ratio, day»)",
        "more than 64 grouping sets",
    ),
]
LATER = [
    ("SELECT TOP(3, src) FROM packets W «GROUP BY» ROLLUP(dst)", "GROUPING SETS beside TOP; give each set its own")
]


@pytest.mark.parametrize(("text", "expected"), PLANS)
def test_plans(text: str, expected: list[str]) -> None:
    assert described(expand(text)) == expected


@pytest.mark.parametrize(("clause", "sets"), SETS)
def test_sets(clause: str, sets: list[str]) -> None:
    union = find(f"SELECT COUNT(*) AS n FROM packets W GROUP BY {clause}", AnswerUnion)
    aggregates = [part.input.input for part in union.parts if isinstance(part.input, Project)]
    found = [getattr(node, "input", None) if type(node).__name__ == "Having" else node for node in aggregates]
    assert [" ".join(key.name for key in node.keys) for node in found] == sets  # type: ignore[union-attr]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_error(text, reason)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str) -> None:
    assert isinstance(check_error(text, what), NotSupportedError)


def test_continuous_queries_have_none() -> None:
    text = "SELECT src, COUNT(*) AS n FROM packets [RANGE 5 sec] GROUP BY ROLLUP(«src»)"
    assert isinstance(
        check_continuous_error(text, "GROUPING SETS, ROLLUP and CUBE but in aggregates"), NotSupportedError
    )


def test_keys_are_bound_once() -> None:
    statement = parse("SELECT src FROM packets [RANGE 5 sec] GROUP BY src, ROLLUP(SRC, dst)")
    assert isinstance(statement, SelectStatement)
    body = bind(statement.select, CATALOG).body
    assert isinstance(body, BoundSelect)
    assert body.sets == ((0, 1), (0,), (0,)) and len(body.keys) == 2
