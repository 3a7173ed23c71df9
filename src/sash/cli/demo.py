"""`sash demo`: an embedded packet stream, hundreds of queries over it, and what sharing saves.

    warm up                  the same queries over the same packets, until the JVM has compiled the pass
    200 │ 400 │ 800 queries  a third of the time each, from the first packets on
    --compare                after that, some of the queries as Spark jobs of their own

Sash and the jobs have the machine to themselves, one after the other: two cores would slow down both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sash.cli.console import logging_to, reporting_errors, stderr_console, stdout_console
from sash.cli.demo_jobs import JOBS, JobRates, run_jobs
from sash.cli.demo_stream import (
    BYTES_PER_SECOND,
    FLOODERS,
    QUERIES,
    TOP_TALKERS,
    DemoQuery,
    demo_queries,
    dotted,
    overview,
    packets,
    packets_at_once,
)
from sash.cli.demo_table import closing_table
from sash.cli.demo_view import DemoView, Pulse, Vitals
from sash.cli.opening import STARTING, open_session, stop, stop_requested
from sash.cli.printing import bar, short
from sash.runtime.session import Session, connect

_LOOK_SECONDS = 0.25
_PLAIN_SECONDS = 2.0
_LONGEST_WAIT = 120.0
# HotSpot compiles the pass while the first micro-batches run.
_WARM_BATCHES = 20
_LONGEST_WARM_UP = 30.0
_INTERVAL = 1.0


def demo(
    duration: Annotated[int, typer.Option(min=2, metavar="SECONDS", help="How long to show it, once it runs.")] = 30,
    rate: Annotated[int, typer.Option(min=100, metavar="N", help="Packets per second.")] = 20_000,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Another seed, other packets; the same seed, the same.")
    ] = 1,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines of text instead of the live view, as in a pipe.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="After Sash, not beside it, run some of the queries as Spark jobs.")
    ] = False,
) -> None:
    """Show Sash at work: a made-up packet stream, 200 queries of twenty dashboards, then 400, then 800.

    The packets depend on nothing but the seed and the rate. One source floods another host every now and then.
    """
    messages, console = stderr_console(), stdout_console()
    plain = plain or not console.is_terminal
    warnings: list[Text] = []
    jobs: JobRates | None = None

    @contextmanager
    def doing(what: str) -> Iterator[None]:
        if plain:
            console.print(what)
        with messages.status(what):
            yield

    with reporting_errors(), logging_to(messages.print if plain else warnings.append):
        if plain:
            console.print(STARTING)
        with open_session(messages) as session:
            with stop_requested() as stopped:
                with doing("Warming up: Spark compiles the one pass that all queries share ..."):
                    _warm_up(rate, seed, stopped)
                run = DemoRun(session, demo_queries(rate), duration, stopped)
                with doing(f"Registering {QUERIES[0]} queries over one stream ..."):
                    session.create_stream("packets", packets(session.spark, rate, seed), timestamp="ts")
                    run.grow()
                    session.start(trigger=f"{_INTERVAL:g} second")
                (_watch_plain if plain else _watch_live)(run, console)
                stop(session, messages)
                if compare and not stopped.is_set():
                    with doing(f"{JOBS} of the queries as Spark jobs, one for each ..."):
                        jobs = run_jobs(session.spark, overview(rate), rate, seed, duration / 3, stopped.is_set)
            console.print(closing_table(session.stats(), run.pulse.stages(QUERIES), jobs))
        for warning in warnings:
            messages.print(warning)


def _warm_up(rate: int, seed: int, stopped: threading.Event) -> None:
    """Run the first queries in a session of their own, which ends before the clock and the counters start."""
    with connect() as session:
        session.create_stream("packets", packets_at_once(session.spark, rate, seed), timestamp="ts")
        for query in demo_queries(rate)[: QUERIES[0]]:
            session.register(query.text, name=query.name)
        session.start(trigger="0 seconds")
        deadline = time.monotonic() + _LONGEST_WARM_UP
        while not stopped.is_set() and time.monotonic() < deadline:
            session.wait(_LOOK_SECONDS)
            if session.stats()["streams"]["packets"]["micro_batches"] >= _WARM_BATCHES:
                break
        session.stop()


class DemoRun:
    """The watched part of the demo. Each number of queries has a third of the time, from its first micro-batch on."""

    def __init__(
        self,
        session: Session,
        queries: list[DemoQuery],
        duration: int,
        stopped: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session = session
        self.duration = duration
        self.pulse = Pulse(clock)
        self.vitals: Vitals | None = None
        self._queries = queries
        self._stopped = stopped
        self._clock = clock
        self._deadline = clock() + _LONGEST_WAIT
        self._grown = 0
        self._since: float | None = None

    def grow(self) -> None:
        """Register the next queries, as many as there are, or the first ones."""
        for query in self._queries[len(self.session.queries) : QUERIES[self._grown]]:
            self.session.register(query.text, name=query.name)
        self._grown += 1
        self._since = None

    def look(self) -> bool:
        """Wait a moment, take the vitals, and double the queries if it is time; True when the demo is over."""
        ended = self.session.wait(_LOOK_SECONDS)
        self.vitals = self.pulse.take(self.session.stats())
        if self._since is None and self.pulse.stages(QUERIES[self._grown - 1 : self._grown]):
            self._since, self._deadline = self._clock(), self._clock() + self.duration + _LONGEST_WAIT
        if self._since is not None and self._clock() - self._since >= self.duration / len(QUERIES):
            if self._grown == len(QUERIES):
                return True
            self.grow()
        return ended or self._stopped.is_set() or self._clock() >= self._deadline


# -- watching ------------------------------------------------------------------------------------------


def _watch_live(run: DemoRun, console: Console) -> None:
    with Live(DemoView(run.session, run.duration, lambda: run.vitals), console=console, screen=True):
        while not run.look():
            pass


def _watch_plain(run: DemoRun, console: Console) -> None:
    next_line = time.monotonic()
    while not run.look():
        if run.vitals is not None and run.vitals.tuples and time.monotonic() >= next_line:
            next_line = time.monotonic() + _PLAIN_SECONDS
            console.print(plain_line(run.session, run.vitals))


def plain_line(session: Session, vitals: Vitals) -> str:
    """The bar is the part of the second that a micro-batch takes."""
    parts = [
        f"{vitals.running:3.0f} s",
        f"{vitals.queries:4,} queries",
        f"micro-batch {vitals.batch_seconds * 1e3:4.0f} ms |{bar(vitals.batch_seconds / _INTERVAL, 10)}|",
        f"{vitals.tuples_per_s:7,.0f} tuples/s",
        f"{vitals.answers:6,} answers",
        f"{vitals.work_saved:.1%} work saved",
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
