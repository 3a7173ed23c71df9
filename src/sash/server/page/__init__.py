"""The live page: five views of one session, drawn by NiceGUI and ECharts.

Views read the samples of `watch.Watch`, or ask the session on a thread: nothing here blocks the event loop.
"""

from fastapi import FastAPI
from nicegui import app as pages
from nicegui import ui

from sash.server.api import Service
from sash.server.page import answer_view, health, queries_view, schedule_view, sharing_view
from sash.server.page.frame import frame
from sash.server.watch import Watch

# NiceGUI has one application per process. It may be mounted again, in another server of the process, if its state is
# that of before the first time.
_PLAIN = list(pages.user_middleware)

# A browser that gets no word from the server for this long reloads the page, and the user loses the typed text. A busy
# process may be silent for longer than NiceGUI's default of three seconds.
_RECONNECT_SECONDS = 30.0


def mount(app: FastAPI, service: Service, watch: Watch) -> None:
    """Mount the five views of a session. `server_thread.Server` allows one server at a time."""
    session = service.session

    @ui.page("/")
    def show_queries() -> None:
        with frame("Queries", watch):
            queries_view.show(service, watch)

    @ui.page("/answer")
    def show_answer(query: str = "") -> None:
        with frame("Answer", watch):
            answer_view.show(session, query)

    @ui.page("/sharing")
    def show_sharing() -> None:
        with frame("Sharing", watch):
            sharing_view.show(watch)

    @ui.page("/schedule")
    def show_schedule() -> None:
        with frame("Schedule", watch):
            schedule_view.show(session)

    @ui.page("/health")
    def show_health() -> None:
        with frame("Health", watch):
            health.show(watch)

    pages.user_middleware[:], pages.middleware_stack = _PLAIN, None
    ui.run_with(
        app, title="Sash", dark=None, language="en-US", show_welcome_message=False, reconnect_timeout=_RECONNECT_SECONDS
    )
