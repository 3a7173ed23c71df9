"""Checks every request before anything else of the server sees it, the page's websocket included.

    1  Host      on a loopback address it must be a loopback name: a web site whose name was made to mean 127.0.0.1
                 (DNS rebinding) is refused
    2  Origin    must be our own, and so must the page be that a browser asks for: other sites' scripts are refused,
                 also where their browser would not let them read the answer
    3  token     if there is one: `Authorization: Bearer ..`, or the cookie that `/?token=..` gives, and the form that a
                 browser without a token is shown. Comparisons take the same time whatever is wrong. The cookie has a
                 digest of the token, not the token. Wrong tokens from an address make the next ones from there wait
    4  size      of the body, declared or not

It is plain ASGI: Starlette's `BaseHTTPMiddleware` sees no websockets and buffers streams.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from asyncio import sleep
from collections import Counter
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sash.server.server_settings import ServerSettings, is_loopback
from sash.server.wire import JSON, accepted

_POLICY_VIOLATION = 1008
# Seconds before the next token from an address is checked: after the first wrong one, and at most.
_FIRST_SECONDS, _MOST_SECONDS = 0.1, 5.0
# Seconds until the wrong tokens of an address are forgotten, how many tokens of an address wait at once, and how many
# addresses are remembered.
_FORGET_SECONDS, _MOST_WAITING, MOST_ADDRESSES = 60.0, 4, 10_000
_CHALLENGE = (("www-authenticate", "Bearer"),)
_HTML = "text/html"
_FORM_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
# Bytes of the form.
_MOST_FORM = 2**12
_FORM = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Sash</title>
  <style>
    :root { color-scheme: light dark; font-family: system-ui, sans-serif; }
    form { max-width: 20rem; margin: 20vh auto 0; padding: 0 1rem; display: grid; gap: .75rem; }
    input, button { font: inherit; padding: .5rem; width: 100%%; box-sizing: border-box; }
  </style>
</head>
<body>
  <form method="post">
    <h1>Sash</h1>
    <div role="alert">%s</div>
    <label>Token <input type="password" name="token" required autofocus autocomplete="current-password"></label>
    <button>Open</button>
  </form>
</body>
</html>
"""
_SAFE_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class RefusedError(Exception):
    """A refused request. `form`: the text of the form for a token, for clients that can fill it in."""

    def __init__(
        self, status: int, reason: str, headers: Iterable[tuple[str, str]] = (), form: str | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = tuple(headers)
        self.form = form


class Guard:
    """ASGI middleware; the outermost."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        token = settings.token
        self._token = None if token is None else token.encode()
        self._cookie_value = None if token is None else _digest(token)
        # Browsers send a cookie to every port of a host.
        self._cookie_name = f"sash-{settings.port}"
        self._wrong = WrongTokens()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            _check_origin(headers)
            if self._token is not None:
                await self._check_token(scope, headers, receive)
            if scope["type"] == "http":
                receive = await self._within_size(headers, receive)
        except RefusedError as refusal:
            await _refuse(refusal, scope, receive, send)
            return
        await self._app(scope, receive, _with_safe_headers(send, scope["path"]))

    # -- where from --------------------------------------------------------------------------------------

    def _check_host(self, headers: Headers) -> None:
        if self._settings.is_local and not is_loopback(_host_name(headers.get("host", ""))):
            raise RefusedError(403, "this server is at a loopback address, and answers to localhost and 127.0.0.1 only")

    # -- token -------------------------------------------------------------------------------------------

    async def _check_token(self, scope: Scope, headers: Headers, receive: Receive) -> None:
        offered = _offered_in_address(scope)
        if offered is not None:
            await self._let_in(offered, scope)
        if self._has_cookie(headers):
            return
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and await self._is_token(value.strip(), scope):
            return
        if _is_form(scope, headers):
            await self._let_in(await _offered_in_form(receive), scope)
        told = "a token is needed: Authorization: Bearer <token>, or open /?token=<token> in a browser"
        raise RefusedError(401, told, _CHALLENGE, "A token is needed.")

    async def _let_in(self, offered: str, scope: Scope) -> None:
        """Move the token from the address, where histories and logs would keep it, into a cookie."""
        if not await self._is_token(offered, scope):
            raise RefusedError(401, "this is not the token", _CHALLENGE, "This is not the token.")
        secure = "; Secure" if _is_encrypted(scope) else ""
        cookie = f"{self._cookie_name}={self._cookie_value}; Path=/; HttpOnly; SameSite=Strict{secure}"
        raise RefusedError(303, "", [("location", _without_token(scope)), ("set-cookie", cookie)])

    async def _is_token(self, offered: str, scope: Scope) -> bool:
        assert self._token is not None
        address = (scope.get("client") or ("",))[0]
        await self._wrong.wait(address)
        if hmac.compare_digest(offered.encode(), self._token):
            return True
        self._wrong.add(address)
        return False

    def _has_cookie(self, headers: Headers) -> bool:
        assert self._cookie_value is not None
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie_name)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self._cookie_value.encode())

    # -- size --------------------------------------------------------------------------------------------

    async def _within_size(self, headers: Headers, receive: Receive) -> Receive:
        """Limit the body: a declared length is enough; a body without one is read here, up to the limit."""
        most = self._settings.max_body
        too_large = RefusedError(413, f"a request has {most:,} bytes at most", [("connection", "close")])
        declared = headers.get("content-length")
        if declared is not None:
            if not (declared.isascii() and declared.isdigit()) or int(declared) > most:
                raise too_large
            return receive
        if "transfer-encoding" not in headers:
            return receive
        messages: list[Message] = []
        size = 0
        while not messages or messages[-1].get("more_body", False):
            messages.append(await receive())
            size += len(messages[-1].get("body", b""))
            if size > most:
                raise too_large
        return _replaying(messages, receive)


class WrongTokens:
    """Each wrong token doubles the delay of the next one from its address, right or wrong: the delay tells nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # How many, and when the last one came; the latest are last.
        self._known: dict[str, tuple[int, float]] = {}
        self._waiting: Counter[str] = Counter()

    def add(self, address: str) -> None:
        number = self._number(address) + 1
        self._known.pop(address, None)
        self._known[address] = number, self._clock()
        if len(self._known) > MOST_ADDRESSES:
            del self._known[next(iter(self._known))]

    def _number(self, address: str) -> int:
        number, last = self._known.get(address, (0, 0.0))
        return number if self._clock() - last < _FORGET_SECONDS else 0

    async def wait(self, address: str) -> None:
        """Wait before a token is checked."""
        number = self._number(address)
        if not number:
            return
        if self._waiting[address] >= _MOST_WAITING:
            later = [("retry-after", f"{_MOST_SECONDS:.0f}")]
            raise RefusedError(429, "too many wrong tokens; try again later", later, "Too many wrong tokens.")
        self._waiting[address] += 1
        try:
            # Two to the sixth is more than the most: larger powers are not needed.
            await sleep(min(_MOST_SECONDS, _FIRST_SECONDS * 2 ** min(number - 1, 6)))
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]


def _check_origin(headers: Headers) -> None:
    """Check the origin. The scheme may differ: a proxy may do the encryption."""
    origin = headers.get("origin")
    if origin is not None and _place_of(origin) != headers.get("host", "").lower():
        raise RefusedError(403, "requests from other origins are refused")
    # A browser's requests without Origin: images, scripts, links. People come by following links.
    is_ours = headers.get("sec-fetch-site", "none") in ("same-origin", "none")
    if not is_ours and headers.get("sec-fetch-mode") != "navigate":
        raise RefusedError(403, "requests from other sites are refused")


def _place_of(origin: str) -> str | None:
    """Host and port; None for an origin without them (`null`)."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _host_name(host: str) -> str:
    """The host name without the port.

    >>> _host_name("localhost:8642"), _host_name("[::1]:8642"), _host_name("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_encrypted(scope: Scope) -> bool:
    """Whether the connection is encrypted, or a proxy says so. A false claim only spoils the client's own cookie."""
    # With several proxies, the header begins with the outermost one.
    outermost = Headers(scope=scope).get("x-forwarded-proto", "").partition(",")[0]
    return "https" in (scope.get("scheme"), outermost.strip().lower())


def _digest(token: str) -> str:
    return hmac.new(token.encode(), b"sash cookie", hashlib.sha256).hexdigest()


def _offered_in_address(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != "/":
        return None
    return next(iter(parse_qs(scope["query_string"].decode("latin-1")).get("token", [])), None)


def _is_form(scope: Scope, headers: Headers) -> bool:
    """Whether the form sent the request; nothing else here takes forms."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return scope["type"] == "http" and scope["method"] == "POST" and kind == "application/x-www-form-urlencoded"


async def _offered_in_form(receive: Receive) -> str:
    body, more = b"", True
    while more and len(body) <= _MOST_FORM:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return next(iter(parse_qs(body[:_MOST_FORM].decode("latin-1")).get("token", [])), "")


def _without_token(scope: Scope) -> str:
    """The requested address. With two slashes in front it would be one of another host."""
    fields = parse_qs(scope["query_string"].decode("latin-1"))
    fields.pop("token", None)
    return "/" + quote(scope["path"].lstrip("/")) + ("?" + urlencode(fields, doseq=True) if fields else "")


def _replaying(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def next_message() -> Message:
        for message in waiting:
            return message
        return await receive()

    return next_message


def _with_safe_headers(send: Send, path: str) -> Send:
    """Add safe headers. The API's answers are true only now, so nobody may cache them."""
    added = {**_SAFE_HEADERS, **({"cache-control": "no-store"} if path.startswith("/api/") else {})}

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


async def _refuse(refusal: RefusedError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": str(refusal)})
        return
    body, kind = json.dumps({"error": str(refusal)}).encode() if str(refusal) else b"", JSON
    headers = [("cache-control", "no-store"), *refusal.headers]
    if refusal.form is not None and accepted(Headers(scope=scope).get("accept"), (JSON, _HTML)) == _HTML:
        body, kind = (_FORM % refusal.form).encode(), f"{_HTML}; charset=utf-8"
        headers.append(("content-security-policy", _FORM_POLICY))
    headers += [("content-type", kind), ("content-length", str(len(body)))]
    raw = [(name.encode(), value.encode()) for name, value in headers]
    await _with_safe_headers(send, scope["path"])(
        {"type": "http.response.start", "status": refusal.status, "headers": raw}
    )
    await send({"type": "http.response.body", "body": body})
