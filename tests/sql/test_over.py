"""OVER and QUALIFY: window functions over the groups of an answer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.errors import NotSupportedError
from sash.plan.expressions import Field
from sash.plan.nodes import AnswerWindow, OverCall, SortKey
from sash.runtime.route import is_continuous
from sash.sql import SelectStatement, bind, bind_stored, parse
from tests.sql.examples import CATALOG, check_continuous_error, check_error, described, find

_TOTAL = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_PLACE = "RANK() OVER (PARTITION BY protocol ORDER BY COUNT(*) DESC NULLS LAST)"
PLANS = [
    (
        (
            "SELECT src, RANK() OVER (PARTITION BY protocol ORDER BY COUNT(*) DESC) AS place FROM packets W "
            "GROUP BY src, protocol HAVING COUNT(*) > 1 QUALIFY place <= 3 ORDER BY place LIMIT 9"
        ),
        [
            f"Project packets.src AS src, {_PLACE} AS place",
            "Limit 9",
            f"Sort {_PLACE} ASC",
            f"AnswerFilter le({_PLACE}, 3)",
            f"AnswerWindow {_PLACE}",
            "Subquery packets",
            "Project src, protocol, COUNT(*)",
            "Having gt(COUNT(*), 1)",
            "Aggregate COUNT(*) BY src, protocol",
        ],
    ),
    (
        (
            "SELECT n, LAG(n, 2, 0) OVER (ORDER BY n) AS before FROM (SELECT src, COUNT(*) AS n FROM packets W "
            "GROUP BY src) a WHERE n > 5"
        ),
        [
            "Project a.n AS n, LAG(a.n, 2, CAST(0 AS BIGINT)) OVER (ORDER BY a.n ASC NULLS FIRST) AS before",
            "AnswerWindow LAG(a.n, 2, CAST(0 AS BIGINT)) OVER (ORDER BY a.n ASC NULLS FIRST)",
            "AnswerFilter gt(a.n, 5)",
            "Subquery a",
            "Project src, COUNT(*) AS n",
            "Aggregate COUNT(*) BY src",
        ],
    ),
    (
        "SELECT SUM(length) / SUM(SUM(length)) OVER () AS part, window_end() AS t FROM packets W GROUP BY src",
        [
            (
                f"Project divide(cast(packets.SUM(length)), cast(SUM(SUM(length)) OVER ({_TOTAL}))) AS part, "
                "packets.window_end() AS t"
            ),
            f"AnswerWindow SUM(SUM(length)) OVER ({_TOTAL})",
            "Subquery packets",
            "Project src, SUM(length), window_end()",
            "Aggregate SUM(length) BY src",
        ],
    ),
]
ERRORS = [
    ("SELECT COUNT(*) FROM packets W WHERE «ROW_NUMBER»() OVER (ORDER BY src) > 1", "QUALIFY tests it, after HAVING"),
    ("SELECT COUNT(*) FROM packets W GROUP BY «RANK»() OVER (ORDER BY src)", "cannot stand here"),
    ("SELECT SUM(«RANK»() OVER (ORDER BY src)) FROM packets W GROUP BY src", "cannot stand here"),
    ("SELECT src FROM packets W GROUP BY src HAVING «RANK»() OVER (ORDER BY src) < 2", "HAVING comes before OVER"),
    ("SELECT src FROM packets W GROUP BY src QUALIFY «src > 1»", "QUALIFY tests window functions"),
    ("SELECT src FROM packets W GROUP BY src QUALIFY «RANK»() OVER (ORDER BY src)", "QUALIFY needs a condition"),
    ("SELECT src, «ROW_NUMBER»() AS n FROM packets W GROUP BY src", "ROW_NUMBER needs OVER"),
    ("SELECT src, «RANK»() OVER (PARTITION BY src) AS n FROM packets W GROUP BY src", "RANK numbers rows in an order"),
    ("SELECT «RANK»(src) OVER (ORDER BY src) AS n FROM packets W GROUP BY src", "RANK takes 0 arguments, got 1"),
    ("SELECT «LAG»() OVER (ORDER BY src) AS n FROM packets W GROUP BY src", "LAG takes 1 to 3 arguments, got 0"),
    (
        "SELECT LAG(src, «dst») OVER (ORDER BY src) AS n FROM packets W GROUP BY src, dst",
        "a whole constant of rows away",
    ),
    ("SELECT LAG(src, 1, «'x'») OVER (ORDER BY src) AS n FROM packets W GROUP BY src", "CAST one of them"),
    ("SELECT NTILE(«0») OVER (ORDER BY src) AS n FROM packets W GROUP BY src", "a positive whole constant"),
    ("SELECT SUM(«protocol») OVER () AS n FROM packets W GROUP BY protocol", "SUM needs a number, but got STRING"),
    ("SELECT «SUM»(*) OVER () AS n FROM packets W GROUP BY protocol", "SUM(*) has no meaning"),
    ("SELECT MAX(«NULL») OVER () AS n FROM packets W GROUP BY protocol", "needs a type: write CAST(NULL AS ..)"),
    ("SELECT SUM(«length») OVER () AS n FROM packets W GROUP BY src", "'length' is neither in GROUP BY nor inside"),
    (
        "SELECT SUM(«RANK»() OVER (ORDER BY src)) OVER () AS n FROM packets W GROUP BY src",
        "OVER cannot stand inside OVER",
    ),
    ("SELECT «RANK»() OVER (ORDER BY src ROWS UNBOUNDED PRECEDING) AS n FROM packets W GROUP BY src", "has no frame"),
    ("SELECT TOP(3, src) FROM packets W «QUALIFY» 1 < 2", "QUALIFY cannot stand beside TOP"),
]
LATER = [
    ("SELECT «src», RANK() OVER (ORDER BY src) AS n FROM packets W", "OVER is over groups: GROUP BY the columns"),
    (
        "SELECT «NTH_VALUE»(src, 2) OVER (ORDER BY src) AS n FROM packets W GROUP BY src",
        "NTH_VALUE OVER; there are",
    ),
    ("SELECT «SUM»(src) OVER (ORDER BY src ROWS 3 PRECEDING) AS n FROM packets W GROUP BY src", "other frames of SUM"),
    ("SELECT «SUM»(src) FILTER (WHERE src > 1) OVER () AS n FROM packets W GROUP BY src", "write SUM(IF(c, x, NULL))"),
    ("SELECT «COUNT»(DISTINCT src) OVER () AS n FROM packets W GROUP BY src", "GROUP BY the values"),
    ("SELECT «RANK»() OVER w AS n FROM packets W GROUP BY src", "named windows (WINDOW w AS ..); write them out"),
    ("SELECT src AS n FROM packets W GROUP BY src WINDOW «w AS (ORDER BY src»)", "named windows"),
]


@pytest.mark.parametrize(("text", "expected"), PLANS)
def test_plans(text: str, expected: list[str]) -> None:
    assert described(text.replace("packets W", "packets [WINDOW 10 min SLIDE 2 min]")) == expected


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_error(text, reason)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str) -> None:
    assert isinstance(check_error(text, what), NotSupportedError)


def test_a_call() -> None:
    over = "PARTITION BY dst ORDER BY src DESC"
    node = find(
        f"SELECT SUM(src) OVER ({over} ROWS UNBOUNDED PRECEDING) FROM packets W GROUP BY src, dst", AnswerWindow
    )
    src, dst = Field("packets.src", pa.int32()), Field("packets.dst", pa.int32())
    name = (
        "SUM(src) OVER (PARTITION BY dst ORDER BY src DESC NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    assert node.calls == (OverCall(name, "sum", (src,), (dst,), (SortKey(src, True, False),), "rows", pa.int64()),)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT src, «RANK»() OVER (ORDER BY src) AS n FROM packets [RANGE 5 sec]",
        "SELECT src, SUM(length) AS n FROM packets [RANGE 5 sec] GROUP BY src QUALIFY «RANK»() OVER (ORDER BY src) < 3",
        "SELECT src, «RANK»() OVER (ORDER BY src) AS n FROM packets [RANGE 5 sec SLIDE 5 sec]",
        "SELECT src FROM packets [RANGE 5 sec] WHERE src IN (SELECT «MAX»(src) OVER () FROM packets [RANGE 9 sec])",
    ],
)
def test_continuous_queries_have_none(text: str) -> None:
    assert isinstance(check_continuous_error(text, "but over the groups of an answer; aggregates"), NotSupportedError)


@pytest.mark.parametrize("over", ["", " QUALIFY RANK() OVER (ORDER BY COUNT(*)) < 3"])
def test_panes_answer_windows_over_groups(over: str) -> None:
    text = f"SELECT src FROM packets [RANGE 60 sec SLIDE 10 sec] GROUP BY src{over}"
    for each in (text, f"SELECT src FROM ({text}) a", f"SELECT src FROM (SELECT src FROM ({text}) a) b"):
        statement = parse(each)
        assert isinstance(statement, SelectStatement) and not is_continuous(bind(statement.select, CATALOG))


def test_questions_to_spark_have_no_qualify() -> None:
    statement = parse("SELECT src, RANK() OVER (ORDER BY length) AS r FROM packets [RANGE 1 min] QUALIFY r < 3")
    assert isinstance(statement, SelectStatement)
    with pytest.raises(NotSupportedError, match=r"QUALIFY over rows; write SELECT .. FROM \(SELECT .., RANK\(\)"):
        bind_stored(statement.select, CATALOG)
