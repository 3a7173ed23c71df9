"""Where a server listens, who may ask it, and its limits."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from sash.core.errors import SashError

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8642
_COUNTS = (
    "max_body", "max_questions", "max_rows", "max_queries", "max_followers", "max_connections", "follower_queue"
)  # fmt: skip
_TIMES = ("max_seconds", "head_seconds", "body_seconds")


@dataclass(frozen=True)
class ServerSettings:
    """`token`: every client has to show it; required if other machines can reach the server.

    >>> ServerSettings(host="0.0.0.0")
    Traceback (most recent call last):
    sash.core.errors.SashError: other machines can reach 0.0.0.0: a server there needs a token
    """

    host: str = DEFAULT_HOST
    # 0: any free one.
    port: int = DEFAULT_PORT
    token: str | None = None
    # Bytes of a request.
    max_body: int = 2**20
    # One-time questions at once.
    max_questions: int = 4
    # The most seconds of a question, and the default.
    max_seconds: float = 60.0
    # The most rows of an answer.
    max_rows: int = 100_000
    # Registered queries, and clients that follow answers.
    max_queries: int = 1_000
    max_followers: int = 100
    # The most connections, but no more than half of the process's descriptors.
    max_connections: int = 512
    # Seconds that a request may take to arrive: until its headers have come, and then its body.
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    # The most answers that wait for a slow client; then the oldest goes.
    follower_queue: int = 100

    def __post_init__(self) -> None:
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token.strip()):
            raise SashError("a token is made of printable ASCII characters, one at least")
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise SashError(f"{name} is 1 at least, not {getattr(self, name)}")
        for name in _TIMES:
            if not getattr(self, name) > 0:
                raise SashError(f"{name} is above 0, not {getattr(self, name)}")
        if self.token is None and not self.is_local:
            raise SashError(f"other machines can reach {self.host}: a server there needs a token")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine, and nothing else.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
