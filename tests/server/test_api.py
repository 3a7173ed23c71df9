"""The paths, one after the other, on a session that has everything but Spark."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from sash.core.errors import CatalogError, SourceError
from sash.core.time import to_datetime
from sash.runtime.streams.load import ENDED, FAILED, StreamState
from sash.server import ServerSettings
from sash.server.wire import ARROW
from tests.server.conftest import TOTALS
from tests.support.sparkless_session import SparklessSession, at, tuples

SUM = "SELECT SUM(v) AS total FROM s [WINDOW 10 sec]"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


# -- registered queries --------------------------------------------------------------------------------


def test_queries_are_listed_with_what_they_have_done(client: TestClient) -> None:
    (query,) = client.get("/api/queries").json()
    assert query["name"] == "totals" and query["text"] == TOTALS and query["kind"] == "periodic"
    assert query["state"] == "registered" and query["error"] is None and query["answers"] == 2
    assert moment(query["last_as_of"]) == to_datetime(at(10))
    assert client.get("/api/queries/TOTALS").json() == query


def test_a_query_is_registered_answers_and_is_dropped(client: TestClient, session: SparklessSession) -> None:
    new = {"name": "largest", "text": "SELECT MAX(v) AS m FROM s [WINDOW 10 sec SLIDE 5 sec]", "priority": 3}
    made = client.post("/api/queries", json=new)
    assert made.status_code == 201 and made.headers["location"] == "/api/queries/largest"
    session.push("s", tuples((16, 0, 16), (18, 0, 18), (21, 0, 21)))
    (answer,) = client.get("/api/queries/largest/answers").json()
    assert answer["query"] == "largest" and moment(answer["as_of"]) == to_datetime(at(20))
    assert answer["columns"] == [{"name": "m", "type": "INT"}] and answer["rows"] == [{"m": 18}]
    assert client.delete("/api/queries/largest").status_code == 204
    assert client.get("/api/queries/largest").status_code == 404
    assert "largest" not in session.queries


def test_a_query_is_replaced_paused_and_resumed(browse, session: SparklessSession) -> None:
    client = browse(ServerSettings(max_queries=1))
    new = {"name": "totals", "text": TOTALS.replace("SUM", "MAX")}
    assert client.post("/api/queries", json=new).status_code == 429
    assert client.post("/api/queries", json={**new, "name": "other", "replace": True}).status_code == 429
    made = client.post("/api/queries", json={**new, "replace": True})
    assert made.status_code == 201 and made.json()["text"] == new["text"] and made.json()["answers"] == 2
    paused = client.post("/api/queries/totals/pause")
    assert paused.status_code == 200 and paused.json()["state"] == "paused"
    session.push("s", tuples((16, 0, 16), (18, 0, 18), (21, 0, 21)))
    assert client.get("/api/queries/totals").json()["answers"] == 2
    assert client.post("/api/queries/totals/resume").json()["state"] == "registered"
    session.push("s", tuples((26, 0, 3)))
    (answer,) = client.get("/api/queries/totals/answers").json()
    assert moment(answer["as_of"]) == to_datetime(at(25)) and answer["rows"] == [{"k": 0, "total": 21}]
    assert client.post("/api/queries/nobody/pause").status_code == 404


def test_what_is_said_about_names_is_true(client: TestClient, session: SparklessSession) -> None:
    said = client.get("/openapi.json").json()["components"]["schemas"]["NewQuery"]["properties"]["name"]["description"]
    assert said == "Letters, digits, `_`, `.` and `-`, with a letter or `_` first."
    for name in ("a.b-c_1", "_a"):
        assert client.post("/api/queries", json={"name": name, "text": TOTALS}).status_code == 201
    for name in ("1a", ".a", "-a", "a b"):
        assert client.post("/api/queries", json={"name": name, "text": TOTALS}).status_code == 422
        with pytest.raises(CatalogError, match=r"take letters, digits, _ \. and -, a letter or _ first"):
            session.register(TOTALS, name=name)


@pytest.mark.parametrize(
    ("changed", "status", "says"),
    [
        ({"name": "totals"}, 409, "is registered already"),
        ({"name": "no name"}, 422, "name: "),
        ({"name": "x", "colour": "red"}, 422, "colour: "),
        ({"name": "x", "lifetime": "soon"}, 400, "lifetime: "),
        ({"name": "x", "keep": "soon"}, 400, "keep: "),
        ({"name": "x", "text": "DROP QUERY totals"}, 400, "expected a SELECT"),
        ({"name": "x", "text": "SELECT 1; DROP QUERY totals"}, 400, "expected one statement"),
        ({"name": "x", "text": "REGISTER QUERY x AS " + TOTALS}, 400, "expected a SELECT"),
        (
            {"name": "x", "text": "CREATE STREAM t FROM csv OPTIONS (path '/etc') TIMESTAMP ts"},
            400,
            "expected a SELECT",
        ),
        ({"name": "x", "text": ""}, 400, ""),
    ],
)
def test_what_cannot_be_registered(
    client: TestClient, session: SparklessSession, changed: dict[str, str], status: int, says: str
) -> None:
    refused = client.post("/api/queries", json={"name": "new", "text": TOTALS, **changed})
    assert refused.status_code == status and says in refused.json()["error"]
    assert list(session.queries) == ["totals"]


def test_a_mistake_has_its_place(client: TestClient) -> None:
    text = "SELECT k,\n  SUM(lenght) FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY k"
    refused = client.post("/api/queries", json={"name": "x", "text": text})
    told = refused.json()
    assert refused.status_code == 400 and "lenght" in told["error"] and (told["line"], told["column"]) == (2, 7)
    assert "SUM(lenght)" in told["excerpt"] and "^^^^^^" in told["excerpt"]


def test_there_are_only_so_many_queries(browse, session: SparklessSession) -> None:
    client = browse(ServerSettings(max_queries=1))
    refused = client.post("/api/queries", json={"name": "x", "text": TOTALS})
    assert refused.status_code == 429 and "drop one first" in refused.json()["error"]


def test_a_query_that_nobody_knows(client: TestClient) -> None:
    for answer in (
        client.get("/api/queries/x"),
        client.delete("/api/queries/x"),
        client.get("/api/queries/x/answers"),
    ):
        assert answer.status_code == 404 and "'x'" in answer.json()["error"]


# -- remembered answers --------------------------------------------------------------------------------


def test_the_last_answers_oldest_first(client: TestClient) -> None:
    both = client.get("/api/queries/totals/answers", params={"last": 5}).json()
    assert [moment(answer["as_of"]) for answer in both] == [to_datetime(at(5)), to_datetime(at(10))]
    assert [answer["complete"] for answer in both] == [False, True]
    assert client.get("/api/queries/totals/answers").json() == both[1:]
    assert client.get("/api/queries/totals/answers", params={"last": 0}).json() == []


def test_rows_of_all_answers_together_are_limited(browse) -> None:
    client = browse(ServerSettings(max_rows=3))
    older, newer = client.get("/api/queries/totals/answers", params={"last": 5}).json()
    assert (len(older["rows"]), older["truncated"]) == (1, True)
    assert (len(newer["rows"]), newer["truncated"]) == (2, False)


def test_what_a_continuous_query_says_now(browse, session: SparklessSession, monkeypatch: pytest.MonkeyPatch) -> None:
    now = pa.table({"k": [1, 2, 3]}).replace_schema_metadata({"as_of": to_datetime(at(12)).isoformat()})
    monkeypatch.setattr(session.queries["totals"], "view", lambda: now)
    client = browse(ServerSettings(max_rows=2))
    told = client.get("/api/queries/totals/view")
    assert told.json()["rows"] == [{"k": 1}, {"k": 2}] and told.json()["truncated"]
    assert moment(told.json()["as_of"]) == to_datetime(at(12)) and told.json()["query"] == "totals"
    arrow = client.get("/api/queries/totals/view", headers={"Accept": ARROW})
    assert pa.ipc.open_stream(arrow.content).read_all().equals(now.slice(0, 2), check_metadata=True)
    assert arrow.headers["sash-truncated"] == "true"


def test_a_query_that_slides_has_no_view(client: TestClient) -> None:
    refused = client.get("/api/queries/totals/view")
    assert refused.status_code == 400 and "totals" in refused.json()["error"]


# -- one-time questions --------------------------------------------------------------------------------


def test_a_question_from_stored_rows(client: TestClient) -> None:
    told = client.post("/api/query", json={"text": SUM, "id": "mine"})
    answer = told.json()
    assert told.status_code == 200 and told.headers["sash-question-id"] == "mine" == answer["id"]
    assert answer["columns"] == [{"name": "total", "type": "BIGINT"}]
    assert answer["complete"] is True and answer["truncated"] is False
    end = round((moment(answer["as_of"]) - to_datetime(at(0))).total_seconds())
    assert answer["rows"] == [{"total": sum(v for v in range(1, 13) if end - 10 < v <= end)}]


def test_the_same_as_arrow(client: TestClient) -> None:
    told = client.post("/api/query", json={"text": SUM}, headers={"Accept": ARROW})
    assert told.headers["content-type"] == ARROW and len(told.headers["sash-question-id"]) == 32
    table = pa.ipc.open_stream(told.content).read_all()
    assert table.to_pylist() == client.post("/api/query", json={"text": SUM}).json()["rows"]
    assert {b"as_of", b"complete"} <= table.schema.metadata.keys()


def test_more_rows_than_are_given_out(browse) -> None:
    text = "SELECT v, COUNT(*) AS n FROM s [WINDOW 10 sec] GROUP BY v ORDER BY v"
    client = browse(ServerSettings(max_rows=4))
    told = client.post("/api/query", json={"text": text})
    assert len(told.json()["rows"]) == 4 and told.json()["truncated"] and told.headers["sash-truncated"] == "true"
    fewer = client.post("/api/query", json={"text": text, "max_rows": 2}, headers={"Accept": ARROW})
    table = pa.ipc.open_stream(fewer.content).read_all()
    assert len(table) == 2 and table.schema.metadata[b"truncated"] == b"true"
    assert fewer.headers["sash-truncated"] == "true"


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"text": "DROP QUERY totals"}, 400, "expected a SELECT"),
        ({"text": "INSERT INTO t VALUES (1)"}, 400, "expected a SELECT"),
        ({"text": "EXPLAIN " + SUM}, 400, "expected a SELECT"),
        ({"text": TOTALS}, 400, "SLIDE"),
        ({"text": "SELECT COUNT(*) AS n FROM nobody [WINDOW 10 sec]"}, 400, "nobody"),
        ({"text": "SELECT 1 / (MAX(v) - MAX(v)) AS x FROM s [WINDOW 10 sec]"}, 422, "zero"),
        ({"text": SUM, "timeout": 0}, 422, "timeout: "),
        ({"text": SUM, "id": "a b"}, 422, "id: "),
        ({"question": SUM}, 422, "text: "),
    ],
)
def test_what_cannot_be_asked(
    client: TestClient, session: SparklessSession, asked: dict[str, object], status: int, says: str
) -> None:
    refused = client.post("/api/query", json=asked)
    assert refused.status_code == status and says in refused.json()["error"]
    assert list(session.queries) == ["totals"]


def test_forms_that_there_are_not(client: TestClient) -> None:
    assert client.post("/api/query", json={"text": SUM}, headers={"Accept": "image/png"}).status_code == 406
    assert client.get("/api/queries/totals/answers", headers={"Accept": "text/csv"}).status_code == 406


def test_explain(client: TestClient) -> None:
    told = client.post("/api/explain", json={"text": TOTALS})
    assert told.status_code == 200 and "totals" in told.json()["text"]
    refused = client.post("/api/explain", json={"text": "DROP QUERY totals"})
    assert refused.status_code == 400 and "EXPLAIN takes a SELECT" in refused.json()["error"]


# -- the server itself ---------------------------------------------------------------------------------


def test_stats_and_metrics(client: TestClient) -> None:
    told = client.get("/api/stats").json()
    assert told["tuples"] == 12 and told["queries"]["totals"]["answers"] == 2
    assert moment(told["streams"]["s"]["watermark"]) == to_datetime(at(12))
    text = client.get("/metrics")
    assert (
        text.headers["content-type"].startswith("text/plain; version=0.0.4")
        and "sash_session_tuples_total 12" in text.text
    )


def test_health_of_a_session(client: TestClient, session: SparklessSession) -> None:
    assert client.get("/api/health").json() == {
        "state": "running",
        "error": None,
        "streams": {"s": {"state": "running", "error": None}},
    }
    session.doing = StreamState(ENDED)
    assert client.get("/api/health").json()["state"] == "ended"
    session.doing = StreamState(FAILED, SourceError("the disk is gone"))
    sick = client.get("/api/health")
    assert sick.status_code == 503 and sick.json()["state"] == "failed" and sick.json()["error"] == "the disk is gone"


def test_a_failed_engine_takes_no_queries_and_still_answers(client: TestClient, session: SparklessSession) -> None:
    session.doing = StreamState(FAILED, SourceError("the disk is gone"))
    refused = client.post("/api/queries", json={"name": "x", "text": TOTALS})
    assert refused.status_code == 503 and "the disk is gone" in refused.json()["error"]
    assert client.post("/api/query", json={"text": SUM}).status_code == 200


def test_a_closed_session(client: TestClient, session: SparklessSession) -> None:
    session.close()
    assert client.get("/api/health").json()["state"] == "closed"
    for path, body in (
        ("queries", {"name": "x", "text": TOTALS}),
        ("query", {"text": SUM}),
        ("explain", {"text": SUM}),
    ):
        assert client.post(f"/api/{path}", json=body).status_code == 503


def test_paths_that_there_are_not(client: TestClient) -> None:
    assert client.get("/api/nothing").json()["error"].startswith("there is no such path")
    wrong = client.put("/api/stats")
    assert wrong.status_code == 405 and wrong.headers["allow"] == "GET" and "takes GET" in wrong.json()["error"]


def test_the_openapi_page_needs_nobody_else(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.status_code == 200 and "http" not in page.text.replace("127.0.0.1", "").partition("<script>")[0]
    for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"):
        assert f"/docs/{name}" in page.text and len(client.get(f"/docs/{name}").content) > 500
    assert client.get("/docs/__init__.py").status_code == 404
    described = client.get("/openapi.json").json()
    assert {"/api/queries", "/api/query", "/api/stats", "/api/health", "/api/explain", "/metrics"} <= described[
        "paths"
    ].keys()


def test_the_front_is_the_page(client: TestClient) -> None:
    front = client.get("/")
    assert front.status_code == 200 and "Queries · Sash" in front.text


def test_a_request_does_not_reach_python_functions(client: TestClient, session: SparklessSession) -> None:
    session.create_aggregate("size", 0, len, sum, lambda p: p[0])
    session.create_function("half", lambda x: x // 2, "INT")
    called = {
        "SELECT `Size` (v) AS n FROM s [{}]": "aggregate 'size'",
        "SELECT SUM(Half(v)) FROM s [{}]": "function 'half'",
    }
    for text, what in called.items():
        registered, asked = text.format("WINDOW 10 sec SLIDE 5 sec"), text.format("WINDOW 10 sec")
        for path, body in (("queries", {"name": "q", "text": registered}), ("query", {"text": asked})):
            refused = client.post(f"/api/{path}", json=body)
            assert refused.status_code == 400 and f"the {what} runs Python functions" in refused.text
    session.register("SELECT Size(v) AS n FROM s [WINDOW 10 sec SLIDE 5 sec]", "q")
