"""What Spark calls with each micro-batch of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sash.core.errors import SashError
from sash.engine.streams.load import report_broken_off
from sash.engine.streams.running import RunningStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Relay:
    """What Spark holds of us: it forwards micro-batches until it is cut.

    The JVM keeps a reference to the callback long after a stream has stopped; through this one it does not keep the
    session, its panes and its answers alive. It also remembers our own error: Spark hands back only a wrapped one.
    """

    def __init__(self, running: RunningStream, version: Callable[[], int], after: Callable[[], None]) -> None:
        """`after` is called when a micro-batch is committed, before Spark plans the next one."""
        self._target: tuple[RunningStream, Callable[[], int], Callable[[], None]] | None = (running, version, after)

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        running, _, after = self._forwarding()
        try:
            # Asked for when the stream has no other micro-batch in flight: it may have been cut while it waited.
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
