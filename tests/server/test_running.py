"""Servers on threads: addresses, ports, stops."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from sash.core.errors import SashError
from sash.server import Server, ServerSettings, connections, serve
from tests.support.sparkless_session import SparklessSession
from tests.support.threads import PATIENCE


def test_a_server_for_a_notebook(session: SparklessSession) -> None:
    server = Server(session, ServerSettings(port=0)).start()
    try:
        assert server.url == f"http://127.0.0.1:{server.settings.port}/" and server.settings.port > 0
        assert httpx.get(f"{server.url}api/health", timeout=PATIENCE).json()["state"] == "running"
        assert not server.wait(0.0)
    finally:
        server.stop()
    assert server.wait(PATIENCE)
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)
    assert session.query("SELECT SUM(v) AS x FROM s [WINDOW 5 sec]").num_rows == 1, "the session goes on"


def test_servers_one_after_the_other(session: SparklessSession) -> None:
    told = []
    for _ in range(2):
        with Server(session, ServerSettings(port=0)) as server:
            told.append(httpx.get(f"{server.url}api/queries", timeout=PATIENCE).json())
            with pytest.raises(SashError, match="already; stop that first"):
                Server(session, ServerSettings(port=0)).start()
    assert told[0] == told[1] and told[0][0]["name"] == "totals"


def test_serve_until_it_is_told_to_stop(session: SparklessSession) -> None:
    stopped, seen = threading.Event(), list[int]()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    thread = threading.Thread(target=serve, args=(session, ServerSettings(port=port), stopped))
    thread.start()
    while not seen:
        try:
            seen.append(httpx.get(f"http://127.0.0.1:{port}/api/health", timeout=PATIENCE).status_code)
        except httpx.ConnectError:
            assert thread.is_alive()
    stopped.set()
    thread.join(PATIENCE)
    assert seen == [200] and not thread.is_alive()


def test_a_port_in_use(session: SparklessSession) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SashError, match=f"port {port} of 127.0.0.1 is in use; choose another one"):
            Server(session, ServerSettings(port=port))


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 300])
def test_an_address_that_there_is_not(session: SparklessSession, host: str) -> None:
    with pytest.raises(SashError, match=r"there is no address|cannot listen"):
        Server(session, ServerSettings(host=host, token="secret", port=0))


def test_the_address_for_a_browser_on_this_machine(session: SparklessSession) -> None:
    with Server(session, ServerSettings(host="0.0.0.0", token="secret", port=0)) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{server.url}api/health", timeout=PATIENCE).status_code == 401


# -- connections ---------------------------------------------------------------------------------------

HALF = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
WHOLE = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
# A body is announced, and a part of it comes.
HALF_BODY = b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"

Send = Callable[[bytes], socket.socket]


@pytest.fixture
def server(session: SparklessSession, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(session, ServerSettings(port=0, **request.param)) as served:
        yield served


@pytest.fixture
def send(server: Server) -> Iterator[Send]:
    """Open a connection, and send something on it."""
    with ExitStack() as opened:

        def begin(sent: bytes) -> socket.socket:
            made = socket.create_connection(("127.0.0.1", server.settings.port), timeout=PATIENCE)
            opened.callback(made.close)
            made.sendall(sent)
            return made

        yield begin


def is_closed(connection: socket.socket) -> bool:
    """Waits until something comes, and is it the end?"""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("server", [{"max_connections": 5}], indirect=True)
def test_connections_without_a_request_make_room(server: Server, send: Send) -> None:
    idle = [send(HALF) for _ in range(5)]
    assert send(WHOLE).recv(12) == b"HTTP/1.1 200"
    assert is_closed(idle[0]), "it has waited longest"
    for _ in range(20):
        send(HALF)
    assert all(is_closed(each) for each in idle)
    assert httpx.get(f"{server.url}api/health", timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("server", [{"max_connections": 2}], indirect=True)
def test_connections_that_are_answered_stay(server: Server, session: SparklessSession, send: Send) -> None:
    following = b"GET /api/queries/totals/answers HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
    followers = [send(following) for _ in range(2)]
    for follower in followers:
        assert follower.recv(12) == b"HTTP/1.1 200"
    assert is_closed(send(b"")), "no place is free"
    followers[0].close()
    while True:
        try:
            assert httpx.get(f"{server.url}api/health", timeout=PATIENCE).status_code == 200
            break
        except httpx.TransportError:
            continue


@pytest.mark.parametrize("server", [{"head_seconds": 0.1, "body_seconds": 0.1}], indirect=True)
@pytest.mark.parametrize("sent", [b"", b"GET", HALF, HALF_BODY])
def test_a_request_that_does_not_arrive(server: Server, send: Send, sent: bytes) -> None:
    assert is_closed(send(sent))


@pytest.mark.parametrize(
    "server", [{"token": "secret", "head_seconds": 10 * PATIENCE, "body_seconds": 0.1}], indirect=True
)
def test_a_body_that_does_not_arrive_after_its_refusal(server: Server, send: Send) -> None:
    connection = send(HALF_BODY)
    told = b""
    while piece := connection.recv(1_000):
        told += piece
    assert told.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("server", [{"head_seconds": 10 * PATIENCE}], indirect=True)
def test_headers_without_end(server: Server, send: Send) -> None:
    connection = send(HALF)
    with suppress(ConnectionError):
        connection.sendall(b"x" * 2**20)
    assert is_closed(connection)


@pytest.mark.parametrize("server", [{"head_seconds": 1.0}], indirect=True)
def test_several_requests_on_one_connection(server: Server) -> None:
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        assert [client.post("/api/explain", json={"text": "x"}).status_code for _ in range(3)] == [400] * 3


def test_the_engine_has_half_of_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, most in ((1_024, 512), (256, 128), (100_000, 512), (connections.resource.RLIM_INFINITY, 512)):
        monkeypatch.setattr(connections.resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert connections.protocol_for(ServerSettings()).most == most
