"""Running streams: drained once and deterministically, or live until stopped."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from sash.catalog import Stream
from sash.core.clock import Clock
from sash.core.errors import CheckpointError, SashError
from sash.core.events import report
from sash.core.time import SECOND, Micros
from sash.runtime.records.catalog_history import CatalogHistory
from sash.runtime.records.checkpoint import Checkpoint
from sash.runtime.settings import duration
from sash.runtime.streams.input_limit import InputLimit
from sash.runtime.streams.intake import Intake, progress
from sash.runtime.streams.live import IdleWatch, MachineWatch
from sash.runtime.streams.load import ENDED, FAILED, IDLE, RUNNING, STOPPED, StreamState
from sash.runtime.streams.running_stream import RunningStream
from sash.spark.sources import limit_option

logger = logging.getLogger("sash.runtime")

_POLL_SECONDS = 0.2


class Runner:
    """Every micro-batch reads the catalog's version from its history anew."""

    def __init__(
        self, checkpoint: Checkpoint | None, clock: Clock, history: CatalogHistory, max_lag: Micros | None = None
    ) -> None:
        """`max_lag`: how long a live micro-batch may take."""
        self.max_lag = max_lag
        self._checkpoint = checkpoint
        self._clock = clock
        self._history = history
        self._live: dict[str, Intake] = {}
        # The last states of streams that are not live any more.
        self._over: dict[str, StreamState] = {}
        self._watches: list[IdleWatch | MachineWatch] = []
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def _version(self) -> int:
        return self._history.version

    def is_running(self, stream: str) -> bool:
        return stream in self._live

    def state_of(self, stream: str) -> StreamState:
        """The state of a stream. Reading it changes nothing: `wait` still raises the stream's error."""
        intake = self._live.get(stream)
        if intake is None:
            return self._over.get(stream, StreamState(IDLE))
        if intake.is_active:
            return StreamState(RUNNING)
        failure = intake.failure
        return StreamState(ENDED) if failure is None else StreamState(FAILED, failure)

    def forget(self, stream: str) -> None:
        """Forget a dropped stream's state: a later stream of the same name has its own."""
        self._over = {name: state for name, state in self._over.items() if name.lower() != stream.lower()}

    def check_stopped(self) -> None:
        if self._live:
            raise SashError("the session is running; stop() it first")

    def drain(self, streams: list[RunningStream]) -> None:
        """Read all input, stream by stream, and close the last panes."""
        self.check_stopped()
        for running in streams:
            running.begin()
        for running in streams:
            running.refuse_batches(False)
            running.interval = None
            if running.pipeline.is_streaming:
                self._start(running, None)
                self._await(running.stream.name)
            else:
                self._read_once(running)
            if running.stopping:
                return
            running.finish()
            self._over[running.stream.name] = StreamState(ENDED)

    def start(self, streams: list[RunningStream], trigger: str) -> None:
        self.check_stopped()
        micros = duration("trigger", trigger)
        # Spark knows fewer names of units.
        trigger, interval = f"{micros // 1_000} milliseconds", micros / SECOND
        for running in streams:
            running.begin()
        for running in streams:
            running.interval = interval
            if running.pipeline.is_streaming:
                self._start(running, trigger)
            else:
                self._read_once(running)
                running.finish()
                self._over[running.stream.name] = StreamState(ENDED)
        self._watch(streams)

    def _watch(self, streams: list[RunningStream]) -> None:
        self._end_watches()
        self._watches.append(MachineWatch(list(self._live.values())))
        if any(running.stream.idle_after is not None for running in streams):
            self._watches.append(IdleWatch(streams, self._clock, self._fail))
        for watch in self._watches:
            watch.start()

    def _end_watches(self) -> None:
        while self._watches:
            self._watches.pop().stop()

    def _fail(self, stream: str, error: SashError) -> None:
        intake = self._live.get(stream)
        if intake is not None:
            intake.fail(error)

    def _read_once(self, running: RunningStream) -> None:
        if running.at_start:
            running.pipeline.read_once(partial(running.on_batch, self._version))

    def _start(self, running: RunningStream, trigger: str | None) -> None:
        self._check_offsets(running)
        running.input_limit = None if trigger is None else self._limit_of(running)
        intake = Intake(running, self._version, self._directory(running.stream), trigger, self._clock)
        most = intake.start()
        self._live[running.stream.name] = intake
        how = "what is there now" if trigger is None else f"a micro-batch every {trigger}"
        report(
            logger, logging.INFO, "stream.started", "stream %(stream)s has started: %(how)s",
            stream=running.stream.name, how=how, interval=running.interval, most=most,
        )  # fmt: skip

    def _limit_of(self, running: RunningStream) -> InputLimit | None:
        """The limit that keeps micro-batches to `max_lag`, if the user wants that and the source can be limited."""
        if self.max_lag is None:
            return None
        if limit_option(running.stream.source) is None:
            told = "stream %(stream)s: its source has no limit that max_lag could set; it is taken as it comes"
            report(logger, logging.WARNING, "lag.unbounded", told, stream=running.stream.name)
            return None
        return InputLimit(running.stream.name, running.input, self.max_lag / SECOND, self._clock)

    def _check_offsets(self, running: RunningStream) -> None:
        """Refuse to start without Spark's offsets: Spark would begin anew, and Sash would skip its micro-batches."""
        directory = self._directory(running.stream)
        if self._checkpoint is not None and not running.at_start and not (directory / "offsets").exists():
            raise CheckpointError(f"the checkpoint lacks {directory}, which says how far Spark has read")

    def _directory(self, stream: Stream) -> Path:
        if self._checkpoint is not None:
            return self._checkpoint.spark_directory(stream)
        return self._in_scratch() / stream.directory

    def scratch_for_rows(self, stream: Stream, local: bool) -> Path:
        """Where executors store the rows of a window while the session lasts, if they are on this machine."""
        if not local:
            raise SashError(
                f"stream '{stream.name}': STORED IN CLUSTER needs a directory that all executors see: connect with a "
                "checkpoint on a file system that they share"
            )
        return self._in_scratch() / "windows" / stream.directory

    def scratch_for_panes(self, stream: Stream) -> Path:
        return self._in_scratch() / "panes" / stream.directory

    def _in_scratch(self) -> Path:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="sash-", ignore_cleanup_errors=True)
        return Path(self._scratch.name)

    def _await(self, stream: str) -> None:
        intake = self._live.get(stream)
        if intake is not None:
            state = StreamState(ENDED)
            try:
                intake.wait()
                state = StreamState(STOPPED if intake.running.stopping else ENDED)
            except SashError as error:
                state = StreamState(FAILED, error)
                raise
            finally:
                self._live.pop(stream, None)
                self._over[stream] = state

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while any(intake.is_active for intake in list(self._live.values())):
            for stream, intake in list(self._live.items()):
                if not intake.is_active:
                    self._await(stream)
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        for stream in list(self._live):
            self._await(stream)
        return True

    def stop(self) -> None:
        """Stop after the micro-batch in flight. A subscriber's callback only requests the stop."""
        if any(intake.running.in_batch for intake in list(self._live.values())):
            threading.Thread(target=self.stop, name="sash-stop", daemon=True).start()
            return
        self._end_watches()
        for stream, intake in list(self._live.items()):
            # Perhaps nobody has asked for the error of a failed stream yet: keep it.
            before = self.state_of(stream)
            failure = intake.stop()
            self._live.pop(stream, None)
            after = StreamState(STOPPED) if failure is None else StreamState(FAILED, failure)
            self._over[stream] = before if before.name == FAILED else after
            if failure is not None:
                told = "stream %(stream)s has failed: %(why)s"
                report(logger, logging.ERROR, "stream.failed", told, stream=stream, why=str(failure))
            report(logger, logging.INFO, "stream.stopped", "stream %(stream)s has stopped", **progress(intake.running))

    def close(self) -> None:
        self.stop()
        if self._scratch is not None:
            self._scratch.cleanup()
