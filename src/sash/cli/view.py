"""The demo's live view: what the queries answer, and what answering them costs.

┌ header: event time, progress ───────────────┐
│ vitals                                      │
│ bytes/s, a curve                            │
│ top talkers            │ protocols, ports   │
│ the rest of the queries (tall terminals)    │
└ flood alert ────────────────────────────────┘
"""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sash.cli.charts import bar, curve, short
from sash.cli.packet_queries import BYTES_PER_SECOND, FLOODERS, PORTS, PROTOCOLS, TOP_TALKERS
from sash.cli.packets import START, dotted
from sash.cli.pulse import Pulse, Vitals
from sash.engine.session import Session

_ACCENT = "bright_cyan"
_PROTOCOL_STYLES = {"TCP": "blue", "UDP": "magenta", "ICMP": "yellow", "GRE": "green"}
_LONG_CURVE = 60
_TALL = 34


class DemoView:
    """Drawn anew at every refresh, in the size of the terminal."""

    def __init__(self, session: Session, duration: int, pulse: Pulse) -> None:
        self._session = session
        self._duration = duration
        self._pulse = pulse

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        tall = height >= _TALL
        vitals = self._pulse.take(self._session.stats())
        layout = Layout()
        layout.split_column(
            Layout(self._header(vitals, options.max_width), size=1),
            Layout(self._vitals(vitals), size=2),
            Layout(self._bytes(options.max_width - 4, 5 if tall else 3), size=7 if tall else 5),
            Layout(name="middle", size=12 if tall else None),
            *([Layout(self._queries(options.max_width), minimum_size=3)] if tall else []),
            Layout(self._alert(), size=1),
        )
        layout["middle"].split_row(
            Layout(self._talkers(options.max_width * 3 // 5 - 4), ratio=3),
            Layout(self._mix(options.max_width * 2 // 5 - 4), ratio=2),
        )
        yield layout

    # -- numbers ---------------------------------------------------------------------------------------

    def _header(self, vitals: Vitals, width: int) -> RenderableType:
        seconds = 0.0 if vitals.watermark is None else (vitals.watermark - START).total_seconds()
        left = Text.assemble((" Sash ", f"bold black on {_ACCENT}"), (" one stream, ", "bold"))
        left.append(f"{len(self._session.queries)} queries, one pass", "bold")
        done = min(1.0, seconds / self._duration)
        length = min(20, max(0, width - 64))
        right = Text.assemble(
            (bar(done, length), _ACCENT), f"  {min(seconds, self._duration):.0f} of {self._duration} s "
        )
        grid = Table.grid(expand=True)
        grid.add_column()
        grid.add_column(justify="right")
        grid.add_row(left, right)
        return grid

    def _vitals(self, vitals: Vitals) -> RenderableType:
        grid = Table.grid(expand=True)
        for _ in range(4):
            grid.add_column(ratio=1, no_wrap=True)
        if not vitals.tuples:
            return Text(
                "\n The first micro-batch is on its way: Spark compiles the shared pass (a few seconds) ...", "dim"
            )
        grid.add_row(
            _fact(f"{vitals.tuples_per_s:,.0f}", "tuples/s"),
            _fact(f"{vitals.tuples:,}", "tuples"),
            _fact(f"{vitals.answers:,}", "answers"),
            _fact(f"{vitals.work_saved:.0%}", "work saved"),
        )
        grid.add_row(
            _fact(f"{vitals.batch_in_spark * 1e3:,.0f} ms", "in Spark"),
            _fact(f"{vitals.batch_in_sash * 1e3:,.0f} ms", "in Sash"),
            _fact(f"{vitals.executions:,}", "scans"),
            _fact(f"{vitals.joint_executions:,}", "of them joint"),
        )
        return grid

    # -- answers ---------------------------------------------------------------------------------------

    def _rows(self, query: str) -> list[dict[str, Any]]:
        latest = self._session.queries[query].latest()
        return [] if latest is None else latest.table.to_pylist()

    def _bytes(self, width: int, height: int) -> Panel:
        answers = self._session.queries[BYTES_PER_SECOND].answers()
        values = [answer.table.column("bytes")[0].as_py() or 0 for answer in answers if answer.table.num_rows]
        step = max(1, width // min(self._duration, _LONG_CURVE))
        text = Text("\n".join(curve(values, width, height, step)), _ACCENT, no_wrap=True)
        now = f"  {short(values[-1], 'B/s')}, at most {short(max(values), 'B/s')}" if values else ""
        return _panel(text, "Traffic", now)

    def _talkers(self, width: int) -> Panel:
        rows = self._rows(TOP_TALKERS)
        flooding = {row["src"] for row in self._rows(FLOODERS)}
        most = max((row["bytes"] for row in rows), default=0) or 1
        table = Table.grid(padding=(0, 1))
        for row in rows:
            style = "bright_red" if row["src"] in flooding else _ACCENT
            table.add_row(
                Text(f"{dotted(row['src']):<15}", style if row["src"] in flooding else ""),
                Text(bar(row["bytes"] / most, max(4, width - 27)), style),
                Text(f"{short(row['bytes'], 'B'):>9}"),
            )
        return _panel(table, "Top talkers", "  last 10 s, every second")

    def _mix(self, width: int) -> Panel:
        table = Table.grid(padding=(0, 1))
        protocols = self._rows(PROTOCOLS)
        total = sum(row["bytes"] for row in protocols) or 1
        room = max(4, width - 13)
        for row in protocols:
            share = row["bytes"] / total
            style = _PROTOCOL_STYLES.get(row["protocol"], "white")
            table.add_row(Text(f"{row['protocol']:<6}"), Text(bar(share, room), style), Text(f"{share:>4.0%}"))
        if protocols:
            table.add_row(Text("port", "dim"))
        for row in self._rows(PORTS):
            share = row["bytes"] / total
            table.add_row(Text(f"{row['port']:<6}"), Text(bar(share, room), "white"), Text(f"{share:>4.0%}"))
        return _panel(table, "Protocols and ports", "")

    def _queries(self, width: int) -> Panel:
        columns = max(1, width // 40)
        grid = Table.grid(expand=True, padding=(0, 1))
        for _ in range(columns):
            grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        cells = [self._query(name) for name in self._session.queries]
        lines = -(-len(cells) // columns)
        cells += [Text()] * (lines * columns - len(cells))
        for line in range(lines):
            grid.add_row(*cells[line::lines])
        return _panel(grid, "Queries", "  newest answer, rows")

    def _query(self, name: str) -> Text:
        latest = self._session.queries[name].latest()
        text = Text(f"{name:<24}")
        if latest is None:
            return text.append("no answer yet", "dim")
        seconds = (latest.as_of - START).total_seconds()
        text.append(f"{seconds:>4.0f} s", _ACCENT)
        return text.append(f"{latest.table.num_rows:>4}", "dim")

    def _alert(self) -> Text:
        rows = self._rows(FLOODERS)
        if not rows:
            return Text(" Ctrl-C ends", "dim")
        who = ", ".join(f"{dotted(row['src'])} ({row['packets'] / 5:,.0f} packets/s)" for row in rows)
        return Text(f" flood from {who} ", "bold white on red", no_wrap=True)


def _fact(value: str, what: str) -> Text:
    return Text.assemble(" ", (value, "bold"), (f" {what}", "dim"))


def _panel(content: RenderableType, title: str, note: str) -> Panel:
    heading = Text.assemble((title, "bold"), (note, "dim"))
    return Panel(content, title=heading, title_align="left", border_style="dim", box=box.ROUNDED, padding=(0, 1))
