"""What a session and its streams are doing, for those who watch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sash.core.errors import SashError

# Not started yet; reading; stopped by its user; nothing more to read; something went wrong.
IDLE, RUNNING, STOPPED, ENDED, FAILED = "idle", "running", "stopped", "ended", "failed"
# Of a session: nothing can be asked any more.
CLOSED = "closed"
# What one stream is doing says more about a session than what the others do, in this order.
_TELLING = (FAILED, RUNNING, IDLE, STOPPED, ENDED)


@dataclass(frozen=True)
class StreamState:
    name: str
    error: SashError | None = None


@dataclass(frozen=True)
class SessionState:
    """`name` is that of the stream that says most.

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
        """What went wrong first, by the order of the streams."""
        return next((state.error for state in self.streams.values() if state.error is not None), None)
