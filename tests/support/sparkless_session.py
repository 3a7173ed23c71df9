"""A session without Spark: micro-batches are Arrow tables, passes are DuckDB's. What only Spark can answer, fails."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sash.catalog import Stream
from sash.core.errors import SashError
from sash.core.time import SECOND, Micros
from sash.engine.commands.stream_maker import StreamMaker
from sash.engine.records.history import stream_change
from sash.engine.session import Session
from sash.engine.streams.states import RUNNING, SessionState, StreamState
from tests.support.streams import START, to_table
from tests.support.without_spark import DuckPipeline


class _NoSpark:
    def __getattr__(self, name: str) -> Any:
        raise SashError("this takes Spark, and here is none")


class _WithoutFiles(StreamMaker):
    def _panes_for(self, stream: Stream) -> None:
        return None


class SparklessSession(Session):
    """Feed it by hand; `doing` is what its streams say that they do."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(policy="conservative", **settings)
        self._epochs: dict[str, int] = {}
        self.doing = StreamState(RUNNING)

    @property
    def spark(self) -> Any:
        return _NoSpark()

    def declare(self, stream: Stream) -> None:
        self._shared.history.append(stream_change(stream))
        self._catalog.add_stream(stream)
        pipeline: Any = DuckPipeline(stream)
        self._streams[stream.name.lower()] = _WithoutFiles(**vars(self._maker)).make(stream, pipeline)
        self._epochs[stream.name] = 0

    def push(self, name: str, rows: pa.Table) -> None:
        """A micro-batch."""
        batch: Any = rows
        self._shared.running(name).on_batch(lambda: self._shared.history.version, batch, self._epochs[name])
        self._epochs[name] += 1

    def state(self) -> SessionState:
        return SessionState.of(dict.fromkeys(self._epochs, self.doing), self._home.is_closed)


def at(second: float) -> Micros:
    return START + int(second * SECOND)


def tuples(*rows: tuple[float, int, int]) -> pa.Table:
    """(second, k, v)"""
    return to_table([(at(second), k, "abc"[k % 3], v, v * 2**40, v / 4) for second, k, v in rows])
