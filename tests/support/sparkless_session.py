"""A session without Spark: micro-batches are Arrow tables, passes are DuckDB's. What only Spark can answer, fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sash.catalog import Stream
from sash.core.errors import SashError
from sash.core.time import SECOND, Micros
from sash.runtime.session import Session
from sash.runtime.settings import SessionSettings
from sash.runtime.spark_home import SparkHome
from sash.runtime.streams.load import RUNNING, SessionState, StreamState
from tests.support.streams import START, to_table
from tests.support.without_spark import DuckPipeline


class _NoSpark:
    def __getattr__(self, name: str) -> Any:
        raise SashError("this takes Spark, and here is none")


class _NoHome(SparkHome):
    @property
    def session(self) -> Any:
        return _NoSpark()


class SparklessSession(Session):
    """Feed it by hand; `doing` is the reported state of its streams."""

    def __init__(self, **settings: Any) -> None:
        places = {name: settings.pop(name) for name in ("checkpoint", "clock") if name in settings}
        super().__init__(SessionSettings(**{"policy": "conservative", **settings}), **places)
        self.epochs: dict[str, int] = {}
        self.doing = StreamState(RUNNING)

    def _open_home(self, spark: Any, packages: Any) -> Any:
        return _NoHome(spark, self.checkpoint, packages)

    def declare(self, stream: Stream, pipeline: Callable[[Stream], Any] = DuckPipeline) -> None:
        self._stream_commands.open(stream, pipeline)
        # After a restart, the next micro-batch is the one that is not committed.
        self.epochs[stream.name] = self._shared.running(stream.name).panes.epoch + 1

    def push(self, name: str, rows: Any) -> None:
        """A micro-batch, as the stream's pipeline takes it."""
        self._shared.running(name).on_batch(lambda: self._shared.history.version, rows, self.epochs[name])
        self.epochs[name] += 1

    def state(self) -> SessionState:
        return SessionState.of(dict.fromkeys(self.epochs, self.doing), self._home.is_closed)


def at(second: float) -> Micros:
    return START + int(second * SECOND)


def tuples(*rows: tuple[float, int, int]) -> Any:
    """(second, k, v)"""
    return to_table([(at(second), k, "abc"[k % 3], v, v * 2**40, v / 4) for second, k, v in rows])
