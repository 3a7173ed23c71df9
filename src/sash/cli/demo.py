"""`sash demo`: an embedded packet stream, about twenty queries over it, and the savings of sharing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sash.cli.console import logging_to, reporting_errors, stderr_console, stdout_console
from sash.cli.demo_stream import (
    BYTES_PER_SECOND,
    FLOODERS,
    START,
    TOP_TALKERS,
    demo_queries,
    dotted,
    expansion,
    packets,
)
from sash.cli.demo_view import DemoView, Pulse, Vitals
from sash.cli.opening import STARTING, open_session, stop, stop_requested
from sash.cli.printing import short
from sash.runtime.session import Session

_LOOK_SECONDS = 0.25
_PLAIN_SECONDS = 2.0
_LONGEST_WAIT = 120.0


def demo(
    duration: Annotated[int, typer.Option(min=2, metavar="SECONDS", help="How long to show it, once it runs.")] = 20,
    rate: Annotated[int, typer.Option(min=100, metavar="N", help="Packets per second.")] = 20_000,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Another seed, other packets; the same seed, the same.")
    ] = 1,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines of text instead of the live view, as in a pipe.")
    ] = False,
) -> None:
    """Show Sash at work: a made-up packet stream and about twenty queries at several time scales.

    The packets depend on nothing but the seed and the rate. One source floods another host every now and then.
    """
    messages, console = stderr_console(), stdout_console()
    plain = plain or not console.is_terminal
    warnings: list[Text] = []
    with reporting_errors(), logging_to(messages.print if plain else warnings.append):
        if plain:
            console.print(STARTING)
        with open_session(messages) as session:
            with stop_requested() as stopped:
                started = time.monotonic()
                with messages.status("Registering the queries ..."):
                    _register(session, rate, seed)
                    session.start(trigger="1 second")
                watch = _watch_plain if plain else _watch_live
                watch(session, console, duration, _Ending(session, duration, stopped))
                stop(session, messages)
            console.print(closing_words(session.stats(), demo_queries(rate), time.monotonic() - started))
        for warning in warnings:
            messages.print(warning)


def _register(session: Session, rate: int, seed: int) -> None:
    session.create_stream("packets", packets(session.spark, rate, seed), timestamp="ts")
    for name, text in demo_queries(rate).items():
        session.register(text, name=name)


class _Ending:
    """True when the demo has run for long enough, when the user stops it, or when no tuples come."""

    def __init__(self, session: Session, duration: int, stopped: threading.Event) -> None:
        self._session = session
        self._duration = duration
        self._stopped = stopped
        self._deadline = time.monotonic() + _LONGEST_WAIT
        self._shown = False

    def __call__(self) -> bool:
        ended = self._session.wait(_LOOK_SECONDS)
        if not self._shown and self._session.stats()["tuples"]:
            self._shown = True
            self._deadline = time.monotonic() + self._duration
        return ended or self._stopped.is_set() or time.monotonic() >= self._deadline


# -- watching ------------------------------------------------------------------------------------------


def _watch_live(session: Session, console: Console, duration: int, ended: Callable[[], bool]) -> None:
    view = DemoView(session, duration, Pulse())
    with Live(view, console=console, screen=True, refresh_per_second=4):
        while not ended():
            pass


def _watch_plain(session: Session, console: Console, duration: int, ended: Callable[[], bool]) -> None:
    pulse, next_line = Pulse(), time.monotonic()
    console.print(f"{len(session.queries)} queries over one stream; the first micro-batch takes a few seconds ...")
    while not ended():
        vitals = pulse.take(session.stats())
        if vitals.tuples and time.monotonic() >= next_line:
            next_line = time.monotonic() + _PLAIN_SECONDS
            console.print(plain_line(session, vitals))


def plain_line(session: Session, vitals: Vitals) -> str:
    seconds = 0.0 if vitals.watermark is None else (vitals.watermark - START).total_seconds()
    parts = [
        f"{seconds:4.0f} s",
        f"{vitals.tuples_per_s:9,.0f} tuples/s",
        f"{vitals.answers:5,} answers",
        *([f"{vitals.work_saved:4.0%} work saved"] if vitals.work_saved >= 0.005 else []),
        f"batch {vitals.batch_in_spark * 1e3:4.0f} + {vitals.batch_in_sash * 1e3:3.0f} ms",
    ]
    for name, what in ((BYTES_PER_SECOND, _traffic), (TOP_TALKERS, _talker), (FLOODERS, _flood)):
        latest = session.queries[name].latest()
        if latest is not None and latest.table.num_rows:
            parts.append(what(latest.table.slice(0, 1).to_pylist()[0]))
    return "  ".join(parts)


def _traffic(row: dict[str, Any]) -> str:
    return f"{short(row['bytes'] or 0, 'B/s'):>9}"


def _talker(row: dict[str, Any]) -> str:
    return f"top {dotted(row['src'])} {short(row['bytes'], 'B')}"


def _flood(row: dict[str, Any]) -> str:
    return f"FLOOD from {dotted(row['src'])}"


# -- the end -------------------------------------------------------------------------------------------


def closing_words(stats: dict[str, Any], queries: dict[str, str], seconds: float) -> str:
    """The work that was done, and the work of one Spark job per query."""
    stream = stats["streams"]["packets"]
    tuples, batches, tables = stats["tuples"], stream["micro_batches"], stream["pane_tables"]
    if not tuples:
        return "Stopped before the first tuples had been read: nothing to compare."
    unfiltered = [text for text in queries.values() if " WHERE " not in text]
    copies = sum(map(expansion, unfiltered))
    in_spark, in_sash = (stream[f"seconds_in_{where}"] / max(batches, 1) for where in ("spark", "sash"))
    lines = [
        f"{len(queries)} queries, {seconds:.0f} s, {tuples:,} tuples, {stats['refreshes']:,} answers",
        "",
        "                       Sash            a Spark job per query",
        f"  passes over source   {1:<15,} {len(queries):,}",
        f"  tuples read          {tuples:<15,} {tuples * len(queries):,}",
        f"  rows to aggregate    {tuples * len(tables):<15,} at least {tuples * copies:,}",
        f"  scans of the panes   {stats['executions']:<15,} {stats['refreshes']:,} (one by one)",
        "",
        f"Rows to aggregate: a tuple counts once per pane table, of which there are {len(tables)};",
        f"Spark's window() copies it into each of its windows, {copies} times for the",
        f"{len(unfiltered)} queries without WHERE alone.",
        f"Scans: the joint ones combined {stats['work_saved']:.0%} fewer pane values than one by one.",
        f"State: {sum(table['rows'] for table in tables):,} rows of panes, no tuples.",
        f"A micro-batch took {in_spark:.2f} s in Spark and {in_sash:.3f} s in Sash on average.",
    ]
    return "\n".join(lines)
