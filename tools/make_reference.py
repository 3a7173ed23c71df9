"""Writes docs/reference/ from the tests of the language: what is accepted, what is refused and with which words.

    python -m tools.make_reference

A chapter is a module of tests/sql: its lists of statements, which its tests parse and bind, are its examples.
Messages are those that the parser or the binder gives now. tests/docs/test_reference_pages.py compares the pages with
what this would write, so they cannot say anything else than the language does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sash.catalog import Catalog, Stream
from sash.core.errors import CqlError
from sash.core.time import UNITS
from sash.sql import Delete, Insert, SelectStatement, Update, bind_change, bind_stored, parse
from sash.sql.expressions import functions
from sash.sql.expressions.answer_terms import EVALUATED_BY
from tests.sql import (
    examples,
    test_aggregates,
    test_alteration,
    test_approx_intersect,
    test_archives,
    test_binder,
    test_common_tables,
    test_continuous,
    test_continuous_joins,
    test_continuous_sets,
    test_continuous_where,
    test_grouping,
    test_items,
    test_outputs,
    test_over,
    test_sessions,
    test_statements,
    test_stored,
    test_sub_queries,
    test_tables,
    test_window_calls,
    test_windows,
)

PAGES = Path(__file__).parents[1] / "docs" / "reference"
Accepted = tuple[str, Sequence[str]]  # a statement, and its plan or what it means, line by line


def as_statement(text: str) -> None:
    """Only parsed, but for changes of tables, which are bound as well."""
    statement = parse(text)
    if isinstance(statement, Insert | Update | Delete):
        bind_change(statement, examples.CATALOG)


def as_called(text: str) -> None:
    test_window_calls.decided(text)


def as_periodic(text: str) -> None:
    examples.plan(text)


def as_continuous(text: str) -> None:
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    examples.continuous_plan(text)


def as_stored(text: str) -> None:
    """A question over the stored window of a stream s."""
    statement, known = parse(text), Catalog()
    assert isinstance(statement, SelectStatement)
    known.add_stream(Stream("s", test_stored.SCHEMA, "ts", keep=10 * UNITS["min"]))
    bind_stored(statement.select, known)


@dataclass(frozen=True)
class Chapter:
    """`prose` is the heading of docs/language.md that explains it; `bind` raises what is refused."""

    title: str
    prose: str
    bind: Callable[[str], None]
    accepted: Sequence[Accepted] = ()
    refused: Iterable[str] = ()
    later: Iterable[str] = ()


def texts(pairs: Iterable[Sequence[object]], before: str = "") -> list[str]:
    """The statements of a list of tests, in which « and » stand around the word that is wrong."""
    return [before + examples.expand(str(pair[0])) for pair in pairs if "«" in str(pair[0])]


def parametrized(test: Any) -> list[str]:
    """The statements of a test that has its list in its decorator."""
    (mark,) = test.pytestmark
    return [case if isinstance(case, str) else case[0] for case in mark.args[1]]


def expanded(pairs: Iterable[tuple[str, Sequence[str]]], before: str = "") -> list[Accepted]:
    return [(before + examples.expand(text), lines) for text, lines in pairs]


COUNT = "SELECT COUNT(*) FROM packets "
REGISTER = "REGISTER QUERY q AS SELECT COUNT(*) FROM packets [WINDOW 1 min SLIDE 1 min]"
IN_WHERE = "SELECT src FROM packets [RANGE 5 sec] s WHERE "
WINDOWS = dict((*test_windows.WINDOWS, *test_windows.SESSIONS))
SPELT = test_sub_queries.spelt
SUB_QUERIES = (*test_sub_queries.PLANS, *test_sub_queries.PROBES, *test_sub_queries.UNIONS)
SUB_QUERY_ERRORS = (*test_sub_queries.ERRORS, *test_sub_queries.IN_EXPRESSIONS, *test_sub_queries.UNION_ERRORS)
CHAPTERS: dict[str, tuple[Chapter, ...]] = {
    "statements": (
        Chapter(
            "Statements",
            "statements",
            as_statement,
            [
                (test_statements.SCRIPT.strip(), ()),
                *(
                    (f"{REGISTER} {clauses};", ())
                    for clauses in parametrized(test_statements.test_the_synopsis_of_a_query)
                ),
                *((f"SET EXECUTION {name};", ()) for name in parametrized(test_statements.test_set_execution)),
                *((f"{text};", ()) for text in test_statements.IF_EXISTS),
                *((f"{text};", ()) for text in parametrized(test_statements.test_what_is_shown)),
                *(
                    (f"{COUNT}[WINDOW {minutes}];", ())
                    for minutes in (
                        *parametrized(test_statements.test_units),
                        *parametrized(test_statements.test_intervals),
                    )
                ),
            ],
            refused=texts(test_statements.ERRORS),
            later=texts(test_statements.LATER),
        ),
        Chapter(
            "Queries that change",
            "replace-alter-pause",
            as_statement,
            [(f"{text};", ()) for text in test_alteration.CHANGES],
            refused=texts(test_alteration.ERRORS),
        ),
        Chapter(
            "Tables",
            "tables",
            as_statement,
            [(f"{text};", ()) for text in examples.TABLES],
            refused=[text for text in texts(test_tables.ERRORS) if "SHOW" not in text],
        ),
        Chapter(
            "Archives",
            "archives",
            as_statement,
            [(f"{test_archives.CALLS};", ())],
            refused=parametrized(test_archives.test_refusals_point_at_the_word),
        ),
    ),
    "windows": (
        Chapter(
            "The window clause",
            "windows",
            as_periodic,
            [(COUNT + clause, ()) for clause in (*WINDOWS, "[PARTITION BY src ROWS 3 SLIDE 1]")],
            refused=texts(test_windows.ERRORS, COUNT),
        ),
        Chapter("Sessions", "session", as_periodic, refused=texts(test_sessions.REFUSED)),
        Chapter(
            "Windows of Spark, Flink and RisingWave",
            "windows-of-spark-flink-and-risingwave",
            as_called,
            [(text, (" ".join(cql.split()),)) for text, cql in (*test_window_calls.SPARK, *test_window_calls.TABLES)],
            refused=texts(test_window_calls.ERRORS),
        ),
        Chapter(
            "Windows of a one-time SELECT",
            "one-time-select",
            as_periodic,
            [(COUNT + clause, ()) for clause in parametrized(test_windows.test_windows_of_one_time_queries)],
        ),
        Chapter(
            "Questions over a stored window",
            "stored-windows",
            as_stored,
            [(text, ()) for text in parametrized(test_stored.test_what_is_on_the_lists_passes)],
            refused=parametrized(test_stored.test_everything_else_is_refused_at_its_word),
        ),
    ),
    "select": (
        Chapter(
            "Clauses of a SELECT",
            "clauses-of-a-select",
            as_periodic,
            expanded(test_binder.GOLDEN),
            texts(test_binder.ERRORS),
            texts(test_binder.LATER),
        ),
        Chapter(
            "Aggregates",
            "aggregates",
            as_periodic,
            [
                *(
                    (examples.expand(f"SELECT {call[0]} AS x FROM packets W"), (f"{call[0]}: {call[3]}",))
                    for call in test_aggregates.CALLS
                ),
                *(
                    (examples.expand(f"SELECT {text} AS x FROM packets W"), (name,))
                    for text, name, *_ in test_aggregates.VALUE_LISTS
                ),
            ],
            texts(test_aggregates.ERRORS),
            texts(test_aggregates.LATER),
        ),
        Chapter(
            "One row per item",
            "one-row-per-item",
            as_periodic,
            expanded(test_items.PLANS),
            texts(test_items.ERRORS),
            texts(test_items.LATER),
        ),
        Chapter(
            "GROUPING SETS, ROLLUP, CUBE",
            "clauses-of-a-select",
            as_periodic,
            expanded(test_grouping.PLANS),
            texts(test_grouping.ERRORS),
            texts(test_grouping.LATER),
        ),
        Chapter(
            "OVER",
            "over",
            as_periodic,
            expanded(test_over.PLANS),
            texts(test_over.ERRORS),
            texts(test_over.LATER),
        ),
        Chapter(
            "Sub-queries",
            "sub-queries",
            as_periodic,
            expanded((SPELT(text), lines) for text, lines in SUB_QUERIES),
            texts([(SPELT(text),) for text, _ in SUB_QUERY_ERRORS]),
            texts([(SPELT(text),) for text, _ in (*test_sub_queries.LATER, *test_sub_queries.NOT_IN_EXPRESSIONS)]),
        ),
        Chapter(
            "WITH",
            "sub-queries",
            as_periodic,
            [(examples.expand(text), (examples.expand(written),)) for text, written in test_common_tables.PANES],
            texts(test_common_tables.ERRORS),
        ),
        Chapter(
            "Tables in a periodic query",
            "tables",
            as_periodic,
            refused=[text for text in texts(test_tables.NOT_LOOKED_UP) if " W2" not in text],
        ),
    ),
    "continuous": (
        Chapter(
            "Continuous queries",
            "continuous-queries",
            as_continuous,
            test_continuous.PLANS,
            texts(test_continuous.ERRORS),
            texts(test_continuous.LATER),
        ),
        Chapter(
            "Joins",
            "continuous-queries",
            as_continuous,
            test_continuous_joins.PLANS,
            texts(test_continuous_joins.ERRORS),
            texts(test_continuous_joins.LATER),
        ),
        Chapter("Joins with tables", "tables", as_continuous, test_tables.PLANS, texts(test_tables.REFUSED)),
        Chapter(
            "Tests against sub-queries",
            "continuous-queries",
            as_continuous,
            [(IN_WHERE + text, lines) for text, lines in test_continuous_where.PLANS],
            texts(test_continuous_where.ERRORS, test_continuous_where.SELECT),
        ),
        Chapter(
            "Set operations",
            "continuous-queries",
            as_continuous,
            (),
            texts(test_continuous_sets.ERRORS),
            texts(test_continuous_sets.LATER),
        ),
        Chapter(
            "APPROX INTERSECT",
            "answers-at-the-multiples-of-slide",
            as_continuous,
            [(text, ()) for text in parametrized(test_approx_intersect.test_where_the_word_may_stand)],
            texts(test_approx_intersect.ERRORS),
        ),
        Chapter(
            "Output, INTERNAL, answers at the multiples of SLIDE",
            "output",
            as_continuous,
            [(text, ()) for text in test_outputs.PLANS],
            texts(test_outputs.ERRORS),
            texts(test_outputs.LATER),
        ),
    ),
}
FUNCTIONS_PAGE = """# Reference: functions

[What it means](../language.md#functions). An argument has a type, or is a value of any type; brackets hold what may be
left out, and `..` repeats. Functions in **bold** are also evaluated [over an answer](../language.md#over-an-answer).

{families}

## Refused for good

{refused}

## Not supported yet

Spark's other functions of one row (`*` is any end of a name).

{absent}
"""
INTRODUCTION = """# Reference

What the parser and the binder accept and refuse, statement by statement, with their words.
[The language](../language.md) explains; these pages list. They are written by
[make_reference.py](../../tools/make_reference.py) from the [tests of the language](../../tests/sql/examples.py),
and a test compares them.

| page | chapters |
| --- | --- |
{contents}

The statements are about these streams and tables:

```sql
{catalog}
```

(The stream `s` of questions over stored windows has `ts TIMESTAMP, k INT, v INT` and a `KEEP`.)

Behind what is accepted stands its plan, from the answer down (of a continuous query with the
[update pattern](../architecture/changes.md) of each edge). Under what is refused, `^` marks the word that the error
points at, and the message follows. What is *not supported yet* raises `sash.NotSupportedError`, everything else
`sash.CqlError`.
"""


def marked_error(text: str, bind: Callable[[str], None]) -> str:
    """The statement, a mark under the wrong word, and the message."""
    statement = text.replace("«", "").replace("»", "")
    try:
        bind(statement)
    except CqlError as error:
        refusal = error
    else:
        raise AssertionError(f"accepted: {statement}")
    assert refusal.span is not None, statement
    mark = " " * refusal.span.start + "^" * max(1, refusal.span.end - refusal.span.start)
    return f"{statement}\n{mark}\n{refusal.reason}"


def fenced(language: str, parts: Iterable[str]) -> Iterator[str]:
    yield f"```{language}\n" + "\n\n".join(parts) + "\n```"


def with_plan(statement: str, lines: Sequence[str]) -> str:
    return "\n".join([statement, *(f"  -- {line}" for line in lines)])


def chapter_text(chapter: Chapter) -> Iterator[str]:
    yield f"## {chapter.title}"
    yield f"[What it means](../language.md#{chapter.prose})."
    if chapter.accepted:
        yield "Accepted:"
        yield from fenced("sql", (with_plan(text, lines) for text, lines in chapter.accepted))
    for title, statements in (("Refused:", list(chapter.refused)), ("Not supported yet:", list(chapter.later))):
        if statements:
            yield title
            yield from fenced("text", (marked_error(text, chapter.bind) for text in statements))


def page_text(name: str) -> str:
    title = f"# Reference: {name}"
    return "\n\n".join([title, *(part for chapter in CHAPTERS[name] for part in chapter_text(chapter))]) + "\n"


def contents_text() -> str:
    rows = [
        f"| [{name}]({name}.md) | {', '.join(chapter.title for chapter in chapters)} |"
        for name, chapters in CHAPTERS.items()
    ]
    rows.append(f"| [functions](functions.md) | {', '.join(functions.FAMILIES)} |")
    catalog = [examples.PACKETS, examples.TRADES, examples.ODD, *examples.TABLES]
    text = INTRODUCTION.replace("{contents}", "\n".join(rows))
    return text.replace("{catalog}", "\n".join(f"{statement};" for statement in catalog))


def functions_text() -> str:
    """Spark's functions of one row: those that may be called, and why not the others."""
    families = "\n\n".join(
        f"## {title}\n\n" + "\n".join(f"- {_written(name, family[name][0])}" for name in sorted(family))
        for title, family in functions.FAMILIES.items()
    )
    reasons: dict[str, list[str]] = {}
    for name, reason in functions.REFUSED.items():
        reasons.setdefault(reason, []).append(name)
    refused = "\n".join(f"- {_names(names)}: {reason}" for reason, names in reasons.items())
    absent = "\n".join(f"- {_names(names.split())}: {reason}" for reason, names in functions.ABSENT.items())
    return FUNCTIONS_PAGE.format(families=families, refused=refused, absent=absent)


def _names(names: Sequence[str]) -> str:
    return " ".join(f"`{name}`" for name in sorted(names))


def _written(name: str, kinds: str) -> str:
    """`lpad(STRING, INT [, STRING])`."""
    required, _, optional = kinds.partition("[")
    parts = [functions.KINDS[kind][0].removeprefix("a ").removeprefix("an ") for kind in required.rstrip("*")]
    if required.endswith("*"):
        parts[-1] = ".."
    left_out = ", ".join(functions.KINDS[kind][0].removeprefix("a ").removeprefix("an ") for kind in optional[:-1])
    call = f"`{name}({', '.join(parts)}{f' [, {left_out}]' if left_out else ''})`"
    return f"**{call}**" if name in EVALUATED_BY or name in functions.CASTS else call


def pages() -> dict[str, str]:
    return {
        "README.md": contents_text(),
        "functions.md": functions_text(),
        **{f"{name}.md": page_text(name) for name in CHAPTERS},
    }


def main() -> int:
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")
        print(f"docs/reference/{name}: {text.count(chr(10))} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
