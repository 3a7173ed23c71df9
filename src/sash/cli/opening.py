"""Opening a session for a command, leaving it, signals, and options that several commands have.

The JVM inherits file descriptor 2 when it is launched and keeps it. During the launch that descriptor is a log file, so
that the JVM disturbs neither a live view nor a pipe; the file is removed unless something went wrong in Spark.

A stop waits for the micro-batch in flight; a second Ctrl-C ends the process at once. PySpark's own handler would cancel
the jobs of the micro-batch.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from sash.core.errors import SourceError
from sash.core.time import parse_duration
from sash.runtime.session import Session, connect
from sash.runtime.settings import PREDICATE_SHARING, Settings
from sash.schedule import POLICIES


def interval(text: str) -> str:
    """A trigger interval as Spark spells it."""
    try:
        return f"{max(parse_duration(text), 0) // 1000} milliseconds"
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Script = Annotated[str, typer.Argument(help="A file of statements, or - for stdin.")]
Checkpoint = Annotated[
    str | None, typer.Option(metavar="DIR", help="Keep state here; the same command continues after a stop or a crash.")
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Drop the queries of the checkpoint that are no longer in the script.")
]
Trigger = Annotated[
    str, typer.Option(metavar="DURATION", help="Live: the time between two micro-batches.", callback=interval)
]
RefreshWhenIdle = Annotated[
    bool, typer.Option("--refresh-when-idle", help="Live: use idle time to answer queries before they are due.")
]
Policy = Annotated[str, typer.Option(metavar="NAME", help=f"When queries run: {', '.join(POLICIES)}.")]
SharePredicates = Annotated[
    str,
    typer.Option(
        metavar="MODE",
        help=f"Whether a WHERE may be answered from its terms: {', '.join(PREDICATE_SHARING)}.",
    ),
]
Packages = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="Connectors for Spark to fetch, separated by commas: kafka, or Maven coordinates.",
    ),
]


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, and does nothing else."""
    with _handling(signal.default_int_handler, signal.SIGINT):
        yield


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets; the second one raises KeyboardInterrupt."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    with _handling(stop, signal.SIGINT, signal.SIGTERM):
        yield stopped


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], Any], *signals: signal.Signals) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def interrupt_main_thread() -> None:
    """Wake the main thread from any wait, as Ctrl-C does."""
    identifier = threading.main_thread().ident
    assert identifier is not None
    signal.pthread_kill(identifier, signal.SIGINT)


STARTING = "Starting Spark (5 to 7 seconds) ..."
_SOON = 1.0
_LOOK_SECONDS = 0.2

# The user did not wait for this session, so the process must not wait for it at exit either.
abandoned = False


@contextmanager
def open_session(
    messages: Console, checkpoint: str | None = None, settings: Settings | None = None, packages: str = ""
) -> Iterator[Session]:
    """Open a session whose Spark runs; close it at the end, whatever happens."""
    wanted = [name.strip() for name in packages.split(",") if name.strip()]
    log = _JvmLog()
    keep = False
    try:
        with messages.status(STARTING), log.catching():
            session = connect(checkpoint=checkpoint, packages=wanted, **vars(settings or Settings()))
            session.spark  # noqa: B018 - starts it
        try:
            yield session
        finally:
            stop(session, messages)
            if not abandoned:
                session.close()
    except SourceError as error:
        keep = True
        raise SourceError(f"{error}\nSpark's own log: {log.path}") from error
    finally:
        if not keep:
            log.path.unlink(missing_ok=True)


def stop(session: Session, messages: Console) -> None:
    """Stop live streams after the micro-batch in flight; Ctrl-C ends the waiting."""
    global abandoned
    if abandoned:
        return
    failures: list[Exception] = []

    def act() -> None:
        try:
            session.stop()
        except Exception as error:
            lost = isinstance(error, ConnectionError) or type(error).__module__.startswith("py4j")
            failures.append(_lost_spark(error) if lost else error)

    thread = threading.Thread(target=act, name="sash-stop", daemon=True)
    thread.start()
    with raising_interrupts():
        abandoned = True
        thread.join(_SOON)
        if thread.is_alive():
            with messages.status("Waiting for the micro-batch in flight; Ctrl-C again does not wait ..."):
                while thread.is_alive():
                    thread.join(_LOOK_SECONDS)
        abandoned = False
    if failures:
        raise failures[0]


def _lost_spark(error: Exception) -> SourceError:
    """The error about a lost Spark. py4j's own message may ask the JVM, which is gone."""
    return SourceError(
        f"Spark ended before the streams were stopped ({type(error).__name__}), as by a signal to all processes of the "
        "group, or for want of memory; with its checkpoint the same command goes on from the last commit"
    )


def abandon() -> None:
    """Ctrl-C has come twice before the stop began: there is nothing to wait for."""
    global abandoned
    abandoned = True


def leave(code: int) -> None:
    """The end of the process, also when a session has been abandoned."""
    if abandoned:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


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
