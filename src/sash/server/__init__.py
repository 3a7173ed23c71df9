"""A session on the web: `sash serve`, or `Server(session)` in a program. docs/architecture/server.md has the picture.

Only this package uses NiceGUI and FastAPI.
"""

from sash.server.app import create_app
from sash.server.server_settings import ServerSettings
from sash.server.server_thread import Server, listen, serve

__all__ = ["Server", "ServerSettings", "create_app", "listen", "serve"]
