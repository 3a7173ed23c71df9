"""Connections: how many there are, and how long a request may take to arrive.

Every connection is a descriptor of the process. The engine needs descriptors, too, so connections get half of them at
most. When there are too many, the connection that has waited longest for its request is closed, and the new one has its
place; connections that are being answered stay. uvicorn limits requests that are being answered, and the silence
between two requests, but not connections that have sent a part of a request.
"""

from __future__ import annotations

import asyncio
import resource
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sash.server.server_settings import ServerSettings

# The most bytes of a request before its body.
_MOST_HEAD = 2**16


class Connection(HttpToolsProtocol):
    """One connection of a server; `protocol_for` makes the class of a server."""

    most: ClassVar[int]
    head_seconds: ClassVar[float]
    body_seconds: ClassVar[float]
    # The connections that wait for a request, in the order in which they began to wait.
    waiting: ClassVar[dict[Connection, None]]

    _deadline: asyncio.TimerHandle | None = None
    _is_in_head = True
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            next(iter(self.waiting), self)._close_at_once()
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head:
            self._head += len(data)
            if self._head > _MOST_HEAD:
                self._close_at_once()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._is_in_head = False
        self._wait(self.body_seconds)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        # A refusal may have been sent before the whole body arrived.
        if self.cycle is not None and self.cycle.response_complete:
            self._wait_for_head()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.cycle.more_body:
            self._wait_for_head()

    def handle_websocket_upgrade(self) -> None:
        self._is_in_head = False
        self._stop_waiting()
        super().handle_websocket_upgrade()

    def _wait_for_head(self) -> None:
        self._is_in_head, self._head = True, 0
        self._wait(self.head_seconds)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self.waiting[self] = None
            self._deadline = self.loop.call_later(seconds, self._close_at_once)

    def _stop_waiting(self) -> None:
        self.waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_at_once(self) -> None:
        """Send nothing: a client that does not read could hold the connection."""
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()


def protocol_for(settings: ServerSettings) -> type[Connection]:
    """The connections of one server, with its limits."""

    class LimitedConnection(Connection):
        most = min(settings.max_connections, _descriptors() // 2)
        head_seconds = settings.head_seconds
        body_seconds = settings.body_seconds
        waiting: ClassVar[dict[Connection, None]] = {}

    return LimitedConnection


def _descriptors() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if soft == resource.RLIM_INFINITY else soft
