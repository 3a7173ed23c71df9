"""Answers, summaries and progress for people; bars and curves made of characters."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from sash.runtime.answers.answer import Answer
from sash.runtime.session import Session
from sash.sql.roles import is_number

_EIGHTHS_UP = " ▁▂▃▄▅▆▇█"
_EIGHTHS_RIGHT = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int) -> str:
    """A horizontal bar, exact to an eighth of a character.

    >>> bar(0.5, 3), bar(1.0, 3)
    ('█▌ ', '███')
    """
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS_RIGHT[rest] if rest else "")).ljust(width)


def curve(values: Sequence[float], width: int, height: int, step: int = 1) -> list[str]:
    """A chart of the newest values, the last at the right; each value is `step` characters wide.

    >>> curve([1, 2, 4], width=4, height=2)
    ['   █', ' ▄██']
    """
    shown = list(values)[-(width // step) :]
    top = max(shown, default=0) or 1
    eighths = [round(value / top * height * 8) for value in shown]
    rows = []
    for level in reversed(range(height)):
        row = "".join(_EIGHTHS_UP[max(0, min(8, each - 8 * level))] * step for each in eighths)
        rows.append(row.rjust(width))
    return rows


def short(number: float, unit: str = "") -> str:
    """Three digits and a prefix.

    >>> short(16_400_000, "B/s"), short(950), short(20_000)
    ('16.4 MB/s', '950', '20.0 k')
    """
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            value = number / size
            return f"{value:.0f} {prefix}{unit}" if value >= 100 else f"{value:.1f} {prefix}{unit}"
    return f"{number:.0f} {unit}".rstrip()


def answer_table(answer: Answer, limit: int) -> RenderableType:
    state = "" if answer.complete else ", window not complete yet"
    return arrow_table(answer.table, limit, f"{answer.query} as of {moment(answer.as_of)} UTC{state}")


def one_time_table(text: str, table: pa.Table, limit: int) -> RenderableType:
    facts = metadata(table)
    if "as_of" not in facts:
        # An archive without rows.
        return arrow_table(table, limit, f"{text}, as of no time yet")
    as_of = datetime.fromisoformat(facts["as_of"])
    state = "" if facts["complete"] == "true" else ", window not complete yet"
    return arrow_table(table, limit, f"{text} as of {moment(as_of)} UTC{state}")


def metadata(table: pa.Table) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}


def arrow_table(table: pa.Table, limit: int, title: str | None = None) -> RenderableType:
    """At most `limit` rows; a line below says how many are left out."""
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
    """The shortest spelling of a time.

    >>> moment(datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC))
    '2026-01-01 00:00:10'
    """
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ") if value.tzinfo else value.isoformat(" ")


def summary(stats: Mapping[str, Any]) -> str:
    """The work that was done, in one line, and in a second one the bad tuples."""
    streams = stats["streams"].values()
    seconds = sum(each["seconds_in_spark"] + each["seconds_in_sash"] for each in streams)
    answers = sum(each["answers"] for each in stats["queries"].values())
    parts = [
        f"{count(stats['tuples'], 'tuple')} in {seconds:.1f} s ({stats['tuples_per_s']:,.0f} tuples/s)",
        count(answers, "answer"),
        f"{stats['joint_executions']:,} of {count(stats['executions'], 'execution')} joint",
        *([f"{stats['work_saved']:.0%} work saved"] if stats["work_saved"] >= 0.005 else []),
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


# -- progress ------------------------------------------------------------------------------------------


_OTHER_LINES = 4


@contextmanager
def showing_progress(session: Session, messages: Console, doing: str, *, answers: bool = False) -> Iterator[None]:
    """Tuples so far, speed and watermark, and with `answers` the newest answer of each query; only on a terminal."""
    if not messages.is_terminal or messages.quiet:
        yield
        return
    with Live(_Status(session, messages, doing, answers), console=messages, refresh_per_second=4, transient=True):
        yield


class _Status:
    """Drawn anew by the thread of `Live` at every refresh."""

    def __init__(self, session: Session, messages: Console, doing: str, answers: bool) -> None:
        self._session = session
        self._messages = messages
        self._doing = doing
        self._answers = answers
        self._started = time.monotonic()
        self._spinner = Spinner("dots")

    def __rich__(self) -> RenderableType:
        self._spinner.update(text=self._line())
        return Group(self._newest(), self._spinner) if self._answers else self._spinner

    def _line(self) -> Text:
        stats = self._session.stats()
        parts = [self._doing, f"{time.monotonic() - self._started:.0f} s", count(stats["tuples"], "tuple")]
        parts.append(f"{stats['tuples_per_s']:,.0f} tuples/s")
        marks = [each["watermark"] for each in stats["streams"].values() if each["watermark"] is not None]
        if marks:
            parts.append(f"watermark {moment(min(marks).replace(microsecond=0))}")
        return Text("  ".join(parts), no_wrap=True, overflow="ellipsis")

    def _newest(self) -> Table:
        """A line per query, as many as fit."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for query in list(self._session.queries.values())[: max(1, self._messages.height - _OTHER_LINES)]:
            latest = query.latest()
            if query.error is not None:
                table.add_row(query.name, "failed", Text(str(query.error), "red"))
            elif latest is not None:
                first = ", ".join(f"{k} {v}" for row in latest.table.slice(0, 1).to_pylist() for k, v in row.items())
                table.add_row(query.name, moment(latest.as_of), Text(first or "no rows"))
            else:
                table.add_row(query.name, "", Text("no answer yet", "dim"))
        return table
