"""The web application of a session: the API, its description, the page; and the guard before all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response
from starlette.routing import Match

import sash
from sash.runtime.session import Session
from sash.server import api, page
from sash.server.followers import Followers
from sash.server.guard import Guard
from sash.server.http_questions import HttpQuestions
from sash.server.problems import ProblemError, handle_problems
from sash.server.server_settings import ServerSettings
from sash.server.watch import Watch

_ABOUT = """Hundreds of sliding-window queries over a stream for about the price of one.

Register queries and follow their answers, ask the live windows once, see what is shared.
"""
_TAGS = [
    {"name": "queries", "description": "Registered queries and their answers."},
    {"name": "questions", "description": "One-time SELECTs over the live windows."},
    {"name": "server", "description": "How it is doing."},
]
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def create_app(session: Session, settings: ServerSettings | None = None) -> FastAPI:
    """The application. Its owner closes `app.state.service` before waiting for open requests, as `Server` does."""
    settings = settings or ServerSettings()
    app = FastAPI(
        title="Sash",
        description=_ABOUT,
        version=sash.__version__,
        openapi_tags=_TAGS,
        docs_url=None,
        redoc_url=None,
        lifespan=_living,
    )
    app.state.service = api.Service(session, settings, HttpQuestions(session, settings), Followers(session, settings))
    app.state.watch = Watch(session)
    handle_problems(app)
    app.include_router(api.router)
    app.include_router(api.metrics_router)
    _describe(app)
    _refuse_others(app)
    page.mount(app, app.state.service, app.state.watch)
    # Last, and thus outermost.
    app.add_middleware(Guard, settings=settings)
    return app


@asynccontextmanager
async def _living(app: FastAPI) -> AsyncIterator[None]:
    app.state.watch.start()
    yield
    app.state.watch.stop()


def _describe(app: FastAPI) -> None:
    """The OpenAPI page. FastAPI's own would fetch its script from another site; this one uses a package's."""

    @app.get("/docs", include_in_schema=False)
    def describe() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="Sash: the API",
            swagger_js_url="/docs/swagger-ui-bundle.js",
            swagger_css_url="/docs/swagger-ui.css",
            swagger_favicon_url="/docs/favicon-32x32.png",
        )

    assets = resources.files("fastapi_swagger") / "resources"
    types = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css", "favicon-32x32.png": "image/png"}

    @app.get("/docs/{name}", include_in_schema=False)
    def asset(name: str) -> Response:
        if name not in types:
            raise ProblemError(404, "there is nothing here")
        return Response((assets / name).read_bytes(), media_type=types[name])


def _refuse_others(app: FastAPI) -> None:
    """Refuse unknown paths below /api: otherwise the page, which is for people, would answer."""

    @app.api_route("/api/{rest:path}", methods=_METHODS, include_in_schema=False)
    def other(request: Request) -> None:
        routes = [route for route in api.router.routes if route.matches(request.scope)[0] is Match.PARTIAL]
        allowed = sorted({method for route in routes for method in getattr(route, "methods", None) or ()})
        if allowed:
            raise ProblemError(405, f"this path takes {', '.join(allowed)}", {"Allow": ", ".join(allowed)})
        raise ProblemError(404, "there is no such path; /docs lists them")
