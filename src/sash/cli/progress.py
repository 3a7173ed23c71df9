"""The status shown on stderr while streams are read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from sash.cli.printing import count, moment
from sash.runtime.session import Session

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
