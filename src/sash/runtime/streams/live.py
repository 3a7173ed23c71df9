"""Watches of live streams: whether streams are idle, and whether the machine's clock or a directory changed.

IDLE AFTER: a stream without tuples for a while closes its open panes.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

from sash.catalog import Stream
from sash.core.clock import Clock
from sash.core.errors import SashError
from sash.core.events import report
from sash.core.time import SECOND
from sash.runtime.streams.intake import Intake
from sash.runtime.streams.running_stream import RunningStream

logger = logging.getLogger("sash.runtime")


# A clock that is corrected in small steps stays below this.
_SET_BACK_SECONDS = 1.0


class _Watch(ABC):
    """A thread that calls `look` at intervals until it is stopped."""

    def __init__(self, name: str, seconds: float) -> None:
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _loop(self) -> None:
        while not self._stopped.wait(self._seconds):
            self.look()

    @abstractmethod
    def look(self) -> None: ...


class IdleWatch(_Watch):
    """Looks a few times per IDLE AFTER whether tuples have come. `failed` gets a stream that broke.

    A micro-batch counts its tuples when Spark has read them. Until then its stream is not idle.
    """

    def __init__(self, streams: list[RunningStream], clock: Clock, failed: Callable[[str, SashError], None]) -> None:
        self._streams = [running for running in streams if running.stream.idle_after is not None]
        self._clock = clock
        self._failed = failed
        self._seen = {running.stream.name: (-1, clock.now()) for running in self._streams}
        shortest = min(running.stream.idle_after or SECOND for running in self._streams)
        super().__init__("sash-idle", max(0.05, shortest / SECOND / 4))

    def look(self) -> None:
        """Close the open panes of every stream that has been idle for long enough."""
        for running in list(self._streams):
            try:
                self._look_at(running)
            except Exception as error:
                self._streams.remove(running)
                name = running.stream.name
                told = f"stream '{name}' was idle, and its panes could not be closed: {error}"
                self._failed(name, error if isinstance(error, SashError) else SashError(told))

    def _look_at(self, running: RunningStream) -> None:
        name, tuples, now = running.stream.name, running.runtime.statistics.tuples, self._clock.now()
        known, since = self._seen[name]
        if tuples != known or running.is_working:
            self._seen[name] = (tuples, now)
        elif tuples and (now - since) * SECOND >= (running.stream.idle_after or 0) and running.finish_if_idle(tuples):
            self._seen[name] = (tuples, float("inf"))
            told = "stream %(stream)s is idle: its open panes are closed"
            report(logger, logging.INFO, "stream.idle", told, stream=name)


def wall_ahead() -> float:
    """How far the wall clock is ahead of the monotonic clock."""
    return time.time() - time.monotonic()


class MachineWatch(_Watch):
    """Notices what Spark does not: that the wall clock was set back, and that the directory of a source has gone.

    Spark waits for the next micro-batch by the wall clock. If the clock is set back by an hour, Spark would wait for an
    hour, so its query begins anew. A missing directory looks to Spark like one without new files.
    """

    def __init__(self, intakes: Sequence[Intake], ahead: Callable[[], float] = wall_ahead) -> None:
        super().__init__("sash-machine", 1.0)
        self._intakes = intakes
        self._ahead = ahead
        self._was_ahead = ahead()
        # By stream: the directory of its source, and whether it existed at the last look.
        paths = {intake.running.stream.name: _path(intake.running.stream) for intake in intakes}
        self._there = {name: (path, True) for name, path in paths.items() if os.path.isdir(path)}

    def look(self) -> None:
        ahead = self._ahead()
        back, self._was_ahead = self._was_ahead - ahead, ahead
        for intake in self._intakes:
            if back > _SET_BACK_SECONDS and intake.is_active:
                told = "the clock was set back by %(seconds).0f s; stream %(stream)s begins its micro-batches anew"
                stream = intake.running.stream.name
                report(logger, logging.WARNING, "clock.back", told, stream=stream, seconds=back)
                intake.renew()
            self._look_for_files(intake)

    def _look_for_files(self, intake: Intake) -> None:
        name = intake.running.stream.name
        path, was_there = self._there.get(name, ("", False))
        is_there = os.path.isdir(path)
        if is_there == was_there or not intake.is_active:
            return
        self._there[name] = path, is_there
        how = "is back" if is_there else "has gone; no tuples come until it is back"
        told = "stream %(stream)s: its directory %(path)s %(how)s"
        report(logger, logging.WARNING, "source.moved", told, stream=name, path=path, how=how)


def _path(stream: Stream) -> str:
    """The directory of a source's files; empty for a source without files."""
    options = {} if stream.source is None else stream.source.options
    path = next((value for name, value in options.items() if name.lower() == "path"), "")
    return unquote(urlsplit(path).path) if path.startswith("file:") else path
