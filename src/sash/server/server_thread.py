"""A running server: an address, a thread with an event loop, and a stop that tells followers."""

from __future__ import annotations

import contextlib
import errno
import html
import socket
import threading
from dataclasses import replace
from typing import ClassVar, Self

import uvicorn

from sash.core.errors import SashError
from sash.runtime.session import Session
from sash.server.app import create_app
from sash.server.connections import protocol_for
from sash.server.server_settings import ServerSettings

# Seconds that open requests have to end when the server stops.
_PATIENCE_SECONDS = 5
_BACKLOG = 128


class Server:
    """On a thread of its own, for notebooks and for `serve`.

    >>> server = Server(session).start()                              # doctest: +SKIP
    >>> server.url                                                    # doctest: +SKIP
    'http://127.0.0.1:8642/'
    >>> server.stop()                                                 # doctest: +SKIP
    """

    _turn = threading.Lock()
    _live: ClassVar[Server | None] = None

    def __init__(
        self, session: Session, settings: ServerSettings | None = None, listening: socket.socket | None = None
    ) -> None:
        """`listening`: the result of `listen` for these settings, for callers that take the address early."""
        settings = settings or ServerSettings()
        self._socket = listening or listen(settings)
        # If any free port would do, it is known now.
        self.settings = replace(settings, port=self._socket.getsockname()[1])
        self._session = session
        self._thread = threading.Thread(target=self._run, name="sash-server", daemon=True)

    def _make(self) -> None:
        self._app = create_app(self._session, self.settings)
        config = uvicorn.Config(
            self._app,
            http=protocol_for(self.settings),
            backlog=_BACKLOG,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_PATIENCE_SECONDS,
            server_header=False,
            # Nobody can check a proxy's word about the origin of a request.
            proxy_headers=False,
        )
        self._server = uvicorn.Server(config)

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.settings.host, self.settings.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.settings.port}/"

    def start(self) -> Self:
        """Returns when it answers. A process has one page, and so one server at a time."""
        with Server._turn:
            other = Server._live
            if other is not None and other._thread.is_alive():
                self._socket.close()
                raise SashError(f"this process serves a session at {other.url} already; stop that first")
            self._make()
            self._thread.start()
            Server._live = self
        while self._thread.is_alive() and not self._server.started:
            self._thread.join(0.01)
        if not self._server.started:
            raise SashError("the server did not start; the log says why")
        return self

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the server to stop, at most `seconds`; the result is whether the server has stopped."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop: questions are cancelled, streams of answers end with an `end` event."""
        if self._thread.is_alive():
            self._app.state.service.close()
            self._server.should_exit = True
            self._thread.join()
        self._socket.close()

    def _repr_html_(self) -> str:
        """The link in a notebook."""
        state = "" if self._thread.is_alive() else " (stopped)"
        return f'<a href="{html.escape(self.url)}" target="_blank">Sash at {html.escape(self.url)}</a>{state}'

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()


def serve(session: Session, settings: ServerSettings | None = None, stopped: threading.Event | None = None) -> None:
    """Serve until `stopped` is set, or Ctrl-C."""
    with Server(session, settings), contextlib.suppress(KeyboardInterrupt):
        (stopped or threading.Event()).wait()


def listen(settings: ServerSettings) -> socket.socket:
    """Take the address: new clients wait until the server starts."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as error:
        raise SashError(f"there is no address '{settings.host}': {error}") from None
    family, kind, protocol, _, address = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise SashError(f"port {settings.port} of {settings.host} is in use; choose another one, or 0") from None
        raise SashError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}") from None
    return made
