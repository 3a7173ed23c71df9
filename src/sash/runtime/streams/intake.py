"""Spark's query of one stream, from its start to its stop.

A live query may begin anew: under another limit of its source (input_limit.py), or because the clock that Spark waits
by was set back (live.py). Spark plans a micro-batch when the one before it is done, and a planned micro-batch does not
change. So the old query is stopped while the last micro-batch is still ours, committed and not yet handed back:

    Spark's thread    epoch 7 ─► relay: take it, commit it ── wait until the query is stopping ─► return, end
    sash-renewal                                           └─► stop it ······························· start ─► epoch 8

Nothing is lost or doubled, as after a crash: the new query goes on in the same checkpoint. If Spark did not note that
epoch 7 was done, Spark brings epoch 7 again, and running_stream.py skips it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sash.core.clock import Clock
from sash.core.errors import SashError, SourceError
from sash.core.events import report
from sash.runtime.streams.load import report_broken_off
from sash.runtime.streams.running_stream import RunningStream
from sash.spark.sources import limit_option
from sash.spark.spark_faults import disk_full, first_line, is_disk_full

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Relay:
    """The callback that Spark holds: it forwards micro-batches until it is cut.

    The JVM keeps a reference to the callback long after a stream has stopped. A cut relay does not keep the session and
    its answers alive. The relay also remembers our own error, because Spark hands back only a wrapped one.
    """

    def __init__(self, running: RunningStream, version: Callable[[], int], after: Callable[[], None]) -> None:
        """`after` is called when a micro-batch is committed, before Spark plans the next one."""
        self._target: tuple[RunningStream, Callable[[], int], Callable[[], None]] | None = (running, version, after)

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        running, _, after = self._forwarding()
        try:
            # Looked up when the stream has no other micro-batch in flight: the relay may have been cut meanwhile.
            running.on_batch(lambda: self._forwarding()[1](), rows, epoch)
        except Exception as error:
            if self._target is None:
                raise
            if not running.stopping:
                report_broken_off(running.stream.name, epoch, error)
            if isinstance(error, SashError):
                running.error = error
            raise
        after()

    def _forwarding(self) -> tuple[RunningStream, Callable[[], int], Callable[[], None]]:
        if self._target is None:
            raise SashError("the stream has been stopped")
        return self._target

    def cut(self) -> None:
        self._target = None


logger = logging.getLogger("sash.runtime")

_POLL_SECONDS = 0.01


class Intake:
    """`trigger`: the time between micro-batches in Spark's form; None: read what is there now, then end."""

    def __init__(
        self, running: RunningStream, version: Callable[[], int], directory: Path, trigger: str | None, clock: Clock
    ) -> None:
        self.running = running
        self._version = version
        self._directory = directory
        self._trigger = trigger
        self._clock = clock
        # Spark's query; None while it starts.
        self._query: Any = None
        self._relay: Relay | None = None
        # Held by the thread that stops or starts the query.
        self._turn = threading.Lock()
        self._renewal: threading.Thread | None = None
        self._failure: SashError | None = None

    def start(self) -> int | None:
        """Start the query; the result is the limit that it begins with."""
        self.running.error = None
        self.running.on_failure = self.fail
        self.running.refuse_batches(False)
        limit = self.running.input_limit
        most = None if limit is None else limit.begin()
        with self._turn:
            self._open(most)
        return most

    def _open(self, most: int | None) -> None:
        self._relay = Relay(self.running, self._version, self._after_batch)
        self._query = self.running.pipeline.start(self._relay, self._directory, self._trigger, most)

    @property
    def is_active(self) -> bool:
        """Whether the query runs, or will in a moment: an old query that has ended is being renewed."""
        query, renewal = self._query, self._renewal
        if query is None or query.isActive or (renewal is not None and renewal.is_alive()):
            return True
        return self._query is not query or self._renewal is not renewal

    def wait(self) -> None:
        """Wait until the query has ended; raises its error."""
        try:
            if self._failure is None:
                self._query.awaitTermination()
            if (failure := self._failure or self._end_flights()) is not None:
                raise failure
        except Exception as error:
            if self.running.stopping:
                return
            name, failure = self.running.stream.name, self._told(error)
            told = "stream %(stream)s has failed: %(why)s"
            report(logger, logging.ERROR, "stream.failed", told, stream=name, why=str(failure))
            raise failure from (None if failure is error else error)
        else:
            if not self.running.stopping:
                told = "stream %(stream)s has ended"
                report(logger, logging.INFO, "stream.ended", told, **progress(self.running))
        finally:
            self._cut()
            self._end_flights()

    def _end_flights(self) -> SashError | None:
        """Wait for the executions beside micro-batches; the result is why one of them failed."""
        try:
            self.running.end_flights()
        except Exception as error:
            return self._told(error)
        return None

    def _told(self, error: Exception) -> SashError:
        """The error of the query, as a SashError."""
        name, known = self.running.stream.name, self._failure or self.running.error
        if known is not None:
            return known
        if isinstance(error, SashError):
            return error
        if is_disk_full(error):
            return disk_full(name, self._directory)
        return SourceError(f"stream '{name}' stopped: {first_line(error)}")

    @property
    def failure(self) -> SashError | None:
        """Why the query is not active any more; None if it has just ended, or goes on."""
        if self.is_active or self.running.stopping:
            return None
        error = self._failure or self._query.exception()
        return None if error is None else self._told(error)

    def stop(self) -> SashError | None:
        """Stop after the micro-batch in flight, and the executions beside it; the result is why one of these failed."""
        self.running.refuse_batches(True)
        with self._turn:
            self._query.stop()
        # A renewal that waits for its turn must see the stop before the stream starts again.
        if self._renewal is not None:
            self._renewal.join()
        self._cut()
        return self._end_flights()

    def fail(self, error: Exception) -> None:
        """Stop after an error beside the micro-batches; `wait` raises the error."""
        with self._turn:
            self._failure = self._told(error)
            self._query.stop()

    def _cut(self) -> None:
        if self._relay is not None:
            self._relay.cut()

    # -- another limit ---------------------------------------------------------------------------------

    def _after_batch(self) -> None:
        """On Spark's thread: if the limit changes, the query must stop before it plans the next micro-batch."""
        limit = self.running.input_limit
        most = None if limit is None else limit.look()
        if most is None:
            return
        renewal = self._begin_renewal(partial(self._change_limit, most))
        while renewal.is_alive() and (self._query is None or self._query.isActive):
            time.sleep(_POLL_SECONDS)

    def _change_limit(self, most: int) -> None:
        limit, began = self.running.input_limit, self._clock.now()
        assert limit is not None
        before = limit.most
        if not self._reopen(most):
            return
        limit.changed(most, self._clock.now() - began)
        self.running.runtime.statistics.limit_changes += 1
        stream = self.running.stream
        told = "stream %(stream)s reads on with %(option)s = %(most)d to keep to max_lag; it was %(before)s"
        option = limit_option(stream.source)
        report(logger, logging.INFO, "limit.changed", told, stream=stream.name, option=option, most=most, before=before)

    # -- beginning anew --------------------------------------------------------------------------------

    def renew(self) -> None:
        """Begin anew under the same limit, after the micro-batch in flight; Spark then plans the next one at once."""
        if self._renewal is None or not self._renewal.is_alive():
            limit = self.running.input_limit
            self._begin_renewal(partial(self._reopen, None if limit is None else limit.most))

    def _begin_renewal(self, change: Callable[[], object]) -> threading.Thread:
        renewal = threading.Thread(target=self._take_turn, args=(change,), name="sash-renewal", daemon=True)
        # Before the thread starts: afterwards the query may have ended already.
        self._renewal = renewal
        renewal.start()
        return renewal

    def _take_turn(self, change: Callable[[], object]) -> None:
        """Change the query, unless the stream is stopping, or has failed or ended."""
        with self._turn:
            if not self.running.stopping and self._failure is None and self._query.isActive:
                change()

    def _reopen(self, most: int | None) -> bool:
        """Stop the query and start it again; whether that was possible."""
        old = self._query
        try:
            # Spark will bring later micro-batches again; waiting for them would delay the stop.
            with self.running.between_batches():
                self._cut()
            old.stop()
            self._query = None
            self._open(most)
        except Exception as error:
            name = self.running.stream.name
            self._failure = error if isinstance(error, SashError) else SourceError(f"stream '{name}' stopped: {error}")
            self._query = old
            return False
        return True


def progress(running: RunningStream) -> dict[str, Any]:
    """How far a stream has come, for the log."""
    counted = running.runtime.statistics
    return {"stream": running.stream.name, "tuples": counted.tuples, "micro_batches": counted.micro_batches}
