"""Which requests the guard lets in, and which it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from sash.core.errors import SashError
from sash.server import ServerSettings, create_app, guard
from sash.server.server_settings import is_loopback
from tests.support.sparkless_session import SparklessSession

Browse = Callable[..., TestClient]
TOKEN = "a-long-secret"
OPEN = ServerSettings(host="0.0.0.0", token=TOKEN)
BASE = "http://sash.example:8642"


def with_socket(client: TestClient) -> TestClient:
    """A websocket in the place of the page's."""

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("hello")
        await websocket.close()

    client.app.router.routes.insert(0, WebSocketRoute("/_nicegui_ws/socket.io", socket))
    return client


# -- addresses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org", "127.0.0.1.example.org", ""])
def test_other_addresses_need_a_token(host: str) -> None:
    with pytest.raises(SashError, match="needs a token"):
        ServerSettings(host=host)
    assert ServerSettings(host=host, token=TOKEN).token == TOKEN


@pytest.mark.parametrize("token", ["", "  ", "pass\nword", "schlüssel"])
def test_words_that_are_no_token(token: str) -> None:
    with pytest.raises(SashError, match="printable ASCII"):
        ServerSettings(token=token)


@pytest.mark.parametrize(
    "limit",
    [
        "max_body",
        "max_questions",
        "max_rows",
        "max_followers",
        "max_connections",
        "max_seconds",
        "head_seconds",
        "body_seconds",
    ],
)
def test_limits_that_leave_nothing(limit: str) -> None:
    with pytest.raises(SashError, match=limit):
        ServerSettings(**{limit: 0})


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_addresses(host: str) -> None:
    assert is_loopback(host)
    assert ServerSettings(host=host).token is None


# -- Host ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost:8642", "localhost", "[::1]:8642"])
def test_names_of_this_machine(client: TestClient, host: str) -> None:
    assert client.get("/api/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example:8642", "127.0.0.1.evil.example", "192.168.1.2:8642", "", "[::2]:80"])
def test_a_name_that_was_made_to_mean_this_machine(client: TestClient, host: str) -> None:
    refused = client.get("/api/health", headers={"Host": host})
    assert refused.status_code == 403 and "loopback" in refused.json()["error"]
    with (
        pytest.raises(WebSocketDisconnect),
        with_socket(client).websocket_connect("/_nicegui_ws/socket.io", headers={"Host": host}),
    ):
        pass


# -- Origin --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/queries", "/", "/docs", "/metrics", "/openapi.json", "/nothing"])
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:9", "http://localhost:8642", "http://["],
)
def test_other_origins_are_refused_everywhere(client: TestClient, path: str, origin: str) -> None:
    refused = client.get(path, headers={"Origin": origin})
    assert refused.status_code == 403 and "origins" in refused.json()["error"]
    assert "access-control-allow-origin" not in refused.headers


def test_a_preflight_is_refused(client: TestClient) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert client.options("/api/query", headers=headers).status_code == 403


def test_our_own_origin_also_behind_a_proxy_that_encrypts(client: TestClient) -> None:
    for scheme in ("http", "https"):
        assert client.get("/api/health", headers={"Origin": f"{scheme}://127.0.0.1:8642"}).status_code == 200


def test_other_sites_may_link_here_and_nothing_else(client: TestClient) -> None:
    other = {"Sec-Fetch-Site": "cross-site"}
    assert client.get("/docs", headers={**other, "Sec-Fetch-Mode": "navigate"}).status_code == 200
    assert client.get("/api/stats", headers={**other, "Sec-Fetch-Mode": "no-cors"}).status_code == 403
    neighbour = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get("/api/stats", headers=neighbour).status_code == 403, "another port of this machine"
    for ours in ("same-origin", "none"):
        assert client.get("/api/stats", headers={"Sec-Fetch-Site": ours}).status_code == 200


def test_websockets_of_other_origins(client: TestClient) -> None:
    client = with_socket(client)
    with client.websocket_connect("/_nicegui_ws/socket.io", headers={"Host": "127.0.0.1:8642"}) as socket:
        assert socket.receive_text() == "hello"
    headers = {"Host": "127.0.0.1:8642", "Origin": "http://evil.example"}
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        client.websocket_connect("/_nicegui_ws/socket.io", headers=headers),
    ):
        pass
    assert refused.value.code == 1008


# -- token ---------------------------------------------------------------------------------------------


@pytest.fixture
def far(browse: Browse) -> TestClient:
    """A server that other machines can reach."""
    return browse(OPEN, BASE)


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/metrics", "/api/health", "/api/queries", "/x"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Cookie": f"sash-8642={TOKEN}"},
        {"Cookie": "sash-8642=wrong"},
        {"Cookie": 'sash-8642="'},
    ],
)
def test_without_the_token_nothing_is_open(far: TestClient, path: str, headers: dict[str, str]) -> None:
    refused = far.get(path, headers=headers)
    assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
    assert "token is needed" in refused.json()["error"]


def test_the_token_in_a_header(far: TestClient) -> None:
    for kind in ("Bearer", "bearer"):
        assert far.get("/api/health", headers={"Authorization": f"{kind} {TOKEN}"}).status_code == 200


def test_the_token_in_the_address_becomes_a_cookie(far: TestClient) -> None:
    let_in = far.get("/", params={"token": TOKEN, "query": "totals"})
    assert let_in.status_code == 303 and let_in.headers["location"] == "/?query=totals"
    cookie = let_in.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie and TOKEN not in cookie
    value = cookie.partition(";")[0]
    assert far.get("/api/health", headers={"Cookie": f"other=1; {value}"}).status_code == 200
    with with_socket(far).websocket_connect(
        "/_nicegui_ws/socket.io", headers={"Host": "sash.example:8642", "Cookie": value}
    ) as socket:
        assert socket.receive_text() == "hello"


@pytest.mark.parametrize(("said", "secure"), [("http", False), ("https", True), ("HTTPS, http", True)])
def test_a_cookie_that_came_encrypted_goes_nowhere_else(far: TestClient, said: str, secure: bool) -> None:
    let_in = far.get("/", params={"token": TOKEN}, headers={"X-Forwarded-Proto": said})
    assert ("; Secure" in let_in.headers["set-cookie"]) is secure


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/", "/answer", "/docs", "/api/queries"])
def test_a_browser_without_a_token_gets_a_form(far: TestClient, path: str) -> None:
    told = far.get(path, headers=BROWSER)
    assert told.status_code == 401 and told.headers["content-type"] == "text/html; charset=utf-8"
    assert '<form method="post">' in told.text and "A token is needed." in told.text
    assert "default-src 'none'" in told.headers["content-security-policy"]
    assert far.get(path, headers={"Accept": "application/json"}).json()["error"].startswith("a token is needed")


@pytest.mark.parametrize(
    ("address", "location"),
    [
        ("/", "/"),
        ("/answer?query=a%26b", "/answer?query=a%26b"),
        ("/?token=wrong", "/"),
        ("//evil.example/x", "/evil.example/x"),
        ("/a%0d%0ab", "/a%0D%0Ab"),
    ],
)
def test_the_form_lets_in(far: TestClient, address: str, location: str) -> None:
    let_in = far.post(f"{BASE}{address}", data={"token": TOKEN}, headers={**BROWSER, "Origin": BASE})
    assert let_in.status_code == 303 and let_in.headers["location"] == location
    cookie = let_in.headers["set-cookie"].partition(";")[0]
    assert far.get("/api/health", headers={"Cookie": cookie}).status_code == 200


@pytest.mark.parametrize("form", [{"token": "wrong"}, {"token": ""}, {"other": TOKEN}, {"x": "x" * 5_000}, {}])
def test_a_form_with_something_else(far: TestClient, form: dict[str, str]) -> None:
    content = urlencode(form).encode()
    headers = {**BROWSER, "Content-Type": "application/x-www-form-urlencoded"}
    refused = far.post("/", content=content, headers=headers)
    assert refused.status_code == 401 and "This is not the token." in refused.text
    assert "set-cookie" not in refused.headers


def test_a_form_of_another_site(far: TestClient) -> None:
    refused = far.post("/", data={"token": TOKEN}, headers={**BROWSER, "Origin": "http://evil.example"})
    assert refused.status_code == 403 and "set-cookie" not in refused.headers


def test_a_wrong_token_in_the_address(far: TestClient) -> None:
    refused = far.get("/", params={"token": "wrong"})
    assert refused.status_code == 401 and "set-cookie" not in refused.headers
    assert far.get("/api/health", params={"token": TOKEN}).status_code == 401


def test_wrong_tokens_make_the_next_ones_of_their_address_wait(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(guard, "sleep", wait)
    client = browse(OPEN, BASE)
    for _ in range(8):
        assert client.get("/api/health", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert waited == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert client.get("/api/health").status_code == 401 and len(waited) == 7, "no token, nothing to compare"
    assert client.get("/api/health", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert waited[7:] == [5.0], "the right one waits as long"
    let_in = client.get("/", params={"token": TOKEN})
    waited.clear()
    cookie = let_in.headers["set-cookie"].partition(";")[0]
    assert client.get("/api/health", headers={"Cookie": cookie}).status_code == 200 and not waited


async def _many_at_once(wrong: guard.WrongTokens, number: int) -> list[int]:
    told = await asyncio.gather(*(wrong.wait("a") for _ in range(number)), return_exceptions=True)
    return [each.status for each in told if isinstance(each, guard.RefusedError)]


def test_few_tokens_of_an_address_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(guard, "sleep", wait)
    wrong = guard.WrongTokens(lambda: now)
    wrong.add("a")
    assert asyncio.run(_many_at_once(wrong, 6)) == [429, 429] and waited == [0.1] * 4
    asyncio.run(wrong.wait("b"))
    now = 61.0
    assert asyncio.run(_many_at_once(wrong, 6)) == [] and len(waited) == 4, "forgotten after a minute"


def test_so_many_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_ADDRESSES", 2)
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(guard, "sleep", wait)
    wrong = guard.WrongTokens(lambda: 0.0)
    for address in "abc":
        wrong.add(address)
    found = {}
    for address in "abc":
        asyncio.run(wrong.wait(address))
        found[address], waited = waited, []
    assert found == {"a": [], "b": [0.1], "c": [0.1]}


def test_a_websocket_without_the_token(far: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), with_socket(far).websocket_connect("/_nicegui_ws/socket.io"):
        pass


def test_a_token_may_be_asked_for_on_this_machine_too(browse: Browse) -> None:
    client = browse(ServerSettings(token=TOKEN))
    assert client.get("/api/health").status_code == 401
    assert client.get("/api/health", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_cookie_of_another_token(session: SparklessSession) -> None:
    one, two = (
        TestClient(create_app(session, ServerSettings(token=token)), "http://127.0.0.1:8642", follow_redirects=False)
        for token in (TOKEN, "another")
    )
    cookie = one.get("/", params={"token": TOKEN}).headers["set-cookie"].partition(";")[0]
    assert two.get("/api/health", headers={"Cookie": cookie}).status_code == 401


# -- size ----------------------------------------------------------------------------------------------


def small(browse: Browse) -> TestClient:
    return browse(ServerSettings(max_body=1_000))


def test_a_large_body(browse: Browse) -> None:
    refused = small(browse).post("/api/explain", json={"text": "x" * 1_000})
    assert refused.status_code == 413 and "1,000 bytes" in refused.json()["error"]


def test_a_large_body_that_does_not_say_so(browse: Browse) -> None:
    def pieces(number: int) -> Iterator[bytes]:
        yield b'{"text": "'
        for _ in range(number):
            yield b"x" * 100
        yield b'"}'

    client, headers = small(browse), {"Content-Type": "application/json"}
    assert client.post("/api/explain", content=pieces(50), headers=headers).status_code == 413
    whole = client.post("/api/explain", content=pieces(5), headers=headers)
    assert whole.status_code == 400 and "line" in whole.json(), "a body in pieces comes through whole"


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "\u00b2"])
def test_a_length_that_is_none(browse: Browse, length: str) -> None:
    refused = small(browse).post("/api/explain", content=b"{}", headers={"Content-Length": length.encode("latin-1")})
    assert refused.status_code == 413


def test_answers_say_that_they_are_not_for_frames(client: TestClient) -> None:
    for told in (client.get("/api/health"), client.get("/api/health", headers={"Host": "x"})):
        assert told.headers["x-content-type-options"] == "nosniff" and told.headers["x-frame-options"] == "DENY"
        assert told.headers["cache-control"] == "no-store"
