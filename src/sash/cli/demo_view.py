"""The demo's live view: the answers of the queries, and their cost.

┌ header: queries, progress ──────────────────┐
│ vitals                                      │
│ micro-batch time       │ bytes/s, a curve   │
│ top talkers            │ protocols, ports   │
│ the overview's queries (tall terminals)     │
└ flood alert ────────────────────────────────┘
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.layout import Layout
from rich.padding import Padding
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from sash.cli.demo_stream import BYTES_PER_SECOND, FLOODERS, PORTS, PROTOCOLS, START, TOP_TALKERS, dotted
from sash.cli.printing import bar, curve, short
from sash.runtime.session import Session

_RECENT_SECONDS = 5.0


@dataclass(frozen=True)
class Vitals:
    """`running` is the time since the first tuples came; `tuples_per_s` is over the last seconds; `batch_seconds` are
    those of the newest micro-batches. `work` is as in `stats()`."""

    running: float
    queries: int
    tuples: int
    tuples_per_s: float
    answers: int
    work: Mapping[str, Mapping[str, int]]
    work_saved: float
    batch_seconds: float
    curve: tuple[float, ...]


@dataclass(frozen=True)
class BatchSample:
    """Micro-batches between two looks, on average: times in seconds, tuples and answers."""

    queries: int
    in_spark: float
    in_sash: float
    tuples: float
    answers: float

    @property
    def seconds(self) -> float:
        return self.in_spark + self.in_sash


@dataclass(frozen=True)
class DemoStage:
    """The micro-batches of a number of queries: median times, mean answers, and tuples per second of work."""

    queries: int
    batch_seconds: float
    in_spark: float
    in_sash: float
    answers: float
    tuples_per_s: float

    @classmethod
    def of(cls, queries: int, samples: Sequence[BatchSample]) -> DemoStage:
        """
        >>> DemoStage.of(200, [BatchSample(200, 0.25, 0.25, 900, 60), BatchSample(200, 0.75, 0.25, 1200, 80)])
        DemoStage(queries=200, batch_seconds=0.75, in_spark=0.5, in_sash=0.25, answers=70.0, tuples_per_s=1400.0)
        """
        seconds = [each.seconds for each in samples]
        in_spark, in_sash = median(each.in_spark for each in samples), median(each.in_sash for each in samples)
        answers = sum(each.answers for each in samples) / len(samples)
        rate = sum(each.tuples for each in samples) / sum(seconds)
        return cls(queries, median(seconds), in_spark, in_sash, answers, rate)


class Pulse:
    """Vitals over time, and a sample of every micro-batch.

    >>> def stats(tuples): return {
    ...     "tuples": tuples, "refreshes": 9, "work_saved": 0.5, "work": {"separate": {"passes": 2}},
    ...     "streams": {"s": {"micro_batches": tuples // 100, "seconds_in_spark": tuples / 400,
    ...                       "seconds_in_sash": 0.0}}}
    >>> times = iter([0.0, 1.0])
    >>> pulse = Pulse(lambda: next(times))
    >>> _ = pulse.take(stats(100))
    >>> vitals = pulse.take(stats(300))
    >>> vitals.tuples_per_s, vitals.running, vitals.batch_seconds
    (200.0, 1.0, 0.25)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        self._seen: deque[tuple[float, int]] = deque()
        self._before = (0, 0.0, 0.0, 0, 0)
        self.samples: list[BatchSample] = []

    def take(self, stats: Mapping[str, Any]) -> Vitals:
        """Vitals from the counters as they are now."""
        (stream,) = stats["streams"].values()
        queries, now = stats["work"]["separate"]["passes"], self._clock()
        self._sample(stream, stats, queries)
        if self._began is None and stats["tuples"]:
            self._began = now
        curve = tuple(each.seconds for each in self.samples)
        return Vitals(
            0.0 if self._began is None else now - self._began,
            queries,
            stats["tuples"],
            self._speed(now, stats["tuples"]),
            stats["refreshes"],
            stats["work"],
            stats["work_saved"],
            curve[-1] if curve else 0.0,
            curve,
        )

    def stages(self, numbers: Iterable[int]) -> list[DemoStage]:
        """The micro-batches with so many queries; while queries are registered, some have others."""
        found = {number: [each for each in self.samples if each.queries == number] for number in numbers}
        return [DemoStage.of(number, samples) for number, samples in found.items() if samples]

    def _speed(self, now: float, tuples: int) -> float:
        self._seen.append((now, tuples))
        while self._seen[0][0] < now - _RECENT_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        return (tuples - before) / (now - then) if now > then else 0.0

    def _sample(self, stream: Mapping[str, Any], stats: Mapping[str, Any], queries: int) -> None:
        times = stream["seconds_in_spark"], stream["seconds_in_sash"]
        counters = (stream["micro_batches"], *times, stats["tuples"], stats["refreshes"])
        batches = counters[0] - self._before[0]
        if batches and stats["tuples"] > self._before[3]:
            spark, sash, tuples, answers = (
                (now - then) / batches for now, then in zip(counters[1:], self._before[1:], strict=True)
            )
            self.samples.append(BatchSample(queries, spark, sash, tuples, answers))
        if batches:
            self._before = counters


_ACCENT = "bright_cyan"
_PROTOCOL_STYLES = {"TCP": "blue", "UDP": "magenta", "ICMP": "yellow", "GRE": "green"}
_LONG_CURVE = 60
_TALL = 34
_QUERY_COLUMNS = 2
# The queries of the first dashboard, and as many as a terminal shows before the first tuple.
_OVERVIEW, _FIRST = 10, 60
_MIDDLE = 12
_LINES = 4


class DemoView:
    """Drawn anew at every refresh, in the size of the terminal."""

    def __init__(self, session: Session, duration: int, vitals: Callable[[], Vitals | None]) -> None:
        self._session = session
        self._duration = duration
        self._vitals_now = vitals
        self._spinner = Spinner("dots", style=_ACCENT)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        tall = height >= _TALL
        queries = self._query_lines() + 2 if tall else 0
        chart = max(3, height - _MIDDLE - queries - _LINES)
        vitals = self._vitals_now()
        layout = Layout()
        if vitals is None or not vitals.tuples:
            layout.split_column(
                Layout(self._header(0.0, options.max_width), size=1),
                Layout(self._waiting(), size=2),
                Layout(self._texts()),
            )
            yield layout
            return
        layout.split_column(
            Layout(self._header(vitals.running, options.max_width), size=1),
            Layout(self._vitals(vitals), size=2),
            Layout(name="charts", size=chart),
            Layout(name="middle", size=_MIDDLE),
            *([Layout(self._queries(), size=queries)] if tall else []),
            Layout(self._alert(), size=1),
        )
        half = options.max_width // 2 - 4
        layout["charts"].split_row(Layout(self._batches(vitals, half, chart - 2)), Layout(self._bytes(half, chart - 2)))
        layout["middle"].split_row(
            Layout(self._talkers(options.max_width * 3 // 5 - 4), ratio=3),
            Layout(self._mix(options.max_width * 2 // 5 - 4), ratio=2),
        )
        yield layout

    # -- numbers ---------------------------------------------------------------------------------------

    def _header(self, running: float, width: int) -> RenderableType:
        left = Text.assemble((" Sash ", f"bold black on {_ACCENT}"), (" one stream, ", "bold"))
        left.append(f"{len(self._session.queries)} queries, one pass", "bold")
        seconds = min(running, self._duration)
        length = min(20, max(0, width - 64))
        right = Text.assemble(
            (bar(seconds / self._duration, length), _ACCENT), f"  {seconds:.0f} of {self._duration} s "
        )
        grid = Table.grid(expand=True)
        grid.add_column()
        grid.add_column(justify="right")
        grid.add_row(left, right)
        return grid

    def _vitals(self, vitals: Vitals) -> RenderableType:
        """In the second line, the rows of one Spark job per query, and of Sash."""
        shared, separate = vitals.work["shared"], vitals.work["separate"]
        grid = Table.grid(expand=True)
        for _ in range(4):
            grid.add_column(ratio=1, no_wrap=True)
        grid.add_row(
            _fact(f"{vitals.work_saved:.1%}", "work saved"),
            _fact(f"{vitals.tuples_per_s:,.0f}", "tuples/s"),
            _fact(f"{vitals.answers:,}", "answers"),
            _fact(f"{vitals.batch_seconds * 1e3:,.0f} ms", "micro-batch"),
        )
        compared = {
            "tuples_read": "read",
            "rows_expanded": "expanded",
            "rows_aggregated": "added up",
            "state_rows": "state",
        }
        grid.add_row(
            *(_fact(f"{short(separate[name])} ► {short(shared[name])}", what) for name, what in compared.items())
        )
        return grid

    # -- before the first answer ----------------------------------------------------------------------

    def _waiting(self) -> RenderableType:
        self._spinner.update(text=Text("The first micro-batch is on its way ..."))
        return Padding(self._spinner, (0, 1))

    def _texts(self) -> Panel:
        table = Table.grid(padding=(0, 2))
        table.add_column(style=_ACCENT, no_wrap=True)
        for query in list(self._session.queries.values())[:_FIRST]:
            table.add_row(query.name, Text(query.text))
        return _panel(table, "Queries", "")

    # -- answers ---------------------------------------------------------------------------------------

    def _rows(self, query: str) -> list[dict[str, Any]]:
        latest = self._session.queries[query].latest()
        return [] if latest is None else latest.table.to_pylist()

    def _batches(self, vitals: Vitals, width: int, height: int) -> Panel:
        """The curve is as high as the panel for a micro-batch of a second, or of the longest one."""
        step = max(1, width // min(self._duration, _LONG_CURVE))
        shown = list(vitals.curve)[-(width // step) :]
        lines = curve([*shown, max([1.0, *shown])], width + step, height, step)
        text = Text("\n".join(line[:-step] for line in lines), "green", no_wrap=True)
        return _panel(text, "Micro-batch", f"  {vitals.batch_seconds * 1e3:,.0f} ms for {vitals.queries:,} queries")

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
            style = _PROTOCOL_STYLES.get(row["protocol"], "white")
            table.add_row(*_share(row["protocol"], row["bytes"] / total, room, style))
        if protocols:
            table.add_row(Text("port", "dim"))
        for row in self._rows(PORTS):
            table.add_row(*_share(str(row["port"]), row["bytes"] / total, room, "white"))
        return _panel(table, "Protocols and ports", "")

    def _queries(self) -> Panel:
        """Every query's newest answer: its time, and its first row."""
        grid = Table.grid(expand=True, padding=(0, 1))
        for _ in range(_QUERY_COLUMNS):
            grid.add_column(no_wrap=True)
            grid.add_column(no_wrap=True, justify="right", style=_ACCENT)
            grid.add_column(no_wrap=True, ratio=1, overflow="ellipsis")
        cells = [self._query(name) for name in list(self._session.queries)[:_OVERVIEW]]
        lines = self._query_lines()
        cells += [("", "", Text())] * (lines * _QUERY_COLUMNS - len(cells))
        for line in range(lines):
            grid.add_row(*(part for cell in cells[line::lines] for part in cell))
        return _panel(grid, "Queries", "  newest answers, their first rows")

    def _query_lines(self) -> int:
        return -(-_OVERVIEW // _QUERY_COLUMNS)

    def _query(self, name: str) -> tuple[str, str, Text]:
        latest = self._session.queries[name].latest()
        if latest is None:
            return name, "", Text("no answer yet", "dim")
        rows = latest.table.slice(0, 1).to_pylist()
        first = Text(first_row(rows[0])) if rows else Text("no rows", "dim")
        return name, f"{(latest.as_of - START).total_seconds():.0f} s", first

    def _alert(self) -> Text:
        rows = self._rows(FLOODERS)
        if not rows:
            return Text(" Ctrl-C ends", "dim")
        who = ", ".join(f"{dotted(row['src'])} ({row['packets'] / 5:,.0f} packets/s)" for row in rows)
        return Text(f" flood from {who} ", "bold white on red", no_wrap=True)


def first_row(row: dict[str, Any]) -> str:
    """
    >>> first_row({"src": 10 << 24, "dst": (10 << 24) + 1, "bytes": 2_500_000})
    '2.5 MB  10.0.0.0 > 10.0.0.1'
    """
    ends = " > ".join(dotted(row[column]) for column in ("src", "dst") if column in row)
    values = {column: _value(column, value) for column, value in row.items() if column not in ("src", "dst")}
    return "  ".join(part for part in (values.pop("bytes", ""), ends, *values.values()) if part)


def _value(column: str, value: Any) -> str:
    match column:
        case "bytes":
            return short(value or 0, "B")
        case "packets":
            return f"{value:,} packets"
        case "average" | "deviation" | "largest":
            return f"{column} {value or 0:.0f}"
        case _:
            return str(value)


def _fact(value: str, what: str) -> Text:
    return Text.assemble(" ", (value, "bold"), (f" {what}", "dim"))


def _share(name: str, share: float, width: int, style: str) -> tuple[Text, Text, Text]:
    percent = " <1%" if 0 < share < 0.005 else f"{share:>4.0%}"
    return Text(f"{name:<6}"), Text(bar(share, width), style), Text(percent)


def _panel(content: RenderableType, title: str, note: str) -> Panel:
    heading = Text.assemble((title, "bold"), (note, "dim"))
    return Panel(content, title=heading, title_align="left", border_style="dim", box=box.ROUNDED, padding=(0, 1))
