"""No text makes the parser or a binder raise anything but a SashError, or keeps them busy."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings

from sash.core.errors import CqlError
from sash.runtime.compiler import as_select
from sash.runtime.continuous.continuous_queries import unmeasured
from sash.runtime.route import route_plan
from sash.sql import SCRIPTS, SelectStatement, Statement, bind, parse, parse_script, plan_changes
from sash.sql.reading.limits import (
    LONGEST_INTERVAL,
    LONGEST_WORD,
    MOST_DEEP,
    MOST_JOINED,
    MOST_NESTED,
    MOST_READ,
    MOST_VALUES,
    STATEMENTS,
)
from tests.sql.examples import CATALOG, plan, raised
from tests.sql.hostile import CATALOG as EVERYTHING
from tests.sql.hostile import TEXTS, survives
from tests.sql.hostile_grammar import Sentences
from tests.support.examples import examples

_EACH = 5_000


@settings(max_examples=examples(2_000))
@given(TEXTS)
def test_any_text_is_understood_or_refused(text: str) -> None:
    survives(text)


@pytest.mark.deep
@pytest.mark.parametrize("number", range(200))
def test_a_million_texts(number: int) -> None:
    """In parts, so that a failing text is found again soon."""
    sentences, accepted = Sentences(Random(number)), 0
    for _ in range(_EACH):
        text = sentences.text()
        try:
            accepted += survives(text)
        except BaseException as error:
            error.add_note(f"the text: {text!r}")
            raise
    # A parser that refuses every text would pass the test above.
    assert accepted > _EACH / 20


def test_the_grammar_knows_all_statements() -> None:
    """Those of the language, and says all of them in a way that is understood."""
    sentences, seen = Sentences(Random(1)), set[type]()
    for _ in range(4_000):
        with suppress(CqlError):
            seen |= {type(statement) for statement in parse_script(sentences.sentence())}
    assert seen == set(get_args(Statement))


# -- limits ---------------------------------------------------------------------------------------------


def where(condition: str) -> str:
    return f"SELECT COUNT(*) AS n FROM packets [WINDOW 10 min SLIDE 2 min] WHERE {condition}"


def refusal(text: str) -> str:
    with pytest.raises(CqlError) as caught:
        parse_script(text)
    return caught.value.reason


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("x" * 1_000_000, f"{STATEMENTS.characters:,} are read"),
        (" " * 1_000_000, f"{STATEMENTS.characters:,} are read"),
        ("(" * 200_000, f"more than {STATEMENTS.tokens:,} words"),
        ("/*" * 50_000 + "*/" * 50_000, f"more than {STATEMENTS.tokens:,} words"),
        ("/*+" + "(" * 200_000 + "*/", f"more than {STATEMENTS.tokens:,} words"),
        ("r'\\' " + "( " * 100_000 + "'", f"more than {STATEMENTS.tokens:,} words"),
        ("SHOW QUERIES;" * 10_000, f"more than {STATEMENTS.tokens:,} words"),
        (where("(" * 10_000 + "ok" + ")" * 10_000), f"more than {STATEMENTS.tokens:,} words"),
        (where("(" * 5_000 + "ok" + ")" * 5_000), f"at most {MOST_NESTED} levels"),
        (where("NOT " * 5_000 + "ok"), f"at most {MOST_NESTED} levels"),
        (where("- " * 5_000 + "src > 0"), f"at most {MOST_NESTED} levels"),
        (where("CASE WHEN ok THEN " * 1_000 + "ok" + " END" * 1_000), f"at most {MOST_NESTED} levels"),
        ("SELECT a FROM " + "(SELECT a FROM " * 500 + "packets" + ")" * 500, f"at most {MOST_NESTED} levels"),
        (where("ok AND src > 0 OR " * 4_000 + "ok"), f"more than {STATEMENTS.tokens:,} words"),
        (where("src = 1 = " * 1_000 + "ok"), f"more than {MOST_DEEP} levels"),
        (where("+".join(["src"] * 5_000) + " > 0"), f"more than {MOST_DEEP} levels"),
        (where("src IN (" + ", ".join(map(str, range(9_000))) + ")"), f"more than {MOST_VALUES:,} values"),
        ("SELECT " + "x" * 100_000, f"the longest that is read has {LONGEST_WORD:,}"),
        ("SELECT " + "1" * 100_000, f"the longest that is read has {LONGEST_WORD:,}"),
        (where(f"ts > ts - INTERVAL '{'9' * 100_000}' DAYS"), f"the longest that is read has {LONGEST_INTERVAL}"),
        (
            where(f"ts > ts - INTERVAL '1' DAY '{'9' * 100_000}' HOURS"),
            f"the longest that is read has {LONGEST_INTERVAL}",
        ),
        ("SELECT `" + "x" * 100_000 + "`", f"the longest that is read has {LONGEST_WORD:,}"),
    ],
)
def test_what_is_too_much_is_refused_with_the_limit(text: str, limit: str) -> None:
    assert limit in refusal(text)


def test_what_is_just_within_the_limits_is_read() -> None:
    deep = MOST_NESTED - 2
    values = ", ".join(map(str, range(MOST_VALUES)))
    for condition in (
        "(" * deep + "ok" + ")" * deep,
        "NOT " * deep + "ok",
        " AND ".join(["ok"] * 3_000),
        "+".join(["src"] * (MOST_DEEP - 20)) + " > 0",
        f"src IN ({values})",
        f"protocol = '{'x' * 200_000}'",
    ):
        assert plan(where(condition)) is not None


def chain(windows: int) -> str:
    """A join of this many windows, each with the next."""
    sources = ", ".join(f"packets [RANGE 1 min] a{number}" for number in range(windows))
    return f"SELECT a0.src FROM {sources} WHERE " + " AND ".join(
        f"a{number}.src = a{number + 1}.dst" for number in range(windows - 1)
    )


def not_in(tests: int) -> str:
    """Each test has the earlier tests twice, and its own window three times."""
    test = "src NOT IN (SELECT dst FROM packets [RANGE 1 min] b)"
    return "SELECT src FROM packets [RANGE 1 min] a WHERE " + " AND ".join([test] * tests)


@pytest.mark.parametrize(
    ("text", "limit", "word"),
    [
        (chain(MOST_JOINED + 1), f"at most {MOST_JOINED} windows", "packets"),
        (chain(1_000), f"at most {MOST_JOINED} windows", "packets"),
        (f"SELECT n FROM ({chain(MOST_JOINED + 1)}) AS t", f"at most {MOST_JOINED} windows", "packets"),
        (" UNION ALL ".join([chain(4)] * 17), f"at most {MOST_READ} windows", "packets"),
        (not_in(5), f"would read 125 windows and tables, and {MOST_READ} are", "IN"),
        (" UNION ALL ".join([not_in(3)] * 3), f"would read 87 windows and tables, and {MOST_READ} are", "SELECT"),
    ],
)
def test_what_joins_too_much_is_refused_at_the_word(text: str, limit: str, word: str) -> None:
    with pytest.raises(CqlError, match=limit) as caught:
        plan_changes(bind(as_select(text), EVERYTHING))
    assert caught.value.span is not None
    assert text[caught.value.span.start : caught.value.span.end] == word


def test_as_many_windows_as_may_be_are_planned() -> None:
    conditions = " AND ".join(f"a{number % 16}.src + {number} > a{(number + 1) % 16}.dst" for number in range(1_000))
    sub_queries = ", ".join(f"({chain(MOST_JOINED)}) s{number}" for number in range(MOST_READ // MOST_JOINED))
    for text in (
        chain(MOST_JOINED),
        f"{chain(MOST_JOINED)} AND {conditions}",
        f"SELECT s0.src FROM {sub_queries} WHERE s0.src = s1.src AND s1.src = s2.src AND s2.src = s3.src",
        " UNION ".join(["SELECT src FROM packets [RANGE 1 min]"] * MOST_READ),
        not_in(4),
    ):
        decided = unmeasured(route_plan(plan_changes(bind(as_select(text), EVERYTHING))))
        assert decided.choice.plan.schema.names == ["src"]


def test_values_are_counted_in_each_list_by_itself() -> None:
    some = ", ".join(map(str, range(MOST_VALUES - 1)))
    assert isinstance(parse(where(f"src IN ({some}) OR dst IN ({some}, abs(1, 2))")), SelectStatement)


def test_the_owner_of_a_session_may_run_longer_scripts() -> None:
    script = where("ok") + ";"
    assert len(parse_script(script * 2_000, SCRIPTS)) == 2_000
    with pytest.raises(CqlError, match=f"more than {STATEMENTS.tokens:,} words"):
        parse_script("INSERT INTO t VALUES (1)" + ", (1)" * 10_000, SCRIPTS)


def test_a_program_deep_in_its_own_stack_gets_an_error_as_well() -> None:
    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        else:
            plan(where("(" * 30 + "ok" + ")" * 30))

    with pytest.raises((CqlError, RecursionError)) as caught:
        deeper(800)
    assert "nested too deeply" in str(caught.value)


def test_the_message_about_a_long_line_is_short() -> None:
    text = where(f"protocol = '{'x' * 100_000}' AND nosuch = 1 AND src IN ({'1, ' * 900}1)")
    error = raised(text)
    assert error.span is not None and error.column == error.span.start + 1
    assert len(str(error)) < 2_000
    shown, caret = str(error).splitlines()[1:]
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "nosuch"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT '\\UFFFFFFFF' FROM packets", "beyond the last character"),
        ("SELECT '\\ud800' FROM packets", "come in pairs"),
        ("CREATE STREAM s FROM csv OPTIONS (path '\\udfff') TIMESTAMP ts", "come in pairs"),
        ("SELECT \ud800", "lone surrogate"),
        ("SELECT a\0b", "NUL"),
        ("CREATE STREAM s FROM rate TIMESTAMP ts DELAY ''", "a DELAY such as"),
        ("REGISTER QUERY q AS SELECT 1 FROM packets PRIORITY ²", "unexpected word"),
        ("SELECT src FROM packets{x [RANGE 1 min]", "parameters"),
        ("SELECT /*+ -- BROADCAST(p) */ src FROM packets [RANGE 1 min]", "a hint that cannot be read"),
        ("SELECT /*+ */ src FROM packets [RANGE 1 min]", "a hint that cannot be read"),
        ("CREATE TABLE t (a `DECIMAL(10,2), b` INT, id INT PRIMARY KEY)", "unexpected word"),
        ("CREATE TABLE t (id INT PRIMARY KEY, a STRUCT<INT, b: STRING>)", "a field of a STRUCT has a name"),
    ],
)
def test_odd_characters(text: str, reason: str) -> None:
    assert reason in refusal(text)


def test_half_a_number_is_none() -> None:
    with pytest.raises(CqlError, match="1e is no number"):
        plan(f"{where('src')} = 1e")


def test_a_character_that_java_writes_in_two_halves_is_one() -> None:
    assert "'😀'" in str(plan(where("protocol = '\\ud83d\\ude00'")))


def test_the_catalog_of_the_tests_knows_all_kinds() -> None:
    assert {table.retroactive for table in CATALOG.tables} == {True, False} and CATALOG.streams
    assert {stream.keep_in for stream in EVERYTHING.streams} == {"memory", "cluster"}
    assert {stream.shed_approx for stream in EVERYTHING.streams if stream.shed} == {True, False}
    assert {query.is_continuous for query in EVERYTHING.queries} == {True, False} and EVERYTHING.archives
