from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from sash.core.time import SECOND
from sash.server import Server, ServerSettings, create_app
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream
from tests.support.threads import PATIENCE

TOTALS = "SELECT k, SUM(v) AS total FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY k"


@pytest.fixture
def session() -> Iterator[SparklessSession]:
    """A stream `s` whose last minute is stored, and a query `totals` that has answered as of 5 and 10 seconds."""
    with SparklessSession() as made:
        made.declare(stream(keep=60 * SECOND))
        made.register(TOTALS, name="totals")
        made.push("s", tuples(*((second, second % 2, second) for second in range(1, 13))))
        yield made


@pytest.fixture
def browse(session: SparklessSession) -> Iterator[Callable[..., TestClient]]:
    """A client of a server with some settings."""
    clients: list[TestClient] = []

    def make(
        settings: ServerSettings | None = None, base: str = "http://127.0.0.1:8642", **options: object
    ) -> TestClient:
        app = create_app(session, settings or ServerSettings())
        clients.append(TestClient(app, base, raise_server_exceptions=False, follow_redirects=False, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.app.state.service.close()


@pytest.fixture
def client(browse: Callable[..., TestClient]) -> TestClient:
    return browse()


@pytest.fixture
def serve(session: SparklessSession) -> Iterator[Callable[..., httpx.Client]]:
    """A client of a server that listens, with some settings."""
    servers: list[Server] = []
    clients: list[httpx.Client] = []

    def start(**settings: Any) -> httpx.Client:
        servers.append(Server(session, ServerSettings(port=0, **settings)).start())
        clients.append(httpx.Client(base_url=servers[-1].url, timeout=PATIENCE))
        return clients[-1]

    yield start
    for client in clients:
        client.close()
    for server in servers:
        server.stop()
