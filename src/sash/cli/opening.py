"""Opening a session for a command: say that Spark takes its time, and keep its chatter off the terminal.

The JVM inherits file descriptor 2 when it is launched and keeps it. For the time of the launch that descriptor is a
log file; afterwards ours is as before, and what the JVM has to say later goes to the file as well, where it
disturbs neither a live view nor a pipe. The file is removed at the end unless something went wrong in Spark.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from sash.core.errors import SourceError
from sash.engine.session import Session, connect

STARTING = "Starting Spark (5 to 7 seconds) ..."


@contextmanager
def open_session(messages: Console, checkpoint: Path | None = None) -> Iterator[Session]:
    """A session whose Spark runs; it is closed at the end, whatever happens."""
    log = _JvmLog()
    keep = False
    try:
        with messages.status(STARTING), log.catching():
            session = connect(checkpoint=checkpoint)
            session.spark  # noqa: B018 - starts it
        with session:
            yield session
    except SourceError as error:
        keep = True
        raise SourceError(f"{error}\nSpark's own log: {log.path}") from error
    finally:
        if not keep:
            log.path.unlink(missing_ok=True)


class _JvmLog:
    def __init__(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="sash-spark-", suffix=".log")
        os.close(descriptor)
        self.path = Path(name)

    @contextmanager
    def catching(self) -> Iterator[None]:
        sys.stderr.flush()
        ours = os.dup(2)
        with self.path.open("a") as file:
            os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(ours, 2)
            os.close(ours)
