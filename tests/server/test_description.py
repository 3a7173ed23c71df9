"""Requests made up from the OpenAPI description: whatever comes, the server answers as it says, and never fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sash.core.time import SECOND
from sash.server import Server, ServerSettings
from tests.server.conftest import TOTALS
from tests.support.examples import examples
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream

# Endless responses cannot be awaited: streams of answers have their own tests.
HEADERS = {"Accept": "application/json", "Authorization": "Bearer secret"}
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [
    ("GET", "/api/queries"),
    ("POST", "/api/queries"),
    ("GET", "/api/queries/{name}"),
    ("DELETE", "/api/queries/{name}"),
    ("POST", "/api/queries/{name}/pause"),
    ("POST", "/api/queries/{name}/resume"),
    ("GET", "/api/queries/{name}/answers"),
    ("GET", "/api/queries/{name}/view"),
    ("POST", "/api/query"),
    ("GET", "/api/query"),
    ("DELETE", "/api/query/{id}"),
    ("POST", "/api/explain"),
    ("GET", "/api/stats"),
    ("GET", "/api/health"),
    ("GET", "/metrics"),
]
# Those with a form that a request can miss.
TAKING = [
    ("POST", "/api/queries"),
    ("GET", "/api/queries/{name}/answers"),
    ("POST", "/api/query"),
    ("POST", "/api/explain"),
]
WORDS = st.sampled_from(
    [
        "SELECT", "k", "v", "*", "SUM(v)", "COUNT(*)", "FROM", "s", "[WINDOW 10 sec]", "[WINDOW 5 sec SLIDE 5 sec]",
        "GROUP BY", "WHERE", "HAVING", "ORDER BY", "LIMIT", "1", "1e400", "'", '"', "(", ")", ";", ",", "--", "/*",
        "\0", "\ud7ff", "99999999999999999999", "NULL", "DROP QUERY totals", "REGISTER QUERY x AS", "EXPLAIN", "=",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(WORDS, max_size=12).map(" ".join),
    st.lists(WORDS, max_size=8).map(lambda words: " ".join(["SELECT k, SUM(v) AS t FROM s [WINDOW 10 sec]", *words])),
    st.text(),
)


@pytest.fixture(scope="module")
def described() -> Iterator[Any]:
    """The description of a server that is at work."""
    with SparklessSession() as session:
        session.declare(stream(keep=60 * SECOND))
        session.register(TOTALS, name="totals")
        session.push("s", tuples(*((second, second % 2, second) for second in range(1, 13))))
        with Server(session, ServerSettings(port=0, token="secret", max_seconds=5)) as server:
            yield schemathesis.openapi.from_url(f"{server.url}openapi.json", headers=HEADERS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@given(data=st.data())
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_requests_that_fit_the_description(described: Any, method: str, path: str, data: st.DataObject) -> None:
    case = data.draw(described[path][method].as_strategy())
    case.validate_response(case.call(headers=HEADERS), checks=CHECKS)


@pytest.mark.parametrize(("method", "path"), TAKING)
@given(data=st.data())
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_requests_that_do_not(described: Any, method: str, path: str, data: st.DataObject) -> None:
    case = data.draw(described[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    case.validate_response(case.call(headers=HEADERS), checks=CHECKS)


def test_every_path_is_tried(described: Any) -> None:
    every = {(each.ok().method.upper(), each.ok().path) for each in described.get_all_operations()}
    assert every == set(OPERATIONS)


@pytest.mark.parametrize("path", ["/api/query", "/api/explain", "/api/queries"])
@given(text=TEXTS)
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_makes_it_fail(client: TestClient, path: str, text: str) -> None:
    body = {"text": text, **({"name": "made_up"} if path == "/api/queries" else {})}
    answer = client.post(path, json=body)
    assert answer.status_code in (200, 201, 400, 409, 422), answer.text
    client.delete("/api/queries/made_up")
