"""The page of a session, opened from a program or a notebook.

The server lies above the engine, and its packages are an extra: this module imports the server on demand.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from sash.core.errors import missing_extra

if TYPE_CHECKING:
    from sash.runtime.session import Session


class Dashboard(Protocol):
    """A server on a thread of its own. A notebook shows it as a link."""

    @property
    def url(self) -> str:
        """Where a browser on this machine finds the page."""

    def stop(self) -> None:
        """Stop the server. The session goes on."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the server to stop, at most `seconds`; the result is whether the server has stopped."""


def open_dashboard(session: Session, port: int) -> Dashboard:
    try:
        server = import_module("sash.server")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] == "sash":
            raise
        raise missing_extra("the page", error.name, "server") from None
    opened: Dashboard = server.Server(session, server.ServerSettings(port=port)).start()
    return opened
