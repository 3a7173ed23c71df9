"""The load of a stream: whether it keeps up, and its log events about micro-batches and recovery.

A live stream keeps up while its micro-batches take less than the time between two of them. One long micro-batch is an
accident; several in a row are overload. As many short ones in a row end the overload, and so does a rest that is long
enough for as many. During overload a stream that may shed load keeps a part of its tuples: first of those that may go
first (SHED .. WHERE), and of all when that has not helped in as many micro-batches. A stream whose trigger is 0
takes tuples as soon as it can: there no micro-batch is too long.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sash.core.errors import SashError
from sash.core.events import report
from sash.runtime.statistics import StreamStatistics
from sash.spark.spark_faults import first_line
from sash.storage.epochs import Snapshot

# Not started yet; reading; stopped by its user; nothing more to read; something went wrong.
IDLE, RUNNING, STOPPED, ENDED, FAILED = "idle", "running", "stopped", "ended", "failed"
# A closed session answers no questions any more.
CLOSED = "closed"
# The state of a session is the state of one stream: the first in this order.
_TELLING = (FAILED, RUNNING, IDLE, STOPPED, ENDED)


@dataclass(frozen=True)
class StreamState:
    name: str
    error: SashError | None = None


@dataclass(frozen=True)
class SessionState:
    """`name` is the state of the stream that says most.

    >>> SessionState.of({"a": StreamState(ENDED), "b": StreamState(RUNNING)}, False).name
    'running'
    >>> SessionState.of({}, False).name
    'idle'
    """

    name: str
    streams: Mapping[str, StreamState]

    @classmethod
    def of(cls, streams: Mapping[str, StreamState], closed: bool) -> SessionState:
        found = {state.name for state in streams.values()}
        return cls(CLOSED if closed else next((name for name in _TELLING if name in found), IDLE), streams)

    @property
    def error(self) -> SashError | None:
        """The first error, by the order of the streams."""
        return next((state.error for state in self.streams.values() if state.error is not None), None)


logger = logging.getLogger("sash.runtime")

# The judgement needs this many micro-batches in a row.
IN_A_ROW = 3
# A rest is longer than this: Spark needs some time between two micro-batches, whatever the trigger.
REST_SECONDS = 10.0


class LiveLoad:
    """`begin` and `take` count every live micro-batch; `is_over` is the judgement."""

    def __init__(self, stream: str, statistics: StreamStatistics, one_in: int = 1, *, has_first: bool = False) -> None:
        """`one_in`: during overload one tuple of `one_in` is kept; `has_first`: some tuples are shed before all."""
        self._stream = stream
        self._statistics = statistics
        self._one_in = one_in
        self._has_first = has_first
        # Slow micro-batches in a row since only those that go first are shed.
        self._unhelped = 0
        # Seconds per tuple when all tuples were kept and the micro-batch took too long.
        self._cost = 0.0
        self.is_over = False
        self._against = 0
        # When the last micro-batch was done, and what was reported about it.
        self._done = float("inf")
        self._facts: dict[str, Any] = {}

    @property
    def keeps_one_in(self) -> int:
        """The next micro-batch keeps one tuple of this many; 1: all of them."""
        return self._one_in if self.is_over else 1

    @property
    def sheds_all(self) -> bool:
        """Whether no tuple is spared, because shedding those that go first has not been enough."""
        return not self._has_first or self._unhelped >= IN_A_ROW

    def has_rested(self, now: float, interval: float) -> bool:
        """Whether the stream had nothing to do for long enough to end the overload."""
        return now - self._done > max(IN_A_ROW * interval, REST_SECONDS)

    def begin(self, now: float, interval: float) -> None:
        """A micro-batch begins. Micro-batches before and after a rest are not in a row."""
        if self.has_rested(now, interval):
            was_over, self.is_over, self._against = self.is_over, False, 0
            if was_over:
                self._tell_overload(self._facts)

    def take(self, epoch: int, seconds: float, interval: float, tuples: int = 0, now: float = float("inf")) -> None:
        """A micro-batch of `tuples` tuples, kept or not, took `seconds` and is done `now`."""
        if interval <= 0:
            return
        facts = {"stream": self._stream, "epoch": epoch, "seconds": round(seconds, 3), "interval": interval}
        self._done, self._facts = now, facts
        if seconds > interval:
            self._statistics.slow_batches += 1
            self._tell_slow(facts)
        if self.keeps_one_in == 1 and seconds > interval:
            self._cost = seconds / max(1, tuples)
        if self.is_over and not self.sheds_all:
            self._judge_first(seconds > interval)
        # Shedding ends when micro-batches would be short enough without it. Otherwise it would begin again at once.
        expected = seconds if self.keeps_one_in == 1 else max(seconds, tuples * self._cost)
        is_slow = expected > interval
        self._against = self._against + 1 if is_slow != self.is_over else 0
        if self._against == IN_A_ROW:
            self.is_over, self._against = is_slow, 0
            self._tell_overload(facts)

    def _judge_first(self, is_slow: bool) -> None:
        """Spare no tuple any more if shedding those that go first is not enough."""
        self._unhelped = self._unhelped + 1 if is_slow else 0
        if self.sheds_all:
            self._tell_shedding()

    def _tell_slow(self, facts: dict[str, Any]) -> None:
        """Report a slow micro-batch; not during overload, which is reported already."""
        level = logging.DEBUG if self.is_over else logging.INFO
        told = "stream %(stream)s: micro-batch %(epoch)d took %(seconds).1f s, more than %(interval)g s"
        report(logger, level, "batch.slow", told, **facts)

    def _tell_shedding(self) -> None:
        which = "" if self.sheds_all else " of those that may go first"
        told = f"stream %(stream)s sheds load: it keeps one tuple in %(one_in)d{which}, sums and counts are scaled"
        report(logger, logging.WARNING, "shed.began", told, stream=self._stream, one_in=self._one_in)

    def _tell_overload(self, facts: dict[str, Any]) -> None:
        self._unhelped = 0
        if self.is_over:
            told = "stream %(stream)s is overloaded: its micro-batches take longer than the %(interval)g s between them"
            report(logger, logging.WARNING, "overload.began", told, **facts)
            if self._one_in > 1:
                self._tell_shedding()
        else:
            report(logger, logging.INFO, "overload.ended", "stream %(stream)s keeps up again", **facts)
            if self._one_in > 1:
                told = "stream %(stream)s keeps all tuples again, after about %(shed)d that it has dropped"
                dropped = self._statistics.shed_tuples
                report(logger, logging.INFO, "shed.ended", told, stream=self._stream, shed=dropped)


def report_broken_off(stream: str, epoch: int, error: Exception) -> None:
    why = str(error) if isinstance(error, SashError) else first_line(error)
    told = "stream %(stream)s: micro-batch %(epoch)d failed: %(why)s"
    report(logger, logging.ERROR, "batch.failed", told, stream=stream, epoch=epoch, why=why)


def report_snapshot(stream: str, snapshot: Snapshot) -> None:
    size = sum(table.nbytes for table in snapshot.tables)
    told = "stream %(stream)s: a snapshot of its state after micro-batch %(epoch)d is written, %(bytes)d bytes of panes"
    report(logger, logging.INFO, "snapshot.written", told, stream=stream, epoch=snapshot.epoch, bytes=size)


def report_recovery(stream: str, snapshot: Snapshot | None, entries: int, epoch: int) -> None:
    """`entries` were applied after the snapshot, if there was one; the state is that after `epoch`."""
    told = "stream %(stream)s goes on after micro-batch %(epoch)d: %(source)s and %(entries)d entries"
    source = "no snapshot" if snapshot is None else f"the snapshot after micro-batch {snapshot.epoch}"
    report(
        logger, logging.INFO, "stream.recovered", told, stream=stream, epoch=epoch, source=source, entries=entries
    )  # fmt: skip
