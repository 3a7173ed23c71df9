"""Clients that follow answers: nothing missed, nothing twice, nobody held up, and an end with a word."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import httpx
import pyarrow as pa
import pytest

from sash.core.errors import QueryFailedError, SashError, SourceError
from sash.core.time import to_datetime
from sash.runtime.answers.answer import Answer
from sash.runtime.streams.load import ENDED, FAILED, StreamState
from sash.server import Server, ServerSettings
from sash.server.event_stream import behind, event_id
from sash.server.followers import End, Followers, Gap
from sash.server.wire import ARROW, EVENTS
from tests.support.events import Event, events
from tests.support.sparkless_session import SparklessSession, at, tuples
from tests.support.threads import PATIENCE

Serve = Callable[..., httpx.Client]
PATH = "/api/queries/totals/answers"


@contextmanager
def following(client: httpx.Client, path: str = PATH, **headers: str) -> Iterator[Iterator[Event]]:
    with client.stream("GET", path, headers={"Accept": EVENTS, **headers}) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith(EVENTS)
        yield events(response.iter_lines())


def as_of(second: float) -> str:
    return to_datetime(at(second)).isoformat()


def until(condition: Callable[[], bool]) -> None:
    """The server notices in its own time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- events --------------------------------------------------------------------------------------------


def test_the_latest_answer_and_each_that_comes(serve: Serve, session: SparklessSession) -> None:
    with following(serve()) as stream:
        first = next(stream)
        assert (first.kind, first.id, first.data["as_of"]) == ("answer", as_of(10), as_of(10))
        session.push("s", tuples((16, 0, 16)))
        second = next(stream)
        assert second.id == as_of(15) and second.data["query"] == "totals"
        assert sorted(second.data["rows"], key=lambda row: row["k"]) == [{"k": 0, "total": 36}, {"k": 1, "total": 27}]


def test_many_clients_get_the_same(serve: Serve, session: SparklessSession) -> None:
    client = serve()
    with following(client) as one, following(client) as two:
        assert next(one) == next(two)
        session.push("s", tuples((16, 0, 16), (21, 0, 21)))
        assert [next(one), next(one)] == [next(two), next(two)]


def test_a_client_goes_on_where_it_was(serve: Serve, session: SparklessSession) -> None:
    client = serve()
    with following(client) as stream:
        last = next(stream).id
    session.push("s", tuples((16, 0, 16), (21, 0, 21)))
    with following(client, **{"Last-Event-ID": str(last)}) as stream:
        assert [next(stream).id, next(stream).id] == [as_of(15), as_of(20)]
    with following(client, f"{PATH}?last=0") as stream:
        session.push("s", tuples((26, 0, 26)))
        assert next(stream).id == as_of(25)


@pytest.mark.parametrize("last", [1, 2, 3, 1_000])
def test_as_many_remembered_ones_as_there_are(serve: Serve, last: int) -> None:
    """There are two answers, as of 5 and 10 seconds; the events behind them show that there are no more."""
    with following(serve(), f"{PATH}?last={last}") as stream:
        assert [next(stream).id for _ in range(min(last, 2))] == [as_of(5), as_of(10)][-last:]


def test_an_id_that_was_never_given(serve: Serve, session: SparklessSession) -> None:
    refused = serve().get(PATH, headers={"Accept": EVENTS, "Last-Event-ID": "yesterday"})
    assert refused.status_code == 400 and "Last-Event-ID" in refused.json()["error"]
    assert not session.queries["totals"].outward.subscribers


def test_a_client_that_leaves_leaves_nothing_behind(serve: Serve, session: SparklessSession) -> None:
    query = session.queries["totals"]
    with following(serve()) as stream:
        next(stream)
        assert len(query.outward.subscribers) == 1
    until(lambda: not query.outward.subscribers)
    session.push("s", tuples((16, 0, 16)))
    assert query.subscriber_errors == 0


def test_there_are_only_so_many_clients(serve: Serve) -> None:
    client = serve(max_followers=1)
    with following(client) as stream:
        next(stream)
        refused = client.get(PATH, headers={"Accept": EVENTS})
        assert refused.status_code == 429 and "1 clients" in refused.json()["error"]
    until(lambda: client.get("/api/health").status_code == 200)


# -- the end -------------------------------------------------------------------------------------------


def test_a_query_that_is_dropped(serve: Serve) -> None:
    client = serve()
    with following(client) as stream:
        next(stream)
        assert client.delete("/api/queries/totals").status_code == 204
        (end,) = stream
        assert end.kind == "end" and "dropped" in end.data["reason"]
    assert client.get(PATH, headers={"Accept": EVENTS}).status_code == 404


def fail(session: SparklessSession) -> None:
    session.queries["totals"].failure = QueryFailedError("query 'totals' failed: division by zero")


def end(session: SparklessSession) -> None:
    session.doing = StreamState(ENDED)


def break_down(session: SparklessSession) -> None:
    session.doing = StreamState(FAILED, SourceError("the disk is gone"))


@pytest.mark.parametrize(
    ("happens", "says"), [(fail, "division by zero"), (end, "have ended"), (break_down, "the disk is gone")]
)
def test_nothing_more_will_come(
    serve: Serve, session: SparklessSession, happens: Callable[[SparklessSession], None], says: str
) -> None:
    client = serve()
    with following(client) as stream:
        last = next(stream).id
        happens(session)
        (told,) = stream
        assert told.kind == "end" and says in told.data["reason"]
    # A browser comes back by itself; that makes it stay away.
    again = client.get(PATH, headers={"Accept": EVENTS, "Last-Event-ID": str(last)})
    assert again.status_code == 204
    with following(client) as stream:
        assert [each.kind for each in stream] == ["answer", "end"]


def test_the_server_stops(serve: Serve, session: SparklessSession) -> None:
    with (
        Server(session, ServerSettings(port=0)) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE) as client,
    ):
        with following(client) as stream:
            next(stream)
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            (told,) = stream
            assert told.data == {"reason": "the server stops"}
        stopping.join(PATIENCE)
        assert not stopping.is_alive()


# -- Arrow ---------------------------------------------------------------------------------------------


def test_an_arrow_stream_ends_with_its_columns(serve: Serve, session: SparklessSession) -> None:
    client = serve()
    with client.stream("GET", f"{PATH}?last=5", headers={"Accept": ARROW}) as response:
        session.register("SELECT COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 5 sec]", "totals", replace=True)
        session.push("s", tuples((16, 0, 16), (21, 0, 16)))
        with pa.ipc.open_stream(b"".join(response.iter_bytes())) as reader:
            assert reader.schema.names == ["as_of", "k", "total"] and reader.read_all().num_rows == 4


def test_answers_as_an_arrow_stream(serve: Serve, session: SparklessSession) -> None:
    client = serve()
    with client.stream("GET", f"{PATH}?last=5", headers={"Accept": ARROW}) as response:
        assert response.headers["content-type"] == ARROW
        session.push("s", tuples((16, 0, 16)))
        session.drop_query("totals")
        content = response.read()
    reader = pa.ipc.open_stream(content)
    batches = list(iter(lambda: _next_batch(reader), None))
    assert reader.schema.names == ["as_of", "k", "total"]
    assert [metadata[b"as_of"].decode() for _, metadata in batches] == [as_of(5), as_of(10), as_of(15)]
    assert [metadata[b"complete"] for _, metadata in batches] == [b"false", b"true", b"true"]
    rows = sorted(batches[2][0].to_pylist(), key=lambda row: row["k"])
    assert [(row["as_of"].isoformat(), row["total"]) for row in rows] == [(as_of(15), 36), (as_of(15), 27)]


def _next_batch(reader: pa.ipc.RecordBatchStreamReader) -> tuple[pa.RecordBatch, dict[bytes, bytes]] | None:
    try:
        found = reader.read_next_batch_with_custom_metadata()
    except StopIteration:
        return None
    return found.batch, dict(found.custom_metadata)


# -- without a network ---------------------------------------------------------------------------------


def answer(second: float, rows: int | None = None) -> Answer:
    return Answer("q", to_datetime(at(second)), True, True, pa.table({"n": [second]}), rows)


def test_what_comes_behind_an_event() -> None:
    known = [answer(5), answer(10), answer(15)]
    assert behind(event_id(known[0]), known) == known[1:]
    assert behind(as_of(11), known) == known[2:], "forgotten meanwhile: by its time"
    assert behind(as_of(20), known) == []
    counted = [answer(5, 10), answer(5, 20), answer(6, 30)]
    assert behind(event_id(counted[0]), counted) == counted[1:]


@pytest.mark.parametrize("word", ["", "x", "2026-01-01T00:00:00", "1"])
def test_words_that_are_no_event(word: str) -> None:
    with pytest.raises(SashError, match="Last-Event-ID"):
        behind(word, [answer(5)])


def test_a_client_that_is_behind_holds_nobody_up_and_is_told(session: SparklessSession) -> None:
    async def story() -> list[object]:
        followers = Followers(session, ServerSettings(follower_queue=2))
        follower = await followers.follow(session.queries["totals"], lambda known: [])
        for second in (16, 21, 26, 31):
            session.push("s", tuples((second, 0, second)))
        session.drop_query("totals")
        try:
            return [each async for each in follower.happenings()]
        finally:
            follower.leave()

    gap, *told, last = asyncio.run(story())
    assert gap == Gap(2) and isinstance(last, End)
    assert [each.as_of for each in told if isinstance(each, Answer)] == [to_datetime(at(25)), to_datetime(at(30))]


def test_an_answer_that_comes_while_a_client_comes_is_told_once(session: SparklessSession) -> None:
    query = session.queries["totals"]

    async def story() -> list[datetime]:
        followers = Followers(session, ServerSettings())

        def between(known: list[Answer]) -> list[Answer]:
            """The line has been opened, and the remembered answers have been taken."""
            return list(known)

        remember = query.answers

        def remembering() -> list[Answer]:
            session.push("s", tuples((16, 0, 16)))
            return remember()

        query.answers = remembering  # type: ignore[method-assign]
        follower = await followers.follow(query, between)
        session.drop_query("totals")
        told = [each.as_of async for each in follower.happenings() if isinstance(each, Answer)]
        follower.leave()
        return told

    assert asyncio.run(story()) == [to_datetime(at(second)) for second in (5, 10, 15)]
