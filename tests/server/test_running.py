"""Servers on threads: addresses, ports, stops."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest

from sash.core.errors import SashError
from sash.server import Server, ServerSettings, serve
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
