"""Answers and summaries as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sash.engine.answers.answer import Answer
from sash.language.roles import is_number


def answer_table(answer: Answer, limit: int) -> RenderableType:
    state = "" if answer.complete else ", window not complete yet"
    return arrow_table(answer.table, limit, f"{answer.query} as of {moment(answer.as_of)} UTC{state}")


def one_time_table(text: str, table: pa.Table, limit: int) -> RenderableType:
    facts = metadata(table)
    if "as_of" not in facts:
        # An archive to which nothing has come.
        return arrow_table(table, limit, f"{text}, as of no time yet")
    as_of = datetime.fromisoformat(facts["as_of"])
    state = "" if facts["complete"] == "true" else ", window not complete yet"
    return arrow_table(table, limit, f"{text} as of {moment(as_of)} UTC{state}")


def metadata(table: pa.Table) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}


def arrow_table(table: pa.Table, limit: int, title: str | None = None) -> RenderableType:
    """At most `limit` rows; what is left out is said below."""
    shown = Table(box=box.ROUNDED, header_style="cyan", border_style="dim")
    for field in table.schema:
        shown.add_column(Text(field.name), justify="right" if is_number(field.type) else "left", overflow="fold")
    for row in table.slice(0, limit).to_pylist():
        shown.add_row(*map(cell, row.values()))
    above = [] if title is None else [Text(title, "bold")]
    return Group(*above, shown, *_left_out(table.num_rows, limit))


def _left_out(rows: int, limit: int) -> list[Text]:
    if not rows:
        return [Text("no rows", "dim")]
    return [Text(f"{count(rows - limit, 'more row')}", "dim")] if rows > limit else []


def cell(value: Any) -> Text:
    match value:
        case None:
            return Text("NULL", "dim")
        case float():
            return Text(f"{value:.10g}")
        case datetime():
            return Text(moment(value))
        case _:
            return Text(str(value))


def moment(value: datetime) -> str:
    """A time as short as it can be.

    >>> moment(datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC))
    '2026-01-01 00:00:10'
    """
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ") if value.tzinfo else value.isoformat(" ")


def summary(stats: Mapping[str, Any]) -> str:
    """What was done, in one line, and in a second one which tuples were not as they should be."""
    streams = stats["streams"].values()
    seconds = sum(each["seconds_in_spark"] + each["seconds_in_sash"] for each in streams)
    answers = sum(each["answers"] for each in stats["queries"].values())
    parts = [
        f"{count(stats['tuples'], 'tuple')} in {seconds:.1f} s ({stats['tuples_per_s']:,.0f} tuples/s)",
        count(answers, "answer"),
        f"{stats['joint_executions']:,} of {count(stats['executions'], 'execution')} joint",
        f"{stats['work_saved']:.0%} work saved",
    ]
    lines = [", ".join(parts)]
    bad = {
        "late": stats["late_tuples"],
        "without a timestamp": sum(each["null_timestamps"] for each in streams),
        "not parsed": sum(each["unparsable"] for each in streams),
        "too far ahead": sum(each["jumped_tuples"] for each in streams),
    }
    if any(bad.values()):
        lines.append("of these tuples " + ", ".join(f"{number:,} {why}" for why, number in bad.items() if number))
    return "\n".join(lines)


def count(number: int, noun: str) -> str:
    """
    >>> count(1, "tuple"), count(1200, "tuple")
    ('1 tuple', '1,200 tuples')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
