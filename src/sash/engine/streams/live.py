"""IDLE AFTER: a live stream without tuples for a while (wall clock) closes the panes that are open."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sash.core.clock import Clock
from sash.core.errors import SashError
from sash.core.events import report
from sash.core.time import SECOND
from sash.engine.streams.running import RunningStream

logger = logging.getLogger("sash.engine")


class IdleWatch:
    """A thread that looks a few times per IDLE AFTER whether tuples have come. `failed` is told of a stream that broke.

    A micro-batch counts its tuples when Spark has read them. So long a stream is not idle, however long that takes.
    """

    def __init__(self, streams: list[RunningStream], clock: Clock, failed: Callable[[str, SashError], None]) -> None:
        self._streams = [running for running in streams if running.stream.idle_after is not None]
        self._clock = clock
        self._failed = failed
        self._seen = {running.stream.name: (-1, clock.now()) for running in self._streams}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sash-idle", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _loop(self) -> None:
        shortest = min(running.stream.idle_after or SECOND for running in self._streams)
        while not self._stopped.wait(max(0.05, shortest / SECOND / 4)):
            self.look()

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
