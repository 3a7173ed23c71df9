"""Watches a session: its state, and its numbers over the last minutes.

Its thread takes a sample of `stats()` at intervals, so that a newly opened page has a past to show, and any number of
open pages cost the engine as much as one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psutil

from sash.core.events import report
from sash.runtime.session import Session
from sash.runtime.streams import load
from sash.runtime.streams.load import SessionState

logger = logging.getLogger("sash.server")

EVERY_SECONDS = 1.0
REMEMBERED = 600
# The page calls a stream idle after this long without a tuple.
IDLE_SECONDS = 10.0
_RECENT_SECONDS = 5.0
# How many names the badge has room for.
_LISTED = 3

STARTING, LIVE, IDLE, ENDED, STOPPED, FAILED = "starting", "live", "idle", "ended", "stopped", "failed"
# Trouble beside the streams: a query has failed, or a sink refuses its answers; a stream has too much to do.
FAILING, OVERLOADED = "failing", "overloaded"


@dataclass(frozen=True)
class Sample:
    """The rate is that of the last seconds. Batch times are milliseconds per micro-batch that has ended since the last
    sample, None without one.

    `lag` is how many seconds the watermark is behind the clock: for a stream that replays the past, the age of its
    data. Bad tuples: no timestamp, not to be parsed, or from too far in the future.
    """

    at: datetime
    tuples_per_s: float
    watermark: datetime | None
    lag: float | None
    late: int
    bad: int
    answers: int
    micro_batches: int
    batch_in_spark: float | None
    batch_in_sash: float | None
    python_memory: int
    spark_memory: int


@dataclass
class _Before:
    tuples: int = 0
    batches: int = 0
    spark: float = 0.0
    sash: float = 0.0


@dataclass
class Watch:
    """`state` is the worst of the words above that is true; `why` has details if there are any.

    `failures` and `warnings` are for the person in charge.
    """

    session: Session
    clock: Callable[[], float] = time.monotonic
    state: str = STARTING
    why: str = ""
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def __post_init__(self) -> None:
        self._before = _Before()
        self._moved = self.clock()
        self._counts: deque[tuple[float, int]] = deque()
        self._asked = threading.Event()
        self._process = psutil.Process()
        self._thread = threading.Thread(target=self._loop, name="sash-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._asked.set()
        self._thread.join(5 * EVERY_SECONDS)

    def _loop(self) -> None:
        while not self._asked.wait(EVERY_SECONDS):
            try:
                self.look()
            except Exception as error:
                # The session is being closed; the page still shows something.
                told = "the session could not be sampled: %(why)s"
                report(logger, logging.ERROR, "session.unseen", told, exception=True, why=repr(error))

    def look(self) -> None:
        """Take one sample, and set the state of the session."""
        self.stats = self.session.stats()
        self.samples.append(self._sample(self.stats))
        self.failures, self.warnings = _failures(self.session.state(), self.stats), _warnings(self.stats)
        self.state, self.why = self._judged()

    def _judged(self) -> tuple[str, str]:
        doing, silent = self.session.state(), self.clock() - self._moved
        if doing.name == load.FAILED:
            return FAILED, str(doing.error)
        if failing := [name for name, query in self.stats["queries"].items() if query["error"]]:
            return FAILING, _listed("query", "queries", failing)
        if overloaded := [name for name, stream in self.stats["streams"].items() if stream["overloaded"]]:
            return OVERLOADED, _listed("stream", "streams", overloaded)
        match doing.name:
            case load.ENDED:
                return ENDED, "everything has been read; the windows can still be asked"
            case load.STOPPED | load.CLOSED:
                return STOPPED, "nothing is read any more"
            case load.IDLE:
                told = "no stream has been started" if self.session.has_work else "waiting for the first query"
                return STARTING, told
        if not self.stats["tuples"]:
            return STARTING, "no tuple has come yet"
        return (LIVE, "") if silent < IDLE_SECONDS else (IDLE, f"no tuple for {silent:.0f} seconds")

    def _sample(self, stats: dict[str, Any]) -> Sample:
        streams, now = list(stats["streams"].values()), self.clock()
        batches = sum(each["micro_batches"] for each in streams)
        spark = sum(each["seconds_in_spark"] for each in streams)
        sash = sum(each["seconds_in_sash"] for each in streams)
        before, self._before = self._before, _Before(stats["tuples"], batches, spark, sash)
        if stats["tuples"] != before.tuples:
            self._moved = now
        came = batches - before.batches
        watermarks = [each["watermark"] for each in streams if each["watermark"] is not None]
        watermark = min(watermarks, default=None)
        at = datetime.now(UTC)
        return Sample(
            at,
            self._rate(now, stats["tuples"]),
            watermark,
            None if watermark is None else (at - watermark).total_seconds(),
            stats["late_tuples"],
            sum(each["null_timestamps"] + each["unparsable"] + each["jumped_tuples"] for each in streams),
            sum(each["answers"] for each in stats["queries"].values()),
            batches,
            1e3 * (spark - before.spark) / came if came else None,
            1e3 * (sash - before.sash) / came if came else None,
            *self._memory(),
        )

    def _rate(self, now: float, tuples: int) -> float:
        """Tuples per second over some seconds: micro-batches come in steps."""
        self._counts.append((now, tuples))
        while self._counts[0][0] < now - _RECENT_SECONDS:
            self._counts.popleft()
        then, before = self._counts[0]
        return (tuples - before) / (now - then) if now > then else 0.0

    def _memory(self) -> tuple[int, int]:
        """Resident bytes of this process, and of Spark's, which it has started."""
        spark = 0
        for child in self._process.children(recursive=True):
            try:
                spark += child.memory_info().rss
            except psutil.Error:
                # It has ended since.
                continue
        return self._process.memory_info().rss, spark


def _listed(one: str, many: str, names: list[str]) -> str:
    """
    >>> _listed("query", "queries", ["a"]), _listed("query", "queries", ["a", "b", "c", "d", "e"])
    ('query a', 'queries a, b, c and 2 more')
    """
    shown, more = ", ".join(names[:_LISTED]), len(names) - _LISTED
    return f"{one if len(names) == 1 else many} {shown}{f' and {more} more' if more > 0 else ''}"


def _failures(state: SessionState, stats: dict[str, Any]) -> list[str]:
    streams = [f"Stream {name} has failed: {each.error}" for name, each in state.streams.items() if each.error]
    return streams + [f"Query {name}: {query['error']}" for name, query in stats["queries"].items() if query["error"]]


def _warnings(stats: dict[str, Any]) -> list[str]:
    found = []
    for name, stream in stats["streams"].items():
        if stream["overloaded"]:
            found.append(f"Stream {name} is overloaded: its micro-batches take longer than the time between them.")
        if stream["shed_tuples"]:
            found.append(f"Stream {name}: about {stream['shed_tuples']:,} tuples were shed under overload.")
        if stream["late_tuples"]:
            found.append(
                f"Stream {name}: {stream['late_tuples']:,} tuples came too late. A longer DELAY waits for them."
            )
        if stream["jumped_tuples"]:
            found.append(f"Stream {name}: {stream['jumped_tuples']:,} tuples from too far in the future were left out.")
    return found
