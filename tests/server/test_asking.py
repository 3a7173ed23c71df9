"""One-time questions over HTTP: how many, for how long, and how they are cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from sash.core.stopping import Cancellation
from sash.server import Server, ServerSettings
from tests.support.sparkless_session import SparklessSession
from tests.support.threads import PATIENCE, join, start

Serve = Callable[..., httpx.Client]
BODY = {"text": "SELECT SUM(v) AS total FROM s [WINDOW 10 sec]"}


class Held:
    """Questions that are not answered until they are let, or told to stop."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.deaf = False
        self.left: list[str] = []

    def query(
        self, text: str, priority: int, timeout: float | None, cancellation: Cancellation, max_rows: int | None
    ) -> pa.Table:
        told = threading.Event()
        with cancellation.calling(told.set), cancellation.within(timeout):
            self.entered.release()
            while not self.gate.is_set() and (self.deaf or not told.is_set()):
                self.gate.wait(0.01)
            self.left.append(type(cancellation.why).__name__)
            cancellation.check()
        return pa.table({"total": [1]})


@pytest.fixture
def held(session: SparklessSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    made = Held()
    monkeypatch.setattr(session, "query", made.query)
    yield made
    made.gate.set()


class Asking:
    """A question on its way, in a thread."""

    def __init__(self, client: httpx.Client, held: Held, **body: Any) -> None:
        self.answers: list[httpx.Response] = []
        self._thread = start(lambda: self.answers.append(client.post("/api/query", json={**BODY, **body})))
        assert held.entered.acquire(timeout=PATIENCE)

    def answer(self) -> httpx.Response:
        join(self._thread)
        return self.answers[0]


def test_a_question_is_listed_and_cancelled(serve: Serve, held: Held) -> None:
    client = serve()
    asking = Asking(client, held, id="long")
    (listed,) = client.get("/api/query").json()
    assert listed["id"] == "long" and listed["text"] == BODY["text"] and listed["cancelled"] is False
    assert client.delete("/api/query/long").status_code == 204
    answer = asking.answer()
    assert answer.status_code == 409 and answer.json() == {"error": "the question was cancelled"}
    assert client.get("/api/query").json() == [] and held.left == ["QuestionCancelledError"]
    assert client.delete("/api/query/long").status_code == 404


def test_an_id_is_used_once_at_a_time(serve: Serve, held: Held) -> None:
    client = serve()
    asking = Asking(client, held, id="mine")
    refused = client.post("/api/query", json={**BODY, "id": "mine"})
    assert refused.status_code == 409 and "'mine'" in refused.json()["error"]
    held.gate.set()
    assert asking.answer().status_code == 200
    assert client.post("/api/query", json={**BODY, "id": "mine"}).status_code == 200


def test_there_are_only_so_many_at_once(serve: Serve, held: Held) -> None:
    client = serve(max_questions=2)
    both = [Asking(client, held), Asking(client, held)]
    refused = client.post("/api/query", json=BODY)
    assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
    held.gate.set()
    assert [asking.answer().status_code for asking in both] == [200, 200]
    assert client.post("/api/query", json=BODY).status_code == 200


@pytest.mark.parametrize(("settings", "body"), [({"max_seconds": 0.05}, {}), ({}, {"timeout": 0.05})])
def test_the_time_is_over(serve: Serve, held: Held, settings: dict[str, float], body: dict[str, float]) -> None:
    late = serve(**settings).post("/api/query", json={**BODY, **body})
    assert late.status_code == 504 and "0.05 s" in late.json()["error"]
    assert held.left == ["QuestionTimedOutError"]


def test_who_asks_too_long_is_told_even_if_nobody_listens(serve: Serve, held: Held) -> None:
    held.deaf = True
    client = serve(max_questions=1)
    assert client.post("/api/query", json={**BODY, "timeout": 0.05}).status_code == 504
    assert client.post("/api/query", json=BODY).status_code == 429, "its place is taken as long as it works"
    (still,) = client.get("/api/query").json()
    assert still["cancelled"]


def test_a_client_that_goes_away_cancels(serve: Serve, held: Held) -> None:
    client = serve()
    with pytest.raises(httpx.ReadTimeout):
        client.post("/api/query", json=BODY, timeout=0.2)
    while client.get("/api/query").json():
        pass
    assert held.left == ["QuestionCancelledError"]


def test_a_question_that_breaks_is_told_and_its_place_is_free(
    serve: Serve, session: SparklessSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: Any) -> pa.Table:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(session, "query", broken)
    client = serve(max_questions=1)
    for _ in range(2):
        answer = client.post("/api/query", json=BODY, headers={"Connection": "close"})
        assert answer.status_code == 500 and "mistake" not in answer.text
    assert "POST /api/query failed: ZeroDivisionError('a mistake of ours')" in caplog.text
    assert client.get("/api/query").json() == []


def test_a_server_that_stops_cancels(serve: Serve, session: SparklessSession, held: Held) -> None:
    server = Server(session, ServerSettings(port=0)).start()
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        asking = Asking(client, held)
        server.stop()
        assert asking.answer().status_code == 409
        with pytest.raises(httpx.TransportError):
            client.get("/api/health")
