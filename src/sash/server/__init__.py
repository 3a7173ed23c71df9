"""A session on the web: `sash serve`, or `Server(session)` in a program.

    settings.py    where it listens, who may ask, how much           guard.py      lets in who may
    app.py         puts the parts together                           api.py        the paths
    running.py     the server's thread                               models.py     what the paths take and give
    http_questions.py      one-time questions: so many, for so long          wire.py       tables as JSON and as Arrow
    followers.py   clients that follow answers                       events.py     answers as events, as Arrow
    problems.py    mistakes as JSON                                  watch.py      how the session is doing, and was
    page/          the five views

NiceGUI and FastAPI are at home here, and nowhere else.
"""

from sash.server.app import create_app
from sash.server.server_settings import ServerSettings
from sash.server.server_thread import Server, listen, serve

__all__ = ["Server", "ServerSettings", "create_app", "listen", "serve"]
