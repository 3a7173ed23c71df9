"""Mistakes in the API's form: a status, and the mistake as JSON, with the place of the word."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sash.core.errors import (
    CatalogError,
    CheckpointError,
    CqlError,
    QueryFailedError,
    QuestionCancelledError,
    QuestionTimedOutError,
    SashError,
    SourceError,
)
from sash.core.events import report
from sash.server.models import Problem

logger = logging.getLogger("sash.server")

BAD_REQUEST, NO_TOKEN, FORBIDDEN, NOT_FOUND, NOT_ACCEPTABLE, CONFLICT = 400, 401, 403, 404, 406, 409
TOO_LARGE, UNPROCESSABLE = 413, 422
TOO_MANY, UNAVAILABLE, TIMED_OUT = 429, 503, 504

# The first match counts; any other SashError is a mistake in the request.
_STATUS: tuple[tuple[type[SashError], int], ...] = (
    (QuestionTimedOutError, TIMED_OUT),
    (QuestionCancelledError, CONFLICT),
    (QueryFailedError, UNPROCESSABLE),
    (CatalogError, CONFLICT),
    (CheckpointError, UNAVAILABLE),
    (SourceError, UNAVAILABLE),
)
_ABOUT = {
    BAD_REQUEST: "The text is wrong, or cannot be answered; `line` and `column` show the word.",
    NO_TOKEN: "The server wants a token.",
    FORBIDDEN: "Another origin, or another host.",
    NOT_FOUND: "There is no such query or question.",
    NOT_ACCEPTABLE: "There is no such form of the answer; see Accept.",
    CONFLICT: "The name is taken, or the question was cancelled.",
    TOO_LARGE: "The request has too many bytes.",
    UNPROCESSABLE: "The request has another form, or an expression failed on the data.",
    TOO_MANY: "All places are taken; try again later.",
    UNAVAILABLE: "The engine has stopped; see /api/health.",
    TIMED_OUT: "The question took too long.",
}


class ProblemError(Exception):
    """A request that the API refuses by itself."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI description of a path."""
    return {status: {"model": Problem, "description": _ABOUT[status]} for status in statuses}


def status_of(error: SashError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), BAD_REQUEST)


def told(error: SashError) -> dict[str, Any]:
    """What is wrong and where.

    >>> told(SashError("there is nothing to ask"))
    {'error': 'there is nothing to ask'}
    """
    if not isinstance(error, CqlError) or error.line is None:
        return {"error": str(error)}
    excerpt = str(error).partition("\n")[2]
    return {"error": error.reason, "line": error.line, "column": error.column, "excerpt": excerpt}


def handle_problems(app: FastAPI) -> None:
    """Report every error in the same form."""

    @app.exception_handler(ProblemError)
    async def refused(request: Request, problem: ProblemError) -> JSONResponse:
        return JSONResponse({"error": str(problem)}, problem.status, problem.headers)

    @app.exception_handler(SashError)
    async def mistaken(request: Request, error: SashError) -> JSONResponse:
        return JSONResponse(told(error), status_of(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": "; ".join(_sentence(each) for each in error.errors())}, UNPROCESSABLE)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        told = "%(method)s %(path)s failed: %(why)r"
        facts = {"method": request.method, "path": request.url.path, "why": error}
        report(logger, logging.ERROR, "request.failed", told, exception=True, **facts)
        return JSONResponse({"error": "the server failed on this request; its log says why"}, 500)


def _sentence(mistake: dict[str, Any]) -> str:
    """One mistake in the form of a request, without the value, which may be long."""
    place = ".".join(str(part) for part in mistake["loc"] if part != "body")
    return f"{place or 'the body'}: {mistake['msg']}"
