"""ALTER QUERY: the text with other parts, and what has no place in it."""

from __future__ import annotations

import re

import pytest

from sash.core.errors import CqlError
from sash.core.time import SECOND
from sash.sql import AlterQuery, PauseOrResume, RegisterQuery, SelectStatement, altered, parse
from tests.sql.examples import marked

PLAIN = "SELECT k, COUNT(*) FROM s [WINDOW 1 min SLIDE 5 sec]"

BOTH = (
    "SELECT 1 FROM (SELECT 1 FROM s [WINDOW 9 sec SLIDE {0} sec]) a, (SELECT 2 FROM s [WINDOW 6 sec SLIDE {0} sec]) b"
)

CHANGES = [
    f"REGISTER OR REPLACE QUERY q AS {PLAIN} GROUP BY k PRIORITY 2",
    "ALTER QUERY q SET (WINDOW 2 min, SLIDE 10 sec)",
    "ALTER QUERY q SET (WINDOW 200)",
    "ALTER QUERY q SET (WHERE v > 1 AND k IN (1, 2)) ALLOW INCOMPLETE",
    "ALTER QUERY q SET (PRIORITY 5, LIFETIME 1 day, COMMENT 'for us')",
    "PAUSE QUERY q",
    "RESUME QUERY q",
]
ERRORS = [
    ("ALTER QUERY q« »", "expected SET (..), got the end of the statement"),
    ("ALTER QUERY q SET «WINDOW» 1 min", "expected (WINDOW 2 min, SLIDE 10 sec, WHERE length > 100)"),
    ("ALTER QUERY q SET («GROUP BY» k)", "expected one of WINDOW, SLIDE, WHERE, PRIORITY, LIFETIME, COMMENT"),
    ("ALTER QUERY q SET (SLIDE 1 sec, «SLIDE» 2 sec)", "(once each), got 'SLIDE'"),
    ("ALTER QUERY q SET (WINDOW «soon»)", "expected a WINDOW such as '10 sec'"),
    ("ALTER QUERY q SET (WINDOW «0 sec»)", "a WINDOW must be greater than zero"),
    ("ALTER QUERY q SET (WHERE«)»", "expected a condition, got ')'"),
    ("ALTER QUERY q SET (WHERE a > 1 «GROUP BY» b)", "unexpected word"),
    ("ALTER QUERY q SET (WHERE a > 1« »", "expected , or ), got the end of the statement"),
    ("ALTER QUERY q SET (SLIDE 1 sec) «ALLOW» LOSS", "expected ALLOW INCOMPLETE or the end"),
    ("ALTER «STREAM» q SET (SLIDE 1 sec)", "expected ARCHIVE or QUERY after ALTER"),
    ("PAUSE «q»", "expected QUERY, got 'q'"),
    ("RESUME QUERY« »", "expected the query's name"),
    ("PAUSE QUERY q «NOW»", "expected the end of the statement"),
    ("REGISTER OR REPLACE «q» AS SELECT 1", "expected QUERY, got 'q'"),
    ("REGISTER «q» AS SELECT 1", "expected QUERY or OR REPLACE QUERY, got 'q'"),
    (f"REGISTER OR REPLACE QUERY «IF» NOT EXISTS q AS {PLAIN}", "leave out IF NOT EXISTS, or OR REPLACE"),
]


def edited(text: str, settings: str) -> str:
    select, statement = parse(text), parse(f"ALTER QUERY q SET ({settings})")
    assert isinstance(select, SelectStatement) and isinstance(statement, AlterQuery)
    return altered(select.select, statement.edits, statement.script)


@pytest.mark.parametrize(
    ("text", "settings", "expected"),
    [
        (PLAIN, "WINDOW 2 min", "SELECT k, COUNT(*) FROM s [WINDOW 2 min SLIDE 5 sec]"),
        (PLAIN, "window 90s, slide INTERVAL '10' SECOND",
         "SELECT k, COUNT(*) FROM s [WINDOW 90s SLIDE INTERVAL '10' SECOND]"),
        ("SELECT 1 FROM s [WINDOW 1 min SLIDE EXACTLY 5 sec LAG 1 sec]", "SLIDE 6 sec, WINDOW 30 sec",
         "SELECT 1 FROM s [WINDOW 30 sec SLIDE EXACTLY 6 sec LAG 1 sec]"),
        ("SELECT 1 FROM s [RANGE 300 SLIDE 5]", "WINDOW 600", "SELECT 1 FROM s [RANGE 600 SLIDE 5]"),
        ("SELECT 1 FROM s [PARTITION BY k ROWS 5 SLIDE 1]", "WINDOW 9, SLIDE 3",
         "SELECT 1 FROM s [PARTITION BY k ROWS 9 SLIDE 3]"),
        ("SELECT 1 FROM s [ROWS 5 SLIDE 1 sec]", "SLIDE 3 sec", "SELECT 1 FROM s [ROWS 5 SLIDE 3 sec]"),
        ("SELECT 1 FROM s [UNBOUNDED SLIDE 1 sec]", "SLIDE 3 sec", "SELECT 1 FROM s [UNBOUNDED SLIDE 3 sec]"),
        (PLAIN, "WHERE v > 1 OR v IN (1, 2)", f"{PLAIN} WHERE v > 1 OR v IN (1, 2)"),
        (f"{PLAIN} GROUP BY k", "WHERE k = ')'", f"{PLAIN} WHERE k = ')' GROUP BY k"),
        (f"{PLAIN} WHERE k = 'where' AND (v) GROUP BY k HAVING COUNT(*) > 1", "WHERE v < 0",
         f"{PLAIN} WHERE v < 0 GROUP BY k HAVING COUNT(*) > 1"),
        ("SELECT COUNT(*) FILTER (WHERE v > 1) FROM s [WINDOW 1 sec SLIDE 1 sec] WHERE (v > 2) ORDER BY 1", "WHERE v=3",
         "SELECT COUNT(*) FILTER (WHERE v > 1) FROM s [WINDOW 1 sec SLIDE 1 sec] WHERE v=3 ORDER BY 1"),
        ("SELECT 1 FROM s [WINDOW 1 min SLIDE 2 sec] WHERE v > 1 -- all", "WHERE v > 2, WINDOW 3 min",
         "SELECT 1 FROM s [WINDOW 3 min SLIDE 2 sec] WHERE v > 2"),
        (BOTH.format(3), "SLIDE 1 sec", BOTH.format(1)),
    ],
)  # fmt: skip
def test_parts_of_a_text_are_set(text: str, settings: str, expected: str) -> None:
    assert edited(text, settings) == expected


@pytest.mark.parametrize(
    ("text", "settings", "why", "word"),
    [
        ("SELECT 1 FROM s [WINDOW 1 min SLIDE 1 sec] a, t [WINDOW 1 min SLIDE 1 sec] b", "WINDOW 2 min",
         "the query has 2 windows, and WINDOW sets one: write the whole query, by REGISTER OR REPLACE", "2 min"),
        ("SELECT 1 FROM s [UNBOUNDED SLIDE 1 sec]", "SLIDE 1 sec, WINDOW 2 min",
         "[UNBOUNDED SLIDE 1 sec] has no length that WINDOW could set", "2 min"),
        ("SELECT 1 FROM s [SINCE midnight SLIDE 1 sec]", "WINDOW 2 min", "has no length", "2 min"),
        ("SELECT 1 FROM s [NOW]", "WINDOW 2 min", "has no length", "2 min"),
        ("SELECT 1 FROM s [WINDOW 1 TO 5 min STEP 1 min SLIDE 1 min]", "WINDOW 2 min", "has no length", "2 min"),
        ("SELECT 1 FROM s [SESSION GAP 1 min]", "WINDOW 2 min", "has no length", "2 min"),
        ("SELECT 1 FROM s [SESSION GAP 1 min SLIDE 1 sec]", "SLIDE 2 sec", "sessions could be told twice", "2 sec"),
        ("SELECT 1 FROM s [WINDOW 1 min]", "SLIDE 2 sec", "has no SLIDE that could be set", "2 sec"),
        ("SELECT MAX(v) FROM s", "WINDOW 2 sec", "a window behind a stream's name", "2 sec"),
        ("SELECT COUNT(*) FROM s GROUP BY window(ts, '9 seconds', '3 seconds')", "SLIDE 2 sec",
         "SLIDE is set in a window behind a stream's name, [WINDOW ..], which the query does not have", "2 sec"),
        ("SELECT n FROM (SELECT COUNT(*) n FROM s [WINDOW 1 min SLIDE 1 sec]) a", "WHERE v > 1",
         "the query has several places for WHERE", "v > 1"),
    ],
)  # fmt: skip
def test_what_has_no_place_is_refused_at_its_word(text: str, settings: str, why: str, word: str) -> None:
    with pytest.raises(CqlError, match=re.escape(why)) as error:
        edited(text, settings)
    assert error.value.span is not None
    assert error.value.text[error.value.span.start : error.value.span.end] == word


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_mistakes_have_their_places(text: str, reason: str) -> None:
    statement, start, end = marked(text)
    with pytest.raises(CqlError) as error:
        parse(statement)
    assert reason in error.value.reason and error.value.span is not None
    assert (error.value.span.start, error.value.span.end) == (start, end)


@pytest.mark.parametrize("text", CHANGES)
def test_changes_are_read(text: str) -> None:
    assert isinstance(parse(text), RegisterQuery | AlterQuery | PauseOrResume)


def test_statements_are_read() -> None:
    statement = parse("alter query Q set (PRIORITY -3, window 1 min, lifetime 2 min, comment 'mine') allow incomplete;")
    assert isinstance(statement, AlterQuery) and statement.allows_incomplete
    assert statement.name.text == "Q" and statement.options == {
        "priority": -3,
        "lifetime": 120 * SECOND,
        "comment": "mine",
    }
    assert [(each.word, each.text) for each in statement.edits] == [("WINDOW", "1 min")]
    for word in ("PAUSE", "RESUME"):
        paused = parse(f"{word.lower()} query Q")
        assert isinstance(paused, PauseOrResume) and (paused.name.text, paused.paused) == ("Q", word == "PAUSE")
    register = parse(f"REGISTER OR REPLACE QUERY q AS {PLAIN} LIFETIME 1 sec")
    assert isinstance(register, RegisterQuery) and register.replace_at is not None
    assert register.select.script[register.replace_at.start : register.replace_at.end] == "OR REPLACE"
    assert (register.text, register.lifetime) == (PLAIN, SECOND)
