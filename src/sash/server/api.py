"""The paths of the API. Each is a few lines around a call of the session; the app's `Service` has what they need.

Functions without `async` run in threads of the web framework: they may wait for the engine's locks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pyarrow as pa
from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool

from sash.core.plain import plain
from sash.runtime.answers.registered_query import Query as Handle
from sash.runtime.session import Session
from sash.runtime.streams.load import CLOSED, FAILED
from sash.server import models
from sash.server.event_stream import FollowingResponse, behind, newest, newest_of
from sash.server.followers import Followers
from sash.server.http_questions import HttpQuestions, refuse_python
from sash.server.problems import (
    BAD_REQUEST,
    CONFLICT,
    FORBIDDEN,
    NO_TOKEN,
    NOT_ACCEPTABLE,
    NOT_FOUND,
    TIMED_OUT,
    TOO_LARGE,
    TOO_MANY,
    UNAVAILABLE,
    UNPROCESSABLE,
    ProblemError,
    problems,
)
from sash.server.server_settings import ServerSettings
from sash.server.wire import ARROW, EVENTS, JSON, accepted, cut, described, rows_of
from sash.storage.files import stream_bytes

# Prometheus' own text format.
_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_TEXT: dict[str, Any] = {"schema": {"type": "string"}}


@dataclass(frozen=True)
class Service:
    """The objects that the paths use."""

    session: Session
    settings: ServerSettings
    questions: HttpQuestions
    followers: Followers

    def close(self) -> None:
        """Tell followers, and cancel questions. From any thread."""
        self.followers.close()
        self.questions.close()

    def check_open(self) -> None:
        if self.session.state().name == CLOSED:
            raise ProblemError(UNAVAILABLE, "the session is closed")

    def check_room(self, replaced: str = "") -> None:
        """Refuse a query if too many are registered, unless it takes the place of one."""
        state, most = self.session.state(), self.settings.max_queries
        if state.name in (FAILED, CLOSED):
            raise ProblemError(UNAVAILABLE, f"the engine has stopped: {state.error or 'the session is closed'}")
        if len(self.session.queries) >= most and not self.session.catalog.has_query(replaced):
            raise ProblemError(TOO_MANY, f"{most:,} queries are registered, and not more at once; drop one first")

    def handle(self, name: str) -> Handle:
        found = [query for query in list(self.session.queries.values()) if query.name.lower() == name.lower()]
        if not found:
            raise ProblemError(NOT_FOUND, f"there is no query '{name}'; GET /api/queries lists them")
        return found[0]


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(_service)]
Name = Annotated[str, Path(description="Of a registered query.", examples=["big_talkers"])]

# The guard checks the token before a request gets here; this is for the description.
_TOKEN = Depends(HTTPBearer(auto_error=False, description="Where the server was given a token."))
_GUARDED = problems(NO_TOKEN, FORBIDDEN, TOO_LARGE)
router = APIRouter(prefix="/api", dependencies=[_TOKEN], responses=_GUARDED)
metrics_router = APIRouter(dependencies=[_TOKEN], responses=_GUARDED)

# -- registered queries --------------------------------------------------------------------------------


@router.get("/queries", tags=["queries"], summary="All registered queries")
def list_queries(served: Served) -> list[models.QueryStatus]:
    return [_described(query) for query in list(served.session.queries.values())]


@router.post(
    "/queries",
    tags=["queries"],
    summary="Register a query",
    status_code=201,
    responses=problems(BAD_REQUEST, CONFLICT, UNPROCESSABLE, TOO_MANY, UNAVAILABLE),
)
def register(new: models.NewQuery, served: Served, response: Response) -> models.QueryStatus:
    """It answers from the next micro-batch on, at once where a synopsis covers it."""
    served.check_room(new.name if new.replace else "")
    refuse_python(served.session, new.text)
    query = served.session.register(
        new.text, new.name, new.priority, new.lifetime, comment=new.comment, keep=new.keep, replace=new.replace
    )
    response.headers["Location"] = f"/api/queries/{query.name}"
    return _described(query)


@router.get("/queries/{name}", tags=["queries"], summary="One of them", responses=problems(NOT_FOUND))
def describe(name: Name, served: Served) -> models.QueryStatus:
    return _described(served.handle(name))


@router.delete(
    "/queries/{name}",
    tags=["queries"],
    summary="Drop a query",
    status_code=204,
    responses=problems(NOT_FOUND, CONFLICT),
)
def drop(name: Name, served: Served) -> None:
    """Those who follow its answers are told."""
    served.session.drop_query(served.handle(name).name)


@router.post(
    "/queries/{name}/pause",
    tags=["queries"],
    summary="Pause a query",
    responses=problems(BAD_REQUEST, NOT_FOUND),
)
def pause(name: Name, served: Served) -> models.QueryStatus:
    """It gives no answers until it is resumed. What it reads stays stored: the next answer is complete."""
    query = served.handle(name)
    query.pause()
    return _described(query)


@router.post(
    "/queries/{name}/resume",
    tags=["queries"],
    summary="Resume a query",
    responses=problems(BAD_REQUEST, NOT_FOUND),
)
def resume(name: Name, served: Served) -> models.QueryStatus:
    query = served.handle(name)
    query.resume()
    return _described(query)


@router.get(
    "/queries/{name}/answers",
    tags=["queries"],
    summary="Answers so far, and to come",
    response_model=list[models.RememberedAnswer],
    responses={
        200: {
            "description": "Remembered answers (JSON), or a stream that goes on (events, Arrow).",
            "content": {EVENTS: _TEXT, ARROW: _BINARY},
        },
        204: {"description": "Nothing came behind Last-Event-ID, and nothing will."},
        **problems(BAD_REQUEST, NOT_FOUND, NOT_ACCEPTABLE, TOO_MANY),
    },
)
async def answers(
    name: Name,
    served: Served,
    last: Annotated[int, Query(ge=0, le=1_000, description="How many remembered answers to begin with.")] = 1,
    accept: Annotated[str | None, Header(description=f"{JSON}, {EVENTS} or {ARROW}.")] = None,
    last_event_id: Annotated[str | None, Header(description="Go on behind this event.")] = None,
) -> Response:
    """As JSON: the last answers, oldest first. As events or as an Arrow stream: those, and each one that comes."""
    query, form = served.handle(name), _form(accept, JSON, EVENTS, ARROW)
    if form == JSON:
        remembered = await run_in_threadpool(query.answers)
        return JSONResponse(await run_in_threadpool(newest, remembered, last, served.settings.max_rows))
    is_over = last_event_id is not None and await served.followers.why_ended(query) is not None
    if last_event_id is not None and is_over and not behind(last_event_id, await run_in_threadpool(query.answers)):
        return Response(status_code=204)
    follower = await served.followers.follow(
        query, lambda known: newest_of(known, last) if last_event_id is None else behind(last_event_id, known)
    )
    return FollowingResponse(follower, form, served.settings.max_rows)


@router.get(
    "/queries/{name}/view",
    tags=["queries"],
    summary="What a continuous query says now",
    response_model=models.View,
    responses={200: {"content": {ARROW: _BINARY}}, **problems(BAD_REQUEST, NOT_FOUND, NOT_ACCEPTABLE)},
)
def view(
    name: Name, served: Served, accept: Annotated[str | None, Header(description=f"{JSON} or {ARROW}.")] = None
) -> Response:
    """Its answers are changes; this is what they have come to."""
    query, form = served.handle(name), _form(accept, JSON, ARROW)
    table, truncated = cut(query.view(), served.settings.max_rows)
    headers = {"Sash-Truncated": "true"} if truncated else {}
    if form == ARROW:
        return Response(stream_bytes(table), media_type=ARROW, headers=headers)
    told = {"query": query.name, "as_of": _facts(table).get("as_of"), **_rows(table), "truncated": truncated}
    return _json(told, headers)


def _described(query: Handle) -> models.QueryStatus:
    latest = query.latest()
    state: Literal["registered", "paused", "failed", "cannot write"] = "paused" if query.is_paused else "registered"
    if query.error is not None:
        state = "cannot write" if query.failure is None else "failed"
    return models.QueryStatus(
        name=query.name,
        text=query.text,
        kind="continuous" if query.is_continuous else "periodic",
        state=state,
        error=None if query.error is None else str(query.error),
        answers=query.answered,
        last_as_of=None if latest is None else latest.as_of,
        comment=query.comment,
    )


# -- one-time questions --------------------------------------------------------------------------------


@router.post(
    "/query",
    tags=["questions"],
    summary="Ask once",
    response_model=models.OneTimeAnswer,
    responses={
        200: {
            "description": "The answer. Headers: Sash-Question-Id, and Sash-Truncated where there are more rows.",
            "content": {ARROW: _BINARY},
        },
        **problems(BAD_REQUEST, NOT_ACCEPTABLE, CONFLICT, UNPROCESSABLE, TOO_MANY, UNAVAILABLE, TIMED_OUT),
    },
)
async def ask(
    question: models.Question,
    request: Request,
    served: Served,
    accept: Annotated[str | None, Header(description=f"{JSON} or {ARROW}.")] = None,
) -> Response:
    """Answered from a synopsis that covers it, else from the stored window, else refused with a reason.

    It is cancelled by `DELETE /api/query/{id}`, when its time is over, and when its client goes away.
    """
    form = _form(accept, JSON, ARROW)
    await run_in_threadpool(served.check_open)
    finish = _arrow_answer if form == ARROW else _json_answer
    return await served.questions.ask(question, finish, request.is_disconnected)


@router.get("/query", tags=["questions"], summary="Questions without an answer yet")
def asked(served: Served) -> list[models.RunningQuestion]:
    return served.questions.questions()


@router.delete(
    "/query/{id}", tags=["questions"], summary="Cancel a question", status_code=204, responses=problems(NOT_FOUND)
)
def cancel(
    id: Annotated[str, Path(description="As it was given, or as GET /api/query lists it.")], served: Served
) -> None:
    """Cancel a question: it ends soon, and its caller gets status 409."""
    if not served.questions.cancel(id):
        raise ProblemError(NOT_FOUND, f"no question with the id '{id}' is being answered")


@router.post("/explain", tags=["questions"], summary="Explain", responses=problems(BAD_REQUEST, UNPROCESSABLE))
def explain(wanted: models.ExplainRequest, served: Served) -> models.ExplanationText:
    """How a query would be answered: plan, synopsis, with whom they are shared, expected cost."""
    served.check_open()
    return models.ExplanationText(text=served.session.explain(wanted.text))


def _json_answer(id: str, table: pa.Table) -> Response:
    facts = _facts(table)
    told = {
        "id": id,
        "as_of": facts.get("as_of"),
        "complete": facts.get("complete", "true") == "true",
        **_rows(table),
        "truncated": "truncated" in facts,
    }
    return _json(told, _headers(id, facts))


def _arrow_answer(id: str, table: pa.Table) -> Response:
    return Response(stream_bytes(table), media_type=ARROW, headers=_headers(id, _facts(table)))


def _rows(table: pa.Table) -> dict[str, Any]:
    return {"columns": described(table.schema), "rows": rows_of(table)}


def _json(told: dict[str, Any], headers: dict[str, str]) -> Response:
    return Response(json.dumps(told, ensure_ascii=False).encode(), media_type=JSON, headers=headers)


def _facts(table: pa.Table) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()}


def _headers(id: str, facts: dict[str, str]) -> dict[str, str]:
    return {"Sash-Question-Id": id, **({"Sash-Truncated": "true"} if "truncated" in facts else {})}


def _form(accept: str | None, *offered: str) -> str:
    form = accepted(accept, offered)
    if form is None:
        raise ProblemError(NOT_ACCEPTABLE, f"Accept is one of {', '.join(offered)}")
    return form


# -- the server itself ---------------------------------------------------------------------------------


@router.get("/stats", tags=["server"], summary="Throughput, lateness, what is shared")
def stats(served: Served) -> dict[str, Any]:
    """What `session.stats()` tells; times are in ISO 8601."""
    found: dict[str, Any] = plain(served.session.stats())
    return found


@router.get(
    "/health",
    tags=["server"],
    summary="Is it well?",
    responses={503: {"model": models.Health, "description": "A stream has failed, or the session is closed."}},
)
def health(served: Served, response: Response) -> models.Health:
    state = served.session.state()
    if state.name in (FAILED, CLOSED):
        response.status_code = UNAVAILABLE
    streams = {
        name: {"state": each.name, "error": None if each.error is None else str(each.error)}
        for name, each in state.streams.items()
    }
    error = None if state.error is None else str(state.error)
    return models.Health.model_validate({"state": state.name, "error": error, "streams": streams})


@metrics_router.get(
    "/metrics",
    tags=["server"],
    summary="For Prometheus",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": _TEXT}}},
)
def metrics(served: Served) -> Response:
    return Response(served.session.metrics(), media_type=_EXPOSITION)
